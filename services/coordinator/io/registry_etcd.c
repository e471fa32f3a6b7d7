/* SPDX-License-Identifier: Apache-2.0 */
/* registry_etcd.c - see registry_etcd.h.
 *
 * Keys, behind the prefix; N is a job's number, S an event's sequence number, 16 hexadecimal digits
 * each, so that etcd sorts them as numbers:
 *
 *   meta       StoredMeta
 *   last       the number that was given last, as text
 *   order      the mark of the newest transaction (ps_etcd_order), as text
 *   spec/N     StoredSpec
 *   job/N      StoredJob
 *   event/N/S  WatchJobResponse
 */
#include "services/coordinator/io/registry_etcd.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/rpc/wire.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/etcd_txn.h"
#include "services/coordinator/io/registry_sqlite.h"

#include "psgd/registry/v1/stored.pb-c.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    /* most changes in a transaction; each takes up to 6 of PS_ETCD_OPS_MAX operations */
    CHANGES_MAX = 16,
    PAGE_MAX = 1024, /* most keys of one Range; fewer if the answer would be too long */
    LAYOUT = 1,      /* the one StoredMeta.version that this program reads and writes */
    NUMBER_DIGITS = 16
};

typedef struct etcd_registry {
    ps_registry base;
    ps_registry_etcd_conf conf;
    ps_registry *copy;   /* a registry of SQLite with what etcd has */
    ps_registry *reader; /* reads the copy, for etcd_open_reader; NULL: it was given away */
    int64_t seen;        /* revision up to which the copy has everything; 0: it is empty */
    uint64_t cluster;    /* id of the etcd cluster that the copy was read from */
    uint64_t id_key;     /* StoredMeta.id_key of the registry that the copy was read from */
    bool has_key;        /* id_key is known */
    const atomic_bool *is_stopping; /* if set, ps_registry_etcd_read ends early; NULL: never */
    ps_etcd_txn *txn;
    int64_t newest;    /* revision at which "order" was put last; 0: nothing was stored yet */
    uint64_t count;    /* transactions of this leadership, for their marks */
    unsigned depth;    /* number of calls of begin that no call of end has ended yet */
    ps_status failed;  /* the first failure since the outermost begin */
    uint64_t *numbers; /* (number_cap, number_count used): numbers of the jobs that etcd has;
                        * read_jobs removes all others from the copy */
    size_t number_count, number_cap;
} etcd_registry;

static const ps_registry_type etcd_type;

/* longest call to etcd of a coordinator that does not lead */
static const int64_t answer_us = 700000;

/* Returns the time of ps_clock_us until which a call to etcd may last: on a coordinator that leads,
 * until its leadership may end; else answer_us from now. */
static int64_t until_us(const etcd_registry *r)
{
    return r->conf.leadership != 0 ? r->conf.lasts_until_us(r->conf.arg)
                                   : ps_clock_us() + answer_us;
}

static etcd_registry *etcd_of(ps_registry *r)
{
    return PS_CONTAINER_OF(r, etcd_registry, base);
}

/* --- keys ---------------------------------------------------------------------- */

typedef char etcd_key[PS_ETCD_KEY_MAX];

static const char *key_of(const etcd_registry *r, etcd_key key, const char *name)
{
    snprintf(key, PS_ETCD_KEY_MAX, "%s%s", ps_etcd_prefix(r->conf.etcd), name);
    return key;
}

static const char *key_of_job(const etcd_registry *r, etcd_key key, const char *kind,
                              uint64_t number)
{
    snprintf(key, PS_ETCD_KEY_MAX, "%s%s/%016" PRIx64, ps_etcd_prefix(r->conf.etcd), kind, number);
    return key;
}

static const char *key_of_event(const etcd_registry *r, etcd_key key, uint64_t number,
                                uint64_t sequence)
{
    snprintf(key, PS_ETCD_KEY_MAX, "%sevent/%016" PRIx64 "/%016" PRIx64,
             ps_etcd_prefix(r->conf.etcd), number, sequence);
    return key;
}

/* --- changes ------------------------------------------------------------------- */

