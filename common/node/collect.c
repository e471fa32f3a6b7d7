/* SPDX-License-Identifier: Apache-2.0 */
/* collect.c - sends the files of an attempt as a stream of chunks.
 *
 * Whatever waits for the disk is done by tasks, one after the other: the role saves, the log is
 * flushed, files are opened, chunks are read and added to the digest of their file. A chunk is
 * read while the one before it is being sent. The log may go on growing; the part that exists
 * when it is flushed is sent.
 */
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/node/node_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

typedef struct item {
    char name[PS_NAME_MAX + 1];
    Psgd__V1__ArtifactKind kind;
    const char *file; /* name in c->folder, which open_item opens; NULL: nothing is to be opened */
    ps_spliced from;  /* open file with the content; own -1: not open yet, or `bytes` has it */
    ps_buf *bytes;    /* a reference to the content; NULL: `from` has it */
    bool is_optional; /* drop_missing removes the item if `file` does not exist */
    uint64_t size;
} item;

/* A chunk of an item that was read and is to be sent. */
typedef struct chunk {
    const item *it; /* NULL: no chunk was read */
    uint64_t at;
    ps_buf *buf;    /* a reference */
    ps_piece piece; /* the chunk's bytes, in buf */
    uint32_t crc32;
    /* SHA-256 of the whole item, in its last chunk; "" in others */
    char sha256[PS_SHA256_HEX_BYTES];
} chunk;

struct ps_collect {
    ps_collect *next;
    ps_node *node;
    ps_call *call; /* NULL: the call has ended, but its task has not */
    ps_task task;
    ps_joblog_flush flush;
    bool is_waiting;  /* `task` or `flush` was submitted and is not done yet */
    bool is_sending;  /* the call has a chunk that is not sent yet */
    ps_status status; /* result of the last `task` */
    char folder[sizeof((ps_node *)0)->folder];
    size_t count;
    size_t now;    /* index of the item that is read next */
    uint64_t at;   /* offset in items[now] of the next byte to read */
    ps_sha256 sha; /* digest of what was read of items[now] */
    chunk ahead;   /* read and not sent yet; while read_ahead runs, only the task uses it */
    item items[PS_NODE_KEPT_MAX + 1];
};

