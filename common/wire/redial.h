/* SPDX-License-Identifier: Apache-2.0 */
/* redial.h - opens a stream of an exchange again after its connection broke; fails the exchange if
 * the stream was refused. Loop's thread.
 *
 * The pause before each attempt grows, until an answer comes.
 */
#ifndef PS_COMMON_WIRE_REDIAL_H
#define PS_COMMON_WIRE_REDIAL_H

#include "common/rpc/client.h"
#include "common/train/gate.h"

typedef struct ps_redial {
    ps_loop *loop;
    ps_gate *gate;
    ps_timer retry;   /* fires `again` */
    int64_t pause_us; /* before the next attempt */
} ps_redial;

/* Initialises it; keeps all pointers. `again` is to open the stream; it is the `fire` of a timer,
 * so it does nothing if ok is false. `loop` NULL: both ends are in this process, where no
 * connection can break, so every end of a stream fails the exchange. */
void ps_redial_init(ps_redial *redial, ps_loop *loop, ps_gate *gate,
                    void (*again)(ps_event *self, bool ok));

/* Cancels a retry: `again` is not called any more. */
void ps_redial_stop(ps_redial *redial);

/* Handles the end of a stream that this side did not end. `what` is the stream and `who` the other
 * end, for messages. Starts the pause, or fails the gate with the refusal; does nothing if the gate
 * is closed already. */
void ps_redial_ended(ps_redial *redial, const char *what, const char *who, const ps_error *error);

/* Notes that an answer came: the next pause is the shortest one. */
void ps_redial_works(ps_redial *redial);

#endif
