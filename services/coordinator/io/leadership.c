/* SPDX-License-Identifier: Apache-2.0 */
/* leadership.c - see leadership.h.
 *
 * Times are of CLOCK_MONOTONIC, which goes on while a process is stopped. This clock stands still
 * while the host sleeps; but etcd then refuses what the former leader wants to store.
 */
#include "services/coordinator/io/leadership.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "services/coordinator/io/etcd_txn.h"
#include "services/coordinator/io/registry_etcd.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t look_us = 100000;      /* pause between two reads of the leader's key */
static const int64_t again_us = 50000;      /* pause before a renewal that failed is tried again */
static const int64_t answer_us = 1500000;   /* longest wait for etcd before this process leads */
static const int64_t farewell_us = 1000000; /* longest wait for etcd to take a lease back */
/* least time between two log lines about why etcd does not answer */
static const int64_t said_us = 30000000;

struct ps_leadership {
    ps_leadership_conf conf;
    char key[PS_ETCD_KEY_MAX];
    pthread_t thread;
    ps_event elected;
    /* Only the thread uses the members from here to silence_us, until it has ended. */
    int64_t lease;          /* id of this coordinator's lease; 0: it has none */
    int64_t ttl_us;         /* time to live that etcd gives the lease */
    int64_t lease_until_us; /* when the lease may end */
    /* Of another coordinator that leads: the last revision at which its key was put, when that was
     * seen first, and the time to live of its lease, 0 if it is not known. */
    int64_t seen, seen_us, seen_ttl_us;
    /* why etcd gave no answer to the last call, "" if it did, and when that was logged */
    char silence[PS_STATUS_TEXT_BYTES];
    int64_t silence_us;
    atomic_int_fast64_t revision, leads_until_us; /* 0 before the election */
    pthread_mutex_t mutex;                        /* guards the members below */
    pthread_cond_t changed;
    bool is_stopping;
    char leader[PS_LEADER_ADDRESS_MAX]; /* address of the leader; "": no leader is known */
    ps_status why;                      /* why no leader is known; else OK */
};

/* --- what other threads ask ---------------------------------------------------- */

int64_t ps_leadership_revision(const ps_leadership *l)
{
    return atomic_load(&l->revision);
}

int64_t ps_leadership_lasts_until_us(const ps_leadership *l)
{
    return atomic_load(&l->leads_until_us);
}

void ps_leadership_check(ps_leadership *l)
{
    int64_t until_us = atomic_load(&l->leads_until_us);

    if (until_us != 0 && ps_clock_us() >= until_us) {
        l->conf.lost(l->conf.arg, "its lease was not renewed in time");
    }
}

void ps_leadership_leader(ps_leadership *l, char address[PS_LEADER_ADDRESS_MAX], ps_status *why)
{
    pthread_mutex_lock(&l->mutex);
    snprintf(address, PS_LEADER_ADDRESS_MAX, "%s", l->leader);
    *why = l->why;
    pthread_mutex_unlock(&l->mutex);
}

/* --- the thread ---------------------------------------------------------------- */

static void know(ps_leadership *l, const char *leader, const ps_status *why)
{
    pthread_mutex_lock(&l->mutex);
    snprintf(l->leader, sizeof l->leader, "%s", leader);
    l->why = *why;
    pthread_mutex_unlock(&l->mutex);
}

/* Waits for `us`. Returns false, without a further wait, if the thread is to end. */
static bool pause_for(ps_leadership *l, int64_t us)
{
    int64_t at_us = ps_clock_us() + us;
    struct timespec at = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
    bool goes_on;
    int err = 0;

    pthread_mutex_lock(&l->mutex);
    while (!l->is_stopping && err != ETIMEDOUT) {
        err = pthread_cond_timedwait(&l->changed, &l->mutex, &at);
    }
    goes_on = !l->is_stopping;
    pthread_mutex_unlock(&l->mutex);
    return goes_on;
}

/* Logs whether etcd answers, when that changes. Logs another reason why it does not at intervals of
 * said_us at the least. */
