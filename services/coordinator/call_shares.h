/* SPDX-License-Identifier: Apache-2.0 */
/* call_shares.h - counts, for one kind of task, how many calls of each client address wait.
 *
 * An address may have PS_SHARE_MAX calls waiting, and all addresses together PS_SHARES_MAX. When
 * PS_SHARES_MAX calls wait, an address without a waiting call may still have one, so that no
 * address keeps others out. The number of such calls is bounded by the room in the queue of tasks.
 * Loop's thread. */
#ifndef PS_COORDINATOR_CALL_SHARES_H
#define PS_COORDINATOR_CALL_SHARES_H

#include "common/rpc/tasks.h"
#include "services/coordinator/domain/known_nodes.h"

enum { PS_SHARE_MAX = 250, PS_SHARES_MAX = 1000 };

/* An address that has waiting calls. */
typedef struct ps_share {
    struct ps_share *next;
    size_t waiting;
    /* Tasks of one strand run one after the other, and strands take turns. The user of this file
     * submits the tasks of an address to the strand of its share; so each address gets the same
     * part of the time. */
    ps_strand strand;
    char host[PS_NODES_HOST_MAX];
} ps_share;

/* All addresses with waiting calls. Zero it before use. */
typedef struct ps_shares {
    ps_share *first;
    size_t waiting; /* waiting calls of all addresses */
} ps_shares;

/* Counts a call of this address as waiting. Returns the address's share; NULL: too many calls wait,
 * so refuse it. */
ps_share *ps_shares_enter(ps_shares *shares, const char *host);

/* Ends the counting of a call; call it in `done` of the call's task. May free the share. */
void ps_shares_leave(ps_shares *shares, ps_share *share);

#endif
