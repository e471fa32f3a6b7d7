/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - a worker's side of the data plane.
 *
 * One lane (a push and a pull stream) to each parameter server that holds
 * slices. The trainer says which gradients are final; the lanes send them while
 * backpropagation still runs and decode weights straight into the parameter
 * block. A contribution stays in the gradient block until every server has
 * acknowledged it, so a broken stream is opened again and the contribution sent
 * again; servers count it once.
 *
 * The functions marked Trainer are for the one training thread, the others for
 * the loop's thread.
 */
#ifndef PS_SERVICES_WORKER_EXCHANGE_H
#define PS_SERVICES_WORKER_EXCHANGE_H

#include "common/base/buf.h"
#include "common/node/node.h"
#include "services/worker/gate.h"

typedef struct ps_exchange ps_exchange;

typedef struct ps_exchange_conf {
    ps_loop *loop;
    const ps_session *session; /* kept */
    uint64_t incarnation;
    float *weights; /* (param_count), of clock 0; kept: written by the loop's thread */
    ps_buf *grad;   /* param_count floats; a reference is taken */
} ps_exchange_conf;

/* What has crossed the wire, and what it would have been as plain float32. */
typedef struct ps_exchange_stats {
    uint64_t bytes_up, bytes_down, bytes_up_float32, bytes_down_float32;
    uint64_t messages_up, messages_down;
} ps_exchange_stats;

ps_exchange *ps_exchange_create(const ps_exchange_conf *conf);
void ps_exchange_start(ps_exchange *x); /* opens the streams */

/* Ends all streams; the trainer must be gone. Fires `done`, then x is freed. */
void ps_exchange_stop(ps_exchange *x, ps_event *done);

ps_gate *ps_exchange_gate(ps_exchange *x); /* any thread */

/* Trainer. Begins the contribution (clock, block), the last of its clock or
 * not: waits until the gradient block is free. False: go home. */
bool ps_exchange_begin(ps_exchange *x, uint64_t clock, uint32_t block, bool is_last);

/* Trainer. These variables of the contribution are final, and their weights are
 * no longer read in this step. */
void ps_exchange_ready(ps_exchange *x, uint32_t first_variable, uint32_t count);

/* May other workers bring what this one has not brought yet? Then the trainer
 * waits for all weights before it begins a step, and skips it if the gate says
 * that it was overtaken. */
bool ps_exchange_may_be_overtaken(const ps_exchange *x); /* any thread */

/* Trainer, instead of contributions to `clock`: nothing is sent, the weights of
 * the next clock are asked for. False: go home. */
bool ps_exchange_skip(ps_exchange *x, uint64_t clock);

/* Any thread. */
ps_exchange_stats ps_exchange_get_stats(ps_exchange *x);

#endif