static void close_one(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void destroy(ps_collect *c)
{
    ps_node *node = c->node;

    for (size_t i = 0; i < c->count; i++) {
        close_one(c->items[i].from.own);
        close_one(c->items[i].from.common);
        ps_buf_unref(c->items[i].bytes);
    }
    ps_buf_unref(c->ahead.buf);
    ps_sha256_fini(&c->sha);
    free(c);
    ps_node_gone(node);
}

/* Detaches a collect from its call, which has ended or which the caller ends. Frees the collect,
 * now or when its task has ended. */
static void leave(ps_collect *c)
{
    ps_collect **at = &c->node->collects;

    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    c->call = NULL;
    if (!c->is_waiting) {
        destroy(c);
    }
}

static void fail(ps_collect *c, ps_status st)
{
    ps_call *call = c->call;

    leave(c);
    ps_call_fail(call, st);
}

static void gone(void *arg, ps_call *call)
{
    (void)call;
    leave(arg);
}

void ps_collect_abort_all(ps_node *node)
{
    while (node->collects != NULL) {
        fail(node->collects, ps_fail(PS_ABORTED, "the attempt is over on node %s", node->node_id));
    }
}

/* --- the items --------------------------------------------------------------- */

static item *add(ps_collect *c, const char *name, Psgd__V1__ArtifactKind kind)
{
    item *it = &c->items[c->count++];

    snprintf(it->name, sizeof it->name, "%s", name);
    it->kind = kind;
    it->from = (ps_spliced){.own = -1, .common = -1};
    return it;
}

/* Lists the files of the node's checkpoint, which are in memory, with descriptors of their own.
 * Fails if the process may not open that many. */
static ps_status list_checkpoint(ps_collect *c)
{
    const ps_node *node = c->node;

    for (uint32_t i = 0; i < node->checkpoint.count; i++) {
        const ps_held_file *file = &node->checkpoint.files[i];
        item *it = add(c, file->name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);

        it->from.own = fcntl(file->content.fd, F_DUPFD_CLOEXEC, 0);
        it->size = ps_snapshot_size(&file->content);
        if (file->is_spliced) {
            it->from.common = fcntl(node->checkpoint.common.fd, F_DUPFD_CLOEXEC, 0);
            it->from.common_size = ps_snapshot_size(&node->checkpoint.common);
            it->from.at = file->at;
            it->size += it->from.common_size;
        }
        if (it->from.own < 0 || (file->is_spliced && it->from.common < 0)) {
            return ps_fail_errno(errno, "open %s", file->name);
        }
    }
    return ps_ok();
}

static void list(ps_collect *c)
{
    const ps_node *node = c->node;
    char name[PS_NODE_ID_MAX + 8];

    for (size_t i = 0; i < node->kept_count; i++) {
        const ps_kept *kept = &node->kept[i];
        item *it = add(c, kept->name, kept->kind);

        if (kept->bytes != NULL) {
            it->bytes = ps_buf_ref(kept->bytes);
            it->size = kept->bytes->len;
        } else {
            it->file = it->name;
            it->is_optional = kept->is_optional;
        }
    }
    snprintf(name, sizeof name, "%s.log", node->node_id);
    add(c, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG)->file = "log";
}

/* --- opening files, on a task's thread ---------------------------- */

static ps_status open_item(const ps_collect *c, item *it)
{
    char path[sizeof c->folder + PS_NAME_MAX + 2];
    struct stat info;
    ps_status st = ps_path_join(path, sizeof path, c->folder, it->file);

    if (!ps_is_ok(&st)) {
        return st;
    }
    it->from.own = open(path, O_RDONLY | O_CLOEXEC);
    if (it->from.own < 0) {
        return ps_fail_errno(errno, "open %s", it->name);
    }
    if (fstat(it->from.own, &info) != 0) {
        return ps_fail_errno(errno, "look at %s", it->name);
    }
    it->size = (uint64_t)info.st_size;
    return ps_ok();
}

/* Removes the optional items whose files do not exist. */
static void drop_missing(ps_collect *c)
{
    size_t count = 0;

    for (size_t i = 0; i < c->count; i++) {
        char path[sizeof c->folder + PS_NAME_MAX + 2];
        item *it = &c->items[i];
        ps_status st =
            it->is_optional ? ps_path_join(path, sizeof path, c->folder, it->file) : ps_ok();

        if (it->is_optional && ps_is_ok(&st) && access(path, F_OK) != 0) {
            ps_log(PS_LOG_WARN, "node", "%s could not be written and is left out", it->name);
            continue;
        }
        if (count < i) {
            c->items[count] = *it;
            c->items[count].file = it->file == it->name ? c->items[count].name : it->file;
        }
        count++;
    }
    c->count = count;
}

static void open_all(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    drop_missing(c);
    for (size_t i = 0; i < c->count && ps_is_ok(&c->status); i++) {
        item *it = &c->items[i];

        if (it->file != NULL) {
            c->status = open_item(c, it);
        }
        if (ps_is_ok(&c->status) && i + 1 == c->count && it->size > c->flush.size) {
            it->size = c->flush.size; /* the log is the last item: only what was flushed is sent */
        }
    }
}

/* --- chunks ------------------------------------------------------------------- */

static ps_status read_bytes(const item *it, uint64_t at, size_t n, ps_buf **out)
{
    ps_buf *buf = ps_buf_create(n);
    ssize_t got;

    for (buf->len = 0; buf->len < n; buf->len += (size_t)got) {
        got = ps_spliced_read(&it->from, buf->data + buf->len, n - buf->len, at + buf->len);
        if (got <= 0) {
            ps_buf_unref(buf);
            return got < 0 ? ps_fail_errno(errno, "read %s", it->name)
                           : ps_fail(PS_DATA_LOSS, "%s became shorter", it->name);
        }
    }
    *out = buf;
    return ps_ok();
}

static void add_to_digests(ps_collect *c, chunk *to)
{
    const void *bytes = to->piece.data;
    size_t n = to->piece.len;

    to->crc32 = (uint32_t)crc32(crc32(0, NULL, 0), bytes, (unsigned)n);
    if (to->at == 0) {
        ps_sha256_init(&c->sha);
    }
    ps_sha256_add(&c->sha, bytes, n);
    if (to->at + n == to->it->size) {
        ps_sha256_finish(&c->sha, to->sha256);
    }
}

/* Reads the chunk of items[now] at offset `at`. Runs on a task's thread. */
static void read_ahead(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);
    const item *it = &c->items[c->now];
    chunk *to = &c->ahead;
    size_t n = it->size - c->at < PS_PAYLOAD_MAX ? (size_t)(it->size - c->at) : PS_PAYLOAD_MAX;

    if (it->bytes != NULL) {
        to->buf = ps_buf_ref(it->bytes);
    } else {
        c->status = read_bytes(it, c->at, n, &to->buf);
    }
    if (ps_is_ok(&c->status)) {
        to->it = it;
        to->at = c->at;
        to->piece = (ps_piece){
            .buf = to->buf, .data = to->buf->data + (it->bytes != NULL ? c->at : 0), .len = n};
        add_to_digests(c, to);
    }
}

