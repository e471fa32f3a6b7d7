/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator_life.h - starts and ends a coordinator. Loop thread. */
#ifndef PS_COORDINATOR_COORDINATOR_LIFE_H
#define PS_COORDINATOR_COORDINATOR_LIFE_H

#include "services/coordinator/coordinator.h"

/* Creates a coordinator. If its registry is in its own data directory (conf->etcd is NULL), opens
 * the registry and loads the jobs of the earlier process (startup.h); a registry in etcd is opened
 * when this coordinator is elected. Waits for the disk, so call it before the server starts. Copies
 * `conf`, keeps the strings in it. */
PS_MUST_USE ps_status ps_coordinator_create(ps_loop *loop, const ps_coordinator_conf *conf,
                                            ps_coordinator **out);

/* Sets the address that nodes are told to call, and lets jobs start: at once, or when this
 * coordinator is elected leader. Until then ps_coordinator_admits refuses all calls. */
PS_MUST_USE ps_status ps_coordinator_open(ps_coordinator *c, const char *address);

/* Returns true if this coordinator leads, so that handlers may answer. Else refuses the call with
 * NOT_LEADER, and the leader's address if there is a leader, and returns false. `state` is the
 * coordinator; used as ps_service.admit. */
bool ps_coordinator_admits(void *state, ps_call *call);

/* Takes a checkpoint of each running job whose specification has `checkpoint`. Posts `done` when
 * all are stored or were given up, at most within_us microseconds later. No job is started from now
 * on. */
void ps_coordinator_last_checkpoints(ps_coordinator *c, int64_t within_us, ps_event *done);

/* Starts nothing from now on, and ends all calls: watchers, barriers, calls to nodes. Jobs stay as
 * they are stored, and nodes go on with them. */
void ps_coordinator_drain(ps_coordinator *c);

/* Blocks until running tasks have ended, then notes on disk that the process ended in order, if
 * this coordinator has led. Call it after ps_coordinator_drain, while the loop runs.
 */
void ps_coordinator_stop(ps_coordinator *c);

/* Gives up the leadership and frees the coordinator. The loop must have ended, or must have freed
 * all attempts. NULL is allowed. */
void ps_coordinator_destroy(ps_coordinator *c);

#endif
