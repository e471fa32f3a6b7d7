/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.h - the whole of it: jobs that are not over, nodes, the store,
 * and what ties them together. Loop thread.
 */
#ifndef PS_COORDINATOR_COORDINATOR_H
#define PS_COORDINATOR_COORDINATOR_H

#include "common/data/identify.h"
#include "common/rpc/error.h"
#include "common/rpc/server.h"
#include "common/rpc/tasks.h"
#include "services/coordinator/domain/awake_clock.h"
#include "services/coordinator/domain/known_nodes.h"
#include "services/coordinator/domain/live_job.h"
#include "services/coordinator/io/init_from.h"
#include "services/coordinator/io/job_store.h"
#include "services/coordinator/io/registry.h"
#include "services/coordinator/io/registry_writer.h"
#include "services/coordinator/io/room.h"

enum {
    PS_LIVE_JOBS_MAX = 10000, /* queued or running at a time */
    PS_COORDINATOR_ID_MAX = 96
};

typedef struct ps_coordinator_conf {
    const char *data_dir;
    const char *data_path; /* where data sets lie; NULL: none */
    int64_t heartbeat_us, lease_us;
    uint64_t max_memory_bytes;  /* for packages of all attempts together; 0: any */
    uint64_t min_free_bytes;    /* room below which no job is taken in or started; 0: any will do */
    Psgd__V1__JobState exit_at; /* fault for tests: SIGKILL oneself there; 0: never */
} ps_coordinator_conf;

typedef struct ps_watcher ps_watcher;
typedef struct ps_reclaim ps_reclaim;
typedef struct ps_probe ps_probe;

typedef struct ps_coordinator ps_coordinator;
struct ps_coordinator {
    ps_loop *loop;
    ps_coordinator_conf conf;
    char address[160]; /* told to nodes and users */
    int64_t start_wall_us;
    ps_registry *registry; /* used by `writer` only */
    ps_writer *writer;
    ps_registry *reader; /* for reading; used by `reads` and by tasks */
    ps_room room;
    ps_nodes nodes;

    /* Threads by kind of work, so that none waits behind another kind. */
    ps_tasks *reads;          /* one thread: reads the registry for clients */
    ps_tasks *checks;         /* checks submitted specs */
    ps_tasks *looks;          /* reads data sets of submitted specs, which may take minutes */
    ps_tasks *packages;       /* makes packages: describes data sets, draws weights */
    ps_tasks *sends;          /* reads pieces of files for nodes */
    ps_tasks *tasks;          /* reads and writes files of jobs */
    ps_data_cache data_cache; /* of packages */
    uint64_t memory_taken;    /* bytes of packages, of conf.max_memory_bytes */

    ps_task room_task;    /* looks at the disk, */
    bool is_looking;      /* and is under way */
    ps_jobs jobs;         /* that are not over */
    size_t submitted;     /* on their way into the registry */
    size_t attempts;      /* not freed: going on, or over with calls under way */
    uint64_t named_tried; /* number of a job in the queue: see job_queue.c */
    ps_job_store store;   /* observer of jobs */
    ps_watcher *watchers; /* streams of WatchJob */
    ps_probe *probes;     /* calls of node_probe.c */
    size_t probed;        /* index of the node to be asked next */
    ps_reclaim *reclaims; /* streams of ReclaimLogs */

    ps_timer sweep; /* once a second: schedule, forget, look at the disk */
    ps_timer pulse; /* reads the clock */
    ps_awake_clock awake;
    ps_timer soon; /* schedule: several reasons at once are one */
    bool is_open, is_stopping;
    bool was_stopped; /* the process before this one ended in order */
};

/* Creates a coordinator: opens the registry and loads the jobs of the process before it
 * (startup.h). Waits for the disk, so call it before the server starts. Copies `conf`, keeps its
 * texts. */
PS_MUST_USE ps_status ps_coordinator_create(ps_loop *loop, const ps_coordinator_conf *conf,
                                            ps_coordinator **out);

/* Sets the address that nodes are told, and lets jobs start. */
void ps_coordinator_open(ps_coordinator *c, const char *address);

/* Returns the service for ps_server_start. */
ps_service ps_coordinator_service(ps_coordinator *c);

/* Starts nothing from now on, and ends all calls: watchers, barriers, calls to nodes. Jobs stay as
 * they are stored, and nodes go on. */
void ps_coordinator_drain(ps_coordinator *c);

/* Blocks until running tasks have ended. Call it after ps_coordinator_drain, while the loop runs.
 */
void ps_coordinator_stop(ps_coordinator *c);
/* Frees the coordinator, when the loop has ended or has freed all attempts. NULL is allowed. */
void ps_coordinator_destroy(ps_coordinator *c);

/* --- for the handlers ------------------------------------------------------- */

/* Returns where models to start from are. */
ps_init_where ps_coordinator_init_where(const ps_coordinator *c);

/* Returns the time of awake_clock.h in microseconds: all deadlines and leases of jobs and nodes go
 * by it. */
int64_t ps_coordinator_now_us(ps_coordinator *c);

/* Gives back what a package has taken of the memory for packages. */
void ps_coordinator_give_memory(ps_coordinator *c, uint64_t bytes);

/* Receives the id of the job that is stored, or of the one that the same request made before. */
typedef void ps_submitted_fn(void *arg, const ps_status *result, const char *job_id);

typedef struct ps_submit {
    const Psgd__V1__JobSpec *spec; /* checked and completed */
    const char *request_id;        /* "": none */
    uint64_t memory_bytes;         /* that its package takes */
    bool no_queue;                 /* as in SubmitJobRequest */
    ps_status place;               /* not OK: only a request that has made a job is answered */
    ps_submitted_fn *then;
    void *arg;
} ps_submit;

/* Takes in a job. Calls `then` once, from the loop. Fails with ALREADY_EXISTS, with
 * RESOURCE_EXHAUSTED also when the disk is nearly full, or with `place`. */
void ps_coordinator_submit(ps_coordinator *c, const ps_submit *submit);

/* Submits a task that writes files. After ps_coordinator_stop it is run at once. */
void ps_coordinator_write(ps_coordinator *c, ps_strand *strand, ps_task *task);

/* Starts the queued jobs that can start, and tells the others what they wait for. */
void ps_coordinator_schedule(ps_coordinator *c);

/* The observer that logs the states of jobs: job_log.c. */
ps_job_observer_fn ps_job_log_changed;

#endif
