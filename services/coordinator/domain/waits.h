/* SPDX-License-Identifier: Apache-2.0 */
/* waits.h - who waits for whom in an attempt, and who holds up all others.
 *
 * A graph. Its vertices are the ranks of workers, 0 to W - 1, and behind them the servers, W to
 * W + S - 1. An edge goes from a rank to whom it waits for: a worker says which servers, or which
 * workers of a mesh, owe it something; a server says whose contributions are missing. A vertex that
 * others wait for, and that waits for nobody, holds them up: a root.
 *
 * Pure.
 */
#ifndef PS_COORDINATOR_WAITS_H
#define PS_COORDINATOR_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_wait_list {
    uint32_t count;
    uint32_t *whom; /* (count) vertices, without repetition */
} ps_wait_list;

typedef struct ps_waits {
    uint32_t workers, servers;
    ps_wait_list *of; /* (workers + servers) */
} ps_waits;

void ps_waits_init(ps_waits *w, uint32_t workers, uint32_t servers);
/* A zeroed graph is allowed. */
void ps_waits_fini(ps_waits *w);

/* Replaces the edges of a vertex by those to the servers (n_servers) and the workers (n_workers)
 * with these ranks. Ignores ranks that do not exist. */
void ps_waits_set(ps_waits *w, uint32_t vertex, const uint32_t *servers, size_t n_servers,
                  const uint32_t *workers, size_t n_workers);

/* Writes into roots (W + S) which vertices hold up others, directly or not. The edges of a vertex
 * in is_silent are not followed: they are old. Vertices in is_gone do not count at all. Returns the
 * number of roots; 0: nobody waits, or those who wait do so in a circle. */
uint32_t ps_waits_find_roots(const ps_waits *w, const bool *is_silent, const bool *is_gone,
                             bool *roots);

/* Returns whether the vertex waits for another one that waits for it. */
bool ps_waits_is_mutual(const ps_waits *w, uint32_t vertex);

#endif
