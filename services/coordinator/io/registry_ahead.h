/* SPDX-License-Identifier: Apache-2.0 */
/* registry_ahead.h - reads the jobs in etcd while another coordinator leads, so that the time from
 * an election to the first answer does not grow with the number of jobs.
 *
 * A thread reads what is new, again and again, with pauses that are long compared with the time of
 * a read. */
#ifndef PS_COORDINATOR_REGISTRY_AHEAD_H
#define PS_COORDINATOR_REGISTRY_AHEAD_H

#include "services/coordinator/io/etcd.h"
#include "services/coordinator/io/registry.h"

typedef struct ps_registry_ahead ps_registry_ahead;

/* Starts the thread. `etcd` and `temp_dir` must live longer than what ps_registry_ahead_take
 * returns. */
PS_MUST_USE ps_status ps_registry_ahead_start(ps_etcd *etcd, const char *temp_dir,
                                              ps_registry_ahead **out);

/* Ends the thread, frees `ahead` and returns its registry, for ps_registry_etcd_lead or
 * ps_registry_close. Blocks for one call to etcd at most. NULL is allowed and returns NULL. */
ps_registry *ps_registry_ahead_take(ps_registry_ahead *ahead);

#endif
