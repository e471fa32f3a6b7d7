/* SPDX-License-Identifier: Apache-2.0 */
/* call_shares.h - the share of each client address in the calls that wait for one kind of task.
 *
 * An address has at most PS_SHARE_MAX calls waiting, and all together have PS_SHARES_MAX. Beyond
 * that an address may still have one call waiting, so nobody keeps others out; the queue of tasks
 * bounds how many addresses do. Loop's thread.
 */
#ifndef PS_COORDINATOR_CALL_SHARES_H
#define PS_COORDINATOR_CALL_SHARES_H

#include "common/rpc/tasks.h"
#include "services/coordinator/domain/known_nodes.h"

enum { PS_SHARE_MAX = 250, PS_SHARES_MAX = 1000 };

/* An address of which calls wait. */
typedef struct ps_share {
    struct ps_share *next;
    size_t waiting;
    /* Tasks of one strand run one after the other, those of all strands in turns. A caller that
     * submits the tasks of an address to its strand gives each address the same part of the time. */
    ps_strand strand;
    char host[PS_NODES_HOST_MAX];
} ps_share;

/* All such addresses. Zero it. */
typedef struct ps_shares {
    ps_share *first;
    size_t waiting; /* calls of all */
} ps_shares;

/* Counts a call of this address. Returns its share; NULL: too many calls wait. */
ps_share *ps_shares_enter(ps_shares *shares, const char *host);

/* Ends the count of a call; call it in `done` of its task. The share may be freed. */
void ps_shares_leave(ps_shares *shares, ps_share *share);

#endif