static void put_spec(etcd_registry *r, const ps_record *record, const char *request_id,
                     const char *content)
{
    Psgd__Registry__V1__StoredSpec stored = PSGD__REGISTRY__V1__STORED_SPEC__INIT;
    char last[24];
    etcd_key key;

    stored.number = record->number;
    stored.id = record->job->id;
    stored.request_id = (char *)request_id;
    stored.content = (char *)content;
    stored.spec = record->job->spec;
    ps_etcd_txn_put(r->txn, key_of_job(r, key, "spec", record->number), &stored.base);
    snprintf(last, sizeof last, "%" PRIu64, record->number);
    ps_etcd_txn_put_bytes(r->txn, key_of(r, key, "last"), last, strlen(last), 0);
}

static void put_job(etcd_registry *r, const ps_record *record)
{
    Psgd__Registry__V1__StoredJob stored = PSGD__REGISTRY__V1__STORED_JOB__INIT;
    Psgd__V1__Job bare = *record->job;
    etcd_key key;

    bare.spec = NULL;
    stored.outcome = record->outcome;
    stored.sequence = record->sequence;
    stored.job = &bare;
    ps_etcd_txn_put(r->txn, key_of_job(r, key, "job", record->number), &stored.base);
}

/* Puts an event, and deletes the older events that the copy has dropped because of it. */
static void put_event(etcd_registry *r, uint64_t number, const Psgd__V1__WatchJobResponse *event)
{
    uint64_t first = ps_sqlite_first_event(r->copy, number);
    etcd_key key, end;

    ps_etcd_txn_put(r->txn, key_of_event(r, key, number, event->sequence), &event->base);
    if (first > 1) {
        ps_etcd_txn_delete(r->txn, key_of_event(r, key, number, 0),
                           key_of_event(r, end, number, first));
    }
}

static ps_status etcd_begin(ps_registry *base)
{
    etcd_registry *r = etcd_of(base);
    ps_status st = ps_registry_begin(r->copy);

    if (ps_is_ok(&st) && r->depth++ == 0) {
        ps_etcd_txn_clear(r->txn);
        r->failed = ps_ok();
    }
    return st;
}

/* Stores the changes in etcd, if this coordinator still leads. If etcd refuses for that reason, or
 * is silent until the leadership may have ended, gives the leadership up and returns ABORTED. */
static ps_status commit(etcd_registry *r)
{
    etcd_key key, order_key;
    char mark[48];
    ps_etcd_order order = {key_of(r, order_key, "order"), mark, r->newest};
    bool is_done = false;
    ps_status st;

    key_of(r, key, PS_LEADER_KEY);
    snprintf(mark, sizeof mark, "%" PRId64 " %" PRIu64, r->conf.leadership, ++r->count);
    do {
        st = ps_etcd_txn_commit(r->txn, r->conf.etcd, key, r->conf.leadership, &order,
                                r->conf.lasts_until_us(r->conf.arg), &is_done);
    } while (st.code == PS_UNAVAILABLE && ps_clock_us() < r->conf.lasts_until_us(r->conf.arg));
    r->newest = order.revision;
    if (st.code == PS_UNAVAILABLE) {
        r->conf.lost(r->conf.arg, st.text);
        return ps_fail(PS_ABORTED, "%s", st.text);
    }
    if (ps_is_ok(&st) && !is_done) {
        st = ps_fail(PS_ABORTED, "etcd refused to store: another coordinator leads");
        r->conf.lost(r->conf.arg, st.text);
    }
    return st;
}

/* Ends a transaction level: the outermost one is stored in etcd, then in the copy. If the copy
 * cannot store what etcd has, the copy is of no use any more, and the leadership is given up. */
static ps_status etcd_end(ps_registry *base, const ps_status *result)
{
    etcd_registry *r = etcd_of(base);
    ps_status st, copied;

    if (ps_is_ok(&r->failed)) {
        r->failed = *result;
    }
    if (--r->depth > 0) {
        st = *result;
        copied = ps_registry_end(r->copy, &st);
        return ps_is_ok(&st) ? copied : st;
    }
    st = r->failed;
    if (ps_is_ok(&st)) {
        st = commit(r);
    }
    copied = ps_registry_end(r->copy, &st);
    if (ps_is_ok(&st) && !ps_is_ok(&copied)) {
        r->conf.lost(r->conf.arg, copied.text);
        return ps_fail(PS_ABORTED, "the copy of the registry: %s", PS_SHORT(copied.text, 80));
    }
    return st;
}

