/* SPDX-License-Identifier: Apache-2.0 */
/* node_calls.c - see node_world.h: calls to the node, made on the loop's thread
 * and waited for on the test's. */
#include "tests/support/node_world.h"

#include "common/base/clock.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "common/data/identify.h"
#include "tests/support/patience.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

/* --- unary ----------------------------------------------------------------------- */

typedef struct unary {
    node_world *w;
    const char *method;
    const ProtobufCMessage *request;
    ps_error *error;
    ProtobufCMessage *reply;
    bool done;
} unary;

static bool waiting_done;

static bool is_done(node_world *w)
{
    (void)w;
    return waiting_done;
}

static void finish(node_world *w)
{
    pthread_mutex_lock(&w->mutex);
    waiting_done = true;
    nw_changed(w);
    pthread_mutex_unlock(&w->mutex);
}

static void wait_for_it(node_world *w, void (*start)(void *arg), void *arg, const char *what)
{
    waiting_done = false;
    nw_run(w, start, arg);
    nw_await(w, is_done, what);
}

static void answered(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    unary *u = arg;

    *u->error = *error;
    if (reply != NULL) {
        size_t n = protobuf_c_message_get_packed_size(reply);
        uint8_t *bytes = ps_xmalloc(n + 1);

        protobuf_c_message_pack(reply, bytes);
        u->reply = protobuf_c_message_unpack(reply->descriptor, NULL, n, bytes);
        free(bytes);
    }
    finish(u->w);
}

static void start_unary(void *arg)
{
    unary *u = arg;

    (void)ps_unary_start(u->w->channel, &psgd__v1__node_service__descriptor, u->method, u->request,
                         NW_REPLY_US, answered, u);
}

ProtobufCMessage *nw_call(node_world *w, const char *method, const ProtobufCMessage *request,
                          ps_error *error)
{
    unary u = {.w = w, .method = method, .request = request, .error = error};

    wait_for_it(w, start_unary, &u, method);
    return u.reply;
}

bool nw_can_commit(node_world *w, const char *job_id, uint32_t attempt, unsigned coordinator,
                   uint32_t reserve_ms, ps_error *error)
{
    Psgd__V1__CanCommitRequest request = PSGD__V1__CAN_COMMIT_REQUEST__INIT;
    Psgd__V1__CanCommitResponse *reply;
    bool is_ready;

    request.job_id = (char *)job_id;
    request.attempt = attempt;
    request.role = w->role;
    request.coordinator = w->coordinator[coordinator].address;
    request.reserve_ms = reserve_ms;
    reply = (Psgd__V1__CanCommitResponse *)nw_call(w, "CanCommit", &request.base, error);
    is_ready = reply != NULL && reply->ready;
    if (reply != NULL) {
        protobuf_c_message_free_unpacked(&reply->base, NULL);
    }
    return is_ready;
}

void nw_do_commit(node_world *w, const char *job_id, uint32_t attempt, ps_error *error)
{
    Psgd__V1__DoCommitRequest request = PSGD__V1__DO_COMMIT_REQUEST__INIT;
    ProtobufCMessage *reply;

    request.job_id = (char *)job_id;
    request.attempt = attempt;
    reply = nw_call(w, "DoCommit", &request.base, error);
    if (reply != NULL) {
        protobuf_c_message_free_unpacked(reply, NULL);
    }
}

void nw_abort(node_world *w, const char *job_id, uint32_t attempt, ps_error *error)
{
    Psgd__V1__AbortRequest request = PSGD__V1__ABORT_REQUEST__INIT;
    ProtobufCMessage *reply;

    request.job_id = (char *)job_id;
    request.attempt = attempt;
    request.why = (char *)"the test says so";
    reply = nw_call(w, "Abort", &request.base, error);
    if (reply != NULL) {
        protobuf_c_message_free_unpacked(reply, NULL);
    }
}

Psgd__V1__NodePhase nw_phase(node_world *w)
{
    static const Psgd__V1__GetStatusRequest request = PSGD__V1__GET_STATUS_REQUEST__INIT;
    ps_error error;
    Psgd__V1__GetStatusResponse *reply =
        (Psgd__V1__GetStatusResponse *)nw_call(w, "GetStatus", &request.base, &error);
    Psgd__V1__NodePhase phase = PSGD__V1__NODE_PHASE__NODE_PHASE_UNSPECIFIED;

    if (reply != NULL) {
        phase = reply->node->phase;
        protobuf_c_message_free_unpacked(&reply->base, NULL);
    }
    return phase;
}