static void heed(ps_leadership *l, const ps_status *st)
{
    bool was_silent = l->silence[0] != '\0';

    if (ps_is_ok(st)) {
        if (was_silent) {
            ps_log(PS_LOG_INFO, "leader", "etcd at %s answers", ps_etcd_members(l->conf.etcd));
        }
        l->silence[0] = '\0';
    } else if (!was_silent ||
               (strcmp(l->silence, st->text) != 0 && ps_clock_us() - l->silence_us >= said_us)) {
        ps_log(PS_LOG_WARN, "leader", "%s; asking again", st->text);
        snprintf(l->silence, sizeof l->silence, "%s", st->text);
        l->silence_us = ps_clock_us();
    }
}

static void take_lease(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__LeaseGrantResponse *r = (const void *)reply;
    ps_leadership *l = arg;

    l->lease = r->id;
    l->ttl_us = r->ttl * 1000000;
}

/* Gets a lease from etcd. Its time counts from the sending of the request, so here it ends no later
 * than in etcd. */
static ps_status grant(ps_leadership *l)
{
    Etcdserverpb__LeaseGrantRequest q = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    int64_t sent_us = ps_clock_us();
    ps_status st;

    q.ttl = l->conf.ttl_s;
    st = ps_etcd_call(l->conf.etcd, &etcdserverpb__lease__descriptor, "LeaseGrant", &q.base,
                      sent_us + answer_us, take_lease, l);
    if (ps_is_ok(&st)) {
        l->lease_until_us = sent_us + l->ttl_us;
    } else {
        l->lease = 0;
    }
    return st;
}

/* Gives a lease back, and so deletes the key that it keeps. */
static void revoke(ps_leadership *l, int64_t lease)
{
    Etcdserverpb__LeaseRevokeRequest q = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    ps_status st;

    q.id = lease;
    st = ps_etcd_call(l->conf.etcd, &etcdserverpb__lease__descriptor, "LeaseRevoke", &q.base,
                      ps_clock_us() + farewell_us, NULL, NULL);
    /* A lease that could not be given back ends when its time is over. */
    if (!ps_is_ok(&st) && st.code != PS_NOT_FOUND) {
        ps_log(PS_LOG_WARN, "leader", "give a lease back: %s", st.text);
    }
}

/* Renews the lease. Returns NOT_FOUND if it has ended. */
static ps_status renew(ps_leadership *l)
{
    int64_t sent_us = ps_clock_us(), ttl_s = 0;
    ps_status st = ps_etcd_keep_alive(l->conf.etcd, l->lease, l->lease_until_us, &ttl_s);

    if (ps_is_ok(&st) && ttl_s <= 0) {
        st = ps_fail(PS_NOT_FOUND, "its lease has ended");
    }
    if (ps_is_ok(&st)) {
        l->lease_until_us = sent_us + l->ttl_us;
    }
    return st;
}

/* What etcd has under the key of the leader. */
typedef struct holder {
    bool is_there;
    int64_t lease, revision; /* revision at which the key was created */
    int64_t modified;        /* revision of the last put */
    char address[PS_LEADER_ADDRESS_MAX];
} holder;

static void take_holder(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__RangeResponse *r = (const void *)reply;
    holder *h = arg;

    if (r->n_kvs != 1) {
        return;
    }
    h->is_there = true;
    h->lease = r->kvs[0]->lease;
    h->revision = r->kvs[0]->create_revision;
    h->modified = r->kvs[0]->mod_revision;
    snprintf(h->address, sizeof h->address, "%.*s", (int)r->kvs[0]->value.len,
             (const char *)r->kvs[0]->value.data);
}

static ps_status look(ps_leadership *l, holder *h)
{
    Etcdserverpb__RangeRequest q = ETCDSERVERPB__RANGE_REQUEST__INIT;

    *h = (holder){0};
    q.key = (ProtobufCBinaryData){strlen(l->key), (uint8_t *)l->key};
    return ps_etcd_call(l->conf.etcd, &etcdserverpb__kv__descriptor, "Range", &q.base,
                        ps_clock_us() + answer_us, take_holder, h);
}

/* Puts the key with this coordinator's address, if it was created at `revision`; 0: if there is
 * none. */
