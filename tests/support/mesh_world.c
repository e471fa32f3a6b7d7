/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_world.c - see mesh_world.h. */
#include "tests/support/mesh_world.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t draw(mesh_world *w)
{
    return ps_draw_u64(ps_draw_key(w->seed, PS_DRAW_TEST, 1, 0, 0), w->draws++);
}

static double unit(mesh_world *w)
{
    return (double)(draw(w) >> 11) * 0x1p-53;
}

static ps_status make_assignment(mesh_world *w, const char *name, uint32_t nodes,
                                 uint32_t redundancy)
{
    ps_params params = {.v = {redundancy}};

    return ps_assign_find(name)->make(nodes, &params, &w->assignment);
}

ps_mesh_codec mesh_world_codec(const char *name, const char *numbers)
{
    ps_mesh_codec c = {.codec = ps_codec_find(name)};

    assert(c.codec != NULL);
    c.params = ps_params_default(c.codec->params);
    while (*numbers != '\0') {
        char key[32];
        double value;
        int used = 0, which;

        assert(sscanf(numbers, "%31[a-z_]=%lf%n", key, &value, &used) == 2);
        which = ps_param_find(c.codec->params, key);
        assert(which >= 0);
        c.params.v[which] = value;
        numbers += used + (numbers[used] == ',');
    }
    return c;
}

/* Fills the gradients of all blocks with draws of the normal distribution with deviation 0.1; every
 * seventh is 0. */
static void make_blocks(mesh_world *w)
{
    const ps_assignment *a = w->assignment;

    w->block = ps_xcalloc(a->block_count, sizeof(float *));
    for (uint32_t b = 0; b < a->block_count; b++) {
        uint64_t key = ps_draw_key(w->seed, PS_DRAW_TEST, 2, b, 0);

        w->block[b] = ps_xcalloc(w->n, sizeof(float));
        for (size_t i = 0; i < w->n; i++) {
            w->block[b][i] = i % 7 == 3 ? 0.0f : (float)(ps_draw_normal(key, i) * 0.1);
        }
    }
    for (uint32_t i = 0; i < w->nodes; i++) {
        w->held[i] = ps_xcalloc(a->held_count[i] + 1, sizeof(float *));
        for (uint32_t k = 0; k < a->held_count[i]; k++) {
            w->held[i][k] = w->block[a->held[i][k]];
        }
        w->sum[i] = ps_xcalloc(w->n, sizeof(float));
    }
}

ps_status mesh_world_init_parts(mesh_world *w, const char *mesh, const char *assign, uint32_t nodes,
                                uint32_t redundancy, uint64_t seed)
{
    ps_mesh_conf conf = {.mesh = ps_mesh_find(mesh),
                         .parts = w->part,
                         .part_count = w->part_count,
                         .seed = seed,
                         .has_reports = w->has_reports,
                         .is_wanted = w->is_wanted,
                         .arg = w,
                         .window_us = MESH_WINDOW_US};
    ps_status st;

    for (uint32_t p = 0; p < w->part_count; p++) {
        w->part[p].name = "a part";
        w->part[p].at = w->n;
        w->part[p].step = PS_CODEC_VALUES;
        w->n += w->part[p].n;
    }
    w->nodes = nodes;
    w->seed = seed;
    conf.n = w->n;
    assert(conf.mesh != NULL && nodes <= MESH_NODES_MAX);
    st = make_assignment(w, assign, nodes, redundancy);
    assert(ps_is_ok(&st));
    conf.assignment = w->assignment;
    for (uint32_t i = 0; i < nodes && ps_is_ok(&st); i++) {
        conf.self = i;
        st = ps_mesh_create(&conf, &w->node[i]);
    }
    if (ps_is_ok(&st)) {
        make_blocks(w);
    }
    return st;
}

ps_status mesh_world_init(mesh_world *w, const char *mesh, const char *assign, uint32_t nodes,
                          uint32_t redundancy, size_t n, const char *codec, uint64_t seed)
{
    ps_mesh_codec both = mesh_world_codec(codec, "");
    size_t first = n / 3, second = n / 2 - n / 3, sizes[] = {first, second, n - first - second};

    *w = (mesh_world){0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] > 0) {
            w->part[w->part_count++] = (ps_mesh_part){.n = sizes[i], .up = both, .down = both};
        }
    }
    return mesh_world_init_parts(w, mesh, assign, nodes, redundancy, seed);
}

