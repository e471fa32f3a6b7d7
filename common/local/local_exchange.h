/* SPDX-License-Identifier: Apache-2.0 */
/* local_exchange.h - the exchange with parameter servers in the same process.
 *
 * The worker's own thread does all of it: a final gradient is encoded by the
 * job's codecs and pushed at once; a wait for weights fetches what there is and
 * decodes it into the worker's block, and sleeps only when there is no more. So
 * every bit is as it would be over the network. Bytes that count are those of
 * encodings and their heads.
 */
#ifndef PS_COMMON_LOCAL_LOCAL_EXCHANGE_H
#define PS_COMMON_LOCAL_LOCAL_EXCHANGE_H

#include "common/base/buf.h"
#include "common/local/local_servers.h"
#include "common/local/turns.h"
#include "common/train/exchange.h"

/* All pointers are kept; of grad a reference is taken. */
typedef struct ps_local_exchange_conf {
    const ps_plan *plan;
    uint32_t rank;
    ps_local_servers *servers;
    ps_turns *turns;               /* (optional) NULL: all workers compute at once */
    const ps_placement *placement; /* kept */
    float *weights;                /* (param_count), of clock 0 */
    ps_buf *grad;                  /* param_count floats */
} ps_local_exchange_conf;

ps_exchange *ps_local_exchange_create(const ps_local_exchange_conf *conf);
void ps_local_exchange_destroy(ps_exchange *exchange); /* the trainer is gone; NULL is allowed */

/* Bytes that error feedback keeps. */
size_t ps_local_exchange_feedback(const ps_exchange *exchange);

/* The training thread's last act with it: its turn is given back. */
void ps_local_exchange_leave(ps_exchange *exchange);

#endif
