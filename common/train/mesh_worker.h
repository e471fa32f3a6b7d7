/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_worker.h - a worker's part of an exchange among workers, without the transport: its
 * contributions, the machine of common/mesh, the step of its weights, and the gate.
 *
 * The trainer's thread calls is_new, claim and give. The carrier, the thread that sends and
 * receives packets, calls advance and finish. A step starts with the first variables that the
 * trainer gives, so they are sent while the other gradients are still being computed. The trainer
 * goes on when the step is finished.
 */
#ifndef PS_COMMON_TRAIN_MESH_WORKER_H
#define PS_COMMON_TRAIN_MESH_WORKER_H

#include "common/base/buf.h"
#include "common/train/exchange.h"
#include "common/train/gate.h"
#include "common/train/stepper.h"

#include <pthread.h>

/* The carrier is woken when this many bytes of gradients are final, or all: waking it costs a
 * switch of threads. */
enum { PS_MESH_WORKER_GIVES = 512 << 10 };

typedef struct ps_mesh_worker_conf {
    const ps_plan *plan; /* kept; it has a mesh */
    uint32_t rank;
    float *weights;    /* (param_count): initial weights; kept, every step writes them */
    ps_buf *grad;      /* param_count floats; a reference is taken */
    int64_t window_us; /* time of a step until the machine begins its rescue (mesh.h) */
    bool has_reports;  /* the same on all workers: they tell each other what they say */
    /* (optional) Checks what another worker says with its contributions to `clock`, the step that
     * runs or the next one. A failure refuses the packet with it. Carrier. */
    ps_status (*check_said)(void *arg, uint32_t worker, uint64_t clock, const ps_said *said);
    void *arg; /* of check_said */
} ps_mesh_worker_conf;

typedef struct ps_mesh_worker {
    const ps_plan *plan;
    uint32_t self;
    ps_status (*check_said)(void *arg, uint32_t worker, uint64_t clock, const ps_said *said);
    void *arg;        /* of check_said */
    ps_gate gate;     /* waits for one server that delivers all slices: the carrier */
    ps_placement one; /* the placement of that server */
    ps_mesh_machine *mesh;
    ps_stepper stepper;
    float *weights, *sum; /* (param_count) */
    ps_buf *grad;
    uint32_t held;  /* contributions of this worker to a step */
    float *copies;  /* (held, param_count); NULL if held is 1: it stays in the gradient block */
    float **blocks; /* (held): where each contribution lies */

    /* the trainer's */
    uint64_t clock;   /* of the last contribution that was claimed */
    bool has_begun;   /* a contribution was claimed */
    uint32_t in_hand; /* index of that contribution, below `held` */
    size_t untold;    /* bytes of final gradients since the carrier was last woken */

    pthread_mutex_t mutex; /* guards: */
    uint32_t *given;       /* (held, variable_count): contribution * variable_count + variable, in
                            * the order in which they became final */
    uint32_t given_count;  /* in this step */
    ps_buf *said;          /* with the contributions of this step; NULL: nothing, or taken */

    /* the carrier's */
    uint32_t taken;  /* entries of `given` that the machine has */
    uint64_t next;   /* the running step; else the one to start */
    bool is_running; /* a step has begun and is not finished */
} ps_mesh_worker;

/* Initialises a worker. Returns RESOURCE_EXHAUSTED if there is no memory for its blocks; also then
 * ps_mesh_worker_fini must be called. */
PS_MUST_USE ps_status ps_mesh_worker_init(ps_mesh_worker *w, const ps_mesh_worker_conf *conf);
void ps_mesh_worker_fini(ps_mesh_worker *w);

/* Returns the bytes of blocks, the sum, the optimizer's state, and what codecs keep. */
size_t ps_mesh_worker_memory(const ps_mesh_worker *w);

/* Writes what is kept of a variable from one step to the next: the optimizer's state (stepper.h),
 * then what the machine keeps (mesh.h). If that is anything, no step may run. */
void ps_mesh_worker_save(const ps_mesh_worker *w, uint32_t variable, ps_state_out *out);
/* Reads the same into a worker that has begun no step. */
void ps_mesh_worker_load(ps_mesh_worker *w, uint32_t variable, ps_state_in *in);
/* Makes `clock` the first step of a worker that has begun none. */
void ps_mesh_worker_start_at(ps_mesh_worker *w, uint64_t clock);

/* Returns whether a contribution to `clock` would be the first of that clock. The step before must
 * be finished when it is claimed. Trainer. */
bool ps_mesh_worker_is_new(const ps_mesh_worker *w, uint64_t clock);
/* Begins the contribution of `block` to `clock`. Trainer. */
void ps_mesh_worker_claim(ps_mesh_worker *w, uint64_t clock, uint32_t block);
/* Adds variables of that contribution whose gradients are final. Returns whether the caller should
 * wake the carrier. Trainer. */
bool ps_mesh_worker_give(ps_mesh_worker *w, uint32_t first_variable, uint32_t count);

/* Says something with the contributions to the clock, before the last variables are given
 * (exchange.h). Takes `report` over. Only with has_reports. Trainer. */
void ps_mesh_worker_say(ps_mesh_worker *w, ps_buf *report, bool is_partial);

/* Passes the variables that were given since the last call to the machine; the first one begins the
 * step. Fails as ps_mesh_begin and ps_mesh_ready do. Carrier. */
PS_MUST_USE ps_status ps_mesh_worker_advance(ps_mesh_worker *w, int64_t now_us);

/* If the sum of the running step is complete, steps the weights, reports them to the gate, and
 * returns true. Else returns false. Carrier. */
bool ps_mesh_worker_finish(ps_mesh_worker *w);

/* Lends what a worker has said with its contributions to the clock that has just been finished.
 * Its len is 0 if it said nothing. Carrier. */
ps_said ps_mesh_worker_said(const ps_mesh_worker *w, uint32_t worker);

#endif