static void submit(ps_collect *c, void (*run)(ps_task *task), void (*done)(ps_task *task))
{
    c->task.run = run;
    c->task.done = done;
    c->is_waiting = true;
    ps_tasks_submit(c->node->tasks, NULL, &c->task);
}

static void advance(ps_collect *c);

static void has_read(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    c->is_waiting = false;
    if (c->call == NULL) {
        destroy(c);
        return;
    }
    if (!ps_is_ok(&c->status)) {
        fail(c, c->status);
        return;
    }
    c->at += c->ahead.piece.len;
    if (c->at == c->ahead.it->size) {
        c->now++;
        c->at = 0;
    }
    advance(c);
}

static void sent(void *arg, ps_call *call)
{
    ps_collect *c = arg;

    (void)call;
    c->is_sending = false;
    advance(c);
}

/* Sends the chunk that was read, and empties c->ahead for the next one. */
static void send_chunk(ps_collect *c)
{
    Psgd__V1__CollectResponse reply = PSGD__V1__COLLECT_RESPONSE__INIT;
    chunk now = c->ahead;

    reply.name = (char *)now.it->name;
    reply.kind = now.it->kind;
    reply.size = now.it->size;
    reply.sha256 = now.sha256;
    reply.offset = now.at;
    reply.crc32 = now.crc32;
    c->ahead = (chunk){0};
    c->is_sending = true;
    ps_call_send(c->call, &reply.base, &now.piece, now.piece.len > 0, sent, c);
    ps_buf_unref(now.buf);
}

/* Sends what was read, reads the next chunk meanwhile, and ends the call after the last one. */
static void advance(ps_collect *c)
{
    if (c->is_waiting) {
        return; /* a chunk is being read: has_read calls this again */
    }
    if (c->ahead.it != NULL && !c->is_sending) {
        send_chunk(c);
    }
    if (c->ahead.it == NULL && c->now < c->count) {
        submit(c, read_ahead, has_read);
    } else if (c->ahead.it == NULL && !c->is_sending) {
        ps_call *call = c->call;

        leave(c);
        ps_call_finish(call);
    }
}

static void opened(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    c->is_waiting = false;
    if (c->call == NULL) {
        destroy(c);
    } else if (!ps_is_ok(&c->status)) {
        fail(c, c->status);
    } else {
        advance(c);
    }
}

static void flushed(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, flush.task);

    c->is_waiting = false;
    if (c->call == NULL) {
        destroy(c);
    } else {
        submit(c, open_all, opened);
    }
}

static void start_flush(ps_collect *c)
{
    list(c);
    c->flush.task.done = flushed;
    c->is_waiting = true;
    ps_joblog_start_flush(c->node->log, &c->flush);
}

/* --- what the role saves --------------------------------------------------------- */

static void save(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    ps_node_write_trace(c->node);
    c->status = c->node->hooks->save(c->node->state, &c->node->stop_saving);
}

/* Logs a failure of the role's collect or save. Returns it with the code INTERNAL, so that the
 * coordinator does not try again in vain. */