static void etcd_relax(ps_registry *base, bool relaxed)
{
    (void)base; /* no effect: etcd stores durably, the copy need not */
    (void)relaxed;
}

static void etcd_avoid(ps_registry *base, bool (*is_taken)(void *arg, const char *job_id),
                       void *arg)
{
    ps_registry_avoid(etcd_of(base)->copy, is_taken, arg);
}

static ps_status etcd_add(ps_registry *base, ps_record *record, const char *title,
                          const char *request_id, const char *content)
{
    etcd_registry *r = etcd_of(base);
    ps_status st = etcd_begin(base);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_registry_add(r->copy, record, title, request_id, content);
    if (ps_is_ok(&st)) {
        put_spec(r, record, request_id, content);
        put_job(r, record);
    }
    return etcd_end(base, &st);
}

static ps_status etcd_find_request(ps_registry *base, const char *request_id, char *job_id,
                                   size_t cap, char content[PS_CONTENT_HASH_BYTES])
{
    return ps_registry_find_request(etcd_of(base)->copy, request_id, job_id, cap, content);
}

static ps_status etcd_save(ps_registry *base, const ps_record *record,
                           const Psgd__V1__WatchJobResponse *event)
{
    etcd_registry *r = etcd_of(base);
    ps_status st = etcd_begin(base);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_registry_save(r->copy, record, event);
    if (ps_is_ok(&st)) {
        put_job(r, record);
    }
    if (ps_is_ok(&st) && event) {
        put_event(r, record->number, event);
    }
    return etcd_end(base, &st);
}

static ps_status etcd_put(ps_registry *base, ps_record *record, int64_t wall_us)
{
    (void)base;
    (void)record;
    (void)wall_us;
    return ps_fail(PS_UNIMPLEMENTED, "jobs are not read from their files into etcd");
}

static ps_status etcd_remove(ps_registry *base, const char *job_id)
{
    etcd_registry *r = etcd_of(base);
    ps_record record = {0};
    etcd_key key, end;
    ps_status st = etcd_begin(base);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_registry_load(r->copy, job_id, &record);
    if (ps_is_ok(&st)) {
        st = ps_registry_remove(r->copy, job_id);
    }
    if (ps_is_ok(&st)) {
        ps_etcd_txn_delete(r->txn, key_of_job(r, key, "spec", record.number), "");
        ps_etcd_txn_delete(r->txn, key_of_job(r, key, "job", record.number), "");
        ps_etcd_txn_delete(r->txn, key_of_event(r, key, record.number, 0),
                           key_of_event(r, end, record.number, UINT64_MAX));
    }
    ps_record_fini(&record);
    return etcd_end(base, &st);
}

/* --- reads --------------------------------------------------------------------- */

static ps_status etcd_load(ps_registry *base, const char *job_id, ps_record *out)
{
    return ps_registry_load(etcd_of(base)->copy, job_id, out);
}

static ps_status etcd_each(ps_registry *base, uint64_t before, uint32_t states, ps_registry_fn *fn,
                           void *arg)
{
    return ps_registry_each(etcd_of(base)->copy, before, states, fn, arg);
}

static ps_status etcd_next_event(ps_registry *base, uint64_t number, uint64_t sequence,
                                 Psgd__V1__WatchJobResponse **out)
{
    return ps_registry_next_event(etcd_of(base)->copy, number, sequence, out);
}

static ps_status etcd_open_reader(ps_registry *of, ps_registry **out)
{
    etcd_registry *r = etcd_of(of);

    assert(r->reader != NULL);
    *out = r->reader;
    r->reader = NULL;
    return ps_ok();
}

static void etcd_close(ps_registry *base)
{
    etcd_registry *r = etcd_of(base);

    ps_registry_close(r->reader);
    ps_registry_close(r->copy);
    ps_etcd_txn_destroy(r->txn);
    free(r->numbers);
    free(r);
}

