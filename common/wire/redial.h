/* SPDX-License-Identifier: Apache-2.0 */
/* redial.h - what becomes of an exchange when one of its streams ends: a connection
 * that broke is had again after a pause, a refusal stands. Loop's thread.
 */
#ifndef PS_SERVICES_WORKER_REDIAL_H
#define PS_SERVICES_WORKER_REDIAL_H

#include "common/rpc/client.h"
#include "common/train/gate.h"

typedef struct ps_redial {
    ps_loop *loop;
    ps_gate *gate;
    ps_timer retry;   /* its fire opens the stream again */
    int64_t pause_us; /* the next one */
} ps_redial;

/* `again` is fired, with ok as of any timer. All pointers are kept. `loop` NULL: a stream that ends
 * is a failure, as nothing lies between both ends that could break. */
void ps_redial_init(ps_redial *redial, ps_loop *loop, ps_gate *gate,
                    void (*again)(ps_event *self, bool ok));
void ps_redial_stop(ps_redial *redial); /* `again` does not come any more */

/* The stream, `what` to `who`, has ended by itself. Nothing follows when nobody waits for it
 * any more. */
void ps_redial_ended(ps_redial *redial, const char *what, const char *who, const ps_error *error);

/* An answer came: pauses begin anew. */
void ps_redial_works(ps_redial *redial);

#endif