static ps_status put_key(ps_leadership *l, int64_t revision, int64_t deadline_us, bool *is_done)
{
    ps_etcd_txn *txn = ps_etcd_txn_create();
    ps_status st;

    ps_etcd_txn_put_bytes(txn, l->key, l->conf.address, strlen(l->conf.address), l->lease);
    st = ps_etcd_txn_commit(txn, l->conf.etcd, l->key, revision, NULL, deadline_us, is_done);
    ps_etcd_txn_destroy(txn);
    return st;
}

/* Renews the lease of the leader and puts its key anew, by which followers see that it renews.
 * Returns NOT_FOUND if the leadership has ended. */
static ps_status renew_both(ps_leadership *l)
{
    int64_t until_us = l->lease_until_us;
    bool is_done = false;
    ps_status st = renew(l);

    if (ps_is_ok(&st)) {
        st = put_key(l, atomic_load(&l->revision), until_us, &is_done);
    }
    if (ps_is_ok(&st) && !is_done) {
        st = ps_fail(PS_NOT_FOUND, "its key was deleted");
    }
    if (!ps_is_ok(&st)) {
        l->lease_until_us = until_us; /* followers count from the last put */
    }
    return st;
}

static void take_granted(void *arg, const ProtobufCMessage *reply)
{
    const Etcdserverpb__LeaseTimeToLiveResponse *r = (const void *)reply;

    *(int64_t *)arg = r->grantedttl > 0 ? r->grantedttl * 1000000 : 0;
}

/* Returns whether another leader has not put its key for the time to live of its lease. Such a
 * leader has ended, or knows by its own clock that its leadership has. */
static bool is_silent(ps_leadership *l, const holder *h)
{
    Etcdserverpb__LeaseTimeToLiveRequest q = ETCDSERVERPB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    int64_t now_us = ps_clock_us();
    ps_status st;

    if (h->modified != l->seen) {
        /* A key that was created after `seen` is that of a new leader, with another lease. */
        l->seen_ttl_us = h->revision <= l->seen ? l->seen_ttl_us : 0;
        l->seen = h->modified;
        l->seen_us = now_us;
    }
    if (l->seen_ttl_us == 0) {
        q.id = h->lease;
        st = ps_etcd_call(l->conf.etcd, &etcdserverpb__lease__descriptor, "LeaseTimeToLive",
                          &q.base, now_us + answer_us, take_granted, &l->seen_ttl_us);
        if (!ps_is_ok(&st)) {
            return false; /* the next look asks again */
        }
    }
    return l->seen_ttl_us != 0 && now_us >= l->seen_us + l->seen_ttl_us;
}

/* Deletes the key, unless it was put since h was read. etcd would delete it with its lease, but
 * looks for leases that are over only at intervals, and prolongs all of them when its own leader
 * changes. */
static ps_status delete_key(ps_leadership *l, const holder *h)
{
    Etcdserverpb__TxnRequest q = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__Compare unchanged = ETCDSERVERPB__COMPARE__INIT, *compare = &unchanged;
    Etcdserverpb__DeleteRangeRequest deletion = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT, *success = &op;

    unchanged.key = deletion.key = (ProtobufCBinaryData){strlen(l->key), (uint8_t *)l->key};
    unchanged.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    unchanged.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    unchanged.mod_revision = h->modified;
    op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    op.request_delete_range = &deletion;
    q.compare = &compare;
    q.n_compare = 1;
    q.success = &success;
    q.n_success = 1;
    return ps_etcd_call(l->conf.etcd, &etcdserverpb__kv__descriptor, "Txn", &q.base,
                        ps_clock_us() + answer_us, NULL, NULL);
}

