/* SPDX-License-Identifier: Apache-2.0 */
/* collect.c - the files of an attempt as a stream of chunks.
 *
 * The role saves on the thread of the tasks what takes time; then what there is is listed, the
 * checksums are taken there too, and chunk after chunk is read and sent. The
 * log may go on growing: what is sent is what there was.
 */
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
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
    int fd;        /* -1: bytes */
    ps_buf *bytes; /* a reference */
    uint64_t size;
    char sha256[PS_SHA256_HEX_BYTES];
} item;

struct ps_collect {
    ps_collect *next;
    ps_node *node;
    ps_call *call; /* NULL: the call has ended, its task has not */
    ps_task task;
    bool is_waiting;  /* for the task: saving, then hashing */
    ps_status status; /* of the task */
    size_t count, now;
    uint64_t at; /* next byte of items[now] */
    item items[PS_NODE_KEPT_MAX + 1];
};

static void destroy(ps_collect *c)
{
    ps_node *node = c->node;

    for (size_t i = 0; i < c->count; i++) {
        if (c->items[i].fd >= 0) {
            close(c->items[i].fd);
        }
        ps_buf_unref(c->items[i].bytes);
    }
    free(c);
    ps_node_gone(node);
}

/* Ends a collect whose call has ended: frees it now, or when its task has ended. */
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

/* --- what there is ----------------------------------------------------------- */

static ps_status add_file(ps_collect *c, const char *name, Psgd__V1__ArtifactKind kind,
                          const char *file)
{
    item *it = &c->items[c->count];
    char path[sizeof c->node->folder + PS_NAME_MAX + 2];
    struct stat info;
    ps_status st = ps_path_join(path, sizeof path, c->node->folder, file);

    if (!ps_is_ok(&st)) {
        return st;
    }
    it->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (it->fd < 0) {
        return ps_fail_errno(errno, "open %s", name);
    }
    c->count++;
    snprintf(it->name, sizeof it->name, "%s", name);
    it->kind = kind;
    if (fstat(it->fd, &info) != 0) {
        return ps_fail_errno(errno, "look at %s", name);
    }
    it->size = (uint64_t)info.st_size;
    return ps_ok();
}

static void add_bytes(ps_collect *c, const ps_kept *kept)
{
    item *it = &c->items[c->count++];

    snprintf(it->name, sizeof it->name, "%s", kept->name);
    it->kind = kept->kind;
    it->fd = -1;
    it->bytes = ps_buf_ref(kept->bytes);
    it->size = kept->bytes->len;
}

