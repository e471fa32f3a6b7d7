/* SPDX-License-Identifier: Apache-2.0 */
/* local_exchange_impl.h - what local_exchange.c and local_rows.c share; for them only. */
#ifndef PS_COMMON_LOCAL_LOCAL_EXCHANGE_IMPL_H
#define PS_COMMON_LOCAL_LOCAL_EXCHANGE_IMPL_H

#include "common/base/container_of.h"
#include "common/local/local_exchange.h"
#include "common/local/turns.h"
#include "common/wire/coder.h"

enum { LOCAL_PIECES = 64 }; /* most slices of an answer */

typedef struct local_exchange {
    ps_exchange base;
    ps_gate gate;
    const ps_plan *plan;
    const ps_placement *placement;
    uint32_t rank;
    ps_local_servers *servers;
    ps_turn turn;
    float *weights;
    ps_buf *grad;
    ps_coder coder;
    uint8_t *bytes; /* (PS_MATRIX_BYTES_MAX): an encoded slice, or all of a variable */

    uint64_t clock; /* of the contribution in hand */
    uint32_t block;
    bool has_begun; /* a contribution to `clock` */
    uint64_t wish;  /* newest clock whose weights were asked for */
    uint32_t left;  /* slices that have not come yet */

    /* of one answer */
    ps_encoding heads[LOCAL_PIECES];
    ps_buf *bufs[LOCAL_PIECES];
    size_t at[LOCAL_PIECES];
    uint64_t checksums[LOCAL_PIECES]; /* where weights are a replica */
    bool is_change;
    uint32_t slices[LOCAL_PIECES];

    /* rows of sparse tables that are asked for */
    bool wants_rows;
    uint64_t rows_clock;
    const uint64_t *keys;
    size_t key_count;
    float *rows;
} local_exchange;

static inline local_exchange *local_exchange_of(ps_exchange *exchange)
{
    return PS_CONTAINER_OF(exchange, local_exchange, base);
}

/* local_rows.c: of ps_exchange_ops. */
bool local_pull_rows(ps_exchange *exchange, uint64_t clock, const uint64_t *keys, size_t count,
                     float *rows);
void local_push_rows(ps_exchange *exchange, const ps_met_rows *met);
/* In a wait: brings the rows asked for, if there are any and they may be had by now. */
void local_try_rows(local_exchange *x);

#endif
