/* SPDX-License-Identifier: Apache-2.0 */
/* fake_worker.h - a worker whose gradients are known numbers, and a naive twin
 * of the whole job.
 *
 * The real exchange with the real servers, or with the other workers where the job
 * has none; in the trainer's place is a thread
 * that fills gradients with a function of (clock, block, weights). The twin
 * computes in plain loops what weights must come of it, to the bit.
 */
#ifndef PS_TESTS_SUPPORT_FAKE_WORKER_H
#define PS_TESTS_SUPPORT_FAKE_WORKER_H

#include "common/wire/wire_client.h"
#include "services/worker/peer_service.h"
#include "services/worker/rank.h"
#include "tests/support/dataplane.h"

/* How gradients come about. */
typedef enum fake_kind {
    FAKE_CHAINED, /* they depend on the weights: every bit goes on */
    FAKE_COUNTED  /* small whole numbers: sums are exact in any order */
} fake_kind;

typedef struct fake_worker fake_worker;

/* Told on the worker's thread where it is: before the weights are waited for,
 * after they came, and when half of the variables, or all but the first, of the step's last
 * contribution have been handed over. May block. */
typedef enum fake_at {
    FAKE_BEGINS,
    FAKE_HAS_WEIGHTS,
    FAKE_IN_THE_MIDST,
    FAKE_HAS_ONE_LEFT
} fake_at;
typedef void fake_hook(void *arg, fake_worker *w, uint64_t clock, fake_at at);

struct fake_worker {
    dp_job *job;
    side *on; /* kept: the exchange's loop */
    fake_kind kind;
    uint64_t steps;
    uint64_t incarnation;
    fake_hook *hook; /* (optional) */
    void *hook_arg;
    ps_session session;
    ps_buf *grad;
    ps_exchange *exchange;
    ps_peer_receiver *receiver;
    ps_peers *peers; /* NULL: the exchange is through servers */
    ps_mesh_exchange *mesh;
    ps_service service;
    ps_server *server;
    char address[32];
    pthread_t thread;
    uint64_t skipped; /* steps it was overtaken in */
    bool went_home;   /* the gate was closed before the end */
    ps_status failure;
    ps_exchange_stats stats; /* when its thread had ended */

    pthread_mutex_t mutex; /* guards clock */
    pthread_cond_t changed;
    uint64_t clock; /* steps it has finished */
};

/* Of a job without servers: it listens, its exchange takes what comes, and its address is in
 * the job. First of all, for each worker. */
void fake_worker_listen(fake_worker *w, uint32_t rank);
/* The connections break and nobody listens any more / it listens at the same port again. */
void fake_worker_break(fake_worker *w);
void fake_worker_resume(fake_worker *w);

/* Zero it, then set job, on, kind, steps and what else matters; the servers
 * must have been started, or each worker listen. */
void fake_worker_start(fake_worker *w, uint32_t rank);

/* Waits until it has finished so many steps or has gone home. */
void fake_worker_wait(fake_worker *w, uint64_t clock);

/* Closes its gate. */
void fake_worker_stop(fake_worker *w);

/* Waits for the thread's end and closes the exchange. The session's weights are
 * those of the last step then. */
void fake_worker_join(fake_worker *w);
void fake_worker_fini(fake_worker *w);

/* The servers' weights after so many steps of a bsp job, and as workers see
 * them, decoded; (param_count) each. */
void fake_twin(const dp_job *job, fake_kind kind, uint64_t steps, float *servers, float *workers);

#endif