static const ps_registry_type etcd_type = {
    .changes_max = CHANGES_MAX,
    .begin = etcd_begin,
    .end = etcd_end,
    .relax = etcd_relax,
    .avoid = etcd_avoid,
    .add = etcd_add,
    .find_request = etcd_find_request,
    .put = etcd_put,
    .save = etcd_save,
    .load = etcd_load,
    .remove = etcd_remove,
    .each = etcd_each,
    .next_event = etcd_next_event,
    .open_reader = etcd_open_reader,
    .close = etcd_close,
};

/* --- opening ------------------------------------------------------------------- */

/* A walk over the keys of one kind, page by page, at one revision. */
typedef struct walk {
    etcd_registry *r;
    ps_status (*take)(etcd_registry *r, uint64_t number, const ProtobufCMessage *message);
    const ProtobufCMessageDescriptor *type; /* NULL: keys only */
    etcd_key next, end;
    int64_t revision; /* revision of etcd at which all pages are read */
    int64_t since;    /* only keys that were put at a later revision; 0: all */
    size_t taken;     /* number of keys of the present page that were taken */
    bool more;        /* there are keys behind this page */
    ps_status status;
} walk;

/* Returns the job's number in a key, whose digits stand behind "prefix/kind/"; 0: the key is too
 * short. */
static uint64_t number_of(const walk *w, const ProtobufCBinaryData *key)
{
    size_t at = strlen(w->end); /* as long as "prefix/kind/" */
    char digits[NUMBER_DIGITS + 1] = "";

    if (key->len < at + NUMBER_DIGITS) {
        return 0;
    }
    memcpy(digits, key->data + at, NUMBER_DIGITS);
    return strtoull(digits, NULL, 16);
}

/* Unpacks a value and calls w->take for it; without w->type calls w->take with NULL. A damaged
 * value is logged and left out. */
static void take_value(walk *w, const Etcdserverpb__KeyValue *kv)
{
    ProtobufCMessage *message = NULL;
    ps_status st;

    if (!w->type) {
        w->status = w->take(w->r, number_of(w, &kv->key), NULL);
        return;
    }
    st = ps_wire_check(w->type, kv->value.data, kv->value.len);
    if (ps_is_ok(&st)) {
        message = protobuf_c_message_unpack(w->type, NULL, kv->value.len, kv->value.data);
    }
    if (message) {
        w->status = w->take(w->r, number_of(w, &kv->key), message);
    } else {
        ps_log(PS_LOG_ERROR, "registry", "the value of %.*s in etcd is damaged and left out",
               kv->key.len < PS_ETCD_KEY_MAX ? (int)kv->key.len : PS_ETCD_KEY_MAX,
               (const char *)kv->key.data);
    }
    protobuf_c_message_free_unpacked(message, NULL);
}

static void take_page(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__RangeResponse *page = (const void *)reply;
    walk *w = arg;

    w->more = page->more && page->n_kvs > 0;
    w->taken = page->n_kvs;
    for (size_t i = 0; i < page->n_kvs && ps_is_ok(&w->status); i++) {
        take_value(w, page->kvs[i]);
    }
    if (w->more) { /* the next page begins behind the last key of this one */
        const ProtobufCBinaryData *last = &page->kvs[page->n_kvs - 1]->key;

        if (last->len + 2 > sizeof w->next) {
            w->status = ps_fail(PS_DATA_LOSS, "a key in etcd of %zu bytes, which psgd did not put",
                                last->len);
            return;
        }
        memcpy(w->next, last->data, last->len);
        w->next[last->len] = '\x01'; /* as keys are text, none lies between */
        w->next[last->len + 1] = '\0';
    }
}

static ps_status range(walk *w, int64_t limit)
{
    Etcdserverpb__RangeRequest q = ETCDSERVERPB__RANGE_REQUEST__INIT;
    ps_status st;

    q.key = (ProtobufCBinaryData){strlen(w->next), (uint8_t *)w->next};
    q.range_end = (ProtobufCBinaryData){strlen(w->end), (uint8_t *)w->end};
    q.limit = limit;
    q.revision = w->revision;
    q.keys_only = w->type == NULL;
    q.min_mod_revision = w->since > 0 ? w->since + 1 : 0;
    st = ps_etcd_call(w->r->conf.etcd, &etcdserverpb__kv__descriptor, "Range", &q.base,
                      until_us(w->r), take_page, w);
    return ps_is_ok(&st) ? w->status : st;
}

