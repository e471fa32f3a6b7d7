/* SPDX-License-Identifier: Apache-2.0 */
/* service_files.c - ReclaimLogs: sends a job's files in chunks.
 *
 * The job's record lists its complete files. While the job is not over, its logs are files that
 * grow. With `follow` the stream continues until the job is over, and sends bytes and files as they
 * come. A task lists the files or reads a piece; the next piece is read when the one before was
 * sent.
 */
#include "common/base/buf.h"
#include "common/base/container_of.h"
#include "common/base/linked.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/driver.h"
#include "services/coordinator/io/artifacts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { RECLAIMS_MAX = 200, RECLAIMS_OF_CLIENT_MAX = 50 };

/* If a client has not taken a piece for so long, its call is ended. */
static const int64_t unread_us = 60 * INT64_C(1000000);

typedef struct item {
    Psgd__V1__Artifact *artifact; /* a copy */
    bool grows;                   /* a log of a job that is not over, so it grows */
    bool is_sent;                 /* the last chunk of the file was sent */
    uint64_t offset;              /* offset of the next chunk in the file */
} item;

struct ps_reclaim {
    ps_coordinator *c;
    ps_call *call;
    ps_principal caller;
    char client[PS_CLIENT_HOST_MAX];
    int64_t sent_us; /* time at which the last piece was sent */
    char job_id[PS_COORDINATOR_ID_MAX];
    uint64_t number;
    char folder[PS_FOLDER_MAX];
    uint32_t kinds; /* wanted kinds as bits; all are set if the client names none, or kind 0 */
    char name[PS_NAME_MAX + 1];
    uint64_t offset;
    bool follows;
    bool is_over; /* the job is over, so the list is final */
    /* The files were listed once. Only the first listing refuses the call if the wanted file does
     * not exist or is too short (check_list). */
    bool is_listed;
    bool is_stale; /* there may be files, or bytes of logs, that the list does not have */
    item *items;
    size_t count;

    ps_task task; /* lists the files, or reads a piece */
    bool is_busy; /* the task is running; only the task then uses status and the members below */
    bool is_gone; /* the call has ended; this is freed when the task is done */
    /* The job was not over when the listing began. */
    bool was_live;
    Psgd__V1__Artifact **logs; /* (log_count) logs that may grow, whose sizes the task finds */
    size_t log_count;
    ps_record record; /* record of a job that is over */
    size_t at;        /* index of the item that the piece belongs to */
    ps_buf *buf;      /* the piece; NULL: the task lists the files */
    ps_status status;
    ps_reclaim *prev, *next;
};

static void pump(ps_reclaim *r);

static void release(ps_reclaim *r)
{
    for (size_t i = 0; i < r->count; i++) {
        psgd__v1__artifact__free_unpacked(r->items[i].artifact, NULL);
    }
    free(r->items);
    free(r);
}

