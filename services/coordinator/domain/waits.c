/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c - see waits.h. */
#include "services/coordinator/domain/waits.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

static uint32_t vertices(const ps_waits *w)
{
    return w->workers + w->servers;
}

void ps_waits_init(ps_waits *w, uint32_t workers, uint32_t servers)
{
    *w = (ps_waits){.workers = workers, .servers = servers};
    w->of = ps_xcalloc((size_t)workers + servers, sizeof *w->of);
}

void ps_waits_fini(ps_waits *w)
{
    for (uint32_t v = 0; v < vertices(w); v++) {
        free(w->of[v].whom);
    }
    free(w->of);
    *w = (ps_waits){0};
}

/* Adds edges to the vertices first + ranks[i], for ranks below `count`. Skips vertices that `has`
 * marks, and marks those that it adds. */
static void add(ps_wait_list *list, bool *has, uint32_t first, uint32_t count,
                const uint32_t *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ranks[i] < count && !has[first + ranks[i]]) {
            has[first + ranks[i]] = true;
            list->whom[list->count++] = first + ranks[i];
        }
    }
}

void ps_waits_set(ps_waits *w, uint32_t vertex, const uint32_t *servers, size_t n_servers,
                  const uint32_t *workers, size_t n_workers)
{
    ps_wait_list *list = &w->of[vertex];
    bool *has;

    list->count = 0;
    if (n_servers + n_workers == 0) {
        return;
    }
    if (list->whom == NULL) {
        list->whom = ps_xcalloc(vertices(w), sizeof *list->whom);
    }
    has = ps_xcalloc(vertices(w), sizeof *has);
    has[vertex] = true; /* a vertex does not wait for itself */
    add(list, has, w->workers, w->servers, servers, n_servers);
    add(list, has, 0, w->workers, workers, n_workers);
    free(has);
}

uint32_t ps_waits_find_roots(const ps_waits *w, const bool *is_silent, const bool *is_gone,
                             bool *roots)
{
    uint32_t n = vertices(w), ends = 0, count = 0;
    uint32_t *queue = ps_xcalloc(n + 1, sizeof *queue);
    bool *is_seen = ps_xcalloc(n + 1, sizeof *is_seen);

    memset(roots, 0, n * sizeof *roots);
    /* The search begins at workers only: a server waits just for what workers send it. */
    for (uint32_t v = 0; v < w->workers; v++) {
        if (w->of[v].count > 0 && !is_silent[v] && !is_gone[v]) {
            is_seen[v] = true;
            queue[ends++] = v;
        }
    }
    for (uint32_t at = 0; at < ends; at++) {
        const ps_wait_list *list = &w->of[queue[at]];

        if (is_silent[queue[at]] || list->count == 0) {
            roots[queue[at]] = true;
            count++;
            continue;
        }
        for (uint32_t i = 0; i < list->count; i++) {
            uint32_t whom = list->whom[i];

            if (!is_seen[whom] && !is_gone[whom]) {
                is_seen[whom] = true;
                queue[ends++] = whom;
            }
        }
    }
    free(queue);
    free(is_seen);
    return count;
}

static bool has_edge(const ps_waits *w, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < w->of[from].count; i++) {
        if (w->of[from].whom[i] == to) {
            return true;
        }
    }
    return false;
}

bool ps_waits_is_mutual(const ps_waits *w, uint32_t vertex)
{
    for (uint32_t i = 0; i < w->of[vertex].count; i++) {
        if (has_edge(w, w->of[vertex].whom[i], vertex)) {
            return true;
        }
    }
    return false;
}
