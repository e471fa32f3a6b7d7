/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h - how a model's parameter block is cut into slices.
 *
 * A variable is cut into slices of at most PS_SLICE_VALUES, a sparse one between rows (where a row
 * is not longer than that). Slice i belongs to virtual shard i % PS_SHARDS. Every node computes the
 * same layout from the variables alone; nodes compare its hash. Which server holds a shard is the
 * placement's matter (common/placement).
 */
#ifndef PS_COMMON_JOB_LAYOUT_H
#define PS_COMMON_JOB_LAYOUT_H

#include "common/base/shards.h"
#include "common/nn/model.h"

enum { PS_SLICE_VALUES = 16384 };

typedef struct ps_slice {
    uint32_t index;    /* index of the slice in the layout */
    uint32_t variable; /* index of its variable in the model */
    uint32_t n;        /* number of its values */
    uint32_t shard;    /* virtual shard of the slice */
    size_t at;         /* index of its first value in the block of all parameters */
} ps_slice;

typedef struct ps_layout {
    size_t param_count;
    uint32_t variable_count;
    ps_variable *variables;
    uint32_t stored_count;
    /* (stored_count): the variables that have slices, which are those of model files */
    ps_variable *stored;
    /* (variable_count + 1): the slices of variable v are [first_slice[v], first_slice[v + 1]) */
    uint32_t *first_slice;
    uint32_t slice_count;
    ps_slice *slices; /* ascending `at` */
    uint64_t hash;    /* XXH3-64 over names, shapes and sizes of slices */
} ps_layout;

/* Returns the values of every slice of the variable but the last, which may have fewer. A sparse
 * variable is cut between rows. */
uint32_t ps_layout_slice_values(const ps_variable *var);

/* Cuts the variables of a model. With by_key sparse variables get no slices: they hold the rows
 * of a batch, and the tables are on the servers. */
void ps_layout_init(ps_layout *layout, const ps_model *model, bool by_key);

/* Frees what the layout holds. A zeroed layout is allowed. */
void ps_layout_fini(ps_layout *layout);

#endif
