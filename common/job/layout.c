/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - cuts a model's variables into slices.
 *
 * Nothing here depends on the host or on where anything is placed: the same variables give the
 * same slices on every node.
 */
#include "common/job/layout.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void hash_u32(XXH3_state_t *state, uint32_t x)
{
    const uint8_t bytes[4] = {(uint8_t)x, (uint8_t)(x >> 8), (uint8_t)(x >> 16),
                              (uint8_t)(x >> 24)};

    (void)XXH3_64bits_update(state, bytes, sizeof bytes);
}

uint32_t ps_layout_slice_values(const ps_variable *var)
{
    uint32_t width = var->is_sparse ? var->shape.dim[1] : 1;

    return width <= PS_SLICE_VALUES ? PS_SLICE_VALUES / width * width : PS_SLICE_VALUES;
}

/* Returns the hash over, for each variable: its name with the NUL, rank, dimensions and, if it is
 * sparse, the values of a slice; then PS_SLICE_VALUES. Numbers are 4 bytes, little-endian. */
static uint64_t hash_of(const ps_layout *layout)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t hash;

    assert(state != NULL);
    (void)XXH3_64bits_reset(state);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];

        (void)XXH3_64bits_update(state, var->name, strlen(var->name) + 1);
        hash_u32(state, var->shape.rank);
        for (uint32_t d = 0; d < var->shape.rank; d++) {
            hash_u32(state, var->shape.dim[d]);
        }
        if (var->is_sparse) {
            hash_u32(state, ps_layout_slice_values(var));
        }
    }
    hash_u32(state, PS_SLICE_VALUES);
    hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

static void cut(ps_layout *layout, bool by_key)
{
    uint32_t count = 0;

    layout->first_slice = ps_xcalloc(layout->variable_count + 1u, sizeof(uint32_t));
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];
        size_t most = ps_layout_slice_values(var);

        layout->first_slice[v] = count;
        if (!(by_key && var->is_sparse)) {
            count += (uint32_t)((var->size + most - 1) / most);
        }
    }
    layout->first_slice[layout->variable_count] = count;
    layout->stored = ps_xcalloc(layout->variable_count + 1u, sizeof *layout->stored);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        if (layout->first_slice[v] < layout->first_slice[v + 1]) {
            layout->stored[layout->stored_count++] = layout->variables[v];
        }
    }
    layout->slice_count = count;
    layout->slices = ps_xcalloc(count, sizeof *layout->slices);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];
        size_t most = ps_layout_slice_values(var);

        for (uint32_t i = layout->first_slice[v]; i < layout->first_slice[v + 1]; i++) {
            size_t skip = (size_t)(i - layout->first_slice[v]) * most;
            size_t left = var->size - skip;

            layout->slices[i] = (ps_slice){
                .index = i,
                .variable = v,
                .n = (uint32_t)(left < most ? left : most),
                .shard = i % PS_SHARDS,
                .at = var->at + skip,
            };
        }
    }
}

void ps_layout_init(ps_layout *layout, const ps_model *model, bool by_key)
{
    memset(layout, 0, sizeof *layout);
    layout->param_count = ps_model_param_count(model);
    layout->variable_count = (uint32_t)ps_model_variable_count(model);
    layout->variables = ps_xcalloc(layout->variable_count, sizeof *layout->variables);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        layout->variables[v] = *ps_model_variable(model, v);
    }
    cut(layout, by_key);
    layout->hash = hash_of(layout);
}

void ps_layout_fini(ps_layout *layout)
{
    free(layout->slices);
    free(layout->first_slice);
    free(layout->stored);
    free(layout->variables);
    memset(layout, 0, sizeof *layout);
}
