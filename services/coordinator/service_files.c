/* SPDX-License-Identifier: Apache-2.0 */
/* service_files.c - ReclaimLogs: a job's files in chunks.
 *
 * Complete files are those that the job's record lists. Logs of a job that is
 * not over are files that still grow; with `follow` the stream stays with them
 * until the job is over, then sends what else there is.
 */
#include "common/base/buf.h"
#include "common/base/xalloc.h"
#include "services/coordinator/artifacts.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/message.h"
#include "services/coordinator/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { RECLAIMS_MAX = 200 };

typedef struct item {
    Psgd__V1__Artifact *artifact; /* a copy */
    bool grows;                   /* a log of a job that is not over */
    bool is_sent;                 /* its last chunk is out */
    uint64_t offset;
} item;

struct ps_reclaim {
    ps_coordinator *c;
    ps_call *call;
    char job_id[PS_COORDINATOR_ID_MAX];
    uint64_t number;
    char folder[PS_FOLDER_MAX];
    uint32_t kinds; /* bits; all are set for any */
    char name[PS_NAME_MAX + 1];
    uint64_t offset;
    bool follows;
    bool is_over; /* the job is; the list is final */
    item *items;
    size_t count;
    ps_reclaim *prev, *next;
};

static void pump(ps_reclaim *r);

static void forget(ps_reclaim *r)
{
    *(r->prev ? &r->prev->next : &r->c->reclaims) = r->next;
    if (r->next) {
        r->next->prev = r->prev;
    }
    for (size_t i = 0; i < r->count; i++) {
        psgd__v1__artifact__free_unpacked(r->items[i].artifact, NULL);
    }
    free(r->items);
    free(r);
}

static void on_gone(void *arg, ps_call *call)
{
    (void)call;
    forget(arg);
}

static void on_sent(void *arg, ps_call *call)
{
    (void)call;
    pump(arg);
}

static bool wants(const ps_reclaim *r, const char *name, Psgd__V1__ArtifactKind kind)
{
    return (r->kinds >> (unsigned)kind & 1) != 0 &&
           (r->name[0] == '\0' || strcmp(r->name, name) == 0);
}

/* Adds the file, or replaces what was known of it. */
static void put_item(ps_reclaim *r, const Psgd__V1__Artifact *artifact, bool grows)
{
    item *it = NULL;

    if (!wants(r, artifact->name, artifact->kind)) {
        return;
    }
    for (size_t i = 0; i < r->count && !it; i++) {
        if (strcmp(r->items[i].artifact->name, artifact->name) == 0) {
            it = &r->items[i];
        }
    }
    if (!it) {
        r->items = ps_xrealloc(r->items, (r->count + 1) * sizeof *r->items);
        it = &r->items[r->count++];
        *it = (item){.offset = r->offset};
    } else {
        psgd__v1__artifact__free_unpacked(it->artifact, NULL);
    }
    it->artifact = (Psgd__V1__Artifact *)ps_message_copy(&artifact->base);
    it->grows = grows;
}

/* Logs that heartbeats are filling now. */
static void put_growing(ps_reclaim *r, const ps_live *live)
{
    Psgd__V1__Artifact artifact = PSGD__V1__ARTIFACT__INIT;
    const Psgd__V1__Job *job = live->record.job;
    char name[PS_NAME_MAX + 1];

    for (size_t i = 0; i < job->n_placements; i++) {
        if (job->placements[i]->node_id[0] == '\0') {
            continue;
        }
        ps_artifacts_log_name(name, job->spec->title, job->placements[i]->node_id, job->attempt);
        artifact.name = name;
        artifact.kind = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG;
        artifact.size = ps_artifacts_size(r->folder, name);
        artifact.node_id = job->placements[i]->node_id;
        if (artifact.size > 0) {
            put_item(r, &artifact, true);
        }
    }
}

/* What there is now. */
static ps_status list(ps_reclaim *r)
{
    const ps_live *live = ps_coordinator_find(r->c, r->job_id);
    const Psgd__V1__Job *job;
    ps_record record = {0};

    if (live) {
        job = live->record.job;
        r->number = live->record.number;
    } else {
        ps_status st = ps_registry_load(r->c->reader, r->job_id, &record);

        if (!ps_is_ok(&st)) {
            return st;
        }
        job = record.job;
    }
    if (live) {
        put_growing(r, live);
    }
    for (size_t i = 0; i < job->n_artifacts; i++) {
        if (!live || job->artifacts[i]->kind != PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG) {
            put_item(r, job->artifacts[i], false);
        }
    }
    r->is_over = !live;
    ps_record_fini(&record);
    return ps_ok();
}

