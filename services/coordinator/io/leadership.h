/* SPDX-License-Identifier: Apache-2.0 */
/* leadership.h - decides by etcd which of several coordinators leads.
 *
 * The leader is the coordinator that has created the key PS_LEADER_KEY, with its address as the
 * value, under a lease that it renews. The revision of this creation is its fencing token:
 * everything that the leader stores is stored on the condition that the key still has this
 * revision. With each renewal the leader puts the key again. If the key was not put for the lease's
 * time to live, it is deleted: by another coordinator that has watched it for that long, or by
 * etcd. The next coordinator then creates it. The leader knows, by its own clock, when its lease
 * may have ended, and stops before that.
 *
 * A thread of its own does all this, so neither a slow disk nor a slow loop delays a renewal. */
#ifndef PS_COORDINATOR_LEADERSHIP_H
#define PS_COORDINATOR_LEADERSHIP_H

#include "common/rpc/loop.h"
#include "services/coordinator/io/etcd.h"

#include <stdbool.h>

enum { PS_LEADER_ADDRESS_MAX = 160 };

typedef struct ps_leadership ps_leadership;

typedef struct ps_leadership_conf {
    ps_etcd *etcd;
    const char *address; /* host:port of this coordinator; borrowed */
    int64_t ttl_s;       /* time to live of the lease; etcd may make it longer */
    ps_loop *loop;
    void (*elected)(void *arg); /* called once, on the loop's thread */
    /* Called when the lease may have ended, etcd has refused to renew it, or the key was deleted.
     * Any thread; need not return. */
    void (*lost)(void *arg, const char *why);
    void *arg;
} ps_leadership_conf;

/* Starts the thread, which tries to become the leader until it is elected. Copies `conf`. */
PS_MUST_USE ps_status ps_leadership_start(const ps_leadership_conf *conf, ps_leadership **out);

/* Gives the leadership up, so that the next coordinator leads at once, and frees it. Blocks until
 * the thread's call to etcd has ended, and then for at most a second until etcd has taken the lease
 * back. Call it while the loop runs, or after the loop has ended. NULL is allowed. */
void ps_leadership_stop(ps_leadership *leadership);

/* Returns the create revision of the leader's key; 0 before the election. Any thread. */
int64_t ps_leadership_revision(const ps_leadership *leadership);

/* Returns the time, as of ps_clock_us, until which this coordinator certainly leads; 0 before the
 * election. Any thread. */
int64_t ps_leadership_lasts_until_us(const ps_leadership *leadership);

/* Calls conf.lost if this coordinator was elected and its lease may have ended. A process that may
 * have been frozen calls this before it acts on old knowledge. Any thread. */
void ps_leadership_check(ps_leadership *leadership);

/* Writes the address of the coordinator that leads; "" if none is known, and then the reason to
 * *why. Any thread. */
void ps_leadership_leader(ps_leadership *leadership, char address[PS_LEADER_ADDRESS_MAX],
                          ps_status *why);

#endif