void nw_await_idle(node_world *w)
{
    int64_t until_us = ps_clock_us() + PS_TEST_PATIENCE_S * INT64_C(1000000);
    Psgd__V1__NodePhase phase = nw_phase(w);

    while (phase != PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE && ps_clock_us() < until_us) {
        phase = nw_phase(w);
    }
    assert_int_equal(phase, PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE);
}

/* --- PreCommit ------------------------------------------------------------------- */

typedef enum sending { SETTINGS, DATA, FILES, WEIGHTS, TABLE, SEAL, ENDED } sending;

struct nw_sender {
    node_world *w;
    nw_packages p;
    nw_precommit_result *result;
    ps_stream *stream;
    sending step;
    unsigned sent;
    bool awaits_ack;
    ps_data_files files;
    size_t file;
    uint64_t offset;
    FILE *open;
    uint32_t slice;
    bool has_half; /* the first half of the table's file was sent */
    uint8_t *piece;
};

static ps_placement dealt_of(const ps_plan *plan)
{
    ps_placement dealt;

    ps_placement_init(&dealt, &plan->layout, plan->spec->pservers, plan->spec->workers);
    return dealt;
}

/* Sets p->weights_hash to the hash of all that is sent: the weights, and then the table's file. */
static void hash_weights(nw_packages *p)
{
    const ps_layout *layout = &p->plan->layout;
    ps_placement dealt = dealt_of(p->plan);
    XXH3_state_t *hash = XXH3_createState();

    (void)XXH3_64bits_reset(hash);
    for (uint32_t i = 0; i < layout->slice_count; i++) {
        const ps_slice *slice = &layout->slices[i];

        if (p->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER || dealt.server_of[i] == p->rank) {
            (void)XXH3_64bits_update(hash, p->weights + slice->at, slice->n * sizeof(float));
        }
    }
    if (p->table_len > 0) {
        (void)XXH3_64bits_update(hash, p->table, p->table_len);
    }
    p->weights_hash = XXH3_64bits_digest(hash);
    ps_placement_fini(&dealt);
    XXH3_freeState(hash);
}

nw_packages nw_packages_of(const ps_plan *plan, Psgd__V1__NodeRole role, uint32_t rank,
                           const char *job_id, uint32_t attempt, const float *weights)
{
    nw_packages p = {
        .plan = plan,
        .role = role,
        .rank = rank,
        .job_id = job_id,
        .attempt = attempt,
        .deadline_ms = PS_TEST_PATIENCE_S * 1000,
        .weights = weights,
        .plan_hash = ps_plan_hash(plan),
    };

    hash_weights(&p);
    return p;
}

void nw_add_table(nw_packages *packages, const uint8_t *bytes, size_t len)
{
    packages->table = bytes;
    packages->table_len = len;
    packages->table_size = len;
    packages->table_at = len / 2;
    packages->table_file = 0;
    hash_weights(packages);
}

static void transmit(nw_sender *s, Psgd__V1__PreCommitRequest *request, const void *bytes, size_t n)
{
    ps_piece piece = {.data = bytes, .len = n};

    request->job_id = (char *)s->p.job_id;
    request->attempt = s->p.attempt;
    ps_stream_send(s->stream, &request->base, &piece, n > 0);
    s->sent++;
}

static void send_settings(nw_sender *s, Psgd__V1__PreCommitRequest *request)
{
    Psgd__V1__SettingsPackage settings = PSGD__V1__SETTINGS_PACKAGE__INIT;
    const Psgd__V1__JobSpec *spec = s->p.plan->spec;
    size_t count = spec->workers + spec->pservers;
    Psgd__V1__Placement *placements = ps_xcalloc(count, sizeof *placements);
    Psgd__V1__Placement **list = ps_xcalloc(count, sizeof *list);
    char(*names)[32] = ps_xcalloc(count, sizeof *names);
    ps_placement dealt = dealt_of(s->p.plan);

    for (uint32_t i = 0; i < count; i++) {
        bool is_worker = i < spec->workers;

        psgd__v1__placement__init(&placements[i]);
        snprintf(names[i], sizeof names[i], "127.0.0.1:%u", 10000 + i);
        /* any distinct id does: takes the port of the address */
        placements[i].node_id = strchr(names[i], ':') + 1;
        placements[i].address = names[i];
        placements[i].role = is_worker ? PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER
                                       : PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
        placements[i].rank = is_worker ? i : i - spec->workers;
        list[i] = &placements[i];
    }
    settings.spec = (Psgd__V1__JobSpec *)spec;
    if (s->p.role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
        settings.ranks = &s->p.rank;
        settings.n_ranks = 1;
    } else {
        settings.rank = s->p.rank;
    }
    settings.placements = list;
    settings.n_placements = count;
    settings.server_of_shard = dealt.server_of_shard;
    settings.n_server_of_shard = spec->pservers > 0 ? PS_SHARDS : 0;
    settings.placement_epoch = dealt.epoch;
    settings.plan_hash = s->p.plan_hash;
    settings.n_table_shrinks = s->p.shrink_count;
    settings.table_shrinks = (uint64_t *)s->p.shrinks;
    settings.deadline_ms = s->p.deadline_ms;
    request->package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SETTINGS;
    request->settings = &settings;
    transmit(s, request, NULL, 0);
    free(placements);
    free(list);
    ps_placement_fini(&dealt);
    free(names);
}