void mesh_world_fini(mesh_world *w)
{
    for (uint32_t b = 0; w->block != NULL && b < w->assignment->block_count; b++) {
        free(w->block[b]);
    }
    for (uint32_t i = 0; i < w->nodes; i++) {
        ps_mesh_destroy(w->node[i]);
        free(w->held[i]);
        free(w->sum[i]);
    }
    for (size_t i = 0; i < w->wire_count; i++) {
        ps_packet_unref(w->wire[i].packet);
    }
    free(w->wire);
    free(w->block);
    ps_assignment_destroy(w->assignment);
}

static void put_on_wire(mesh_world *w, ps_packet *packet, uint32_t to)
{
    if (w->wire_count == w->wire_cap) {
        w->wire_cap = w->wire_cap * 2 + 64;
        w->wire = ps_xrealloc(w->wire, w->wire_cap * sizeof *w->wire);
    }
    w->wire[w->wire_count++] = (mesh_copy_on_wire){ps_packet_ref(packet), to};
}

static void collect(mesh_world *w, uint32_t i)
{
    ps_mesh_out out;

    while (ps_mesh_next(w->node[i], &out)) {
        for (uint32_t t = 0; t < out.count && !w->is_dead[i]; t++) {
            if (unit(w) >= w->loss) {
                put_on_wire(w, out.packet, out.targets[t]);
            }
            if (w->comes_twice) {
                put_on_wire(w, out.packet, out.targets[t]);
            }
        }
        ps_packet_unref(out.packet);
    }
}

static void note(mesh_world *w, uint32_t i, ps_status st)
{
    if (!ps_is_ok(&st) && ps_is_ok(&w->failure[i])) {
        w->failure[i] = st;
    }
}

enum { REPORT_BYTES = 40 };

static void name_report(char out[REPORT_BYTES], uint32_t node, uint64_t step)
{
    snprintf(out, REPORT_BYTES, "node %u, step %llu", node, (unsigned long long)step);
}

static void say(mesh_world *w, uint32_t i)
{
    ps_buf *report = ps_buf_create(REPORT_BYTES);

    name_report((char *)report->data, i, w->step[i]);
    report->len = strlen((char *)report->data);
    ps_mesh_report(w->node[i], report);
}

static void check_reports(mesh_world *w, uint32_t i)
{
    for (uint32_t k = 0; k < w->nodes; k++) {
        char expected[REPORT_BYTES];
        size_t len;
        const uint8_t *report = ps_mesh_report_of(w->node[i], k, &len);

        name_report(expected, k, w->step[i]);
        w->wrong_reports +=
            report == NULL || len != strlen(expected) || memcmp(report, expected, len) != 0;
    }
}

/* Makes the victim dead. Drops half of its copies under way; the others still arrive. */
static void kill_victim(mesh_world *w)
{
    size_t kept = 0;

    w->is_dead[w->victim] = true;
    for (size_t i = 0; i < w->wire_count; i++) {
        if (w->wire[i].packet->from == w->victim && unit(w) < 0.5) {
            ps_packet_unref(w->wire[i].packet);
        } else {
            w->wire[kept++] = w->wire[i];
        }
    }
    w->wire_count = kept;
}

static void note_event(mesh_world *w)
{
    if (++w->events == w->kill_at) {
        kill_victim(w);
    }
}

static void hold(mesh_world *w, uint32_t i)
{
    if (w->holds) {
        w->is_held[i] = true;
        ps_mesh_hold(w->node[i]);
    }
}

static void release(mesh_world *w, uint32_t i)
{
    w->is_held[i] = false;
    note(w, i, ps_mesh_release(w->node[i], ps_ok()));
}

static void look(mesh_world *w, uint32_t i)
{
    if (w->is_held[i]) {
        if (unit(w) < 0.8) {
            return;
        }
        release(w, i);
    }
    collect(w, i);
    if (w->has_begun[i] && ps_mesh_is_done(w->node[i])) {
        if (w->has_reports) {
            check_reports(w, i);
        }
        ps_mesh_sum(w->node[i], w->sum[i]);
        w->has_begun[i] = false;
        w->step[i]++;
    }
}

static void begin(mesh_world *w, uint32_t i)
{
    w->has_begun[i] = true;
    w->given[i] = 0;
    for (uint32_t p = 0; p < w->part_count; p++) { /* draws a random order of the parts */
        uint32_t at = (uint32_t)(draw(w) % (p + 1));

        w->order[i][p] = w->order[i][at];
        w->order[i][at] = p;
    }
    hold(w, i);
    note(w, i, ps_mesh_begin(w->node[i], w->step[i], w->held[i]));
    look(w, i);
}

/* Gives the machine of node i the next part of its blocks, one block after the other. Returns false
 * if none is left. */