static ps_status cannot_collect(ps_status st)
{
    ps_log(PS_LOG_ERROR, "node", "%s", st.text);
    return ps_fail(PS_INTERNAL, "%s", st.text);
}

/* Fails the call with NO_ROOM, because the disk was full when the role saved. Nothing is lost: the
 * coordinator calls Collect again later. */
static void fail_for_room(ps_collect *c)
{
    ps_call *call = c->call;
    ps_error error;

    ps_log(PS_LOG_WARN, "node", "no room for the files of the job: %s", c->status.text);
    ps_error_init(&error, c->status, PS_NODE_NO_ROOM);
    leave(c);
    ps_call_fail_error(call, &error);
}

static void saved(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    c->is_waiting = false;
    c->node->saves--;
    ps_node_go_on_releasing(c->node);
    if (c->call == NULL) {
        destroy(c);
    } else if (c->status.code == PS_RESOURCE_EXHAUSTED) {
        fail_for_room(c);
    } else if (!ps_is_ok(&c->status)) {
        fail(c, cannot_collect(c->status));
    } else {
        start_flush(c);
    }
}

/* --- the call ------------------------------------------------------------------ */

/* Checks that the attempt may be collected. Returns false after it has failed the call. */
static bool may_collect(const ps_node *node, const Psgd__V1__CollectRequest *request, ps_call *call)
{
    ps_phase phase = node->agent.phase;
    ps_status st = ps_agent_check(&node->agent, request->job_id, request->attempt);
    ps_error error;

    if (ps_is_ok(&st) && phase != PS_PHASE_FINISHED && phase != PS_PHASE_FAILED &&
        !(phase == PS_PHASE_RUNNING && node->hooks->collect != NULL)) {
        st =
            ps_fail(PS_FAILED_PRECONDITION, "nothing to collect in phase %s", ps_phase_name(phase));
    }
    if (ps_is_ok(&st)) {
        return true;
    }
    ps_node_fence_error(node, request->job_id, request->attempt, st, &error);
    ps_call_fail_error(call, &error);
    return false;
}

static ps_collect *begin(ps_node *node, ps_call *call)
{
    ps_collect *c = ps_xcalloc(1, sizeof *c);

    c->node = node;
    c->call = call;
    c->status = ps_ok();
    memcpy(c->folder, node->folder, sizeof c->folder);
    c->next = node->collects;
    node->collects = c;
    node->alive++;
    ps_call_on_gone(call, gone, c);
    return c;
}

static void collect_checkpoint(ps_node *node, const Psgd__V1__CollectRequest *request,
                               ps_call *call)
{
    uint64_t clock = request->checkpoint;
    ps_collect *c;
    ps_status st;

    if (request->rescues) {
        st = ps_checkpoint_rescue(node, clock, request->copies);
        if (!ps_is_ok(&st)) {
            ps_call_fail(call, st);
            return;
        }
    }
    if (!node->checkpoint.is_complete || clock != node->checkpoint.clock) {
        ps_call_fail(call, ps_fail(PS_NOT_FOUND, "node %s has no checkpoint at clock %llu",
                                   node->node_id, (unsigned long long)clock));
        return;
    }
    c = begin(node, call);
    st = list_checkpoint(c);
    if (ps_is_ok(&st)) {
        advance(c);
    } else {
        fail(c, st);
    }
}

/* --- contributions and ranks of a worker, after the loss of servers --------------- */

static void add_snapshot(ps_collect *c, const char *name, const ps_snapshot *file)
{
    item *it = add(c, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL);

    it->size = ps_snapshot_size(file);
    it->from.own = file->fd;
}

/* Lists, for each rank of the node, its state if `with_ranks`, and its kept contributions to the
 * slices of the servers for which is_lost is true; is_lost NULL: no contributions. */
