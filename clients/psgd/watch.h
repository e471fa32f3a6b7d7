/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - follows a job to its end, for `watch` and `submit --watch`. */
#ifndef PS_CLIENTS_PSGD_WATCH_H
#define PS_CLIENTS_PSGD_WATCH_H

#include "clients/psgd/live.h"
#include "clients/psgd/reader.h"

typedef struct ps_watch {
    ps_cli *cli;
    char *job_id;
    ps_reader reader;
    ps_live live;
    Psgd__V1__WatchJobRequest request; /* its after_sequence is the last event that was received */
    char shown[1200];                  /* the last line about the job's state */
    bool is_detached;
    bool with_workers; /* also shows every worker; set before ps_watch_start, which keeps it */
    bool no_next;      /* names no next commands at the end; set before ps_watch_start */
    bool with_curves;  /* draws curves above the progress; set before ps_watch_start */
    ps_curves curves;
    /* the job with the attempt and placements that were shown last; NULL: none yet */
    Psgd__V1__Job *nodes;
    uint32_t recovered; /* attempt of the last recovery that was shown */
    unsigned trackers;  /* bits: trackers whose message was shown */
    bool is_asking;     /* a call that asks for the workers is running */
    /* the stream of events has ended, but a call for the workers is still running: the job is
     * fetched when that call has ended */
    bool is_over;
    /* when the workers were last asked for, in monotonic microseconds; 0: never */
    int64_t asked_us;
} ps_watch;

/* Follows the job until it is over or the user presses Ctrl-C, then ends the program. Copies
 * `job_id`; `watch` must outlive that. */
void ps_watch_start(ps_watch *watch, ps_cli *cli, const char *job_id);

/* Frees what the watch holds; a zeroed one is allowed. */
void ps_watch_fini(ps_watch *watch);

#endif