static void send_data(nw_sender *s, Psgd__V1__PreCommitRequest *request)
{
    Psgd__V1__DataPackage package = PSGD__V1__DATA_PACKAGE__INIT;
    Psgd__V1__DataFile files[PS_DATA_FILES_MAX], *list[PS_DATA_FILES_MAX];

    assert_true(s->files.count <= PS_DATA_FILES_MAX);
    for (size_t i = 0; i < s->files.count; i++) {
        psgd__v1__data_file__init(&files[i]);
        files[i].name = s->files.at[i].name;
        files[i].size = s->files.at[i].size;
        files[i].sha256 = s->files.at[i].sha256;
        list[i] = &files[i];
    }
    package.data = s->p.plan->spec->data;
    package.sha256 = s->p.data_sha256 != NULL ? (char *)s->p.data_sha256 : s->files.sha256;
    package.files = list;
    package.n_files = s->files.count;
    request->package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA;
    request->data = &package;
    transmit(s, request, NULL, 0);
}

static void send_piece(nw_sender *s, Psgd__V1__PreCommitRequest *request)
{
    Psgd__V1__DataChunk chunk = PSGD__V1__DATA_CHUNK__INIT;
    size_t n;

    if (s->open == NULL) {
        char path[256];

        snprintf(path, sizeof path, "%s/%s", s->p.folder, s->files.at[s->file].name);
        s->open = fopen(path, "rb");
    }
    n = fread(s->piece, 1, PS_PAYLOAD_MAX, s->open);
    if (s->p.corrupts_data) {
        s->piece[n / 2] ^= 1;
    }
    chunk.file = (uint32_t)s->file;
    chunk.offset = s->offset;
    request->package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_DATA_CHUNK;
    request->data_chunk = &chunk;
    transmit(s, request, s->piece, n);
    s->offset += n;
    s->result->data_bytes += n;
    s->awaits_ack = s->offset == s->files.at[s->file].size;
    if (s->awaits_ack) {
        fclose(s->open);
        s->open = NULL;
        s->offset = 0;
        s->file++;
    }
}

/* Sends a message with as many slices of weights as fit. */
static void send_weights(nw_sender *s, Psgd__V1__PreCommitRequest *request)
{
    Psgd__V1__WeightsChunk chunk = PSGD__V1__WEIGHTS_CHUNK__INIT;
    const ps_layout *layout = &s->p.plan->layout;
    ps_placement dealt = dealt_of(s->p.plan);
    uint32_t indices[64];
    size_t n = 0;

    for (; s->slice < layout->slice_count && chunk.n_slices < 16; s->slice++) {
        const ps_slice *slice = &layout->slices[s->slice];

        if (s->p.role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ||
            dealt.server_of[s->slice] == s->p.rank) {
            memcpy(s->piece + n, s->p.weights + slice->at, slice->n * sizeof(float));
            n += slice->n * sizeof(float);
            indices[chunk.n_slices++] = slice->index;
        }
    }
    ps_placement_fini(&dealt);
    chunk.slices = indices;
    request->package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_WEIGHTS;
    request->weights = &chunk;
    transmit(s, request, s->piece, n);
}

/* Sends one half of the table's file; the next call sends the other half. */
static void send_table(nw_sender *s, Psgd__V1__PreCommitRequest *request)
{
    Psgd__V1__TableChunk chunk = PSGD__V1__TABLE_CHUNK__INIT;
    size_t half = s->p.table_len / 2;

    chunk.file = s->has_half ? s->p.table_file : 0;
    chunk.size = s->p.table_size;
    chunk.offset = s->has_half ? s->p.table_at : 0;
    request->package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_TABLE;
    request->table = &chunk;
    if (s->has_half) {
        transmit(s, request, s->p.table + half, s->p.table_len - half);
    } else {
        transmit(s, request, s->p.table, half);
    }
}

