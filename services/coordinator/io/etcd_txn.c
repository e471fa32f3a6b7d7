/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_txn.c - see etcd_txn.h. */
#include "services/coordinator/io/etcd_txn.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct op {
    char key[PS_ETCD_KEY_MAX], end[PS_ETCD_KEY_MAX];
    uint8_t *bytes; /* NULL: a deletion */
    size_t n;
    int64_t lease;
} op;

struct ps_etcd_txn {
    op ops[PS_ETCD_OPS_MAX];
    size_t count;
    size_t dropped; /* operations that did not fit: the commit then fails */
};

ps_etcd_txn *ps_etcd_txn_create(void)
{
    return ps_xcalloc(1, sizeof(ps_etcd_txn));
}

void ps_etcd_txn_clear(ps_etcd_txn *txn)
{
    for (size_t i = 0; i < txn->count; i++) {
        free(txn->ops[i].bytes);
    }
    txn->count = txn->dropped = 0;
}

void ps_etcd_txn_destroy(ps_etcd_txn *txn)
{
    if (txn) {
        ps_etcd_txn_clear(txn);
        free(txn);
    }
}

/* Returns the place of an earlier operation on this key, or a new place. NULL: PS_ETCD_OPS_MAX are in
 * use. etcd refuses a transaction with two puts of one key. */
static op *op_for(ps_etcd_txn *txn, const char *key, bool is_put)
{
    op *o;

    for (size_t i = 0; is_put && i < txn->count; i++) {
        o = &txn->ops[i];
        if (o->bytes && strcmp(o->key, key) == 0) {
            free(o->bytes);
            return o;
        }
    }
    if (txn->count == PS_ETCD_OPS_MAX) {
        txn->dropped++;
        return NULL;
    }
    o = &txn->ops[txn->count++];
    *o = (op){0};
    memcpy(o->key, key, strlen(key) + 1);
    return o;
}

static void put(ps_etcd_txn *txn, const char *key, uint8_t *bytes, size_t n, int64_t lease)
{
    op *o = op_for(txn, key, true);

    if (!o) {
        free(bytes);
        return;
    }
    o->bytes = bytes;
    o->n = n;
    o->lease = lease;
}

void ps_etcd_txn_put(ps_etcd_txn *txn, const char *key, const ProtobufCMessage *message)
{
    uint8_t *bytes = ps_xmalloc(protobuf_c_message_get_packed_size(message) + 1);

    put(txn, key, bytes, protobuf_c_message_pack(message, bytes), 0);
}

void ps_etcd_txn_put_bytes(ps_etcd_txn *txn, const char *key, const void *bytes, size_t n,
                           int64_t lease)
{
    uint8_t *copy = ps_xmalloc(n + 1);

    memcpy(copy, bytes, n);
    put(txn, key, copy, n, lease);
}

void ps_etcd_txn_delete(ps_etcd_txn *txn, const char *key, const char *end)
{
    op *o = op_for(txn, key, false);

    if (o) {
        memcpy(o->end, end, strlen(end) + 1);
    }
}

static ProtobufCBinaryData text_of(char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* The messages of one commit. */
typedef struct request {
    Etcdserverpb__TxnRequest txn;
    Etcdserverpb__Compare fence, *fences[1];
    Etcdserverpb__RequestOp ops[PS_ETCD_OPS_MAX], *list[PS_ETCD_OPS_MAX];
    Etcdserverpb__PutRequest puts[PS_ETCD_OPS_MAX];
    Etcdserverpb__DeleteRangeRequest deletes[PS_ETCD_OPS_MAX];
} request;

static void fill_op(request *q, size_t i, op *o)
{
    etcdserverpb__request_op__init(&q->ops[i]);
    q->list[i] = &q->ops[i];
    if (o->bytes) {
        etcdserverpb__put_request__init(&q->puts[i]);
        q->puts[i].key = text_of(o->key);
        q->puts[i].value = (ProtobufCBinaryData){o->n, o->bytes};
        q->puts[i].lease = o->lease;
        q->ops[i].request_put = &q->puts[i];
        q->ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        return;
    }
    etcdserverpb__delete_range_request__init(&q->deletes[i]);
    q->deletes[i].key = text_of(o->key);
    q->deletes[i].range_end = text_of(o->end);
    q->ops[i].request_delete_range = &q->deletes[i];
    q->ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
}

static void fill(request *q, ps_etcd_txn *txn, char *key, int64_t revision)
{
    etcdserverpb__txn_request__init(&q->txn);
    etcdserverpb__compare__init(&q->fence);
    q->fence.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    q->fence.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    q->fence.key = text_of(key);
    q->fence.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    q->fence.create_revision = revision;
    q->fences[0] = &q->fence;
    q->txn.compare = q->fences;
    q->txn.n_compare = 1;
    q->txn.success = q->list;
    q->txn.n_success = txn->count;
    for (size_t i = 0; i < txn->count; i++) {
        fill_op(q, i, &txn->ops[i]);
    }
}

typedef struct answer {
    bool succeeded;
    int64_t revision;
} answer;

static void take(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__TxnResponse *r = (const void *)reply;

    *(answer *)arg = (answer){r->succeeded, r->header ? r->header->revision : 0};
}

ps_status ps_etcd_txn_commit(ps_etcd_txn *txn, ps_etcd *etcd, const char *key, int64_t revision,
                             int64_t deadline_us, bool *is_done, int64_t *at_revision)
{
    char fence[PS_ETCD_KEY_MAX];
    request *q;
    answer a = {0};
    size_t bytes;
    ps_status st;

    if (txn->dropped > 0) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "%zu operations; etcd takes %d in a transaction",
                       txn->count + txn->dropped, PS_ETCD_OPS_MAX);
    }
    q = ps_xmalloc(sizeof *q);
    memcpy(fence, key, strlen(key) + 1);
    fill(q, txn, fence, revision);
    bytes = etcdserverpb__txn_request__get_packed_size(&q->txn);
    st = bytes <= PS_ETCD_REQUEST_MAX
             ? ps_etcd_call(etcd, &etcdserverpb__kv__descriptor, "Txn", &q->txn.base, deadline_us,
                            take, &a)
             : ps_fail(PS_RESOURCE_EXHAUSTED, "%zu bytes; etcd takes %d at once", bytes,
                       PS_ETCD_REQUEST_MAX);
    free(q);
    if (ps_is_ok(&st)) {
        *is_done = a.succeeded;
        *at_revision = a.revision;
    }
    return st;
}
