/* SPDX-License-Identifier: Apache-2.0 */
/* registry_etcd.h - the registry in etcd, of the coordinator that leads.
 *
 * etcd has the valid state. Before a coordinator leads, it copies all of it into a SQLite file of
 * its own that nobody else uses (registry_ahead.h). The leader copies what is still missing, and
 * answers all reads from the copy. It commits a transaction to etcd first, on the condition that
 * the key of the leadership is still this leader's, and then to the copy. So a coordinator that no
 * longer leads stores nothing, and never shows what is not stored.
 *
 * A transaction that gets no answer is sent again while the leadership lasts. A second condition,
 * that the transaction before it is still the newest, lets etcd carry it out only once, and never
 * after a later one. If the leadership ends before there is an answer, this process cannot know
 * whether the transaction was stored: then conf.lost is called, and the process starts again. */
#ifndef PS_COORDINATOR_REGISTRY_ETCD_H
#define PS_COORDINATOR_REGISTRY_ETCD_H

#include "services/coordinator/io/etcd.h"
#include "services/coordinator/io/registry.h"

#include <stdatomic.h>

typedef struct ps_registry_etcd_conf {
    ps_etcd *etcd;
    /* folder for the copy, which takes about as much room as the jobs in etcd */
    const char *temp_dir;
    int64_t leadership; /* create revision of the key PS_LEADER_KEY */
    /* Returns the time of ps_clock_us until which the leadership lasts. Any thread. */
    int64_t (*lasts_until_us)(void *arg);
    /* Called when the leadership is over. If it returns, the caller's transaction fails with
     * ABORTED. Any thread. */
    void (*lost)(void *arg, const char *why);
    void *arg;
} ps_registry_etcd_conf;

/* The key that the leader holds by its lease; it follows the prefix. */
#define PS_LEADER_KEY "leader"

/* Opens the registry of a coordinator that does not lead, with an empty copy. Only
 * ps_registry_etcd_read and ps_registry_etcd_lead may use it, until the latter has made it the
 * leader's. `is_stopping` ends a read early. It, `etcd` and `temp_dir` are borrowed until the
 * registry is the leader's or closed. */
PS_MUST_USE ps_status ps_registry_etcd_follow(ps_etcd *etcd, const char *temp_dir,
                                              const atomic_bool *is_stopping, ps_registry **out);

/* Copies what etcd has got since the last call. *revision becomes the revision of the newest
 * transaction in the copy; 0: none. Blocks. If it fails, the copy stays as it was. */
PS_MUST_USE ps_status ps_registry_etcd_read(ps_registry *r, int64_t *revision);

/* Makes the registry the leader's, after copying what is still missing. Copies `conf`; `etcd` must
 * live longer than the registry. Blocks. Returns ABORTED if the leadership is over or etcd is not
 * the one that was read before, FAILED_PRECONDITION if a newer program has stored jobs there; then
 * the caller closes the registry. */
PS_MUST_USE ps_status ps_registry_etcd_lead(ps_registry *r, const ps_registry_etcd_conf *conf);

#endif