static ps_status list_kept(ps_collect *c, const bool *is_lost, bool with_ranks)
{
    const ps_node *node = c->node;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < node->session->rank_count && ps_is_ok(&st); i++) {
        char name[PS_CHECKPOINT_NAME_MAX];
        ps_snapshot file = {.fd = -1, .copy_fd = -1};

        if (with_ranks) { /* before hooks->kept: `parked` completes the kept contributions */
            ps_checkpoint_rank_name(name, node->session->ranks[i]);
            st = node->hooks->parked(node->state, i, &file);
            if (!ps_is_ok(&st)) {
                return st;
            }
            add_snapshot(c, name, &file);
        }
        if (is_lost != NULL) {
            ps_checkpoint_kept_name(name, node->session->ranks[i]);
            st = node->hooks->kept(node->state, i, is_lost, &file);
            if (ps_is_ok(&st)) {
                add_snapshot(c, name, &file);
            }
        }
    }
    return st;
}

static void collect_kept(ps_node *node, const Psgd__V1__CollectRequest *request, ps_call *call)
{
    uint32_t servers = node->session->placement.server_count;
    bool *is_lost = ps_xcalloc(servers + 1u, sizeof *is_lost);
    ps_status st = ps_ok();
    ps_collect *c;

    if (node->hooks->kept == NULL ||
        ((request->ranks || request->parks) && !ps_plan_carries(node->session->plan))) {
        st = ps_fail(PS_FAILED_PRECONDITION, "nothing is kept here");
    } else if (request->ranks || request->parks) {
        st = node->hooks->park(node->state);
    }
    for (size_t i = 0; i < request->n_lost_servers && ps_is_ok(&st); i++) {
        if (request->lost_servers[i] >= servers) {
            st = ps_fail(PS_INVALID_ARGUMENT, "lost_servers: %u; the job has %u servers",
                         request->lost_servers[i], servers);
        } else {
            is_lost[request->lost_servers[i]] = true;
        }
    }
    if (!ps_is_ok(&st)) {
        free(is_lost);
        ps_call_fail(call, st);
        return;
    }
    c = begin(node, call);
    st = list_kept(c, request->n_lost_servers > 0 ? is_lost : NULL, request->ranks);
    free(is_lost);
    if (ps_is_ok(&st)) {
        advance(c);
    } else {
        fail(c, st);
    }
}

/* --- the timeline of a job that trains ------------------------------------------ */

static void write_timeline(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);
    item *it = &c->items[0];
    struct stat info;

    c->status = ps_trace_write_live(c->node, &it->from.own);
    if (ps_is_ok(&c->status) && fstat(it->from.own, &info) != 0) {
        c->status = ps_fail_errno(errno, "look at %s", it->name);
    } else if (ps_is_ok(&c->status)) {
        it->size = (uint64_t)info.st_size;
    }
}

static void timeline_written(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    c->node->saves--;
    ps_trace_end_live(c->node);
    ps_node_go_on_releasing(c->node);
    opened(task);
}

static void collect_timeline(ps_node *node, uint64_t from_step, ps_call *call)
{
    ps_status st = ps_trace_begin_live(node, from_step);
    ps_collect *c;

    if (!ps_is_ok(&st)) {
        ps_call_fail(call, st);
        return;
    }
    c = begin(node, call);
    add(c, PS_TRACE_PART, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    node->saves++;
    submit(c, write_timeline, timeline_written);
}

void ps_collect_handle(void *service, const ProtobufCMessage *message, ps_payload *payload,
                       ps_call *call)
{
    const Psgd__V1__CollectRequest *request = (const Psgd__V1__CollectRequest *)message;
    ps_node *node = service;
    ps_collect *c;
    ps_status st;

    (void)payload;
    if (!may_collect(node, request, call)) {
        return;
    }
    if (request->checkpoint > 0) {
        collect_checkpoint(node, request, call);
        return;
    }
    if (request->n_lost_servers > 0 || request->ranks || request->parks) {
        collect_kept(node, request, call);
        return;
    }
    if (request->trace > 0) {
        collect_timeline(node, request->trace, call);
        return;
    }
    st = node->hooks->collect != NULL ? node->hooks->collect(node->state) : ps_ok();
    if (ps_is_ok(&st)) {
        ps_node_keep_trace(node);
    }
    if (!ps_is_ok(&st)) {
        ps_call_fail(call, cannot_collect(st));
        return;
    }
    c = begin(node, call);
    if (node->hooks->save != NULL) {
        node->saves++;
        submit(c, save, saved);
    } else {
        start_flush(c);
    }
}
