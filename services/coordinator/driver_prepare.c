/* SPDX-License-Identifier: Apache-2.0 */
/* driver_prepare.c - PreCommit with one node: sends the packages in the order of package_order.h.
 *
 * The next message is made when the one before was sent. Only the node's answers to the offer of a
 * data set and to the seal are awaited. Tasks read files, one message ahead.
 */
#include "services/coordinator/driver_impl.h"

#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/data/packed.h"
#include "common/node/package_order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    SLICES_MAX = 1024, /* most slices of weights in one message */
    CHUNK_VALUES = PS_CHUNK_MAX / (int)sizeof(float)
};

struct ps_prepare {
    ps_attempt_node *node; /* NULL: stopped, maybe while a task runs, so tasks do not read it */
    ps_attempt *a;
    bool is_worker;
    uint32_t rank, rank_count; /* the node's first rank and its number of ranks */
    ps_stream *stream;
    ps_package_step at; /* the package that is sent next, or whose answer is awaited */
    bool awaits;        /* an answer must arrive before anything else is sent */
    bool prepared;      /* the seal was acknowledged */
    bool has_failed;    /* a failure was reported to the commit, so nothing more is sent */
    bool has_ended;     /* the stream has ended; this is freed when no task is reading */
    ps_task read;       /* reads the next piece of a file */
    /* `read` is running: only it uses open files, `chunk`, piece_bytes and read_status */
    bool is_reading;
    bool has_piece; /* `read` has ended: the piece is in `chunk`, or read_status says why not */
    ps_status read_status;
    size_t piece_bytes;
    ps_data_files files; /* the data files that the node needs (take_share) */
    size_t file;         /* index of the data file being sent */
    ps_packed *open;     /* data file number `file`; NULL: it is not open */
    uint64_t file_sent;  /* bytes of that data file that were sent */
    /* index of the next slice: of a worker in the layout, of a server among those that it holds */
    uint32_t slice;
    /* index of the file of tables, or of a checkpoint, that is being sent, among those that the
     * node gets (files_to_send) */
    size_t table;
    FILE *table_open; /* file number `table`; NULL: it is not open */
    uint64_t table_sent;
    XXH3_state_t *hash; /* hash of all bytes of weights, tables and a checkpoint that were sent */
    uint8_t *chunk;     /* (PS_CHUNK_MAX) a piece of a file */
    ps_piece pieces[SLICES_MAX];
    uint32_t slices[SLICES_MAX];
};

static void give_up(ps_prepare *p, ps_status why)
{
    p->has_failed = true;
    ps_commit_refused(&p->a->commit, p->node->index, &why, ps_coordinator_now_us(p->a->c));
    ps_attempt_pump(p->a); /* the commit may now stop this stream */
}

/* Gives up because a file could not be read. If it is a file of the job's own checkpoint, and the
 * attempt may be repeated, the attempt is interrupted: the next one takes a checkpoint that is
 * whole. Otherwise PreCommit is refused. */
static void give_up_reading(ps_prepare *p)
{
    if (p->at != PS_PACKAGE_FILES && p->a->package->is_own) {
        ps_commit_torn(&p->a->commit, &p->read_status, ps_coordinator_now_us(p->a->c));
    }
    give_up(p, p->read_status);
}

static void send(ps_prepare *p, Psgd__V1__PreCommitRequest *q, const ps_piece *pieces, size_t n)
{
    q->job_id = p->a->job_id;
    q->attempt = p->a->number;
    ps_stream_send(p->stream, &q->base, pieces, n);
}

static void send_settings(ps_prepare *p)
{
    Psgd__V1__PreCommitRequest q = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    Psgd__V1__SettingsPackage settings = PSGD__V1__SETTINGS_PACKAGE__INIT;
    Psgd__V1__Job *job = p->a->job->record.job;
    int64_t ms = p->a->commit.conf.pre_commit_us / 1000;

    settings.spec = p->a->plan->spec;
    if (p->is_worker) {
        settings.n_ranks = p->rank_count;
        settings.ranks = ps_xcalloc(settings.n_ranks, sizeof *settings.ranks);
        for (uint32_t k = 0; k < settings.n_ranks; k++) {
            settings.ranks[k] = p->rank + k;
        }
    } else {
        settings.rank = p->rank;
        settings.n_table_shrinks = job->n_table_shrinks;
        settings.table_shrinks = job->table_shrinks;
    }
    settings.n_placements = job->n_placements;
    settings.placements = job->placements;
    settings.server_of_shard = p->a->placement.server_of_shard;
    settings.n_server_of_shard = p->a->placement.server_count > 0 ? PS_SHARDS : 0;
    settings.placement_epoch = p->a->placement.epoch;
    settings.plan_hash = ps_plan_hash(p->a->plan);
    settings.first_clock = p->a->package->first_clock;
    settings.deadline_ms = ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
    q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SETTINGS;
    q.settings = &settings;
    send(p, &q, NULL, 0);
    free(settings.ranks);
}

