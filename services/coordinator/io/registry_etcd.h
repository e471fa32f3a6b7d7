/* SPDX-License-Identifier: Apache-2.0 */
/* registry_etcd.h - the registry in etcd, of the coordinator that leads.
 *
 * etcd has the truth. A coordinator reads all of it into a file of SQLite of its own that nobody
 * else sees, before it leads (registry_ahead.h); the leader reads what is missing, and answers all
 * reads from there. A transaction goes to etcd
 * first, on the condition that the key of the leadership is still this leader's; then to the file.
 * So a coordinator that no longer leads stores nothing, and never shows what is not stored.
 *
 * A transaction that gets no answer is sent again while the leadership lasts. A second condition,
 * that the transaction before it is still the newest, lets etcd carry it out once only, and never
 * after a later one. If the leadership ends before there is an answer, nobody here can know whether
 * it was stored: then conf.lost is called, and the process starts again.
 */
#ifndef PS_COORDINATOR_REGISTRY_ETCD_H
#define PS_COORDINATOR_REGISTRY_ETCD_H

#include "services/coordinator/io/etcd.h"
#include "services/coordinator/io/registry.h"

#include <stdatomic.h>

typedef struct ps_registry_etcd_conf {
    ps_etcd *etcd;
    const char *temp_dir; /* for the copy, which takes about as much room as the jobs in etcd */
    int64_t leadership;   /* create revision of the key PS_LEADER_KEY */
    /* Returns the time of ps_clock_us until which the leadership lasts. Any thread. */
    int64_t (*lasts_until_us)(void *arg);
    /* The leadership is over. The caller fails with ABORTED if this returns. Any thread. */
    void (*lost)(void *arg, const char *why);
    void *arg;
} ps_registry_etcd_conf;

/* Behind the prefix: the key that the leader holds by its lease. */
#define PS_LEADER_KEY "leader"

/* Opens the registry of a coordinator that does not lead: an empty copy. For the two functions
 * below alone, until one of them has made it the leader's. `is_stopping` ends a read early; it is
 * borrowed, as `etcd` and `temp_dir`, until the registry is the leader's or closed. */
PS_MUST_USE ps_status ps_registry_etcd_follow(ps_etcd *etcd, const char *temp_dir,
                                              const atomic_bool *is_stopping, ps_registry **out);

/* Reads into the copy what etcd has got since the last time. *revision becomes that of the newest
 * transaction in it, 0: none. Blocks. If it fails, the copy stays as it was. */
PS_MUST_USE ps_status ps_registry_etcd_read(ps_registry *r, int64_t *revision);

/* Makes the registry that of the leader: reads what is missing in the copy. Copies `conf`; `etcd`
 * must live longer. Blocks. Fails with ABORTED if the leadership is over, with FAILED_PRECONDITION
 * if a newer program stored there; then close it. */
PS_MUST_USE ps_status ps_registry_etcd_lead(ps_registry *r, const ps_registry_etcd_conf *conf);

#endif
