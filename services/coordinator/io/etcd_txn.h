/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_txn.h - collects the puts and deletions of a transaction of etcd, and commits them under
 * conditions.
 *
 * A call of etcd that gets no answer is repeated, and the member that did not answer may carry out
 * the first call later. The conditions keep such a call from changing anything (ps_etcd_order). */
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

/* Add a put of a packed message, or of bytes under a lease (0: none); replace an earlier put of
 * this key. */
void ps_etcd_txn_put(ps_etcd_txn *txn, const char *key, const ProtobufCMessage *message);
void ps_etcd_txn_put_bytes(ps_etcd_txn *txn, const char *key, const void *bytes, size_t n,
                           int64_t lease);

/* Adds the deletion of all keys from `key` up to, but not including, `end`; "": only `key`. */
void ps_etcd_txn_delete(ps_etcd_txn *txn, const char *key, const char *end);

/* A condition that puts the transactions of one writer in order. Each transaction puts a mark of
 * its own as the value of `key`, if `key` was last put at `revision`. So etcd carries out no
 * transaction twice, and none after a later one. If a transaction is refused, the mark shows
 * whether an earlier call of the same transaction was carried out. */
typedef struct ps_etcd_order {
    const char *key;
    const char *mark; /* used by no other transaction */
    /* 0: the key does not exist; after a commit the revision of that transaction */
    int64_t revision;
} ps_etcd_order;

/* Commits the operations if the create revision of `key` is `revision` (0: the key does not exist)
 * and, unless `order` is NULL, if the condition `order` holds. If a condition does not hold,
 * nothing is stored and *is_done becomes false, unless `order` shows that an earlier call of this
 * transaction was carried out. RESOURCE_EXHAUSTED: more operations or bytes than etcd takes. */
PS_MUST_USE ps_status ps_etcd_txn_commit(ps_etcd_txn *txn, ps_etcd *etcd, const char *key,
                                         int64_t revision, ps_etcd_order *order,
                                         int64_t deadline_us, bool *is_done);

#endif
