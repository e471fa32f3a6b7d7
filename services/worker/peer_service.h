/* SPDX-License-Identifier: Apache-2.0 */
/* peer_service.h - PeerService: the streams of other workers into this one's exchange.
 *
 * Each other worker has at most one stream; a newer one takes the place of the older.
 * A message is read when the one before has been taken: so a worker costs one message of
 * at most 1 MiB beside what the exchange keeps. Loop's thread.
 */
#ifndef PS_SERVICES_WORKER_PEER_SERVICE_H
#define PS_SERVICES_WORKER_PEER_SERVICE_H

#include "services/worker/peer_exchange.h"

typedef struct ps_peers ps_peers;

ps_peers *ps_peers_create(void);
void ps_peers_destroy(ps_peers *peers); /* closed; NULL is allowed */

/* The service; `peers` is its state. Calls are refused until open. */
ps_service ps_peers_service(ps_peers *peers);

/* Takes messages for an exchange of the session, which was made with ps_peers_taken and
 * `peers`. Until close, which ends every stream with ABORTED. Both are kept. */
void ps_peers_open(ps_peers *peers, const ps_session *session, ps_peer_exchange *exchange);
void ps_peers_close(ps_peers *peers, const char *why); /* closed before: nothing */

/* Of ps_peer_exchange_conf; arg is a ps_peers. */
void ps_peers_taken(void *arg, uint32_t from, const ps_status *st);

#endif