/* Calls w.take for the values of all keys "prefix/kind/...", in the order of keys, page by page. */
static ps_status each_value(const char *kind, walk w)
{
    int64_t limit = PAGE_MAX;
    ps_status st = ps_ok();

    w.more = true;
    snprintf(w.next, sizeof w.next, "%s%s/", ps_etcd_prefix(w.r->conf.etcd), kind);
    /* '0' follows '/', so this is the first key after all of the kind. */
    snprintf(w.end, sizeof w.end, "%s%s0", ps_etcd_prefix(w.r->conf.etcd), kind);
    while (w.more && ps_is_ok(&st)) {
        st = w.r->is_stopping && atomic_load(w.r->is_stopping) ? ps_fail(PS_CANCELLED, "stopped")
                                                               : range(&w, limit);
        if (!ps_is_ok(&st) && ps_is_ok(&w.status) && limit > 1 &&
            st.code == PS_RESOURCE_EXHAUSTED) {
            limit /= 2; /* the page had more bytes than a message may have: asks for less */
            st = ps_ok();
        }
    }
    return st;
}

static ps_status take_spec(etcd_registry *r, uint64_t number, const ProtobufCMessage *message)
{
    const Psgd__Registry__V1__StoredSpec *stored = (const void *)message;
    Psgd__V1__Job job = PSGD__V1__JOB__INIT;
    ps_record record = {.number = number, .job = &job};

    if (stored->number != number || !stored->spec) {
        ps_log(PS_LOG_ERROR, "registry", "job %" PRIu64 " in etcd is damaged and left out", number);
        return ps_ok();
    }
    job.id = stored->id;
    job.spec = stored->spec;
    return ps_sqlite_insert(r->copy, &record, stored->request_id, stored->content);
}

static ps_status take_job(etcd_registry *r, uint64_t number, const ProtobufCMessage *message)
{
    const Psgd__Registry__V1__StoredJob *stored = (const void *)message;
    ps_record record = {.number = number,
                        .job = stored->job,
                        .outcome = stored->outcome,
                        .sequence = stored->sequence};

    return stored->job ? ps_registry_save(r->copy, &record, NULL) : ps_ok();
}

static ps_status take_event(etcd_registry *r, uint64_t number, const ProtobufCMessage *message)
{
    return ps_sqlite_insert_event(r->copy, number, (const void *)message);
}

/* Appends the number of a job that etcd has to r->numbers. */
static ps_status take_number(etcd_registry *r, uint64_t number, const ProtobufCMessage *message)
{
    (void)message;
    if (r->number_count == r->number_cap) {
        r->number_cap = 2 * r->number_cap + 64;
        r->numbers = ps_xrealloc(r->numbers, r->number_cap * sizeof *r->numbers);
    }
    r->numbers[r->number_count++] = number;
    return ps_ok();
}

/* What the keys "meta", "last" and "order" say. */
typedef struct known {
    int64_t revision;                     /* at which "order" was read */
    uint64_t cluster;                     /* id of etcd's cluster */
    int64_t newest;                       /* revision at which "order" was put last; 0: never */
    Psgd__Registry__V1__StoredMeta *meta; /* NULL: nothing was stored yet */
    uint64_t last;                        /* number of a job that was given last; 0: none */
} known;

static void take_meta(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__RangeResponse *r = (const void *)reply;
    known *k = arg;

    if (r->n_kvs == 1 && !k->meta) {
        k->meta = psgd__registry__v1__stored_meta__unpack(NULL, r->kvs[0]->value.len,
                                                          r->kvs[0]->value.data);
    }
}

