/* SPDX-License-Identifier: Apache-2.0 */
/* redial.h - opens a stream of an exchange again after its connection broke. If the stream was
 * refused, fails the exchange. Loop's thread.
 *
 * The pause doubles with each attempt, up to a bound, until an answer comes. */
#ifndef PS_COMMON_WIRE_REDIAL_H
#define PS_COMMON_WIRE_REDIAL_H

#include "common/rpc/client.h"
#include "common/train/gate.h"

typedef struct ps_redial {
    ps_loop *loop;
    ps_gate *gate;
    ps_timer retry;   /* when it fires, it calls the function that opens the stream */
    int64_t pause_us; /* microseconds before the next attempt */
} ps_redial;

/* Initialises the struct; keeps all pointers. `again` opens the stream; it is called as the event
 * of a timer, and must do nothing if ok is false. `loop` NULL: both ends are in this process, so no
 * connection can break, and every end of a stream fails the exchange. */
void ps_redial_init(ps_redial *redial, ps_loop *loop, ps_gate *gate,
                    void (*again)(ps_event *self, bool ok));

/* Cancels a retry that is due: `again` will not be called. */
void ps_redial_stop(ps_redial *redial);

/* Handles the end of a stream that this side did not end. `what` names the stream and `who` the
 * other end, in messages to users. Begins the pause before the next attempt, or fails the gate if
 * the stream was refused. Does nothing if the gate was stopped or has failed. */
void ps_redial_ended(ps_redial *redial, const char *what, const char *who, const ps_error *error);

/* Notes that an answer has come: the next pause will be the shortest one. */
void ps_redial_works(ps_redial *redial);

#endif
