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

#include "services/worker/peer_exchange.h"

typedef struct ps_peers ps_peers;

ps_peers *ps_peers_create(void);
void ps_peers_destroy(ps_peers *peers); /* without inboxes; NULL is allowed */

/* The service; `peers` is its state. Calls are refused while no inbox is open. */
ps_service ps_peers_service(ps_peers *peers);

/* What other ranks say to one rank of this process. */
typedef struct ps_peer_inbox ps_peer_inbox;

/* Creates the inbox of the session's rank. The session is kept until ps_peers_remove. */
ps_peer_inbox *ps_peer_inbox_create(const ps_session *session);

/* Takes messages for the rank from now on. The exchange was made with ps_peers_taken and the
 * inbox; it is kept. */
void ps_peers_open(ps_peers *peers, ps_peer_inbox *inbox, ps_peer_exchange *exchange);

/* Ends every stream of the inbox with ABORTED and frees it. NULL, and one that was never opened,
 * are allowed. */
void ps_peers_remove(ps_peers *peers, ps_peer_inbox *inbox, const char *why);

/* The `taken` of ps_peer_exchange_conf; arg is the ps_peer_inbox. */
void ps_peers_taken(void *arg, uint32_t from, const ps_status *st);

#endif
