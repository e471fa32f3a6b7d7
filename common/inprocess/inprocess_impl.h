/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_impl.h - what inprocess.c, inprocess_job.c, inprocess_files.c and inprocess_stop.c
 * share; for them only. */
#ifndef PS_COMMON_INPROCESS_INPROCESS_IMPL_H
#define PS_COMMON_INPROCESS_INPROCESS_IMPL_H

#include "common/base/counter_table.h"
#include "common/inprocess/inprocess.h"
#include "common/inprocess/inprocess_mesh.h"
#include "common/inprocess/turns.h"
#include "common/job/stop.h"
#include "common/wire/wire_link_direct.h"

#include <google/protobuf/timestamp.pb-c.h>
#include <stdatomic.h>
#include <stdio.h>

enum { INPROCESS_RESULTS_MAX = 1 + PS_METRICS_MAX, INPROCESS_NAME_BYTES = 160 };

typedef struct inprocess_worker {
    ps_inprocess_job *run;
    uint32_t rank;
    float *weights; /* (param_count) */
    ps_trainer *trainer;
    ps_exchange *exchange;
    ps_transport *transport; /* transport of the exchange through the server; NULL in a mesh */
    ps_turn turn;
} inprocess_worker;

/* A complete file of the job. */
typedef struct inprocess_file {
    Psgd__V1__Artifact artifact;
    char name[INPROCESS_NAME_BYTES], sha256[65], node_id[24];
} inprocess_file;

struct ps_inprocess_job {
    ps_inprocess_job_conf conf;
    const ps_plan *plan;
    ps_dataset *data;
    /* placement on a single server, whatever the job says, as the bits do not depend on the
     * number */
    ps_placement placement;
    ps_wire_server *server; /* NULL in a mesh */
    ps_wire_parts parts;    /* the parts of the server */
    ps_direct_hub hub;
    ps_inprocess_mail *mail; /* NULL without a mesh */
    ps_turns turns;
    bool has_turns; /* false: all workers compute at the same time */
    uint32_t worker_count;
    inprocess_worker *workers;
    /* number of workers that have not ended, and 1 more while ps_inprocess_job_start runs */
    atomic_uint running;
    FILE *log; /* the log of the job, while it receives the process's log */
    char log_name[INPROCESS_NAME_BYTES];

    Psgd__V1__JobState state;
    ps_status result;
    bool has_diverged; /* `result` is the failure that a number is not finite */
    bool is_unstored;  /* `result` is the failure to write a file of the job */
    /* why a job that is DONE has ended, for machines and for people */
    char reason[PS_STOP_REASON_MAX], message[PS_STOP_TEXT_MAX];
    int64_t limit_us;      /* monotonic time at which max_seconds are over; INT64_MAX: never */
    pthread_mutex_t mutex; /* guards `cause` and `checked` */
    ps_stop_cause cause;   /* why the job ends early */
    uint32_t checked;      /* number of the last evaluation that was compared with stop_at */
    uint32_t evaluations; /* number of evaluations that ps_inprocess_job_next_evaluation returned */
    ps_counts server_counts; /* counters of the server; zeros until the last files are written */
    uint64_t staleness_bins[PS_STALENESS_BINS];
    int64_t began_wall_us, ended_wall_us;
    /* two points from which speeds are measured: [1] is taken anew after each second or more, and
     * the [1] before becomes [0], to which the present is compared; at first both are the start */
    struct {
        int64_t us;
        uint64_t samples, step;
    } rate[2];

    /* what ps_inprocess_job_now returns */
    Psgd__V1__Job job;
    Psgd__V1__Progress progress;
    Google__Protobuf__Timestamp began, ended;
    Psgd__V1__Job__ResultEntry results[INPROCESS_RESULTS_MAX], *result_ptrs[INPROCESS_RESULTS_MAX];
    char whom[160];        /* whom a worker waits for, by name; "": nobody waits */
    inprocess_file *files; /* (file_count) */
    size_t file_count;
    Psgd__V1__Artifact **file_ptrs;
};

/* inprocess_log_begin creates the job's log, to which the log of the process then goes too;
 * inprocess_log_end closes it. In inprocess_files.c. */
PS_MUST_USE ps_status inprocess_log_begin(ps_inprocess_job *run);
void inprocess_log_end(ps_inprocess_job *run);
/* Writes all remaining files and makes the list of files. inprocess_files.c. */
PS_MUST_USE ps_status inprocess_write_files(ps_inprocess_job *run);

/* Ends the job if stop_at or max_seconds is reached. Called by a worker (arg) before each clock.
 * This and all functions below are in inprocess_stop.c, for any thread, if nothing else is said. */
void inprocess_look_for_end(void *arg);

/* Merges the workers' parts of split evaluation `number` (from 1). Returns false if the last
 * evaluation of a worker is another one or none, or the parts do not cover the test samples. */
bool inprocess_merge_parts(ps_inprocess_job *run, uint32_t number, double *loss, double *values);

/* Computes the means over the workers in evaluation `number` (from 1). Returns false if a worker no
 * longer has that evaluation, or has not done it yet. */
bool inprocess_means(ps_inprocess_job *run, uint32_t number, double *loss, double *values);

/* Returns the number of evaluations that each worker has done, the least of the workers. */
uint32_t inprocess_evaluations_done(ps_inprocess_job *run);

/* Sets run->reason and message: which bound ended a job that is done. Called by
 * ps_inprocess_job_finish alone. */
void inprocess_describe_end(ps_inprocess_job *run);

/* Returns what a worker has counted, by the table of counters. inprocess_job.c; any thread. */
ps_counts inprocess_counts_of(ps_inprocess_job *run, const inprocess_worker *w);

#endif
