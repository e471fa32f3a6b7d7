/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_txn.h - a transaction of etcd while it is collected: puts and deletions, on the condition
 * that a key was created by a certain revision. */
#ifndef PS_COORDINATOR_ETCD_TXN_H
#define PS_COORDINATOR_ETCD_TXN_H

#include "services/coordinator/io/etcd.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ps_etcd_txn ps_etcd_txn;

ps_etcd_txn *ps_etcd_txn_create(void);
void ps_etcd_txn_destroy(ps_etcd_txn *txn); /* NULL is allowed */

/* Drops all operations. */
void ps_etcd_txn_clear(ps_etcd_txn *txn);

/* Adds a put of a packed message; replaces an earlier put of this key. */
void ps_etcd_txn_put(ps_etcd_txn *txn, const char *key, const ProtobufCMessage *message);
void ps_etcd_txn_put_bytes(ps_etcd_txn *txn, const char *key, const void *bytes, size_t n,
                           int64_t lease);

/* Adds the deletion of all keys from `key` up to, but not including, `end`; "": only `key`. */
void ps_etcd_txn_delete(ps_etcd_txn *txn, const char *key, const char *end);

/* Commits the operations if the create revision of `key` is `revision` (0: there is no such key).
 * *is_done becomes false if it is another; nothing is stored then. RESOURCE_EXHAUSTED: more
 * operations or bytes than etcd takes. */
PS_MUST_USE ps_status ps_etcd_txn_commit(ps_etcd_txn *txn, ps_etcd *etcd, const char *key,
                                         int64_t revision, int64_t deadline_us, bool *is_done,
                                         int64_t *at_revision);

#endif