static void take_last(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__RangeResponse *r = (const void *)reply;
    char text[24];

    if (r->n_kvs == 1 && r->kvs[0]->value.len < sizeof text) {
        memcpy(text, r->kvs[0]->value.data, r->kvs[0]->value.len);
        text[r->kvs[0]->value.len] = '\0';
        ((known *)arg)->last = strtoull(text, NULL, 10);
    }
}

static void take_order(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__RangeResponse *r = (const void *)reply;

    ((known *)arg)->newest = r->n_kvs == 1 ? r->kvs[0]->mod_revision : 0;
    ((known *)arg)->revision = r->header ? r->header->revision : 0;
    ((known *)arg)->cluster = r->header ? r->header->cluster_id : 0;
}

static ps_status get(etcd_registry *r, const char *name, ps_etcd_take_fn *take, known *k)
{
    Etcdserverpb__RangeRequest q = ETCDSERVERPB__RANGE_REQUEST__INIT;
    etcd_key key;

    key_of(r, key, name);
    q.key = (ProtobufCBinaryData){strlen(key), (uint8_t *)key};
    return ps_etcd_call(r->conf.etcd, &etcdserverpb__kv__descriptor, "Range", &q.base, until_us(r),
                        take, k);
}

/* Has the copy use the key that scrambles ids. If etcd has none yet, the leader draws one and
 * stores it. */
static ps_status take_key(etcd_registry *r, const known *k)
{
    Psgd__Registry__V1__StoredMeta meta = PSGD__REGISTRY__V1__STORED_META__INIT;
    etcd_key key;
    ps_status st;

    if (k->meta) {
        if (k->meta->version != LAYOUT) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "the registry in etcd has layout %u, this program knows %d",
                           k->meta->version, LAYOUT);
        }
        r->id_key = k->meta->id_key;
        r->has_key = true;
        return ps_sqlite_set_key(r->copy, r->id_key);
    }
    if (r->conf.leadership == 0) {
        return ps_ok(); /* the leader will store it */
    }
    meta.version = LAYOUT;
    if (getrandom(&meta.id_key, sizeof meta.id_key, 0) != sizeof meta.id_key) {
        return ps_fail_errno(errno, "draw a key");
    }
    ps_etcd_txn_clear(r->txn);
    ps_etcd_txn_put(r->txn, key_of(r, key, "meta"), &meta.base);
    st = commit(r);
    if (ps_is_ok(&st)) {
        r->id_key = meta.id_key;
        r->has_key = true;
        st = ps_sqlite_set_key(r->copy, r->id_key);
    }
    return st;
}

/* Reads the jobs that were stored since r->seen, at the revision of `k`, and removes from the copy
 * those that etcd no longer has. */
static ps_status read_jobs(etcd_registry *r, const known *k)
{
    const walk walks[] = {{.type = &psgd__registry__v1__stored_spec__descriptor, .take = take_spec},
                          {.type = &psgd__registry__v1__stored_job__descriptor, .take = take_job},
                          {.type = &psgd__v1__watch_job_response__descriptor, .take = take_event}};
    static const char *const kinds[] = {"spec", "job", "event"};
    walk keys = {.r = r, .take = take_number, .revision = k->revision, .status = ps_ok()};
    ps_status st = ps_ok();

    r->number_count = 0;
    if (r->seen > 0) {
        st = each_value("spec", keys);
    }
    if (ps_is_ok(&st) && r->seen > 0) {
        st = ps_sqlite_keep_only(r->copy, r->numbers, r->number_count);
    }
    for (size_t i = 0; i < sizeof walks / sizeof walks[0] && ps_is_ok(&st); i++) {
        walk w = walks[i];

        w.r = r;
        w.revision = k->revision;
        w.since = r->seen;
        w.status = ps_ok();
        st = each_value(kinds[i], w);
    }
    return st;
}

/* Checks that the copy was read from this registry, by k's order and meta: that etcd is not another
 * cluster, one that was restored from a backup, or one that was made anew with the same members. Of
 * the last two the revision is less at first; one that was made anew has another random key. */
static ps_status check_same(const etcd_registry *r, const known *k)
{
    bool has_other_key = r->has_key && (k->meta == NULL || k->meta->id_key != r->id_key);

    return r->seen > 0 && (k->cluster != r->cluster || k->revision < r->seen || has_other_key)
               ? ps_fail(PS_ABORTED, "etcd is another one than before, or was restored")
               : ps_ok();
}