/* Sends the next chunk of the file; false: there is nothing to send of it now. */
static bool send_chunk(ps_reclaim *r, item *it)
{
    Psgd__V1__ReclaimLogsResponse head = PSGD__V1__RECLAIM_LOGS_RESPONSE__INIT;
    bool may_grow = it->grows && r->follows && !r->is_over;
    uint64_t left = it->artifact->size > it->offset ? it->artifact->size - it->offset : 0;
    size_t n = left < PS_CHUNK_MAX ? (size_t)left : PS_CHUNK_MAX, got = 0;
    ps_buf *buf;
    ps_status st;

    if (it->is_sent || (n == 0 && may_grow)) {
        return false;
    }
    buf = ps_buf_create(n + 1);
    st = n > 0 ? ps_artifacts_read(r->folder, it->artifact->name, it->offset, buf->data, n, &got)
               : ps_ok();
    if (ps_is_ok(&st) && got < n) {
        st = ps_fail(PS_DATA_LOSS, "%.60s has become shorter", it->artifact->name);
    }
    if (!ps_is_ok(&st)) {
        ps_refuse(r->call, st.code, "FILE_LOST", r->job_id, "%s", st.text);
        ps_buf_unref(buf);
        forget(r);
        return true;
    }
    buf->len = n;
    head.artifact = it->artifact;
    head.offset = it->offset;
    head.crc32 = (uint32_t)crc32_z(0, buf->data, n);
    it->offset += n;
    head.last = it->offset >= it->artifact->size && !may_grow;
    it->is_sent = head.last;
    ps_call_send(r->call, &head.base, &(ps_piece){.data = buf->data, .len = n, .buf = buf}, 1,
                 on_sent, r);
    ps_buf_unref(buf);
    return true;
}

static void pump(ps_reclaim *r)
{
    ps_status st;

    if (!ps_call_can_send(r->call)) {
        return;
    }
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < r->count; i++) {
            if (send_chunk(r, &r->items[i])) {
                return;
            }
        }
        if (r->is_over || !r->follows || round > 0) {
            break;
        }
        st = list(r); /* what has come since */
        if (!ps_is_ok(&st)) {
            ps_refuse_status(r->call, &st, r->job_id);
            forget(r);
            return;
        }
    }
    if (r->is_over || !r->follows) {
        ps_call_finish(r->call);
        forget(r);
    }
}

/* False after it has refused. */
static bool read_request(ps_reclaim *r, const Psgd__V1__ReclaimLogsRequest *q)
{
    for (size_t i = 0; i < q->n_kinds; i++) {
        if (q->kinds[i] > 0 && q->kinds[i] < 32) {
            r->kinds |= 1u << (unsigned)q->kinds[i];
        } else if (q->kinds[i] == 0) {
            r->kinds = UINT32_MAX;
        }
    }
    if (q->n_kinds == 0) {
        r->kinds = UINT32_MAX;
    }
    if (q->name[0] == '\0' && q->offset > 0) {
        ps_refuse(r->call, PS_INVALID_ARGUMENT, "OFFSET_WITHOUT_NAME", r->job_id,
                  "offset needs the name of a file");
        return false;
    }
    if (q->name[0] != '\0' && !ps_file_name_is_safe(q->name)) {
        ps_refuse(r->call, PS_INVALID_ARGUMENT, "BAD_NAME", r->job_id, "name is no file's name");
        return false;
    }
    snprintf(r->name, sizeof r->name, "%s", q->name);
    r->offset = q->offset;
    r->follows = q->follow;
    return true;
}

static bool is_offset_good(const ps_reclaim *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->offset > r->items[i].artifact->size) {
            return false;
        }
    }
    return true;
}

void ps_serve_reclaim_logs(void *service, const ProtobufCMessage *request, ps_payload *payload,
                           ps_call *call)
{
    const Psgd__V1__ReclaimLogsRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_reclaim *r = ps_xcalloc(1, sizeof *r);
    size_t count = 0;
    ps_status st;

    (void)payload;
    for (const ps_reclaim *other = c->reclaims; other; other = other->next) {
        count++;
    }
    r->c = c;
    r->call = call;
    r->next = c->reclaims;
    if (r->next) {
        r->next->prev = r;
    }
    c->reclaims = r;
    snprintf(r->job_id, sizeof r->job_id, "%.95s", q->job_id);
    st = ps_artifacts_folder(r->folder, c->conf.data_dir, r->job_id);
    if (ps_is_ok(&st) && count >= RECLAIMS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "too many downloads");
    }
    if (ps_is_ok(&st) && c->is_stopping) {
        st = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    }
    if (ps_is_ok(&st) && !read_request(r, q)) {
        forget(r);
        return;
    }
    if (ps_is_ok(&st)) {
        st = list(r);
    }
    if (!ps_is_ok(&st)) {
        ps_refuse_status(call, &st, q->job_id);
        forget(r);
        return;
    }
    if (r->name[0] != '\0' && r->count == 0 && !(r->follows && !r->is_over)) {
        ps_refuse(call, PS_NOT_FOUND, "FILE_NOT_FOUND", q->job_id,
                  "the job has no file %.60s, or not yet", q->name);
        forget(r);
        return;
    }
    if (!is_offset_good(r)) {
        ps_refuse(call, PS_OUT_OF_RANGE, "OFFSET_BEYOND_END", q->job_id,
                  "offset %llu is behind the end of %.60s", (unsigned long long)r->offset, q->name);
        forget(r);
        return;
    }
    ps_call_on_gone(call, on_gone, r);
    pump(r);
}

void ps_reclaims_wake(ps_coordinator *c, uint64_t number)
{
    ps_reclaim *next;

    for (ps_reclaim *r = c->reclaims; r; r = next) {
        next = r->next;
        if (r->number == number) {
            pump(r);
        }
    }
}

void ps_reclaims_end(ps_coordinator *c)
{
    while (c->reclaims) {
        ps_reclaim *r = c->reclaims;

        ps_refuse(r->call, PS_UNAVAILABLE, "STOPPING", r->job_id, "the coordinator is stopping");
        forget(r);
    }
}