static void forget(ps_reclaim *r)
{
    PS_UNLINK(r->c->reclaims, r);
    r->is_gone = true;
    if (!r->is_busy) {
        release(r);
    }
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

/* Adds a file to the list, or updates its entry, if the client wants the file. */
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

static void run_task(ps_task *task);
static void task_done(ps_task *task);

static void start_task(ps_reclaim *r)
{
    r->is_busy = true;
    r->status = ps_ok();
    r->task = (ps_task){.run = run_task, .done = task_done};
    ps_tasks_submit(r->c->tasks, NULL, &r->task);
}

/* Writes the logs of the job's present attempt, which grow by heartbeats, to r->logs. */
static void note_logs(ps_reclaim *r, const Psgd__V1__Job *job)
{
    Psgd__V1__Artifact artifact = PSGD__V1__ARTIFACT__INIT;
    char name[PS_NAME_MAX + 1];

    r->logs = ps_xcalloc(job->n_placements + 1, sizeof(Psgd__V1__Artifact *));
    artifact.name = name;
    artifact.kind = PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG;
    for (size_t i = 0; i < job->n_placements; i++) {
        if (job->placements[i]->node_id[0] == '\0') {
            continue;
        }
        ps_artifacts_log_name(name, job->spec->title, job->placements[i]->node_id, job->attempt);
        artifact.node_id = job->placements[i]->node_id;
        r->logs[r->log_count++] = (Psgd__V1__Artifact *)ps_message_copy(&artifact.base);
    }
}

/* Lists the files that exist now: of a live job those of its record, then starts a task that finds
 * the sizes of its logs; else the task reads the job's record. */
static void start_listing(ps_reclaim *r)
{
    const ps_live *live = ps_jobs_find(&r->c->jobs, r->job_id);

    r->is_stale = false;
    r->was_live = live != NULL;
    if (live) {
        const Psgd__V1__Job *job = live->record.job;

        r->number = live->record.number;
        note_logs(r, job);
        for (size_t i = 0; i < job->n_artifacts; i++) {
            if (job->artifacts[i]->kind != PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG) {
                put_item(r, job->artifacts[i], false);
            }
        }
    }
    start_task(r);
}

static bool may_grow(const ps_reclaim *r, const item *it)
{
    return it->grows && r->follows && !r->is_over;
}

static size_t left_of(const item *it)
{
    uint64_t left = it->artifact->size > it->offset ? it->artifact->size - it->offset : 0;

    return left < PS_CHUNK_MAX ? (size_t)left : PS_CHUNK_MAX;
}

/* Reads the piece into r->buf, if that is there; else lists files. Runs on a task's thread. */
static void run_task(ps_task *task)
{
    ps_reclaim *r = PS_CONTAINER_OF(task, ps_reclaim, task);

    if (r->buf && r->buf->len > 0) {
        const item *it = &r->items[r->at];
        size_t got = 0;

        r->status = ps_artifacts_read(r->folder, it->artifact->name, it->offset, r->buf->data,
                                      r->buf->len, &got);
        if (ps_is_ok(&r->status) && got < r->buf->len) {
            r->status =
                ps_fail(PS_DATA_LOSS, "%s has become shorter", PS_SHORT(it->artifact->name, 60));
        }
    } else if (!r->buf && !r->was_live) {
        r->status = ps_registry_load(r->c->reader, r->job_id, &r->record);
        if (ps_is_ok(&r->status)) {
            r->status = ps_access_check(&r->caller, r->record.job, PS_ACCESS_SEE);
        }
    }
    for (size_t i = 0; i < r->log_count; i++) {
        r->logs[i]->size = ps_artifacts_size(r->folder, r->logs[i]->name);
    }
}

/* Sends the piece that was read. */
static void send_piece(ps_reclaim *r, ps_buf *buf)
{
    Psgd__V1__ReclaimLogsResponse head = PSGD__V1__RECLAIM_LOGS_RESPONSE__INIT;
    item *it = &r->items[r->at];

    head.artifact = it->artifact;
    head.offset = it->offset;
    head.crc32 = (uint32_t)crc32_z(0, buf->data, buf->len);
    it->offset += buf->len;
    head.last = it->offset >= it->artifact->size && !may_grow(r, it);
    it->is_sent = head.last;
    r->sent_us = ps_coordinator_now_us(r->c);
    ps_call_send(r->call, &head.base, &(ps_piece){.data = buf->data, .len = buf->len, .buf = buf},
                 1, on_sent, r);
}

/* Checks after the first listing that the wanted file exists, unless it may come later, and that
 * `offset` is not beyond its end. Otherwise refuses the call and returns false. */
static bool check_list(ps_reclaim *r)
{
    r->is_listed = true;
    if (r->name[0] != '\0' && r->count == 0 && !(r->follows && !r->is_over)) {
        ps_refuse(r->call, PS_NOT_FOUND, "FILE_NOT_FOUND", r->job_id,
                  "the job has no file %s, or not yet", PS_SHORT(r->name, 128));
        return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        if (r->offset > r->items[i].artifact->size) {
            ps_refuse(r->call, PS_OUT_OF_RANGE, "OFFSET_BEYOND_END", r->job_id,
                      "offset %llu is behind the end of %s", (unsigned long long)r->offset,
                      r->name);
            return false;
        }
    }
    return true;
}

/* Takes what the task has listed into r->items: logs that have bytes, and files, of those that the
 * client wants. After the first listing, refuses the call if the wanted file does not exist or is
 * too short. Returns false if it has refused the call. */
static bool take_list(ps_reclaim *r)
{
    for (size_t i = 0; i < r->log_count; i++) {
        if (r->logs[i]->size > 0) {
            put_item(r, r->logs[i], true);
        }
    }
    for (size_t i = 0; r->record.job && i < r->record.job->n_artifacts; i++) {
        put_item(r, r->record.job->artifacts[i], false);
    }
    r->is_over = !r->was_live;
    return r->is_listed || check_list(r);
}

static void free_list(ps_reclaim *r)
{
    for (size_t i = 0; i < r->log_count; i++) {
        psgd__v1__artifact__free_unpacked(r->logs[i], NULL);
    }
    free(r->logs);
    r->logs = NULL;
    r->log_count = 0;
    ps_record_fini(&r->record);
}

/* Handles the end of the task: sends the piece, or goes on after a listing unless take_list has
 * refused the call (`goes_on` false). May free r. */
static void take_result(ps_reclaim *r, ps_buf *buf, bool goes_on)
{
    if (!ps_is_ok(&r->status) && buf) {
        ps_refuse(r->call, r->status.code, "FILE_LOST", r->job_id, "%s", r->status.text);
        forget(r);
    } else if (!ps_is_ok(&r->status)) {
        ps_refuse_status(r->call, &r->status, r->job_id);
        forget(r);
    } else if (buf) {
        send_piece(r, buf);
    } else if (goes_on) {
        pump(r);
    } else {
        forget(r);
    }
}

static void task_done(ps_task *task)
{
    ps_reclaim *r = PS_CONTAINER_OF(task, ps_reclaim, task);
    ps_buf *buf = r->buf;

    r->buf = NULL;
    if (r->is_gone) {
        free_list(r);
        release(r);
    } else {
        bool goes_on = true;

        r->is_busy = false;
        if (!buf && ps_is_ok(&r->status)) {
            goes_on = take_list(r);
        }
        free_list(r);
        take_result(r, buf, goes_on);
    }
    ps_buf_unref(buf);
}

static void pump(ps_reclaim *r)
{
    if (r->is_busy || !ps_call_can_send(r->call)) {
        return;
    }
    for (size_t i = 0; i < r->count; i++) {
        const item *it = &r->items[i];
        size_t n = left_of(it);

        if (!it->is_sent && (n > 0 || !may_grow(r, it))) {
            r->at = i;
            r->buf = ps_buf_create(n + 1);
            r->buf->len = n;
            start_task(r);
            return;
        }
    }
    if (r->is_over || !r->follows) {
        ps_call_finish(r->call);
        forget(r);
    } else if (r->is_stale) {
        start_listing(r);
    }
}

/* Reads the request. Returns false if the call was refused. */
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

void ps_serve_reclaim_logs(void *service, const ProtobufCMessage *request, ps_payload *payload,
                           ps_call *call)
{
    const Psgd__V1__ReclaimLogsRequest *q = (const void *)request;
    ps_coordinator *c = service;
    const ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    size_t count = 0, of_client = 0;
    ps_reclaim *r;
    ps_status st;

    (void)payload;
    if (live && !ps_may_access(call, live->record.job, PS_ACCESS_SEE)) {
        return;
    }
    r = ps_xcalloc(1, sizeof *r);
    ps_client_host(call, r->client);
    for (const ps_reclaim *other = c->reclaims; other; other = other->next) {
        count++;
        of_client += strcmp(other->client, r->client) == 0;
    }
    r->c = c;
    r->call = call;
    r->caller = *ps_call_caller(call);
    PS_LINK_FIRST(c->reclaims, r);
    snprintf(r->job_id, sizeof r->job_id, "%.95s", q->job_id);
    st = ps_artifacts_folder(r->folder, c->conf.data_dir, r->job_id);
    if (ps_is_ok(&st) && (count >= RECLAIMS_MAX || of_client >= RECLAIMS_OF_CLIENT_MAX)) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "%zu downloads, %zu of %s; %d and %d are allowed",
                     count, of_client, r->client, RECLAIMS_MAX, RECLAIMS_OF_CLIENT_MAX);
    }
    if (ps_is_ok(&st) && c->is_stopping) {
        st = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    }
    if (ps_is_ok(&st) && !read_request(r, q)) {
        forget(r);
        return;
    }
    if (!ps_is_ok(&st)) {
        ps_refuse_status(call, &st, q->job_id);
        forget(r);
        return;
    }
    ps_call_on_gone(call, on_gone, r);
    start_listing(r);
}

void ps_reclaims_changed(void *arg, ps_live *job, ps_job_news what)
{
    const ps_coordinator *c = arg;
    ps_reclaim *next;

    if (what != PS_JOB_EVENT && what != PS_JOB_FILES && what != PS_JOB_OVER) {
        return;
    }
    for (ps_reclaim *r = c->reclaims; r; r = next) {
        next = r->next;
        if (r->number == job->record.number) {
            r->is_stale = true;
            pump(r);
        }
    }
}

void ps_reclaims_check(ps_coordinator *c)
{
    int64_t now_us = ps_coordinator_now_us(c);
    ps_reclaim *next;

    for (ps_reclaim *r = c->reclaims; r; r = next) {
        next = r->next;
        if (!r->is_busy && !ps_call_can_send(r->call) && now_us - r->sent_us > unread_us) {
            ps_refuse(r->call, PS_DEADLINE_EXCEEDED, "UNREAD", r->job_id,
                      "nothing was read for %d s; ask again from the offset that is there",
                      (int)(unread_us / 1000000));
            forget(r);
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
