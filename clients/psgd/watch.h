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
    bool with_workers; /* shows every worker too; set before ps_watch_start, which keeps it */
    bool no_next;      /* names no next commands at the end; likewise */
    bool with_curves;  /* draws curves above the progress; likewise */
    ps_curves curves;
    Psgd__V1__Job *nodes; /* attempt and placements that were shown last; NULL: none yet */
    uint32_t recovered;   /* attempt of the last recovery that was shown */
    unsigned trackers;    /* whose message was shown, as bits */
    bool is_asking;       /* for the workers */
    bool is_over;         /* the events have ended; the job is asked for when the workers came */
    int64_t asked_us;     /* when the workers were asked for last; 0: never */
} ps_watch;

/* Follows the job until it is over or the user presses Ctrl-C, then ends the program. Copies
 * `job_id`; `watch` must outlive that. */
void ps_watch_start(ps_watch *watch, ps_cli *cli, const char *job_id);

/* Frees what the watch holds; a zeroed one is allowed. */
void ps_watch_fini(ps_watch *watch);

#endif