/* Lists in `files` the data files that the node needs. A server needs none. */
static void take_share(ps_prepare *p)
{
    const ps_data_files *all = &p->a->package->files;

    if (p->is_worker && all->count > 0) {
        ps_package_files_of(p->a->package, p->rank, p->rank_count, &p->files);
    } else { /* the node draws the samples, or needs none */
        memcpy(p->files.sha256, all->sha256, sizeof p->files.sha256);
    }
}

static void send_data(ps_prepare *p)
{
    Psgd__V1__PreCommitRequest q = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    Psgd__V1__DataPackage package = PSGD__V1__DATA_PACKAGE__INIT;
    const ps_data_files *from = &p->files;
    Psgd__V1__DataFile *files = ps_xcalloc(from->count + 1, sizeof *files);
    Psgd__V1__DataFile **list = ps_xcalloc(from->count + 1, sizeof *list);

    for (size_t i = 0; i < from->count; i++) {
        psgd__v1__data_file__init(&files[i]);
        files[i].name = from->at[i].name;
        files[i].size = from->at[i].size;
        files[i].sha256 = from->at[i].sha256;
        list[i] = &files[i];
    }
    package.data = p->a->plan->spec->data;
    package.sha256 = (char *)from->sha256;
    package.n_files = from->count;
    package.files = list;
    q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA;
    q.data = &package;
    send(p, &q, NULL, 0);
    free(list);
    free(files);
}

/* --- pieces of files, read by tasks ----------------------------------------------- */

static void go_on(ps_prepare *p);

/* Reads into `chunk` the next bytes of what was learned from the data set, part i. `left` bytes of
 * the part are not read yet. */
static ps_status read_learned(ps_prepare *p, size_t i, uint64_t left)
{
    const ps_learned_part *part = &p->a->package->learned.at[i];

    p->piece_bytes = left < PS_CHUNK_MAX ? (size_t)left : PS_CHUNK_MAX;
    if (!ps_spill_read(part->content, part->size - left, p->piece_bytes, p->chunk)) {
        return ps_fail(PS_DATA_LOSS, "what was learned from the data set cannot be read back");
    }
    return ps_ok();
}

/* Reads into `chunk` the next bytes of data file p->file. `left` bytes of the file are not read
 * yet. */
static ps_status read_data(ps_prepare *p, uint64_t left)
{
    const ps_package *from = p->a->package;
    const char *name = p->files.at[p->file].name;
    size_t n = left < PS_CHUNK_MAX ? (size_t)left : PS_CHUNK_MAX;
    ps_status st = ps_ok();

    if (p->file >= p->files.count - p->files.learned) {
        return read_learned(p, p->file - (p->files.count - p->files.learned), left);
    }
    if (!p->open) {
        st = ps_packed_open(from->data_folder, name, &p->open, NULL);
    }
    if (ps_is_ok(&st)) {
        st = ps_packed_read(p->open, p->chunk, n, &p->piece_bytes);
    }
    if (ps_is_ok(&st) && p->piece_bytes < n) {
        st = ps_fail(PS_DATA_LOSS, "%s became shorter", name);
    }
    if (n == left || !ps_is_ok(&st)) {
        ps_packed_close(p->open);
        p->open = NULL;
    }
    return ps_wrap(st, "data set %s", p->a->plan->data->name);
}

static ps_status open_table(ps_prepare *p, const char *path)
{
    int fd = -1;
    ps_status st = ps_file_open(path, &fd, NULL);

    if (!ps_is_ok(&st)) {
        return st;
    }
    p->table_open = fdopen(fd, "rb");
    if (!p->table_open) {
        close(fd);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory to read %s", PS_PATH_SHOWN(path));
    }
    return st;
}

