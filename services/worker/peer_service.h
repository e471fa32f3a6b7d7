/* SPDX-License-Identifier: Apache-2.0 */
/* peer_service.h - PeerService: the streams of other ranks into the exchanges of this process's
 * ranks.
 *
 * Each pair of ranks has at most one stream; a newer one replaces the older. A message is read
 * when the one before has been taken: so a sender costs one message of at most 1 MiB beside what
 * the exchange keeps. Loop's thread.
 */
#ifndef PS_SERVICES_WORKER_PEER_SERVICE_H
#define PS_SERVICES_WORKER_PEER_SERVICE_H

#include "services/worker/mesh_exchange.h"

typedef struct ps_peers ps_peers;

ps_peers *ps_peers_create(void);
void ps_peers_destroy(ps_peers *peers); /* without receivers; NULL is allowed */

/* The service; `peers` is its state. Calls are refused while no receiver is open. */
ps_service ps_peers_service(ps_peers *peers);

/* What other ranks say to one rank of this process. */
typedef struct ps_peer_receiver ps_peer_receiver;

/* Creates the receiver of the session's rank. The session is kept until ps_peers_remove. */
ps_peer_receiver *ps_peer_receiver_create(const ps_session *session);

/* Takes messages for the rank from now on. The exchange was made with ps_peers_taken and the
 * receiver; it is kept. */
void ps_peers_open(ps_peers *peers, ps_peer_receiver *receiver, ps_mesh_exchange *exchange);

/* Ends every stream of the receiver with ABORTED and frees it. NULL, and one that was never opened,
 * are allowed. */
void ps_peers_remove(ps_peers *peers, ps_peer_receiver *receiver, const char *why);

/* The `taken` of ps_mesh_exchange_conf; arg is the ps_peer_receiver. */
void ps_peers_taken(void *arg, uint32_t from, const ps_status *st);

#endif
