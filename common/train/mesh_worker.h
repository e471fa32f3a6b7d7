/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_worker.h - a worker's part of an exchange among workers, but for how packets
 * travel: its contributions, the machine of common/mesh, the step of its weights by
 * the sum, and the gate.
 *
 * The trainer's side (claim, give) is the trainer's thread's; the machine is of whoever
 * carries packets (advance, finish). A step starts with the first variables that the trainer
 * gives: what it has said of them is under way while the rest is still being computed. The
 * trainer goes on when the step is finished.
 */
#ifndef PS_COMMON_TRAIN_MESH_WORKER_H
#define PS_COMMON_TRAIN_MESH_WORKER_H

#include "common/base/buf.h"
#include "common/train/gate.h"
#include "common/train/stepper.h"

#include <pthread.h>

/* Less than this, in bytes of a gradient, waits for more: waking the carrier costs a switch of
 * threads. */
enum { PS_MESH_WORKER_GIVES = 512 << 10 };

typedef struct ps_mesh_worker_conf {
    const ps_plan *plan; /* kept; it has a mesh */
    uint32_t rank;
    float *weights;    /* (param_count), of clock 0; kept, and stepped */
    ps_buf *grad;      /* param_count floats; a reference is taken */
    int64_t window_us; /* of the machine */
} ps_mesh_worker_conf;

typedef struct ps_mesh_worker {
    const ps_plan *plan;
    uint32_t self;
    ps_gate gate;     /* one server brings all slices: whoever carries packets */
    ps_placement one; /* the plan's layout, as if it were so */
    ps_mesh_machine *mesh;
    ps_stepper stepper;
    float *weights, *sum; /* (param_count) */
    ps_buf *grad;
    uint32_t held;  /* contributions a step */
    float *copies;  /* (held, param_count); NULL: one, and it stays in the gradient block */
    float **blocks; /* (held) */

    /* of the step in hand, the trainer's */
    uint64_t clock;
    bool has_begun;   /* a contribution to it */
    uint32_t in_hand; /* which of the held ones */
    size_t untold;    /* bytes of variables since the carrier was told */

    pthread_mutex_t mutex; /* guards: */
    uint32_t *given;       /* (held, variable_count): contribution * variable_count + variable, in
                            * the order in which they became final */
    uint32_t given_count;  /* in this step */

    /* the carrier's */
    uint32_t taken; /* of those */
    uint64_t next;  /* the step that runs, or the one to start */
    bool is_running;
} ps_mesh_worker;

/* RESOURCE_EXHAUSTED: no memory for so many blocks. */
PS_MUST_USE ps_status ps_mesh_worker_init(ps_mesh_worker *w, const ps_mesh_worker_conf *conf);
void ps_mesh_worker_fini(ps_mesh_worker *w); /* after an init that failed too */

size_t ps_mesh_worker_memory(const ps_mesh_worker *w); /* bytes of blocks, sum, state, and what
                                                        * codecs keep */

/* A contribution begins. True: it is the first of its clock; that of the clock before must have
 * been finished. */
bool ps_mesh_worker_is_new(const ps_mesh_worker *w, uint64_t clock);
void ps_mesh_worker_claim(ps_mesh_worker *w, uint64_t clock, uint32_t block);
/* These variables of it are final. True: the carrier should be told. */
bool ps_mesh_worker_give(ps_mesh_worker *w, uint32_t first_variable, uint32_t count);

/* The machine gets what was given since, and begins the step with the first. Errors as of
 * ps_mesh_ready. */
PS_MUST_USE ps_status ps_mesh_worker_advance(ps_mesh_worker *w, int64_t now_us);

/* If the step that runs has its sum: steps the weights, and tells the gate. */
bool ps_mesh_worker_finish(ps_mesh_worker *w);

#endif