static ps_status list(ps_collect *c)
{
    ps_node *node = c->node;
    char name[PS_NODE_ID_MAX + 8];
    ps_status st;

    for (size_t i = 0; i < node->kept_count; i++) {
        if (node->kept[i].bytes != NULL) {
            add_bytes(c, &node->kept[i]);
            continue;
        }
        st = add_file(c, node->kept[i].name, node->kept[i].kind, node->kept[i].name);
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    snprintf(name, sizeof name, "%s.log", node->node_id);
    st = add_file(c, name, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG, "log");
    if (ps_is_ok(&st)) {
        c->items[c->count - 1].size = ps_joblog_size(node->log);
    }
    return st;
}

/* --- checksums, on the thread of the tasks ----------------------------------------------- */

static ps_status hash_item(item *it)
{
    ps_sha256 sha;
    enum { PIECE = 1 << 18 };
    uint8_t *piece = NULL;
    ps_status st = ps_ok();

    ps_sha256_init(&sha);
    if (it->fd < 0) {
        ps_sha256_add(&sha, it->bytes->data, it->bytes->len);
    } else {
        piece = ps_xmalloc(PIECE);
    }
    for (uint64_t at = 0; it->fd >= 0 && at < it->size;) {
        size_t want = it->size - at < PIECE ? (size_t)(it->size - at) : PIECE;
        ssize_t n = pread(it->fd, piece, want, (off_t)at);

        if (n <= 0) {
            st = n < 0 ? ps_fail_errno(errno, "read %s", it->name)
                       : ps_fail(PS_DATA_LOSS, "%s became shorter", it->name);
            break;
        }
        ps_sha256_add(&sha, piece, (size_t)n);
        at += (uint64_t)n;
    }
    free(piece);
    ps_sha256_finish(&sha, it->sha256);
    return st;
}

static void hash_all(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    for (size_t i = 0; i < c->count && ps_is_ok(&c->status); i++) {
        c->status = hash_item(&c->items[i]);
    }
}

/* --- chunks ------------------------------------------------------------------- */

static ps_status read_chunk(const item *it, uint64_t at, size_t n, ps_buf **out)
{
    ps_buf *buf = ps_buf_create(n);
    ssize_t got;

    for (buf->len = 0; buf->len < n; buf->len += (size_t)got) {
        got = pread(it->fd, buf->data + buf->len, n - buf->len, (off_t)(at + buf->len));
        if (got <= 0) {
            ps_buf_unref(buf);
            return got < 0 ? ps_fail_errno(errno, "read %s", it->name)
                           : ps_fail(PS_DATA_LOSS, "%s became shorter", it->name);
        }
    }
    *out = buf;
    return ps_ok();
}

static void send_next(void *arg, ps_call *call)
{
    Psgd__V1__CollectResponse reply = PSGD__V1__COLLECT_RESPONSE__INIT;
    ps_collect *c = arg;
    item *it = &c->items[c->now];
    ps_piece piece = {0};
    ps_buf *buf = NULL;
    ps_status st = ps_ok();

    if (c->now == c->count) {
        leave(c);
        ps_call_finish(call);
        return;
    }
    piece.len = it->size - c->at < PS_PAYLOAD_MAX ? (size_t)(it->size - c->at) : PS_PAYLOAD_MAX;
    if (it->fd >= 0) {
        st = read_chunk(it, c->at, piece.len, &buf);
    } else {
        buf = ps_buf_ref(it->bytes);
    }
    if (!ps_is_ok(&st)) {
        fail(c, st);
        return;
    }
    piece.buf = buf;
    piece.data = buf->data + (it->fd >= 0 ? 0 : c->at);
    reply.name = it->name;
    reply.kind = it->kind;
    reply.size = it->size;
    reply.sha256 = it->sha256;
    reply.offset = c->at;
    reply.crc32 = (uint32_t)crc32(crc32(0, NULL, 0), piece.data, (unsigned)piece.len);
    c->at += piece.len;
    if (c->at == it->size) {
        c->now++;
        c->at = 0;
    }
    ps_call_send(call, &reply.base, &piece, piece.len > 0, send_next, c);
    ps_buf_unref(buf);
}

static void hashed(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    c->is_waiting = false;
    if (c->call == NULL) {
        destroy(c);
    } else if (!ps_is_ok(&c->status)) {
        fail(c, c->status);
    } else {
        send_next(c, c->call);
    }
}

static void start_hashing(ps_collect *c)
{
    ps_status st = list(c);

    if (!ps_is_ok(&st)) {
        fail(c, st);
        return;
    }
    c->task.run = hash_all;
    c->task.done = hashed;
    c->is_waiting = true;
    ps_tasks_submit(c->node->tasks, NULL, &c->task);
}

/* --- what the role saves --------------------------------------------------------- */

static void save(ps_task *task)
{
    ps_collect *c = PS_CONTAINER_OF(task, ps_collect, task);

    c->status = c->node->hooks->save(c->node->state, &c->node->stop_saving);
}

/* Makes a status INTERNAL, whatever its code: trying again would not help. */
static ps_status cannot_collect(ps_status st)
{
    ps_log(PS_LOG_ERROR, "node", "%s", st.text);
    return ps_fail(PS_INTERNAL, "%s", st.text);
}

/* Fails the call with NO_ROOM. Nothing is lost: the coordinator tries again later. */
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
    if (c->node->saves == 0) {
        ps_node_saved(c->node);
    }
    if (c->call == NULL) {
        destroy(c);
    } else if (c->status.code == PS_RESOURCE_EXHAUSTED) {
        fail_for_room(c);
    } else if (!ps_is_ok(&c->status)) {
        fail(c, cannot_collect(c->status));
    } else {
        start_hashing(c);
    }
}

static void start_saving(ps_collect *c)
{
    c->task.run = save;
    c->task.done = saved;
    c->is_waiting = true;
    c->node->saves++;
    ps_tasks_submit(c->node->tasks, NULL, &c->task);
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
    st = node->hooks->collect != NULL ? node->hooks->collect(node->state) : ps_ok();
    if (!ps_is_ok(&st)) {
        ps_call_fail(call, cannot_collect(st));
        return;
    }
    c = ps_xcalloc(1, sizeof *c);
    c->node = node;
    c->call = call;
    c->next = node->collects;
    node->collects = c;
    node->alive++;
    ps_call_on_gone(call, gone, c);
    if (node->hooks->save != NULL) {
        start_saving(c);
    } else {
        start_hashing(c);
    }
}
