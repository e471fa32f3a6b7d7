/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.h - the coordinator's state: jobs that are not over, nodes, the store, threads, and
 * what connects them. Loop's thread.
 */
#ifndef PS_COORDINATOR_COORDINATOR_H
#define PS_COORDINATOR_COORDINATOR_H

#include "common/base/histogram.h"
#include "common/data/identify.h"
#include "common/explain/explain_foretell.h"
#include "common/rpc/server.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/audit.h"
#include "services/coordinator/call_shares.h"
#include "services/coordinator/domain/awake_clock.h"
#include "services/coordinator/domain/jobs.h"
#include "services/coordinator/domain/known_nodes.h"
#include "services/coordinator/io/init_from.h"
#include "services/coordinator/io/job_store.h"
#include "services/coordinator/io/leadership.h"
#include "services/coordinator/io/registry.h"
#include "services/coordinator/io/registry_ahead.h"
#include "services/coordinator/io/registry_writer.h"
#include "services/coordinator/io/room.h"
#include "services/coordinator/quotas.h"

#include <stdatomic.h>

enum {
    PS_LIVE_JOBS_MAX = 10000, /* most jobs that are queued or running */
    PS_COORDINATOR_ID_MAX = 96,
    PS_LEASE_BEATS = 3, /* a lease, and step_ms, last at least so many heartbeats */
    /* number of values of JobState */
    PS_COORDINATOR_STATES = PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED + 1
};

typedef struct ps_coordinator_conf {
    /* connection to etcd, in which the leader keeps its jobs; NULL: jobs are in data_dir */
    ps_etcd *etcd;
    const char *temp_dir; /* folder for a copy of the jobs in etcd */
    /* Called when this coordinator no longer leads. Restarts the process, or returns if the process
     * is ending. Any thread. */
    void (*lost)(void *arg, const char *why);
    void *lost_arg;
    const char *data_dir;
    const char *checkpoint_path; /* folder for checkpoints; NULL or "": they are in data_dir */
    const char *data_path;       /* folder of data sets; NULL: none */
    int64_t heartbeat_us, lease_us, leader_lease_us;
    /* shortest time in microseconds between two changes of a job's nodes because idle nodes join
     * it */
    int64_t grow_us;
    /* most bytes of the packages of all attempts together; 0: no limit */
    uint64_t max_memory_bytes;
    const char *code;    /* who may submit code: admin, submitter or off */
    const char *quotas;  /* file of the quotas of submitters; NULL or "": none */
    const char *pki;     /* folder of the authority that renews certificates of nodes, or "" */
    int64_t cert_life_s; /* how long a renewed certificate is valid, in seconds */
    /* least free bytes for accepting or starting a job or storing a checkpoint; 0: no limit */
    uint64_t min_free_bytes;
    Psgd__V1__LinkProtection links;
    const struct ps_trackers_conf *trackers;
    /* fault for tests: the state at which the process kills itself; 0: never */
    Psgd__V1__JobState exit_at;
} ps_coordinator_conf;

typedef struct ps_trackers ps_trackers;
typedef struct ps_watcher ps_watcher;
typedef struct ps_reclaim ps_reclaim;
typedef struct ps_explaining ps_explaining;
typedef struct ps_probe ps_probe;
typedef struct ps_submission ps_submission;

typedef struct ps_coordinator ps_coordinator;
struct ps_coordinator {
    ps_loop *loop;
    ps_coordinator_conf conf;
    char address[160]; /* the address that nodes and users are told to call */
    int64_t start_wall_us;
    ps_leadership *leadership; /* NULL: no other coordinator uses the registry */
    ps_registry_ahead *ahead;  /* reads jobs from etcd until this coordinator leads; then NULL */
    ps_registry *registry;     /* used by the thread of `writer` only, once that runs */
    ps_writer *writer;
    ps_registry *reader; /* for reading only; used by the threads of `reads` and by other tasks */
    ps_audit *audit;     /* lines of calls that change something */
    ps_room room;
    char *checkpoint_dir;    /* real path of conf.checkpoint_path; NULL: that is not set */
    int checkpoint_lock;     /* descriptor that holds the lock of that folder; -1: none */
    ps_room checkpoint_room; /* free space of the disk of checkpoint_dir */
    ps_nodes nodes;

