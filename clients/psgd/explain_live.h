/* SPDX-License-Identifier: Apache-2.0 */
/* explain_live.h - measures the workers of a job while it trains, from what they report. */
#ifndef PS_CLIENTS_PSGD_EXPLAIN_LIVE_H
#define PS_CLIENTS_PSGD_EXPLAIN_LIVE_H

#include "clients/psgd/cli.h"
#include "clients/psgd/plot_job.h"

enum { PS_EXPLAIN_CODEC_MAX = 256 };

/* A report of a worker, and when it was seen. */
typedef struct ps_explain_report {
    int64_t us;
    uint64_t step, bytes_up, bytes_down, float32_up, float32_down;
    double wait_s;
} ps_explain_report;

typedef struct ps_explain_live {
    ps_cli *cli;
    const char *id;          /* of the job; borrowed until done */
    int64_t for_us;          /* how long */
    ps_plot_job *job;        /* zeroed; gets the nodes, and for each rank a row of what it did */
    void (*done)(void *arg); /* called once. A failure ends the program instead */
    void *arg;
    /* What the exchange carries, for explain_forecast.h: values that a worker sends in a step,
     * bytes of one on the wire, 0 if that is not known; the codecs, as psgd_codec_create has them.
     */
    double values, up_bytes, down_bytes;
    char up[PS_EXPLAIN_CODEC_MAX], down[PS_EXPLAIN_CODEC_MAX];
    /* Private. */
    ps_timer timer;
    int64_t end_us;
    uint32_t attempt;
    size_t n_ranks;
    struct ps_explain_span {
        bool is_begun;
        ps_explain_report seen, first, last; /* first: the first that is news */
    } spans[PS_PLOT_RANKS_MAX];
} ps_explain_live;

/* Starts to measure. The fields above the private ones are set. The time of a rank is the one
 * between its first and its last report; all of it in which the rank does not wait counts as
 * computing. */
void ps_explain_live_start(ps_explain_live *live);

#endif