/* Brings the copy up to date with etcd. The caller has begun a transaction of the copy. */
static ps_status fill(etcd_registry *r, known *k)
{
    ps_status st = get(r, "order", take_order, k);

    if (ps_is_ok(&st)) {
        st = get(r, "meta", take_meta, k);
    }
    if (ps_is_ok(&st)) {
        st = check_same(r, k);
    }
    r->newest = k->newest;
    if (ps_is_ok(&st)) {
        st = get(r, "last", take_last, k);
    }
    if (ps_is_ok(&st)) {
        st = take_key(r, k);
    }
    /* Each transaction puts "order", so no job has changed if that was not put after r->seen. */
    if (ps_is_ok(&st) && (k->newest == 0 || k->newest > r->seen)) {
        st = read_jobs(r, k);
    }
    if (ps_is_ok(&st) && k->last > 0) {
        st = ps_sqlite_set_last(r->copy, k->last);
    }
    psgd__registry__v1__stored_meta__free_unpacked(k->meta, NULL);
    return st;
}

/* Brings the copy up to date with etcd, in one transaction of the copy. */
static ps_status catch_up(etcd_registry *r)
{
    known k = {0};
    ps_status st = ps_registry_begin(r->copy), filled;

    if (!ps_is_ok(&st)) {
        return st;
    }
    filled = fill(r, &k);
    st = ps_registry_end(r->copy, &filled);
    if (ps_is_ok(&st)) {
        r->seen = k.revision;
        r->cluster = k.cluster;
    }
    return st;
}

/* Opens the copy and its reader in a folder, which is removed at once: the files stay as long as
 * they are open, so that nothing is left behind by a process that is killed. */
static ps_status open_copy(etcd_registry *r)
{
    char folder[800];
    ps_status st, removed;

    snprintf(folder, sizeof folder, "%.700s/psgd-coordinator-XXXXXX", r->conf.temp_dir);
    if (!mkdtemp(folder)) {
        return ps_fail_errno(errno, "make the folder %s", PS_PATH_SHOWN(folder));
    }
    st = ps_registry_open_sqlite(folder, &r->copy);
    if (ps_is_ok(&st)) {
        ps_registry_relax(r->copy, true);
        st = ps_registry_open_reader(r->copy, &r->reader);
    }
    removed = ps_dir_remove(folder);
    if (!ps_is_ok(&removed)) {
        ps_log(PS_LOG_WARN, "registry", "%s", removed.text);
    }
    return st;
}

ps_status ps_registry_etcd_follow(ps_etcd *etcd, const char *temp_dir,
                                  const atomic_bool *is_stopping, ps_registry **out)
{
    etcd_registry *r = ps_xcalloc(1, sizeof *r);
    ps_status st;

    r->base.type = &etcd_type;
    r->conf = (ps_registry_etcd_conf){.etcd = etcd, .temp_dir = temp_dir};
    r->is_stopping = is_stopping;
    r->txn = ps_etcd_txn_create();
    st = open_copy(r);
    if (ps_is_ok(&st)) {
        *out = &r->base;
    } else {
        ps_registry_close(&r->base);
    }
    return st;
}

ps_status ps_registry_etcd_read(ps_registry *base, int64_t *revision)
{
    ps_status st = catch_up(etcd_of(base));

    *revision = etcd_of(base)->newest;
    return st;
}

ps_status ps_registry_etcd_lead(ps_registry *base, const ps_registry_etcd_conf *conf)
{
    etcd_registry *r = etcd_of(base);
    int64_t begin_us = ps_clock_us();
    bool is_ahead = r->seen > 0;
    ps_status st;

    r->conf = *conf;
    r->is_stopping = NULL;
    st = catch_up(r);
    if (ps_is_ok(&st)) {
        ps_log(PS_LOG_INFO, "registry", "%s from etcd at %s in %.3f s",
               is_ahead ? "read what is new" : "read", ps_etcd_members(conf->etcd),
               (double)(ps_clock_us() - begin_us) * 1e-6);
    }
    return st;
}
