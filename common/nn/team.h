/* SPDX-License-Identifier: Apache-2.0 */
/* team.h - threads that compute one product together, for a model with more than one thread.
 *
 * A product is cut into stripes of its result, along the rows or the columns.
 * Each value is summed by one thread, in the order in which one thread alone sums it: the bits do
 * not depend on the number of threads (tests/unit/test_team.c). A product too small to gain is
 * computed by the caller.
 */
#ifndef PS_COMMON_NN_TEAM_H
#define PS_COMMON_NN_TEAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct ps_team ps_team;

enum { PS_TEAM_MAX = 64 };

/* Creates a team of `threads` (2 to PS_TEAM_MAX), the caller's included. Returns NULL if the system
 * gives no threads. */
ps_team *ps_team_create(uint32_t threads);

/* Ends the threads. NULL is allowed. */
void ps_team_destroy(ps_team *team);

/* Returns the number of threads; 1 for NULL. */
uint32_t ps_team_threads(const ps_team *team);

/* Calls fn(arg, part) for each part below `parts`, at most ps_team_threads, each on a thread of its
 * own, and returns when all have. One caller at a time. */
void ps_team_run(ps_team *team, uint32_t parts, void (*fn)(void *arg, uint32_t part), void *arg);

#endif
