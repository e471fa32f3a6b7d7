/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_txn.c - see etcd_txn.h. */
#include "services/coordinator/io/etcd_txn.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct op {
    char key[PS_ETCD_KEY_MAX], end[PS_ETCD_KEY_MAX];
    uint8_t *bytes; /* (n) the value of a put; NULL: a deletion (ps_etcd_txn_delete) */
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

/* Returns the place for an operation. If a put of this key is there, a further put replaces it, as
 * etcd refuses a transaction with two puts of one key; else the place is new. NULL:
 * PS_ETCD_OPS_MAX places are in use. */
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
    Etcdserverpb__Compare conditions[2], *listed[2];
    Etcdserverpb__RequestOp ops[PS_ETCD_OPS_MAX], *list[PS_ETCD_OPS_MAX];
    Etcdserverpb__PutRequest puts[PS_ETCD_OPS_MAX];
    Etcdserverpb__DeleteRangeRequest deletes[PS_ETCD_OPS_MAX];
    Etcdserverpb__RequestOp look, *looks[1]; /* reads the mark of the order if a condition fails */
    Etcdserverpb__RangeRequest mark;
    char key[PS_ETCD_KEY_MAX], order_key[PS_ETCD_KEY_MAX];
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

static Etcdserverpb__Compare *add_condition(request *q, char *key)
{
    Etcdserverpb__Compare *c = &q->conditions[q->txn.n_compare];

    etcdserverpb__compare__init(c);
    c->result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    c->key = text_of(key);
    q->listed[q->txn.n_compare++] = c;
    return c;
}

static void fill(request *q, ps_etcd_txn *txn, const char *key, int64_t revision)
{
    Etcdserverpb__Compare *fence;

    etcdserverpb__txn_request__init(&q->txn);
    q->txn.compare = q->listed;
    memcpy(q->key, key, strlen(key) + 1);
    fence = add_condition(q, q->key);
    fence->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    fence->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    fence->create_revision = revision;
    q->txn.success = q->list;
    q->txn.n_success = txn->count;
    for (size_t i = 0; i < txn->count; i++) {
        fill_op(q, i, &txn->ops[i]);
    }
}

static void fill_order(request *q, const ps_etcd_order *order)
{
    Etcdserverpb__Compare *last;

    memcpy(q->order_key, order->key, strlen(order->key) + 1);
    last = add_condition(q, q->order_key);
    last->target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    last->target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    last->mod_revision = order->revision;
    etcdserverpb__range_request__init(&q->mark);
    q->mark.key = text_of(q->order_key);
    etcdserverpb__request_op__init(&q->look);
    q->look.request_range = &q->mark;
    q->look.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    q->looks[0] = &q->look;
    q->txn.failure = q->looks;
    q->txn.n_failure = 1;
}

typedef struct answer {
    const ps_etcd_order *order; /* NULL: the commit has none */
    bool is_done;
    int64_t revision; /* revision of the transaction that was committed; 0: not known */
} answer;

/* Returns the key of `order` as the answer to a refused commit shows it, if its value is the mark
 * of this transaction; else NULL. */
static const Etcdserverpb__KeyValue *marked(const ps_etcd_order *order,
                                            const Etcdserverpb__TxnResponse *r)
{
    const Etcdserverpb__RangeResponse *found =
        order && r->n_responses == 1 &&
                r->responses[0]->response_case == ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
            ? r->responses[0]->response_range
            : NULL;
    const Etcdserverpb__KeyValue *kv = found && found->n_kvs == 1 ? found->kvs[0] : NULL;

    return kv && kv->value.len == strlen(order->mark) &&
                   memcmp(kv->value.data, order->mark, kv->value.len) == 0
               ? kv
               : NULL;
}

static void take(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__TxnResponse *r = (const void *)reply;
    answer *a = arg;

    if (r->succeeded) {
        a->is_done = true;
        a->revision = r->header ? r->header->revision : 0;
    } else {
        const Etcdserverpb__KeyValue *kv = marked(a->order, r);

        /* The mark is there if an earlier call, whose answer was lost, has committed. */
        a->is_done = kv != NULL;
        a->revision = kv ? kv->mod_revision : 0;
    }
}

ps_status ps_etcd_txn_commit(ps_etcd_txn *txn, ps_etcd *etcd, const char *key, int64_t revision,
                             ps_etcd_order *order, int64_t deadline_us, bool *is_done)
{
    answer a = {.order = order};
    request *q;
    size_t bytes;
    ps_status st;

    if (order) {
        ps_etcd_txn_put_bytes(txn, order->key, order->mark, strlen(order->mark), 0);
    }
    if (txn->dropped > 0) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "%zu operations; etcd takes %d in a transaction",
                       txn->count + txn->dropped, PS_ETCD_OPS_MAX);
    }
    q = ps_xmalloc(sizeof *q);
    fill(q, txn, key, revision);
    if (order) {
        fill_order(q, order);
    }
    bytes = etcdserverpb__txn_request__get_packed_size(&q->txn);
    st = bytes <= PS_ETCD_REQUEST_MAX
             ? ps_etcd_call(etcd, &etcdserverpb__kv__descriptor, "Txn", &q->txn.base, deadline_us,
                            take, &a)
             : ps_fail(PS_RESOURCE_EXHAUSTED, "%zu bytes; etcd takes %d at once", bytes,
                       PS_ETCD_REQUEST_MAX);
    free(q);
    if (ps_is_ok(&st)) {
        *is_done = a.is_done;
        if (order && a.is_done) {
            order->revision = a.revision;
        }
    }
    return st;
}
