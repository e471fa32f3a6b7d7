/* SPDX-License-Identifier: Apache-2.0 */
/* wire_client.h - the exchange through parameter servers: a worker's side of the data plane.
 *
 * One connection (a push and a pull stream) to each parameter server that holds
 * slices. The trainer says which gradients are final; the connections send them while
 * backpropagation still runs and decode weights straight into the parameter
 * block. A contribution stays in the gradient block until every server has
 * acknowledged it, so a broken stream is opened again and the contribution sent
 * again; servers count it once.
 *
 * What is below is for the loop's thread; the trainer's side is
 * common/train/exchange.h.
 */
#ifndef PS_COMMON_WIRE_WIRE_CLIENT_H
#define PS_COMMON_WIRE_WIRE_CLIENT_H

#include "common/base/buf.h"
#include "common/node/node.h"
#include "common/train/exchange.h"

typedef struct ps_wire_client_conf {
    ps_loop *loop;
    const ps_session *session; /* kept */
    uint64_t incarnation;
    float *weights; /* (param_count), of clock 0; kept: written by the loop's thread */
    ps_buf *grad;   /* param_count floats; a reference is taken */
} ps_wire_client_conf;

ps_exchange *ps_wire_client_create(const ps_wire_client_conf *conf);
void ps_wire_client_start(ps_exchange *exchange); /* opens the streams */

/* Ends all streams; the trainer must be gone. Fires `done`, then it is freed. */
void ps_wire_client_stop(ps_exchange *exchange, ps_event *done);

#endif
