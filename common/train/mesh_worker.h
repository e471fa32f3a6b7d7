/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_worker.h - a worker's part of an exchange among workers, without the transport. It joins the
 * worker's contributions, the machine of common/mesh, the step of the weights, and the gate.
 *
 * Two threads use it. The trainer's thread calls is_new, claim, give and say. The carrier, which is
 * the thread that sends and receives packets, calls advance and finish. A step starts with the
 * first variables that the trainer gives. So they are sent while other gradients are still being
 * computed. The trainer goes on when the step is finished. */
#ifndef PS_COMMON_TRAIN_MESH_WORKER_H
#define PS_COMMON_TRAIN_MESH_WORKER_H

#include "common/base/buf.h"
#include "common/train/exchange.h"
#include "common/train/gate.h"
#include "common/train/stepper.h"

#include <pthread.h>

/* The trainer wakes the carrier when this many bytes of gradients are final, or when all are. More
 * often would cost too many switches of threads. */
enum { PS_MESH_WORKER_GIVES = 512 << 10 };

typedef struct ps_mesh_worker_conf {
    const ps_plan *plan; /* kept; a plan with a mesh */
    uint32_t rank;
    /* (param_count): the initial weights; kept: every step writes the new weights there */
    float *weights;
    ps_buf *grad; /* (param_count) floats, the gradient block; a reference is taken */
    /* time in microseconds from the beginning of a step until the machine begins its repair
     * (mesh.h) */
    int64_t window_us;
    /* workers send each other reports with their contributions (ps_mesh_worker_say); the same on
     * all workers */
    bool has_reports;
    /* (optional) Checks the report that another worker sends with its contributions to `clock`, the
     * step that runs or the next one. If it fails, the packet is refused with its failure.
     * Carrier. */
    ps_status (*check_said)(void *arg, uint32_t worker, uint64_t clock, const ps_said *said);
    void *arg; /* argument of check_said */
} ps_mesh_worker_conf;

typedef struct ps_mesh_worker {
    const ps_plan *plan;
    uint32_t self;
    ps_status (*check_said)(void *arg, uint32_t worker, uint64_t clock, const ps_said *said);
    void *arg; /* argument of check_said */
    /* the trainer's gate; for it, the carrier is a single server that delivers all slices */
    ps_gate gate;
    ps_placement one; /* a placement with that single server */
    ps_mesh_machine *mesh;
    ps_stepper stepper;
    float *weights, *sum; /* (param_count) */
    ps_buf *grad;
    uint32_t held; /* number of contributions that this worker makes to a step */
    /* (held, param_count): copies of the contributions; NULL if held is 1, as the only one stays in
     * the gradient block */
    float *copies;
    float **blocks; /* (held): where the values of each contribution are */

    /* used by the trainer's thread only */
    uint64_t clock;   /* clock of the last contribution that was claimed */
    bool has_begun;   /* a contribution was claimed */
    uint32_t in_hand; /* index of the last contribution that was claimed, below `held` */
    size_t untold;    /* bytes of gradients that became final since the carrier was last woken */

    pthread_mutex_t mutex; /* guards given, given_count and said */
    /* (held, variable_count): index of the contribution * variable_count + variable, in the order
     * in which the gradients became final */
    uint32_t *given;
    uint32_t given_count; /* number of entries of `given` in this step */
    /* report that goes with the contributions to this step; NULL: none, or the carrier has taken
     * it */
    ps_buf *said;

    /* used by the carrier only */
    uint32_t taken;  /* number of entries of `given` that the machine has */
    uint64_t next;   /* clock of the step that runs or, if none runs, of the one to start */
    bool is_running; /* a step has begun and is not finished */
} ps_mesh_worker;

/* Initialises a worker. Returns RESOURCE_EXHAUSTED if there is no memory for its blocks.
 * ps_mesh_worker_fini must be called after a failure too. */
PS_MUST_USE ps_status ps_mesh_worker_init(ps_mesh_worker *w, const ps_mesh_worker_conf *conf);
void ps_mesh_worker_fini(ps_mesh_worker *w);

/* Returns the bytes of memory for the copies of contributions, the sum, the optimizer's state, and
 * what codecs keep. */
size_t ps_mesh_worker_memory(const ps_mesh_worker *w);

/* Writes what is kept of a variable from one step to the next: the optimizer's state (stepper.h),
 * then what the machine keeps (mesh.h). No step may be running, unless nothing is kept. */
void ps_mesh_worker_save(const ps_mesh_worker *w, uint32_t variable, ps_state_out *out);
/* Reads what ps_mesh_worker_save has written, into a worker that has begun no step. */
void ps_mesh_worker_load(ps_mesh_worker *w, uint32_t variable, ps_state_in *in);
/* Makes `clock` the first step of a worker that has begun none. */
void ps_mesh_worker_start_at(ps_mesh_worker *w, uint64_t clock);

/* Trainer. Returns whether a contribution to `clock` would be the worker's first to that clock. The
 * step before must be finished when it is claimed. */
bool ps_mesh_worker_is_new(const ps_mesh_worker *w, uint64_t clock);
/* Trainer. Begins the contribution of `block` to `clock`. */
void ps_mesh_worker_claim(ps_mesh_worker *w, uint64_t clock, uint32_t block);
/* Trainer. Says that the gradients of these variables are final in the contribution that was
 * claimed last. Returns whether the caller should wake the carrier. */
bool ps_mesh_worker_give(ps_mesh_worker *w, uint32_t first_variable, uint32_t count);

/* Trainer. Sends `report` with the worker's contributions to the clock, as `say` in exchange.h.
 * Call it before the last variables are given. Takes `report`, and drops it if it has
 * PS_MESH_REPORT_MAX bytes or more. Only with has_reports. */
void ps_mesh_worker_say(ps_mesh_worker *w, ps_buf *report, bool is_partial);

/* Carrier. Passes to the machine the variables that were given since the last call. The first
 * variable begins the step. Fails as ps_mesh_begin and ps_mesh_ready do. */
PS_MUST_USE ps_status ps_mesh_worker_advance(ps_mesh_worker *w, int64_t now_us);

/* Carrier. If the sum of the running step is complete, steps the weights, reports them to the gate,
 * and returns true. Else returns false. */
bool ps_mesh_worker_finish(ps_mesh_worker *w);

/* Carrier. Returns the report that a worker has sent with its contributions to the clock that was
 * just finished; its len is 0 if it sent none. Valid until the next step begins. */
ps_said ps_mesh_worker_said(const ps_mesh_worker *w, uint32_t worker);

#endif