/* Returns the files of the present step, tables or state: the files of tables, or those of the
 * checkpoint for nodes of this role. The node gets *count of them, from *first on: a server all; a
 * worker those of its ranks, and none of tables. */
static const ps_init_tables *files_to_send(const ps_prepare *p, size_t *first, size_t *count)
{
    const ps_package *from = p->a->package;
    const ps_init_tables *files = p->at == PS_PACKAGE_TABLES ? &from->tables
                                  : p->is_worker             ? &from->ranks
                                                             : &from->servers;
    bool is_of_ranks = files == &from->ranks && files->count > 0;

    *first = is_of_ranks ? p->rank : 0;
    *count = is_of_ranks                                  ? p->rank_count
             : p->at == PS_PACKAGE_TABLES && p->is_worker ? 0
                                                          : files->count;
    return files;
}

/* Reads into `chunk` the next bytes of the file of tables, or of a checkpoint, that is being
 * sent. */
static ps_status read_table(ps_prepare *p)
{
    size_t first, count;
    const ps_init_tables *files = files_to_send(p, &first, &count);
    uint64_t left = files->sizes[first + p->table] - p->table_sent;
    const char *path = files->paths[first + p->table];
    size_t n = left < PS_CHUNK_MAX ? (size_t)left : PS_CHUNK_MAX;
    ps_status st = p->table_open ? ps_ok() : open_table(p, path);

    if (ps_is_ok(&st)) {
        p->piece_bytes = fread(p->chunk, 1, n, p->table_open);
        if (n == 0 || p->piece_bytes < n) {
            st = ps_fail(PS_DATA_LOSS, "%s became shorter", PS_PATH_SHOWN(path));
        }
    }
    if (p->table_open && (n == left || !ps_is_ok(&st))) {
        fclose(p->table_open);
        p->table_open = NULL;
    }
    return ps_wrap(st, p->at == PS_PACKAGE_TABLES ? "init_tables" : "init_from");
}

static void read_piece(ps_task *task)
{
    ps_prepare *p = PS_CONTAINER_OF(task, ps_prepare, read);

    p->read_status = p->at == PS_PACKAGE_FILES
                         ? read_data(p, p->files.at[p->file].size - p->file_sent)
                         : read_table(p);
}

static void release(ps_prepare *p)
{
    ps_attempt *a = p->a;

    ps_packed_close(p->open);
    if (p->table_open) {
        fclose(p->table_open);
    }
    XXH3_freeState(p->hash);
    ps_data_files_free(&p->files);
    free(p->chunk);
    free(p);
    ps_attempt_settle(a);
}

static void piece_read(ps_task *task)
{
    ps_prepare *p = PS_CONTAINER_OF(task, ps_prepare, read);

    p->is_reading = false;
    p->has_piece = true;
    if (p->has_ended) {
        release(p);
    } else {
        go_on(p);
    }
}

/* Returns whether the next piece of a file is in `chunk`; the caller then sends it. If not, a task
 * reads the piece from now on or does so already, or reading has failed and PreCommit is given
 * up. */
static bool take_piece(ps_prepare *p)
{
    if (p->is_reading) {
        return false;
    }
    if (!p->has_piece) {
        p->is_reading = true;
        p->read_status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
        p->read = (ps_task){.run = read_piece, .done = piece_read};
        ps_tasks_submit(p->a->c->sends, NULL, &p->read);
        return false;
    }
    p->has_piece = false;
    if (!ps_is_ok(&p->read_status)) {
        give_up_reading(p);
        return false;
    }
    return true;
}

/* Sends the next piece of the data files, if it has been read. Returns false if all of them were
 * sent, so that the next step may begin. */
static bool send_file_piece(ps_prepare *p)
{
    Psgd__V1__PreCommitRequest q = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    Psgd__V1__DataChunk chunk = PSGD__V1__DATA_CHUNK__INIT;

    if (p->file == p->files.count) {
        return false;
    }
    if (!take_piece(p)) {
        return true;
    }
    chunk.file = (uint32_t)p->file;
    chunk.offset = p->file_sent;
    q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA_CHUNK;
    q.data_chunk = &chunk;
    p->file_sent += p->piece_bytes;
    if (p->file_sent == p->files.at[p->file].size) {
        p->file_sent = 0;
        p->file++;
    }
    send(p, &q, &(ps_piece){.data = p->chunk, .len = p->piece_bytes}, 1);
    if (p->file < p->files.count) {
        take_piece(p); /* starts to read the piece after the one that was sent */
    }
    return true;
}

