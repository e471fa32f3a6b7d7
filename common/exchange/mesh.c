/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - see mesh.h: what all exchanges have in common. */
#include "common/exchange/mesh_impl.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_MESH(name) extern const ps_mesh ps_mesh_##name;
#include "common/exchange/list.h"
#undef PS_MESH

static const ps_mesh *const meshes[] = {
#define PS_MESH(name) &ps_mesh_##name,
#include "common/exchange/list.h"
#undef PS_MESH
};

enum {
    MESHES = sizeof meshes / sizeof meshes[0],
    EARLY_MAX = 1 << 20,
    ANSWERS_MAX = 4 /* to one node in a step: it asks for two of them once each */
};

/* `what` of a packet that asks for those of its step again. */
static const uint32_t again = UINT32_MAX;

const ps_param ps_mesh_params[] = {
    {.name = "window_ms",
     .value = 0,
     .min = 0,
     .max = 43200000,
     .is_integer = true,
     .help = "time of a step until workers say things again, and once more until it fails; 0: half "
             "of timeouts.step_ms"},
    {0},
};

const ps_mesh *ps_mesh_find(const char *name)
{
    for (size_t i = 0; i < MESHES; i++) {
        if (strcmp(meshes[i]->name, name) == 0) {
            return meshes[i];
        }
    }
    return NULL;
}

void ps_mesh_each(void (*fn)(const ps_mesh *mesh, void *arg), void *arg)
{
    for (size_t i = 0; i < MESHES; i++) {
        fn(meshes[i], arg);
    }
}

/* --- packets ------------------------------------------------------------------ */

ps_packet *ps_packet_create(size_t cap)
{
    ps_packet *packet = ps_xcalloc(1, sizeof *packet);

    atomic_init(&packet->refs, 1);
    psgd__v1__encoding__init(&packet->head.msg);
    packet->buf = ps_buf_create(cap);
    packet->bytes = packet->buf->data;
    return packet;
}

ps_packet *ps_packet_ref(ps_packet *packet)
{
    atomic_fetch_add_explicit(&packet->refs, 1, memory_order_relaxed);
    return packet;
}

void ps_packet_unref(ps_packet *packet)
{
    if (packet != NULL && atomic_fetch_sub_explicit(&packet->refs, 1, memory_order_acq_rel) == 1) {
        ps_buf_unref(packet->buf);
        free(packet);
    }
}

ps_packet *mesh_packet(ps_mesh_node *node, uint32_t what, uint32_t piece, size_t cap)
{
    ps_packet *packet = ps_packet_create(cap);

    packet->clock = node->clock;
    packet->from = node->conf.self;
    packet->what = what;
    packet->piece = piece;
    return packet;
}

ps_packet *mesh_encode(ps_mesh_node *node, uint32_t what, uint32_t piece, uint32_t slice,
                       uint32_t contributor, const float *x, size_t count)
{
    const ps_mesh_conf *conf = &node->conf;
    ps_packet *packet = mesh_packet(node, what, piece, conf->codec->size(&conf->params, count));

    packet->n = (uint32_t)count;
    packet->len =
        ps_codec_encode(conf->codec, &conf->params,
                        ps_draw_key(conf->seed, PS_DRAW_UP, slice, node->clock, contributor), slice,
                        x, count, packet->bytes, &packet->head);
    return packet;
}

ps_packet *mesh_copy(ps_mesh_node *node, const ps_packet *packet, size_t n)
{
    ps_packet *copy = mesh_packet(node, packet->what, packet->piece, 0);

    ps_encoding_copy(&copy->head, &packet->head.msg);
    ps_buf_unref(copy->buf);
    copy->buf = ps_buf_ref(packet->buf);
    copy->bytes = packet->bytes;
    copy->len = packet->len;
    copy->n = (uint32_t)n;
    return copy;
}

ps_status mesh_decode(const ps_mesh_node *node, const ps_packet *packet, ps_into into, float *y,
                      size_t count)
{
    return ps_codec_decode(node->conf.codec, &packet->head.msg, packet->bytes, packet->len, into, y,
                           count);
}

