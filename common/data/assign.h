/* SPDX-License-Identifier: Apache-2.0 */
/* assign.h - which worker holds which blocks of every global batch.
 *
 * Letters: n workers, r redundancy (copies of a block). Block k of step t is
 * samples [tB + kS, tB + (k+1)S) of the epoch's order, S = block_size,
 * B = S * block_count. The tail of an epoch that does not fill B is left out.
 */
#ifndef PS_COMMON_DATA_ASSIGN_H
#define PS_COMMON_DATA_ASSIGN_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_BLOCKS_MAX = 65536,  /* block_count */
    PS_COPIES_MAX = 1 << 20 /* block_count * redundancy: 8 MiB of ids */
};

typedef struct ps_assignment {
    uint32_t workers, redundancy, block_count;
    uint32_t *holders;    /* (block_count, redundancy), ascending */
    uint32_t *held_count; /* (workers) */
    uint32_t **held;      /* (workers)(held_count), ascending block ids */
    bool is_by_file;      /* block k takes the samples of files whose number modulo block_count
                           * is k, instead of its place in the epoch's order */
} ps_assignment;

typedef struct ps_assign {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) "redundancy", where it is one, is the first */
    /* *out is the caller's to destroy. INVALID_ARGUMENT says why n and the
     * parameters do not go together. Any thread. */
    PS_MUST_USE ps_status (*make)(uint32_t workers, const ps_params *params, ps_assignment **out);
} ps_assign;

const ps_assign *ps_assign_find(const char *name); /* NULL if there is none */
void ps_assign_each(void (*fn)(const ps_assign *assign, void *arg), void *arg);
void ps_assignment_destroy(ps_assignment *assignment);

/* For the plugins: the first parameter as a number of 1 to `workers`;
 * INVALID_ARGUMENT otherwise, or when there are no workers. */
PS_MUST_USE ps_status ps_assign_redundancy(uint32_t workers, const ps_params *params,
                                           uint32_t *redundancy);

/* For the plugins: create, fill `holders` (zeros), index fills `held` from them. */
ps_assignment *ps_assignment_create(uint32_t workers, uint32_t redundancy, uint32_t block_count);
void ps_assignment_index(ps_assignment *assignment);

/* The order of an epoch: the same permutation of 0..count-1 on every node.
 * order is (count), written whole. */
void ps_epoch_order(uint64_t seed, uint64_t epoch, uint32_t *order, uint32_t count);

#endif