static void send_seal(nw_sender *s, Psgd__V1__PreCommitRequest *request)
{
    Psgd__V1__SealPackage seal = PSGD__V1__SEAL_PACKAGE__INIT;

    seal.weights_hash = s->p.weights_hash;
    request->package_case = PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SEAL;
    request->seal = &seal;
    transmit(s, request, NULL, 0);
}

static void send_next(nw_sender *s)
{
    Psgd__V1__PreCommitRequest request = PSGD__V1__PRE_COMMIT_REQUEST__INIT;
    static void (*const senders[])(nw_sender *, Psgd__V1__PreCommitRequest *) = {
        [SETTINGS] = send_settings, [DATA] = send_data,   [FILES] = send_piece,
        [WEIGHTS] = send_weights,   [TABLE] = send_table, [SEAL] = send_seal,
    };
    sending step = s->step;

    if (s->p.skips_settings && s->sent == 0) {
        step = DATA;
    }
    s->awaits_ack = step != WEIGHTS && step != FILES && step != TABLE;
    senders[step](s, &request);
}

static void on_sent(void *arg)
{
    nw_sender *s = arg;

    if (s->p.stop_after != 0 && s->sent >= s->p.stop_after) {
        ps_stream_cancel(s->stream);
    } else if (s->awaits_ack) {
        ps_stream_read(s->stream);
    } else {
        if (s->step == WEIGHTS && s->slice == s->p.plan->layout.slice_count) {
            s->step = s->p.table != NULL ? TABLE : SEAL;
        } else if (s->step == TABLE) {
            s->step = s->has_half ? SEAL : TABLE;
            s->has_half = true;
        }
        send_next(s);
    }
}

