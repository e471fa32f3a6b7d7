/* SPDX-License-Identifier: Apache-2.0 */
/* peer_service.h - PeerService: receives the streams of peers for the ranks of this process.
 *
 * There is at most one stream for each pair of ranks; a newer one replaces the older. The next
 * message of a stream is read when the exchange has taken the one before. So a peer costs at most
 * one message of 1 MiB, beside what the exchange keeps. Loop's thread.
 */
#ifndef PS_SERVICES_WORKER_PEER_SERVICE_H
#define PS_SERVICES_WORKER_PEER_SERVICE_H

#include "services/worker/mesh_exchange.h"

typedef struct ps_peers ps_peers;

ps_peers *ps_peers_create(void);

/* Frees the service; all receivers must have been removed. NULL is allowed. */
void ps_peers_destroy(ps_peers *peers);

/* Returns the service for ps_server_start. A call for a rank whose receiver is not open is
 * refused. */
ps_service ps_peers_service(ps_peers *peers);

/* The streams of all peers to one rank of this process. */
typedef struct ps_peer_receiver ps_peer_receiver;

/* Creates the receiver of the session's rank. The session is kept until ps_peers_remove. */
ps_peer_receiver *ps_peer_receiver_create(const ps_session *session);

/* Opens the receiver: from now on streams to its rank are accepted, and their messages are given to
 * the exchange. The exchange's ps_mesh_exchange_conf must have ps_peers_taken, with this receiver
 * as `arg`. Keeps the exchange. */
void ps_peers_open(ps_peers *peers, ps_peer_receiver *receiver, ps_mesh_exchange *exchange);

/* Ends every stream of the receiver with ABORTED and the text `why`, and frees the receiver. NULL,
 * and one that was never opened, are allowed. */
void ps_peers_remove(ps_peers *peers, ps_peer_receiver *receiver, const char *why);

/* Reads the next message from worker `from`, because the exchange has taken the one before; if it
 * was refused (*st), ends the stream. It is the `taken` of ps_mesh_exchange_conf; `arg` is the
 * ps_peer_receiver. */
void ps_peers_taken(void *arg, uint32_t from, const ps_status *st);

#endif
