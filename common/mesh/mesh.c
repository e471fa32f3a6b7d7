/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - see mesh.h: what all exchanges have in common. */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PS_MESH(name) extern const ps_mesh ps_mesh_##name;
#include "common/mesh/list.h"
#undef PS_MESH

static const ps_mesh *const meshes[] = {
#define PS_MESH(name) &ps_mesh_##name,
#include "common/mesh/list.h"
#undef PS_MESH
};

enum {
    MESHES = sizeof meshes / sizeof meshes[0],
    EARLY_MAX = 1 << 20,
    ANSWERS_MAX = 4 /* to one node in a step: it asks for two of them once each */
};

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

/* --- life --------------------------------------------------------------------- */

ps_status ps_mesh_create(const ps_mesh_conf *conf, ps_mesh_node **out)
{
    ps_mesh_node *node;
    ps_status st = ps_ok();

    assert(conf->self < conf->assignment->workers && conf->n > 0 && conf->window_us > 0);
    assert(conf->part_count > 0 && conf->assignment->held_count[conf->self] > 0);
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
    node->ready = ps_xcalloc(conf->part_count, sizeof *node->ready);
    node->scratch = ps_xcalloc(PS_CODEC_VALUES, sizeof *node->scratch);
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
    mesh_step_fini(&node->now);
    mesh_step_fini(&node->before);
    for (size_t i = 0; i < node->early_count; i++) {
        ps_packet_unref(node->early[i]);
    }
    mesh_cells_fini(&node->cells);
    free(node->early);
    free(node->answers);
    free(node->ready);
    free(node->scratch);
    free(node->state);
    free(node);
}

static void look(ps_mesh_node *node)
{
    if (node->is_running && node->unready == 0 && node->conf.mesh->is_done(node)) {
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

/* The exchange has what it takes to begin. */
static ps_status start(ps_mesh_node *node)
{
    ps_status st;

    node->is_started = true;
    st = node->conf.mesh->start(node);
    return ps_is_ok(&st) ? take_early(node) : st;
}

ps_status ps_mesh_begin(ps_mesh_node *node, uint64_t clock, const float *const *blocks)
{
    const ps_mesh_conf *conf = &node->conf;
    mesh_step old = node->before;

    assert(!node->is_running && clock == node->clock + (node->is_done ? 1 : 0));
    mesh_step_forget(&old);
    node->before = node->now;
    node->now = old;
    node->clock = clock;
    node->is_running = true;
    node->is_done = false;
    node->is_rescued = false;
    node->has_listened = false;
    node->is_started = false;
    memset(node->answers, 0, node->nodes);
    memset(node->ready, 0, conf->part_count * sizeof *node->ready);
    node->unready = conf->part_count * conf->assignment->held_count[conf->self];
    node->blocks = blocks;
    return conf->mesh->ready != NULL ? start(node) : ps_ok();
}

bool mesh_is_ready(const ps_mesh_node *node, uint32_t part)
{
    return node->ready[part] == node->conf.assignment->held_count[node->conf.self];
}

ps_status ps_mesh_ready(ps_mesh_node *node, uint32_t held, uint32_t part, int64_t now_us)
{
    ps_status st = ps_ok();

    assert(node->is_running && node->ready[part] == held);
    node->ready[part]++;
    node->unready--;
    if (node->unready == 0) {
        node->deadline_us = now_us + node->conf.window_us;
    }
    if (node->conf.mesh->ready != NULL) {
        st = node->conf.mesh->ready(node, held, part);
    } else if (node->unready == 0) {
        st = start(node);
    }
    look(node);
    return st;
}

size_t ps_mesh_memory(const ps_mesh_node *node)
{
    return node->cells.kept_floats * sizeof(float);
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

static void answer(ps_mesh_node *node, const ps_packet *packet)
{
    bool has_begun = node->is_running || node->is_done;

    if (node->answers[packet->from] >= ANSWERS_MAX) {
        return;
    }
    node->answers[packet->from]++;
    if (has_begun && packet->clock == node->clock) {
        mesh_repeat(node, &node->now, packet->from);
    } else if (has_begun && packet->clock + 1 == node->clock) {
        mesh_repeat(node, &node->before, packet->from);
    }
}

void ps_mesh_missing(const ps_mesh_node *node, bool *peers)
{
    memset(peers, 0, node->nodes * sizeof *peers);
    if (ps_mesh_has_begun(node)) {
        node->conf.mesh->missing(node, peers);
    }
}

static void ask_again(ps_mesh_node *node)
{
    bool *peers = ps_xcalloc(node->nodes, sizeof *peers);

    ps_mesh_missing(node, peers);
    for (uint32_t i = 0; i < node->nodes; i++) {
        if (peers[i]) {
            mesh_say_to(node, mesh_packet(node, mesh_again, 0, 0), i);
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
    if (packet->what == mesh_again) {
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
    if (!ps_mesh_has_begun(node) || packet->clock != node->clock) {
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
    if (node->is_rescued && !node->has_listened &&
        now_us - node->deadline_us >= node->conf.window_us / 2) {
        node->has_listened = true;
        node->deadline_us = now_us + node->conf.window_us;
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

bool ps_mesh_has_begun(const ps_mesh_node *node)
{
    return node->is_running && node->is_started;
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