static void on_message(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__PreCommitResponse *reply = (const Psgd__V1__PreCommitResponse *)head;
    nw_sender *s = arg;

    (void)payload;
    s->result->acks++;
    switch (reply->package) {
    case PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA:
        s->result->needed_data = reply->need_data;
        s->step = reply->need_data ? FILES : WEIGHTS;
        break;
    case PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_DATA_FILE:
        s->step = s->file == s->files.count ? WEIGHTS : FILES;
        break;
    case PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_SEAL:
        s->result->sealed = true;
        s->step = ENDED;
        break;
    case PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_SETTINGS:
        s->step = s->p.role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? DATA : WEIGHTS;
        break;
    default:
        s->step++;
    }
    if (s->p.skips_weights && s->step == WEIGHTS) {
        s->step = SEAL;
    }
    if (s->step == ENDED) {
        ps_stream_half_close(s->stream);
        ps_stream_read(s->stream);
    } else {
        send_next(s);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    nw_sender *s = arg;

    s->result->error = *error;
    if (s->open != NULL) {
        fclose(s->open);
    }
    pthread_mutex_lock(&s->w->mutex);
    s->w->precommit_is_over = true;
    nw_changed(s->w);
    pthread_mutex_unlock(&s->w->mutex);
}

static void open_stream(void *arg)
{
    static const ps_stream_events events = {on_message, on_sent, on_end};
    nw_sender *s = arg;

    s->stream = ps_stream_open(s->w->channel, &psgd__v1__node_service__descriptor, "PreCommit",
                               NW_REPLY_US, 0, &events, s);
    send_next(s);
}

static bool is_over(node_world *w)
{
    return w->precommit_is_over;
}

nw_sender *nw_precommit_begin(node_world *w, const nw_packages *packages,
                              nw_precommit_result *result)
{
    nw_sender *s = ps_xcalloc(1, sizeof *s);
    ps_status st;

    s->w = w;
    s->p = *packages;
    s->result = result;
    s->piece = ps_xmalloc(PS_PAYLOAD_MAX);
    st = ps_data_describe(&packages->plan->data_conf,
                          packages->folder != NULL ? packages->folder : "", &s->files);
    assert_string_equal(st.text, "");
    memset(result, 0, sizeof *result);
    w->precommit_is_over = false; /* none is under way */
    nw_run(w, open_stream, s);
    return s;
}

void nw_precommit_end(nw_sender *s)
{
    nw_await(s->w, is_over, "PreCommit to end");
    free(s->piece);
    ps_data_files_free(&s->files);
    free(s);
}

void nw_precommit(node_world *w, const nw_packages *packages, nw_precommit_result *result)
{
    nw_precommit_end(nw_precommit_begin(w, packages, result));
}

/* --- Collect ---------------------------------------------------------------------- */

struct nw_collector {
    node_world *w;
    Psgd__V1__CollectRequest request;
    ps_stream *stream;
    nw_collected *out;
    const char *wrong; /* what was wrong with the answers; NULL: nothing */
    char sha256[PS_SHA256_HEX_BYTES];
    uint64_t size;
};

static void check_last(nw_collector *c)
{
    char sha256[PS_SHA256_HEX_BYTES];
    nw_file *last = c->out->count > 0 ? &c->out->files[c->out->count - 1] : NULL;

    if (last != NULL) {
        ps_sha256_of(ps_strbuf_text(&last->bytes), last->bytes.len, sha256);
        if (last->bytes.len != c->size || strcmp(sha256, c->sha256) != 0) {
            c->wrong = "size or sha256 of a file";
        }
    }
}

static void on_chunk(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    const Psgd__V1__CollectResponse *reply = (const Psgd__V1__CollectResponse *)head;
    nw_collector *c = arg;
    size_t n = ps_payload_len(payload);
    uint8_t *scratch = ps_xmalloc(n + 1);
    const uint8_t *bytes = ps_payload_view(payload, 0, n, scratch);
    nw_file *file = &c->out->files[c->out->count == 0 ? 0 : c->out->count - 1];

    if (c->out->count == 0 || strcmp(file->name, reply->name) != 0) {
        check_last(c);
        file = &c->out->files[c->out->count++];
        snprintf(file->name, sizeof file->name, "%s", reply->name);
        file->kind = reply->kind;
        c->size = reply->size;
    }
    /* the checksum in the last chunk counts */
    snprintf(c->sha256, sizeof c->sha256, "%s", reply->sha256);
    if (reply->offset != file->bytes.len) {
        c->wrong = "offset of a chunk";
    }
    if (reply->crc32 != (uint32_t)crc32(crc32(0, NULL, 0), bytes, (unsigned)n)) {
        c->wrong = "crc32 of a chunk";
    }
    ps_strbuf_append(&file->bytes, bytes, n);
    free(scratch);
    ps_stream_read(c->stream);
}

static void on_collected(void *arg, const ps_error *error)
{
    nw_collector *c = arg;

    c->out->error = *error;
    check_last(c);
    pthread_mutex_lock(&c->w->mutex);
    c->w->collect_is_over = true;
    nw_changed(c->w);
    pthread_mutex_unlock(&c->w->mutex);
}

static void on_asked(void *arg)
{
    nw_collector *c = arg;

    ps_stream_half_close(c->stream);
    ps_stream_read(c->stream);
}

static void open_collect(void *arg)
{
    static const ps_stream_events events = {on_chunk, on_asked, on_collected};
    nw_collector *c = arg;

    c->stream = ps_stream_open(c->w->channel, &psgd__v1__node_service__descriptor, "Collect",
                               NW_REPLY_US, 0, &events, c);
    ps_stream_send(c->stream, &c->request.base, NULL, 0);
}

static bool collect_is_over(node_world *w)
{
    return w->collect_is_over;
}

nw_collector *nw_collect_begin(node_world *w, const char *job_id, uint32_t attempt,
                               nw_collected *out)
{
    nw_collector *c = ps_xcalloc(1, sizeof *c);

    c->w = w;
    c->out = out;
    memset(out, 0, sizeof *out);
    psgd__v1__collect_request__init(&c->request);
    c->request.job_id = (char *)job_id;
    c->request.attempt = attempt;
    w->collect_is_over = false; /* none is under way */
    nw_run(w, open_collect, c);
    return c;
}

void nw_collect_end(nw_collector *c)
{
    nw_await(c->w, collect_is_over, "Collect to end");
    if (c->wrong != NULL) {
        fail_msg("wrong: %s", c->wrong);
    }
    free(c);
}

void nw_collect(node_world *w, const char *job_id, uint32_t attempt, nw_collected *out)
{
    nw_collect_end(nw_collect_begin(w, job_id, attempt, out));
}

void nw_collected_fini(nw_collected *c)
{
    for (size_t i = 0; i < c->count; i++) {
        ps_strbuf_fini(&c->files[i].bytes);
    }
}
