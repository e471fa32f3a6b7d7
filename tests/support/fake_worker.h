/* SPDX-License-Identifier: Apache-2.0 */
/* fake_worker.h - a worker whose gradients are known numbers, and a naive twin
 * of the whole job.
 *
 * A fake worker uses the real exchange with real servers or, in a mesh, with the other workers. In
 * place of a trainer, a thread fills the gradients with a function of (clock, block, weights). The
 * twin computes in plain loops, without an exchange, which weights must result, to the bit.
 */
#ifndef PS_TESTS_SUPPORT_FAKE_WORKER_H
#define PS_TESTS_SUPPORT_FAKE_WORKER_H

#include "common/wire/wire_client.h"
#include "services/worker/peer_service.h"
#include "services/worker/rank.h"
#include "tests/support/dataplane.h"

/* How a fake worker makes gradients. */
typedef enum fake_kind {
    FAKE_CHAINED, /* of the weights, so that every bit of a step influences the next */
    FAKE_COUNTED  /* small integers, whose sums are exact in any order */
} fake_kind;

typedef struct fake_worker fake_worker;

/* Called on the worker's thread: before it waits for weights, after they have arrived, and when
 * half of the variables, or all but the first, of the step's last contribution were handed over.
 * May block. */
typedef enum fake_at {
    FAKE_BEGINS,
    FAKE_HAS_WEIGHTS,
    FAKE_IN_THE_MIDST,
    FAKE_HAS_ONE_LEFT
} fake_at;
typedef void fake_hook(void *arg, fake_worker *w, uint64_t clock, fake_at at);

struct fake_worker {
    dp_job *job;
    side *on; /* loop of the exchange; kept */
    fake_kind kind;
    uint64_t steps;
    uint64_t incarnation;
    bool is_sockets_only; /* its exchange offers no memory */
    fake_hook *hook;      /* (optional) */
    void *hook_arg;
    ps_session session;
    ps_buf *grad;
    ps_exchange *exchange;
    ps_peer_receiver *receiver;
    ps_peers *peers; /* NULL: the job has servers */
    ps_mesh_exchange *mesh;
    ps_service service;
    ps_server *server;
    char address[32];
    pthread_t thread;
    uint64_t skipped; /* number of steps that the worker left out because it was overtaken */
    bool went_home;   /* the worker returned before its last step because the gate was closed */
    ps_status failure;
    ps_exchange_stats stats; /* counters of the exchange when the worker's thread had ended */

    pthread_mutex_t mutex; /* guards clock */
    pthread_cond_t changed;
    uint64_t clock; /* number of steps that the worker has finished */
};

/* Makes the worker of a job without servers listen: its exchange takes messages, and its address is
 * in the job. Call it for each worker before any is started. */
void fake_worker_listen(fake_worker *w, uint32_t rank);
/* Breaks all connections to the worker and stops listening. */
void fake_worker_break(fake_worker *w);

/* Listens again at the same port. */
void fake_worker_resume(fake_worker *w);

/* Starts a worker. The caller has zeroed it and set job, on, kind, steps and other inputs. Servers
 * must have been started, or all workers must listen. */
void fake_worker_start(fake_worker *w, uint32_t rank);

/* Blocks until the worker has finished `clock` steps, or has returned early. */
void fake_worker_wait(fake_worker *w, uint64_t clock);

/* Closes the worker's gate. */
void fake_worker_stop(fake_worker *w);

/* Waits for the end of the thread and closes the exchange. The session's weights are then those of
 * the last step. */
void fake_worker_join(fake_worker *w);
void fake_worker_fini(fake_worker *w);

/* Computes, without any exchange, the weights after `steps` steps of a bsp job: those of the
 * servers, and as workers decode them; (param_count) each. */
void fake_twin(const dp_job *job, fake_kind kind, uint64_t steps, float *servers, float *workers);

#endif