/* Sends the next message of slices of the weights: a worker gets all slices, a server those that it
 * holds. Returns false if none are left. */
static bool send_weights(ps_prepare *p)
{
    Psgd__V1__PreCommitRequest q = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    Psgd__V1__WeightsChunk chunk = PSGD__V1__WEIGHTS_CHUNK__INIT;
    const ps_layout *layout = &p->a->plan->layout;
    uint32_t rank = p->rank;
    uint32_t count =
        p->is_worker ? layout->slice_count : ps_placement_held_count(&p->a->placement, rank);
    const float *block = (const void *)p->a->package->weights->data;
    size_t values = 0, n = 0;

    while (p->slice < count && n < SLICES_MAX) {
        uint32_t index =
            p->is_worker ? p->slice : ps_placement_held(&p->a->placement, rank, p->slice);
        const ps_slice *s = &layout->slices[index];

        if (values + s->n > CHUNK_VALUES) {
            break;
        }
        p->pieces[n] = (ps_piece){
            .data = block + s->at, .len = s->n * sizeof(float), .buf = p->a->package->weights};
        p->slices[n++] = index;
        values += s->n;
        XXH3_64bits_update(p->hash, block + s->at, s->n * sizeof(float));
        p->slice++;
    }
    if (n == 0) {
        return false;
    }
    chunk.n_slices = n;
    chunk.slices = p->slices;
    q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_WEIGHTS;
    q.weights = &chunk;
    send(p, &q, p->pieces, n);
    return true;
}

/* Sends the next piece of the files of tables, or of a checkpoint (files_to_send), if it has been
 * read. Returns false if all of them were sent, so that the next step may begin. */
static bool send_table_piece(ps_prepare *p)
{
    Psgd__V1__PreCommitRequest q = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    Psgd__V1__TableChunk table = PSGD__V1__TABLE_CHUNK__INIT;
    Psgd__V1__StateChunk state = PSGD__V1__STATE_CHUNK__INIT;
    size_t first, count;
    const ps_init_tables *from = files_to_send(p, &first, &count);

    if (p->table == count) {
        p->table = 0;
        return false;
    }
    if (!take_piece(p)) {
        return true;
    }
    table.file = state.file = (uint32_t)p->table;
    table.size = state.size = from->sizes[first + p->table];
    table.offset = state.offset = p->table_sent;
    state.files = (uint32_t)count;
    if (p->at == PS_PACKAGE_TABLES) {
        q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_TABLE;
        q.table = &table;
    } else {
        q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_STATE;
        q.state = &state;
    }
    XXH3_64bits_update(p->hash, p->chunk, p->piece_bytes);
    p->table_sent += p->piece_bytes;
    if (p->table_sent == table.size) {
        p->table_sent = 0;
        p->table++;
    }
    send(p, &q, &(ps_piece){.data = p->chunk, .len = p->piece_bytes}, 1);
    if (p->table < count) {
        take_piece(p); /* starts to read the piece after the one that was sent */
    }
    return true;
}

static void send_seal(ps_prepare *p)
{
    Psgd__V1__PreCommitRequest q = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    Psgd__V1__SealPackage seal = PSGD__V1__SEAL_PACKAGE__INIT;

    seal.weights_hash = XXH3_64bits_digest(p->hash);
    q.package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SEAL;
    q.seal = &seal;
    send(p, &q, NULL, 0);
}

/* Sends the next message of PreCommit. Does nothing if an answer must come first, the stream is
 * busy, or PreCommit is stopped or has failed. Called again when the message is sent, an answer has
 * come or a piece is read. */
