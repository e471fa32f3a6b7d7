/* SPDX-License-Identifier: Apache-2.0 */
/* assign.c - the registry of assignments (list.h), and functions that they share. */
#include "common/data/assign.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PS_ASSIGN(name) extern const ps_assign ps_assign_##name;
#include "common/data/list.h"
#undef PS_ASSIGN

static const ps_assign *const assigns[] = {
#define PS_ASSIGN(name) &ps_assign_##name,
#include "common/data/list.h"
#undef PS_ASSIGN
};

const ps_assign *ps_assign_find(const char *name)
{
    for (size_t i = 0; i < sizeof assigns / sizeof assigns[0]; i++) {
        if (strcmp(assigns[i]->name, name) == 0) {
            return assigns[i];
        }
    }
    return NULL;
}

void ps_assign_each(void (*fn)(const ps_assign *assign, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof assigns / sizeof assigns[0]; i++) {
        fn(assigns[i], arg);
    }
}

ps_status ps_assign_redundancy(uint32_t workers, const ps_params *params, uint32_t *redundancy)
{
    double r = params->v[0];

    if (workers == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "there are no workers; at least one is needed");
    }
    if (!(r >= 1.0) || r > (double)workers || r != (double)(uint32_t)r) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "redundancy is %g; 1 to %u, the number of workers, are allowed", r, workers);
    }
    *redundancy = (uint32_t)r;
    return ps_ok();
}

ps_assignment *ps_assignment_create(uint32_t workers, uint32_t redundancy, uint32_t block_count)
{
    ps_assignment *a = ps_xcalloc(1, sizeof *a);

    assert(block_count <= PS_BLOCKS_MAX && (uint64_t)block_count * redundancy <= PS_COPIES_MAX);
    a->workers = workers;
    a->redundancy = redundancy;
    a->block_count = block_count;
    a->holders = ps_xcalloc((size_t)block_count * redundancy, sizeof *a->holders);
    return a;
}

void ps_assignment_index(ps_assignment *a)
{
    size_t copies = (size_t)a->block_count * a->redundancy;
    uint32_t *ids = ps_xcalloc(copies, sizeof *ids);

    a->held_count = ps_xcalloc(a->workers, sizeof *a->held_count);
    a->held = ps_xcalloc(a->workers, sizeof *a->held);
    for (size_t i = 0; i < copies; i++) {
        assert(a->holders[i] < a->workers);
        a->held_count[a->holders[i]]++;
    }
    for (uint32_t w = 0; w < a->workers; w++) {
        a->held[w] = ids;
        ids += a->held_count[w];
        a->held_count[w] = 0;
    }
    for (size_t i = 0; i < copies; i++) { /* goes by block, so each worker's blocks ascend */
        uint32_t w = a->holders[i];

        a->held[w][a->held_count[w]++] = (uint32_t)(i / a->redundancy);
    }
}

void ps_assignment_destroy(ps_assignment *a)
{
    if (a == NULL) {
        return;
    }
    if (a->held != NULL) {
        free(a->held[0]); /* one allocation holds all lists, that of worker 0 first */
    }
    free(a->held);
    free(a->held_count);
    free(a->holders);
    free(a);
}
