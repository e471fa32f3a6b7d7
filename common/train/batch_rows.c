/* SPDX-License-Identifier: Apache-2.0 */
/* batch_rows.c - see batch_rows.h. */
#include "common/train/batch_rows.h"

#include "common/base/xalloc.h"
#include "common/store/table_keys.h"

#include <stdlib.h>
#include <string.h>

ps_status ps_batch_rows_init(ps_batch_rows *b, const ps_plan *plan)
{
    size_t cap = plan->table_keys, width = 0;

    *b = (ps_batch_rows){.plan = plan};
    b->ids = ps_xcalloc(cap, sizeof *b->ids);
    b->keys = ps_xcalloc(cap, sizeof *b->keys);
    b->place = ps_xcalloc(cap, sizeof *b->place);
    for (uint32_t i = 0; i < plan->table_count; i++) {
        width += plan->tables[i].width;
    }
    b->rows = calloc(cap * width, sizeof *b->rows);
    return b->rows != NULL
               ? ps_ok()
               : ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu rows of %zu values", cap, width);
}

void ps_batch_rows_fini(ps_batch_rows *b)
{
    free(b->ids);
    free(b->keys);
    free(b->place);
    free(b->rows);
}

/* Returns the index in x of id number i of the batch, counted over its samples. The ids of a sample
 * are its last features. */
static size_t at_of(const ps_batch_rows *b, size_t i)
{
    const ps_data_facts *facts = &b->plan->facts;

    return i / facts->ids * facts->features + (facts->features - facts->ids) + i % facts->ids;
}

ps_status ps_batch_rows_read(ps_batch_rows *b, const float *x, size_t n)
{
    uint32_t ids = b->plan->facts.ids, rows = b->plan->tables[0].rows;

    for (size_t i = 0; i < n * ids; i++) {
        float id = x[at_of(b, i)];

        if (!(id >= 0.0f && id < (float)rows) || id != (float)(uint32_t)id) {
            return ps_fail(PS_INVALID_ARGUMENT, "sample %zu: id %.9g, 0 to %u are allowed", i / ids,
                           (double)id, rows - 1);
        }
        b->ids[i] = (uint64_t)id;
    }
    b->count = ps_keys_unique(b->ids, n * ids, b->keys, b->place);
    return ps_ok();
}

void ps_batch_rows_put(const ps_batch_rows *b, float *weights, float *x, size_t n)
{
    const ps_plan *plan = b->plan;
    const float *from = b->rows;

    for (uint32_t i = 0; i < plan->table_count; i++) {
        size_t values = b->count * plan->tables[i].width;

        memcpy(weights + plan->layout.variables[plan->tables[i].variable].at, from,
               values * sizeof *from);
        from += values;
    }
    for (size_t i = 0; i < n * plan->facts.ids; i++) {
        x[at_of(b, i)] = (float)b->place[i];
    }
}