/* --- what is said ------------------------------------------------------------- */

static void forget_step(mesh_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        ps_packet_unref(step->said[i].packet);
    }
    step->count = step->target_count = step->next = 0;
}

static void fini_step(mesh_step *step)
{
    forget_step(step);
    free(step->said);
    free(step->targets);
}

void mesh_say(ps_mesh_node *node, ps_packet *packet, const uint32_t *targets, uint32_t count)
{
    mesh_step *step = &node->now;

    if (count == 0) {
        ps_packet_unref(packet);
        return;
    }
    if (step->count == step->cap) {
        step->cap = step->cap * 2 + 16;
        step->said = ps_xrealloc(step->said, step->cap * sizeof *step->said);
    }
    if (step->target_count + count > step->target_cap) {
        step->target_cap = (step->target_cap + count) * 2;
        step->targets = ps_xrealloc(step->targets, step->target_cap * sizeof *step->targets);
    }
    memcpy(step->targets + step->target_count, targets, count * sizeof *targets);
    step->said[step->count++] =
        (mesh_said){.packet = packet, .first = (uint32_t)step->target_count, .count = count};
    step->target_count += count;
}

void mesh_say_to(ps_mesh_node *node, ps_packet *packet, uint32_t target)
{
    mesh_say(node, packet, &target, 1);
}

static bool next_of(ps_mesh_node *node, mesh_step *step, ps_mesh_out *out)
{
    const mesh_said *said;

    if (step->next == step->count) {
        return false;
    }
    said = &step->said[step->next++];
    *out = (ps_mesh_out){.packet = ps_packet_ref(said->packet),
                         .targets = step->targets + said->first,
                         .count = said->count};
    node->counters.packets++;
    node->counters.copies += said->count;
    node->counters.bytes += said->packet->len;
    node->counters.bytes_copied += said->packet->len * said->count;
    node->counters.values_copied += (uint64_t)said->packet->n * said->count;
    return true;
}

bool ps_mesh_next(ps_mesh_node *node, ps_mesh_out *out)
{
    return next_of(node, &node->before, out) || next_of(node, &node->now, out);
}

/* --- blocks ------------------------------------------------------------------- */

int mesh_place(const ps_mesh_node *node, uint32_t block, uint32_t holder)
{
    const uint32_t *holders = mesh_holders(node, block);

    for (uint32_t i = 0; i < node->conf.assignment->redundancy; i++) {
        if (holders[i] == holder) {
            return (int)i;
        }
    }
    return -1;
}

/* Blocks take turns at their holders, so that all speak about as much. */
uint32_t mesh_speaker(const ps_mesh_node *node, uint32_t block)
{
    return mesh_holders(node, block)[block % node->conf.assignment->redundancy];
}

void mesh_own_sum(const ps_mesh_node *node, float *y)
{
    const ps_assignment *a = node->conf.assignment;
    uint32_t self = node->conf.self;

    memset(y, 0, node->conf.n * sizeof *y);
    for (uint32_t i = 0; i < a->held_count[self]; i++) {
        const float *x = node->blocks[i];

        for (size_t k = 0; mesh_speaker(node, a->held[self][i]) == self && k < node->conf.n; k++) {
            y[k] += x[k];
        }
    }
}

ps_status mesh_check_sums(const ps_mesh_conf *conf)
{
    ps_codec_facts facts = conf->codec->facts(&conf->params);

    if (facts.is_sparse || (facts.error_of_max > 0 && !facts.is_unbiased)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "sums are encoded at every hop; %s bends them: f32, f16, bf16 and unbiased, "
                       "not sparse codecs are allowed",
                       conf->codec->name);
    }
    return ps_ok();
}

/* --- life --------------------------------------------------------------------- */

