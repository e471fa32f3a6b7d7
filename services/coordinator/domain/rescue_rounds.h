/* SPDX-License-Identifier: Apache-2.0 */
/* rescue_rounds.h - rounds in which nodes are asked, after a loss, at which clock they are.
 *
 * A round ends when all that were asked have answered, or have not in time. In a mesh any worker
 * can give the state of all, so the worker at the greatest clock gives it; if none has answered,
 * all are asked again. In a job with servers the driver itself compares the clocks that servers
 * answer. Pure. */
#ifndef PS_COORDINATOR_RESCUE_ROUNDS_H
#define PS_COORDINATOR_RESCUE_ROUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_RESCUE_ANSWERED_MAX = 4,  /* most rounds that were answered */
    PS_RESCUE_UNANSWERED_MAX = 5 /* most rounds of a mesh that no worker answered */
};

/* Zeroed when a rescue begins. */
typedef struct ps_rescue_rounds {
    /* A worker that goes on after its answer makes another round necessary. These are counted apart
     * from rounds without an answer, which last long if a worker is frozen. */
    uint32_t answered, unanswered;
    bool has_source;
    /* if has_source: the worker at the greatest clock, which gives the state of all ranks */
    size_t source;
    /* clock of `source`; in a job with servers, the least clock that a server has answered */
    uint64_t clock;
} ps_rescue_rounds;

/* Begins a round. `clock` is what ps_rescue_rounds.clock is until a node answers. */
void ps_rescue_rounds_begin(ps_rescue_rounds *r, uint64_t clock);

/* Takes the answer of a worker of a mesh. */
void ps_rescue_rounds_take(ps_rescue_rounds *r, size_t worker, uint64_t clock);

/* Ends a round. Returns true if no node has answered and another such round is allowed: then all
 * nodes are asked again. */
bool ps_rescue_rounds_end(ps_rescue_rounds *r, bool is_answered);

/* Returns whether another round is allowed after those that were answered. It is needed if a node
 * has gone on to a later clock since its answer. */
bool ps_rescue_rounds_may_repeat(const ps_rescue_rounds *r);

#endif
