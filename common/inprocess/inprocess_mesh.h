/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_mesh.h - the exchange among workers that are threads of one process.
 *
 * Each worker's thread runs its own machine (common/train/mesh_worker.h): when its contributions
 * are final, and in each wait for weights, in which it takes the packets of its inbox. Other
 * workers put packets there; they are shared, not copied. The bits are those of the exchange over a
 * network. Traffic is counted as the bytes of packets and their heads.
 */
#ifndef PS_COMMON_INPROCESS_INPROCESS_MESH_H
#define PS_COMMON_INPROCESS_INPROCESS_MESH_H

#include "common/base/buf.h"
#include "common/inprocess/turns.h"
#include "common/train/exchange.h"
#include "common/train/mesh_worker.h"

/* The inboxes of the workers of a job. */
typedef struct ps_inprocess_mail ps_inprocess_mail;

/* Creates the inboxes. */
ps_inprocess_mail *ps_inprocess_mail_create(uint32_t workers);
/* Frees the inboxes; all exchanges must have been destroyed. NULL is allowed. */
void ps_inprocess_mail_destroy(ps_inprocess_mail *mail);

/* All pointers are kept. The exchange takes a reference to `grad` of its own. */
typedef struct ps_inprocess_mesh_conf {
    const ps_plan *plan;
    uint32_t rank;
    ps_inprocess_mail *mail;
    ps_turns *turns; /* (optional) NULL: all workers compute at the same time */
    float *weights;  /* (param_count) weights of clock 0; the exchange updates them */
    ps_buf *grad;    /* param_count floats */
} ps_inprocess_mesh_conf;

/* Creates a worker's exchange. Fails with RESOURCE_EXHAUSTED if there is no memory for its blocks.
 */
PS_MUST_USE ps_status ps_inprocess_mesh_create(const ps_inprocess_mesh_conf *conf,
                                               ps_exchange **out);
/* Frees the exchange, after its trainer. */
void ps_inprocess_mesh_destroy(ps_exchange *exchange);

/* Returns the bytes of memory that the worker's machine has: blocks, sum, and the optimizer's
 * state. */
size_t ps_inprocess_mesh_memory(const ps_exchange *exchange);

/* Gives back the turn that the training thread of this exchange has. That thread calls it as its
 * last act. */
void ps_inprocess_mesh_leave(ps_exchange *exchange);

#endif
