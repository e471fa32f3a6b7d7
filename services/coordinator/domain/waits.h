/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h - the graph of who waits for whom in an attempt. Finds the nodes that hold up others.
 *
 * Vertices are the ranks of workers, 0 to W - 1, then the servers, W to W + S - 1. An edge goes
 * from a vertex to each vertex for which it waits. A worker reports the servers, or in a mesh the
 * workers, that have not delivered something to it; a server reports the workers whose
 * contributions are missing. A root is a vertex for which workers wait, directly or indirectly, and
 * that is silent or waits for none: it holds them up.
 *
 * Pure. */
#ifndef PS_COORDINATOR_WAITS_H
#define PS_COORDINATOR_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_wait_list {
    uint32_t count;
    uint32_t *whom; /* (count): vertices, each once */
} ps_wait_list;

typedef struct ps_waits {
    uint32_t workers, servers;
    ps_wait_list *of; /* (workers + servers) */
} ps_waits;

void ps_waits_init(ps_waits *w, uint32_t workers, uint32_t servers);
/* Frees the graph. A zeroed graph is allowed. */
void ps_waits_fini(ps_waits *w);

/* Replaces the edges of a vertex by those to the servers (n_servers) and the workers (n_workers)
 * with these ranks. Ignores ranks that do not exist. */
void ps_waits_set(ps_waits *w, uint32_t vertex, const uint32_t *servers, size_t n_servers,
                  const uint32_t *workers, size_t n_workers);

/* Sets roots (W + S): whether the vertex is a root. Edges of vertices in is_silent are not
 * followed, because they are out of date. Vertices in is_gone are ignored. Returns the number of
 * roots; 0 if nobody waits, or if all that wait form a circle. */
uint32_t ps_waits_find_roots(const ps_waits *w, const bool *is_silent, const bool *is_gone,
                             bool *roots);

/* Returns whether the vertex waits for a vertex that waits for it. */
bool ps_waits_is_mutual(const ps_waits *w, uint32_t vertex);

#endif
