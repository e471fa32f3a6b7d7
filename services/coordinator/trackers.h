/* SPDX-License-Identifier: Apache-2.0 */
/* trackers.h - the observer of jobs that sends their progress and results to the trackers that
 * their specifications name (docs/trackers.md).
 *
 * Loop's thread, except ps_trackers_check. DATA_DIR/trackers has a file for each job and tracker to
 * which something is left to send, also for jobs that are over. */
#ifndef PS_COORDINATOR_TRACKERS_H
#define PS_COORDINATOR_TRACKERS_H

#include "common/rpc/error.h"
#include "common/tracker/tracker.h"
#include "services/coordinator/domain/live_job.h"

typedef struct ps_coordinator ps_coordinator;
typedef struct ps_trackers ps_trackers;

typedef struct ps_trackers_conf {
    const char *allowed; /* HOST:PORT,..., "off", or "": those of this host if listen_is_loopback */
    bool listen_is_loopback, is_insecure;
    /* path of the file with logins of trackers; NULL or "": none */
    const char *logins;
    const char *token, *user, *password; /* for trackers that are not in the file; NULL: none */
    /* file with certificates of authorities for https (tracker.h); kept */
    const char *ca;
} ps_trackers_conf;

/* Creates the observer from the settings `conf`; conf NULL: no tracker is allowed. Fails with
 * INVALID_ARGUMENT if a setting is wrong, with FAILED_PRECONDITION if addresses are given but
 * libcurl cannot be loaded. */
PS_MUST_USE ps_status ps_trackers_create(ps_coordinator *c, const ps_trackers_conf *conf,
                                         ps_trackers **out);

/* Goes on sending what the earlier process has not sent. Call it when the coordinator leads. */
void ps_trackers_begin(ps_trackers *trackers);

/* Ends the thread that sends to trackers, without waiting for what is still to be sent; the next
 * process sends it. Call it while the loop runs. NULL is allowed. */
void ps_trackers_stop(ps_trackers *trackers);
void ps_trackers_destroy(ps_trackers *trackers);

/* Checks that the coordinator may call the trackers of a specification. Each tracker that it may
 * not call becomes a violation of *error. Any thread. */
PS_MUST_USE ps_status ps_trackers_check(const ps_trackers *trackers, const Psgd__V1__JobSpec *spec,
                                        ps_error *error);

ps_job_observer_fn ps_trackers_changed; /* must be added before the observer that stores changes */

/* Returns how many values were dropped and not sent to trackers. */
uint64_t ps_trackers_dropped(const ps_trackers *trackers);

#endif