ps_status ps_mesh_create(const ps_mesh_conf *conf, ps_mesh_node **out)
{
    ps_mesh_node *node;
    ps_status st = ps_ok();

    assert(conf->self < conf->assignment->workers && conf->n > 0 && conf->window_us > 0);
    if (conf->mesh->check != NULL) {
        st = conf->mesh->check(conf);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    node = ps_xcalloc(1, sizeof *node);
    node->conf = *conf;
    node->nodes = conf->assignment->workers;
    node->deadline_us = INT64_MAX;
    node->state = ps_xcalloc(1, conf->mesh->state_size);
    node->answers = ps_xcalloc(node->nodes, sizeof *node->answers);
    conf->mesh->init(node);
    *out = node;
    return ps_ok();
}

void ps_mesh_destroy(ps_mesh_node *node)
{
    if (node == NULL) {
        return;
    }
    node->conf.mesh->fini(node);
    fini_step(&node->now);
    fini_step(&node->before);
    for (size_t i = 0; i < node->early_count; i++) {
        ps_packet_unref(node->early[i]);
    }
    free(node->early);
    free(node->answers);
    free(node->state);
    free(node);
}

static void look(ps_mesh_node *node)
{
    if (node->is_running && node->conf.mesh->is_done(node)) {
        node->is_running = false;
        node->is_done = true;
        node->deadline_us = INT64_MAX;
    }
}

/* Takes the packets of this step that came before it began. */
static ps_status take_early(ps_mesh_node *node)
{
    ps_status st = ps_ok();
    size_t kept = 0;

    for (size_t i = 0; i < node->early_count; i++) {
        ps_packet *packet = node->early[i];

        if (packet->clock > node->clock) {
            node->early[kept++] = packet;
            continue;
        }
        if (ps_is_ok(&st) && packet->clock == node->clock) {
            st = node->conf.mesh->take(node, packet);
        }
        ps_packet_unref(packet);
    }
    node->early_count = kept;
    return st;
}

ps_status ps_mesh_begin(ps_mesh_node *node, uint64_t clock, const float *const *blocks,
                        int64_t now_us)
{
    mesh_step old = node->before;
    ps_status st;

    assert(!node->is_running && clock == node->clock + (node->is_done ? 1 : 0));
    forget_step(&old);
    node->before = node->now;
    node->now = old;
    node->clock = clock;
    node->is_running = true;
    node->is_done = false;
    node->is_rescued = false;
    memset(node->answers, 0, node->nodes);
    node->blocks = blocks;
    node->deadline_us = now_us + node->conf.window_us;
    st = node->conf.mesh->start(node);
    if (ps_is_ok(&st)) {
        st = take_early(node);
    }
    look(node);
    return st;
}

static ps_status keep_early(ps_mesh_node *node, ps_packet *packet)
{
    if (node->early_count >= EARLY_MAX) {
        return ps_fail(PS_OUT_OF_RANGE, "more than %d packets for a step that has not begun",
                       EARLY_MAX);
    }
    if (node->early_count == node->early_cap) {
        node->early_cap = node->early_cap * 2 + 16;
        node->early = ps_xrealloc(node->early, node->early_cap * sizeof(ps_packet *));
    }
    node->early[node->early_count++] = ps_packet_ref(packet);
    return ps_ok();
}

/* Says to one node what it was told in a step. */
static void repeat(ps_mesh_node *node, const mesh_step *step, uint32_t to)
{
    size_t count = step->count; /* what is added to it now is not looked at */

    for (size_t i = 0; i < count; i++) {
        mesh_said said = step->said[i];

        for (uint32_t t = 0; t < said.count; t++) {
            if (step->targets[said.first + t] == to && said.packet->what != again) {
                mesh_say_to(node, ps_packet_ref(said.packet), to);
                break;
            }
        }
    }
}

static void answer(ps_mesh_node *node, const ps_packet *packet)
{
    bool has_begun = node->is_running || node->is_done;

    if (node->answers[packet->from] >= ANSWERS_MAX) {
        return;
    }
    node->answers[packet->from]++;
    if (has_begun && packet->clock == node->clock) {
        repeat(node, &node->now, packet->from);
    } else if (has_begun && packet->clock + 1 == node->clock) {
        repeat(node, &node->before, packet->from);
    }
}

void ps_mesh_missing(const ps_mesh_node *node, bool *peers)
{
    memset(peers, 0, node->nodes * sizeof *peers);
    if (node->is_running) {
        node->conf.mesh->missing(node, peers);
    }
}

static void ask_again(ps_mesh_node *node)
{
    bool *peers = ps_xcalloc(node->nodes, sizeof *peers);

    ps_mesh_missing(node, peers);
    for (uint32_t i = 0; i < node->nodes; i++) {
        if (peers[i]) {
            mesh_say_to(node, mesh_packet(node, again, 0, 0), i);
        }
    }
    free(peers);
}

ps_status ps_mesh_take(ps_mesh_node *node, ps_packet *packet)
{
    /* The step that runs, or else the next to begin. */
    uint64_t first = node->clock + (node->is_done ? 1 : 0);
    ps_status st;

    if (packet->from >= node->nodes || packet->from == node->conf.self) {
        return ps_fail(PS_INVALID_ARGUMENT, "a packet from worker %u of %u", packet->from,
                       node->nodes);
    }
    if (packet->head.msg.others_stay) {
        return ps_fail(PS_DATA_LOSS, "a packet from worker %u: others_stay, which is of weights",
                       packet->from);
    }
    if (packet->what == again) {
        answer(node, packet);
        return ps_ok();
    }
    if (packet->clock < first) {
        node->counters.duplicates++; /* of a step that has ended */
        return ps_ok();
    }
    if (packet->clock > node->clock + 1) {
        return ps_fail(PS_OUT_OF_RANGE, "a packet of step %llu from worker %u; this is step %llu",
                       (unsigned long long)packet->clock, packet->from,
                       (unsigned long long)node->clock);
    }
    if (!node->is_running || packet->clock != node->clock) {
        return keep_early(node, packet);
    }
    st = node->conf.mesh->take(node, packet);
    look(node);
    return st;
}

/* "worker 1, worker 3" */
static void name_missing(const ps_mesh_node *node, char *text, size_t cap)
{
    bool *peers = ps_xcalloc(node->nodes, sizeof *peers);
    size_t n = 0;

    text[0] = '\0';
    ps_mesh_missing(node, peers);
    for (uint32_t i = 0; i < node->nodes && n < cap; i++) {
        if (peers[i]) {
            n += (size_t)snprintf(text + n, cap - n, "%sworker %u", n > 0 ? ", " : "", i);
        }
    }
    free(peers);
}

ps_status ps_mesh_tick(ps_mesh_node *node, int64_t now_us)
{
    char who[72];

    if (now_us < node->deadline_us) {
        return ps_ok();
    }
    if (node->is_rescued) {
        name_missing(node, who, sizeof who);
        return ps_fail(PS_DEADLINE_EXCEEDED, "step %llu: nothing for 2 x %lld ms from %s",
                       (unsigned long long)node->clock, (long long)(node->conf.window_us / 1000),
                       who);
    }
    node->is_rescued = true;
    node->deadline_us = now_us + node->conf.window_us;
    node->counters.rescues++;
    node->before.next = node->now.next = 0;
    if (node->conf.mesh->rescue != NULL) {
        node->conf.mesh->rescue(node);
    }
    ask_again(node);
    look(node);
    return ps_ok();
}

int64_t ps_mesh_deadline(const ps_mesh_node *node)
{
    return node->deadline_us;
}

bool ps_mesh_is_done(const ps_mesh_node *node)
{
    return node->is_done;
}

void ps_mesh_sum(ps_mesh_node *node, float *sum)
{
    assert(node->is_done);
    node->conf.mesh->finish(node, sum);
}

const ps_mesh_counters *ps_mesh_counters_of(const ps_mesh_node *node)
{
    return &node->counters;
}