static bool give(mesh_world *w, uint32_t i)
{
    uint32_t at = w->given[i];

    if (!w->has_begun[i] || w->is_dead[i] || !ps_is_ok(&w->failure[i]) ||
        at == w->assignment->held_count[i] * w->part_count) {
        return false;
    }
    w->given[i]++;
    if (w->has_reports && w->given[i] == w->assignment->held_count[i] * w->part_count) {
        say(w, i);
    }
    hold(w, i);
    note(w, i,
         ps_mesh_ready(w->node[i], at / w->part_count, w->order[i][at % w->part_count], w->now_us));
    look(w, i);
    note_event(w);
    return true;
}

/* Delivers one randomly chosen copy of those under way. */
static void deliver(mesh_world *w)
{
    size_t at = draw(w) % w->wire_count;
    mesh_copy_on_wire copy = w->wire[at];

    w->wire[at] = w->wire[--w->wire_count];
    if (!w->is_dead[copy.to]) {
        hold(w, copy.to);
        note(w, copy.to, ps_mesh_take(w->node[copy.to], copy.packet));
        look(w, copy.to);
    }
    ps_packet_unref(copy.packet);
    note_event(w);
}

static void tick(mesh_world *w, uint32_t i)
{
    note(w, i, ps_mesh_tick(w->node[i], w->now_us));
    look(w, i);
}

/* Lets one held node go on. Returns false if none is held. */
static bool release_one(mesh_world *w)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (w->is_held[i]) {
            release(w, i);
            look(w, i);
            return true;
        }
    }
    return false;
}

/* Tells the time to the first node whose deadline has passed. Returns false if there is none. */
static bool tick_one(mesh_world *w)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (!w->is_dead[i] && ps_is_ok(&w->failure[i]) &&
            ps_mesh_deadline(w->node[i]) <= w->now_us) {
            tick(w, i);
            return true;
        }
    }
    return false;
}

static void pass_time(mesh_world *w)
{
    if (w->ticks_alone && tick_one(w)) {
        return;
    }
    w->now_us += MESH_WINDOW_US;
    w->loss = 0;
    for (uint32_t i = 0; i < w->nodes && !w->ticks_alone; i++) {
        if (!w->is_dead[i]) {
            tick(w, i);
        }
    }
}

/* Returns whether each node that is alive and has not failed has ended so many steps. */
static bool is_over(const mesh_world *w, uint64_t steps)
{
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (!w->is_dead[i] && ps_is_ok(&w->failure[i]) && w->step[i] < steps) {
            return false;
        }
    }
    return true;
}

void mesh_world_run_many(mesh_world *w, uint64_t steps)
{
    while (!is_over(w, steps)) {
        bool someone_began = false;

        for (uint32_t k = 0; k < w->nodes; k++) {
            uint32_t i = (uint32_t)(draw(w) % w->nodes);

            if (!w->is_dead[i] && !w->has_begun[i] && ps_is_ok(&w->failure[i]) &&
                w->step[i] < steps) {
                begin(w, i);
                someone_began = true;
            }
            someone_began |= give(w, (uint32_t)(draw(w) % w->nodes));
        }
        if (w->wire_count > 0) {
            deliver(w);
        } else if (!someone_began && !release_one(w) && !is_over(w, steps)) {
            bool all_begun = true;

            for (uint32_t i = 0; i < w->nodes; i++) {
                all_begun = !give(w, i) && all_begun &&
                            (w->is_dead[i] || w->has_begun[i] || w->step[i] >= steps ||
                             !ps_is_ok(&w->failure[i]));
            }
            if (all_begun && w->time_stands) {
                return;
            }
            if (all_begun) {
                pass_time(w);
            }
        }
    }
}

void mesh_world_run(mesh_world *w, uint64_t clock)
{
    mesh_world_run_many(w, clock + 1);
}

double mesh_world_true(const mesh_world *w, size_t i)
{
    double sum = 0;

    for (uint32_t b = 0; b < w->assignment->block_count; b++) {
        sum += (double)w->block[b][i];
    }
    return sum;
}

ps_mesh_counters mesh_world_counters(const mesh_world *w)
{
    ps_mesh_counters sum = {0};

    for (uint32_t i = 0; i < w->nodes; i++) {
        const ps_mesh_counters *c = ps_mesh_counters_of(w->node[i]);

        sum.packets += c->packets;
        sum.copies += c->copies;
        sum.bytes += c->bytes;
        sum.bytes_copied += c->bytes_copied;
        sum.duplicates += c->duplicates;
        sum.repairs += c->repairs;
    }
    return sum;
}