    /* A queue of tasks for each kind of work, so that one kind does not wait for another. */
    ps_tasks *reads;          /* one thread: reads the registry for clients */
    ps_tasks *checks;         /* checks submitted specs */
    ps_tasks *looks;          /* reads data sets of submitted specs, which may take minutes */
    ps_tasks *packages;       /* makes packages: describes data sets, draws weights */
    ps_tasks *sends;          /* reads pieces of files for nodes */
    ps_tasks *knocks;         /* connects to nodes, to see whether their processes are there */
    ps_tasks *tasks;          /* reads and writes files of jobs */
    ps_shares reading;        /* calls that wait for `reads` */
    ps_shares submitting;     /* calls that wait for `checks` and `looks` */
    ps_data_cache data_cache; /* descriptions of the data sets of packages */
    /* Bytes of the packages of all attempts. If conf.max_memory_bytes is not 0, they exceed it only
     * when a single package does. */
    uint64_t memory_taken;

    ps_strand renewals;         /* certificates are issued one after the other */
    ps_task room_task;          /* reads the free space of the disk */
    bool is_looking;            /* room_task is running */
    ps_jobs jobs;               /* the jobs that are not over */
    size_t submitted;           /* jobs that are being stored for the first time */
    ps_submission *submissions; /* the jobs that are being stored for the first time */
    ps_quotas *quotas;          /* NULL: no quotas */
    /* attempts that are not freed: they run, or have ended but have calls in progress */
    size_t attempts;
    /* if the last pass over the queue has not tried all jobs with named nodes: number of the last
     * one that it tried; the next pass tries those after it. 0: all. Used by job_queue.c */
    uint64_t named_tried;
    ps_job_store store; /* the observer that stores jobs */
    ps_trackers *trackers;
    ps_watcher *watchers;       /* streams of WatchJob */
    ps_probe *probes;           /* calls in progress of node_probe.c */
    size_t probed;              /* index of the node that is probed next */
    ps_reclaim *reclaims;       /* streams of ReclaimLogs */
    ps_explaining *explained;   /* jobs that are measured for ExplainJob while they train */
    ps_codec_costs codec_costs; /* used by tasks of `explaining` */
    ps_strand explaining;       /* strand of the tasks of ExplainJob that read timelines */

    /* fires once a second: queue, nodes, downloads, free space, changes to store again */
    ps_timer sweep;
    ps_timer pulse; /* reads `awake` often enough (awake_clock.h) */
    ps_awake_clock awake;
    /* calls ps_queue_look soon; several calls of ps_coordinator_schedule become one of it */
    ps_timer soon;
    /* number of jobs that are over, by final state, for /metrics */
    uint64_t ended[PS_COORDINATOR_STATES];
    ps_histogram phases[PS_COORDINATOR_STATES]; /* how long jobs were in each phase of the commit */
    /* this coordinator leads and has read the registry; also read by the thread of joins.c */
    atomic_bool is_open;
    bool is_stopping;
    bool was_stopped; /* the earlier process of this coordinator was stopped and did not crash */
};

/* Returns the places where models and tables to start from are searched. */
ps_init_where ps_coordinator_init_where(const ps_coordinator *c);

/* Returns the time of awake_clock.h in microseconds. The leases of nodes and the deadlines of
 * attempts (commit.h) use this clock. */
int64_t ps_coordinator_now_us(ps_coordinator *c);

/* Returns the ps_room that watches the disk on which checkpoints are kept. */
ps_room *ps_coordinator_checkpoint_room(ps_coordinator *c);

/* Gives `bytes` that a package has freed back to the budget of packages (memory_taken). */
void ps_coordinator_give_memory(ps_coordinator *c, uint64_t bytes);

/* Submits a task that writes files of a job. After ps_coordinator_stop runs it at once. */
void ps_coordinator_write(ps_coordinator *c, ps_strand *strand, ps_task *task);

/* Has ps_queue_look called soon: it starts the queued jobs that can start, and publishes what the
 * others wait for. */
void ps_coordinator_schedule(ps_coordinator *c);

/* The observer that logs the states of jobs: job_log.c. */
ps_job_observer_fn ps_job_log_changed;

#endif