/* Tries to lead, once. Returns whether this coordinator leads now. */
static bool stand(ps_leadership *l)
{
    const ps_status ok = ps_ok();
    holder h;
    ps_status st = look(l, &h);
    bool is_done;

    if (ps_is_ok(&st) && h.is_there && h.lease != l->lease && is_silent(l, &h)) {
        st = delete_key(l, &h);
        if (ps_is_ok(&st)) {
            st = look(l, &h);
        }
    }
    if (ps_is_ok(&st) && (!h.is_there || h.lease == l->lease)) {
        /* If the answer is lost, the next call finds the key. It puts it anew: the lease may have
         * been renewed meanwhile, and followers count from the last put. */
        st = put_key(l, h.revision, ps_clock_us() + answer_us, &is_done);
        if (ps_is_ok(&st)) {
            st = look(l, &h);
        }
    }
    heed(l, &st);
    if (!ps_is_ok(&st)) {
        know(l, "", &st);
        return false;
    }
    if (!h.is_there) {
        return false;
    }
    if (h.lease == l->lease) {
        know(l, l->conf.address, &ok);
        atomic_store(&l->leads_until_us, l->lease_until_us);
        atomic_store(&l->revision, h.revision);
        return true;
    }
    if (strcmp(h.address, l->conf.address) == 0) {
        /* The key is of an earlier process, which has ended: this one listens at its address. */
        revoke(l, h.lease);
        return false;
    }
    know(l, h.address, &ok);
    return false;
}

/* Stands for election until it is elected. Returns false if the thread is to end. */
static bool campaign(ps_leadership *l)
{
    for (;;) {
        int64_t now_us = ps_clock_us();
        ps_status st = ps_ok();

        if (l->lease == 0 || now_us >= l->lease_until_us) {
            st = grant(l);
        } else if (now_us > l->lease_until_us - l->ttl_us / 2) {
            st = renew(l);
        }
        if (!ps_is_ok(&st)) {
            l->lease = 0;
            heed(l, &st);
            know(l, "", &st);
        } else if (stand(l)) {
            return true;
        }
        if (!pause_for(l, look_us)) {
            return false;
        }
    }
}

/* Renews the lease until the leadership is given up or lost. */
static void keep(ps_leadership *l)
{
    int64_t pause_us = l->ttl_us / 5;

    while (pause_for(l, pause_us)) {
        ps_status st = renew_both(l);

        if (st.code != PS_NOT_FOUND) {
            heed(l, &st);
        }
        if (ps_is_ok(&st)) {
            atomic_store(&l->leads_until_us, l->lease_until_us);
            pause_us = l->ttl_us / 5;
        } else if (st.code == PS_NOT_FOUND) {
            l->conf.lost(l->conf.arg, st.text);
            return;
        } else if (ps_clock_us() >= l->lease_until_us) {
            st = ps_fail(PS_UNAVAILABLE, "its lease was not renewed in time: %s", st.text);
            l->conf.lost(l->conf.arg, st.text);
            return;
        } else {
            pause_us = again_us;
        }
    }
}

static void *run(void *arg)
{
    ps_leadership *l = arg;

    if (campaign(l)) {
        ps_loop_post(l->conf.loop, &l->elected);
        keep(l);
    }
    return NULL;
}

/* --- life ---------------------------------------------------------------------- */

static void on_elected(ps_event *event, bool ok)
{
    ps_leadership *l = PS_CONTAINER_OF(event, ps_leadership, elected);

    if (ok) {
        l->conf.elected(l->conf.arg);
    }
}

ps_status ps_leadership_start(const ps_leadership_conf *conf, ps_leadership **out)
{
    ps_leadership *l = ps_xcalloc(1, sizeof *l);
    pthread_condattr_t attr;

    l->conf = *conf;
    l->elected.fire = on_elected;
    l->why = ps_fail(PS_UNAVAILABLE, "etcd at %s has not answered yet",
                     PS_SHORT(ps_etcd_members(conf->etcd), 150));
    ps_log(PS_LOG_INFO, "leader", "asks etcd at %s which coordinator leads",
           ps_etcd_members(conf->etcd));
    snprintf(l->key, sizeof l->key, "%s" PS_LEADER_KEY, ps_etcd_prefix(conf->etcd));
    pthread_mutex_init(&l->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* the clock of ps_clock_us */
    pthread_cond_init(&l->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (pthread_create(&l->thread, NULL, run, l) != 0) {
        free(l);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "cannot start the thread of the leadership");
    }
    (void)pthread_setname_np(l->thread, "leadership");
    *out = l;
    return ps_ok();
}

void ps_leadership_stop(ps_leadership *l)
{
    if (!l) {
        return;
    }
    pthread_mutex_lock(&l->mutex);
    l->is_stopping = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    if (l->lease != 0) {
        revoke(l, l->lease);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}