static void go_on(ps_prepare *p)
{
    if (!p->node || p->has_failed || p->awaits || !ps_stream_can_send(p->stream)) {
        return;
    }
    switch (p->at) {
    case PS_PACKAGE_SETTINGS:
        p->at = PS_PACKAGE_DATA;
        send_settings(p);
        break;
    case PS_PACKAGE_DATA:
        p->awaits = true;
        send_data(p);
        break;
    case PS_PACKAGE_FILES:
        if (send_file_piece(p)) {
            break;
        }
        p->at = PS_PACKAGE_WEIGHTS;
        /* fall through */
    case PS_PACKAGE_WEIGHTS:
        if (send_weights(p)) {
            break;
        }
        p->at = PS_PACKAGE_TABLES;
        /* fall through */
    case PS_PACKAGE_TABLES:
        if (send_table_piece(p)) {
            break;
        }
        p->at = PS_PACKAGE_STATE;
        /* fall through */
    case PS_PACKAGE_STATE:
        if (send_table_piece(p)) {
            break;
        }
        p->at = PS_PACKAGE_SEAL;
        /* fall through */
    case PS_PACKAGE_SEAL:
        p->awaits = true;
        send_seal(p);
        break;
    case PS_PACKAGE_NONE:
        break;
    }
}

static void on_sent(void *arg)
{
    ps_prepare *p = arg;

    if (p->node && p->awaits && p->at == PS_PACKAGE_SEAL) {
        ps_stream_half_close(p->stream);
    }
    go_on(p);
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PreCommitResponse *r = (const void *)head;
    ps_prepare *p = arg;
    int64_t now_us = ps_coordinator_now_us(p->a->c);

    (void)payload;
    if (!p->node || p->has_failed) {
        return;
    }
    ps_commit_seen(&p->a->commit, p->node->index, now_us);
    if (r->package == PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA && p->awaits &&
        p->at == PS_PACKAGE_DATA) {
        if (r->need_data && p->files.count == 0) {
            give_up(p, ps_fail(PS_FAILED_PRECONDITION,
                               "the node draws data set %s differently: another version",
                               p->a->plan->data->name));
            return;
        }
        if (r->need_data && r->file >= p->files.count) {
            give_up(p, ps_fail(PS_INVALID_ARGUMENT,
                               "the node asks for data file %u; it has %zu, from 0 on", r->file,
                               p->files.count));
            return;
        }
        p->awaits = false;
        p->file = r->file;
        p->at = r->need_data ? PS_PACKAGE_FILES : PS_PACKAGE_WEIGHTS;
    }
    ps_stream_read(p->stream);
    if (r->package == PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_SEAL && p->awaits &&
        p->at == PS_PACKAGE_SEAL) {
        p->prepared = true;
        ps_commit_prepared(&p->a->commit, p->node->index, now_us);
        ps_attempt_pump(p->a);
        return;
    }
    go_on(p);
}

static void on_end(void *arg, const ps_error *error)
{
    ps_prepare *p = arg;
    ps_attempt_node *node = p->node;
    ps_error e = *error;

    if (node) {
        node->prepare = NULL;
        if (ps_is_ok(&e.status)) {
            ps_error_init(
                &e, ps_fail(PS_UNAVAILABLE, "PreCommit ended before the seal was acknowledged"),
                NULL);
        }
        if (!p->prepared && !p->has_failed) {
            ps_attempt_node_refused(node, &e);
            ps_attempt_pump(p->a);
        }
    }
    p->has_ended = true;
    if (!p->is_reading) {
        release(p);
    }
}

void ps_prepare_start(ps_attempt_node *node)
{
    static const ps_stream_events events = {
        .on_message = on_message, .on_sent = on_sent, .on_end = on_end};
    ps_prepare *p = ps_xcalloc(1, sizeof *p);
    const ps_member *member = &node->a->commit.members[node->index];

    assert(!node->prepare);
    p->node = node;
    p->a = node->a;
    p->is_worker = member->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    p->rank = member->rank;
    p->rank_count = member->rank_count;
    p->hash = XXH3_createState();
    p->chunk = ps_xmalloc(PS_CHUNK_MAX);
    XXH3_64bits_reset(p->hash);
    take_share(p);
    node->prepare = p;
    p->a->pending++;
    p->stream = ps_stream_open(node->channel, &psgd__v1__node_service__descriptor, "PreCommit",
                               PS_NO_TIMEOUT, 0, &events, p);
    ps_stream_read(p->stream);
    go_on(p);
}

void ps_prepare_stop(ps_prepare *prepare)
{
    if (!prepare->node) {
        return;
    }
    prepare->node->prepare = NULL;
    prepare->node = NULL;
    ps_stream_cancel(prepare->stream);
}
