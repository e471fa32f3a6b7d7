/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess_mesh.h - the exchange among workers that are threads of one process.
 *
 * Each worker's own thread works its machine (common/train/mesh_worker.h): when its
 * contributions are there, and in each wait for weights, where it takes what the others
 * have put into its inbox. Packets are shared, not copied; so every bit is as it would be
 * over the network. Bytes that count are those of packets and their heads.
 */
#ifndef PS_COMMON_INPROCESS_INPROCESS_MESH_H
#define PS_COMMON_INPROCESS_INPROCESS_MESH_H

#include "common/base/buf.h"
#include "common/inprocess/turns.h"
#include "common/train/exchange.h"
#include "common/train/mesh_worker.h"

/* What goes between the workers of a job. */
typedef struct ps_inprocess_mail ps_inprocess_mail;

ps_inprocess_mail *ps_inprocess_mail_create(uint32_t workers);
void ps_inprocess_mail_destroy(ps_inprocess_mail *mail); /* no worker is left; NULL is allowed */

/* All pointers are kept; of grad a reference is taken. */
typedef struct ps_inprocess_mesh_conf {
    const ps_plan *plan;
    uint32_t rank;
    ps_inprocess_mail *mail;
    ps_turns *turns; /* (optional) NULL: all workers compute at once */
    float *weights;  /* (param_count), of clock 0 */
    ps_buf *grad;    /* param_count floats */
} ps_inprocess_mesh_conf;

/* RESOURCE_EXHAUSTED: no memory for so many blocks. */
PS_MUST_USE ps_status ps_inprocess_mesh_create(const ps_inprocess_mesh_conf *conf,
                                               ps_exchange **out);
void ps_inprocess_mesh_destroy(ps_exchange *exchange); /* the trainer is gone */

/* Bytes of blocks, sum, and the rule's state. */
size_t ps_inprocess_mesh_memory(const ps_exchange *exchange);

/* The training thread's last act with it: its turn is given back. */
void ps_inprocess_mesh_leave(ps_exchange *exchange);

#endif
