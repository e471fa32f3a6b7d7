/* SPDX-License-Identifier: Apache-2.0 */
/* groups.c - see groups.h. */
#include "common/mesh/groups.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

/* Returns the binomial coefficient C(n, k); any number above `limit` if it is larger. */
static uint64_t choose(uint32_t n, uint32_t k, uint64_t limit)
{
    uint64_t c = 1;

    if (k > n) {
        return 0;
    }
    for (uint32_t i = 1; i <= k && c <= limit; i++) {
        c = c * (n - k + i) / i;
    }
    return c;
}

/* Steps to the next subset of k of n in lexicographic order. Returns false after the last. */
static bool next_subset(uint32_t *s, uint32_t n, uint32_t k)
{
    for (uint32_t i = k; i-- > 0;) {
        if (s[i] < n - k + i) {
            s[i]++;
            for (uint32_t j = i + 1; j < k; j++) {
                s[j] = s[j - 1] + 1;
            }
            return true;
        }
    }
    return false;
}

bool groups_have_all_blocks(const ps_assignment *a)
{
    uint32_t *s = ps_xcalloc(a->redundancy, sizeof *s), b = 0;
    bool is_same = choose(a->workers, a->redundancy, PS_BLOCKS_MAX) == a->block_count;

    for (uint32_t i = 0; i < a->redundancy; i++) {
        s[i] = i;
    }
    while (is_same && b < a->block_count) {
        is_same = memcmp(s, a->holders + (size_t)b * a->redundancy, a->redundancy * sizeof *s) == 0;
        is_same = next_subset(s, a->workers, a->redundancy) == (++b < a->block_count) && is_same;
    }
    free(s);
    return is_same;
}

uint64_t groups_of(uint32_t nodes, uint32_t r)
{
    return choose(nodes, r + 1, GROUPS_MAX);
}

bool groups_is_in(const uint32_t *group, uint32_t count, uint32_t worker)
{
    for (uint32_t i = 0; i < count; i++) {
        if (group[i] == worker) {
            return true;
        }
    }
    return false;
}

void groups_init(groups *g, const ps_assignment *assignment, uint32_t self)
{
    uint32_t nodes = assignment->workers, k = assignment->redundancy + 1;
    uint64_t most = choose(nodes - 1, assignment->redundancy, GROUPS_MAX);
    uint32_t *group = ps_xcalloc(k, sizeof *group);

    *g = (groups){.assignment = assignment, .self = self, .r = assignment->redundancy};
    g->member = ps_xcalloc(most * k + 1, sizeof *g->member);
    g->number = ps_xcalloc(most + 1, sizeof *g->number);
    for (uint32_t i = 0; i < k; i++) {
        group[i] = i;
    }
    while (k <= nodes) {
        if (groups_is_in(group, k, self)) {
            memcpy(g->member + (size_t)g->count * k, group, k * sizeof *group);
            g->number[g->count++] = g->total;
        }
        g->total++;
        if (!next_subset(group, nodes, k)) {
            break;
        }
    }
    free(group);
}

void groups_fini(groups *g)
{
    free(g->member);
    free(g->number);
}

bool groups_find(const groups *g, uint32_t number, uint32_t *i)
{
    uint32_t low = 0, high = g->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (g->number[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *i = low;
    return low < g->count && g->number[low] == number;
}

uint32_t groups_held_without(const groups *g, const uint32_t *group, uint32_t without)
{
    const ps_assignment *a = g->assignment;
    uint32_t low = 0, high = a->held_count[g->self] - 1;

    /* a binary search: the holders of held blocks ascend in lexicographic order */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const uint32_t *holders = a->holders + (size_t)a->held[g->self][middle] * g->r;
        int order = 0;

        for (uint32_t i = 0, h = 0; i <= g->r && order == 0; i++) {
            if (group[i] != without) {
                order = (holders[h] > group[i]) - (holders[h] < group[i]);
                h++;
            }
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t groups_place_without(const uint32_t *group, uint32_t member, uint32_t without)
{
    uint32_t place = 0;

    for (uint32_t i = 0; group[i] != member; i++) {
        place += group[i] != without;
    }
    return place;
}
