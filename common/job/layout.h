/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - how a model's parameter block is cut and who holds which piece.
 *
 * A variable is cut into slices of at most PS_SLICE_VALUES, a sparse one between rows
 * (where a row is not longer than that). Slice i belongs to
 * virtual shard i % PS_SHARDS; shards are given to servers by size, largest
 * first, to the server that holds least so far (lowest number of equals). Every
 * node computes the same table from the variables alone; the hash proves it.
 */
#ifndef PS_COMMON_JOB_LAYOUT_H
#define PS_COMMON_JOB_LAYOUT_H

#include "common/nn/model.h"

enum { PS_SLICE_VALUES = 16384, PS_SHARDS = 256 };

typedef struct ps_slice {
    uint32_t index;    /* in the layout */
    uint32_t variable; /* in the model */
    uint32_t n;        /* values */
    uint32_t shard;    /* virtual */
    uint32_t server;   /* rank of the parameter server */
    size_t at;         /* first value, in the block */
} ps_slice;

typedef struct ps_layout {
    size_t param_count;
    uint32_t variable_count;
    ps_variable *variables;
    uint32_t stored_count;
    ps_variable *stored;   /* (stored_count): variables that have slices: those of model files */
    uint32_t *first_slice; /* (variable_count + 1): slices of v are [first[v], first[v+1]) */
    uint32_t slice_count;
    ps_slice *slices; /* ascending `at` */
    uint32_t server_count;
    uint32_t *owned_count; /* (server_count); NULL without servers */
    uint32_t **owned;      /* (server_count)(owned_count): slice indices, ascending */
    uint64_t hash;         /* XXH3-64 over names, shapes and slice size */
} ps_layout;

/* From a model's variables. With fewer slices than servers some servers own none;
 * without servers nobody owns any, and `server` is 0. With has_tables sparse variables have no
 * slices: they are what a worker holds of tables that are elsewhere. */
void ps_layout_init(ps_layout *layout, const ps_model *model, uint32_t servers, bool has_tables);
void ps_layout_fini(ps_layout *layout); /* a zeroed one is allowed */

#endif
