/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_txn.h - a transaction of etcd while it is collected: puts and deletions, on conditions.
 *
 * A call of etcd that gets no answer is made again, and the member that was silent may carry the
 * first call out later. The conditions keep such a call from changing anything (ps_etcd_order). */
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

/* A condition that puts the transactions of one writer in order. Each of them puts a mark of its
 * own as the value of `key`, if this key was last put at `revision`. So etcd carries out no
 * transaction twice, and none after a later one. A refusal shows by the mark whether an earlier
 * call of the same transaction was carried out. */
typedef struct ps_etcd_order {
    const char *key;
    const char *mark; /* no other transaction's */
    int64_t revision; /* 0: there is no such key; becomes that of this transaction */
} ps_etcd_order;

/* Commits the operations if the create revision of `key` is `revision` (0: there is no such key)
 * and, unless `order` is NULL, if `order` holds. *is_done becomes false if a condition does not
 * hold; nothing is stored then. RESOURCE_EXHAUSTED: more operations or bytes than etcd takes. */
PS_MUST_USE ps_status ps_etcd_txn_commit(ps_etcd_txn *txn, ps_etcd *etcd, const char *key,
                                         int64_t revision, ps_etcd_order *order,
                                         int64_t deadline_us, bool *is_done);

#endif
