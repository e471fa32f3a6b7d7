/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - see mesh.h: steps, early packets and repairs, the same in all exchanges. */
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
    /* Most requests of one worker that are answered in a step. Each worker asks once in each of its
     * steps, so two are usual: one for this step, one for the step before. */
    ANSWERS_MAX = 4
};

const ps_param ps_mesh_params[] = {
    {.name = "window_ms",
     .value = 0,
     .min = 0,
     .max = 43200000,
     .is_integer = true,
     .help = "time of a step until workers send everything again, and again until it fails; 0: "
             "half of timeouts.step_ms"},
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

int mesh_place(const ps_mesh_machine *m, uint32_t block, uint32_t holder)
{
    const uint32_t *holders = mesh_holders(m, block);

    for (uint32_t i = 0; i < m->conf.assignment->redundancy; i++) {
        if (holders[i] == holder) {
            return (int)i;
        }
    }
    return -1;
}

/* Takes the holders in turn, from block to block, so that all workers send about the same number of
 * blocks. */
uint32_t mesh_sender(const ps_mesh_machine *m, uint32_t block)
{
    return mesh_holders(m, block)[block % m->conf.assignment->redundancy];
}

/* --- life --------------------------------------------------------------------- */

ps_status ps_mesh_create(const ps_mesh_conf *conf, ps_mesh_machine **out)
{
    ps_mesh_machine *m;
    ps_status st = ps_ok();

    assert(conf->self < conf->assignment->workers && conf->n > 0 && conf->window_us > 0);
    assert(conf->part_count > 0 && conf->assignment->held_count[conf->self] > 0);
    if (conf->mesh->check != NULL) {
        st = conf->mesh->check(conf);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    m = ps_xcalloc(1, sizeof *m);
    m->conf = *conf;
    m->nodes = conf->assignment->workers;
    m->deadline_us = INT64_MAX;
    m->state = ps_xcalloc(1, conf->mesh->state_size);
    m->answers = ps_xcalloc(m->nodes, sizeof *m->answers);
    m->waits_in = ps_xcalloc(m->nodes, sizeof *m->waits_in);
    m->ready = ps_xcalloc(conf->part_count, sizeof *m->ready);
    m->scratch = ps_xcalloc(PS_CODEC_VALUES, sizeof *m->scratch);
    mesh_reports_init(m);
    mesh_deeds_init(m);
    conf->mesh->init(m);
    *out = m;
    return ps_ok();
}

void ps_mesh_destroy(ps_mesh_machine *m)
{
    if (m == NULL) {
        return;
    }
    m->conf.mesh->fini(m);
    mesh_step_fini(&m->now);
    mesh_step_fini(&m->before);
    for (size_t i = 0; i < m->early_count; i++) {
        ps_packet_unref(m->early[i]);
    }
    mesh_deeds_fini(m);
    mesh_cells_fini(&m->cells);
    mesh_reports_fini(m);
    free(m->early);
    free(m->answers);
    free(m->waits_in);
    free(m->ready);
    free(m->scratch);
    free(m->state);
    free(m);
}

void mesh_look(ps_mesh_machine *m)
{
    if (m->is_running && m->unready == 0 && m->reports_due == 0 && m->conf.mesh->is_done(m)) {
        m->is_running = false;
        m->is_done = true;
        m->deadline_us = INT64_MAX;
    }
}

/* Takes a packet of the running step. */
static ps_status take(ps_mesh_machine *m, ps_packet *packet)
{
    if (packet->what == mesh_report) {
        mesh_reports_take(m, packet);
        return ps_ok();
    }
    return m->conf.mesh->take(m, packet);
}

/* Takes the packets of this step that arrived before it began. */
static ps_status take_early(ps_mesh_machine *m)
{
    ps_status st = ps_ok();
    size_t kept = 0;

    for (size_t i = 0; i < m->early_count; i++) {
        ps_packet *packet = m->early[i];

        if (packet->clock > m->clock) {
            m->early[kept++] = packet;
            continue;
        }
        if (ps_is_ok(&st) && packet->clock == m->clock) {
            st = take(m, packet);
        }
        ps_packet_unref(packet);
    }
    m->early_count = kept;
    return st;
}

/* Lets the exchange begin the step, then hands it the packets that arrived early. */
static ps_status start(ps_mesh_machine *m)
{
    ps_status st;

    m->is_started = true;
    st = m->conf.mesh->start(m);
    return ps_is_ok(&st) ? take_early(m) : st;
}

ps_status ps_mesh_begin(ps_mesh_machine *m, uint64_t clock, const float *const *blocks)
{
    const ps_mesh_conf *conf = &m->conf;
    mesh_step old = m->before;

    assert(!m->is_running && clock == m->clock + (m->is_done ? 1 : 0));
    mesh_step_forget(&old);
    m->before = m->now;
    m->now = old;
    m->clock = clock;
    m->is_running = true;
    m->is_done = false;
    m->is_repaired = false;
    m->has_listened = false;
    m->is_started = false;
    memset(m->answers, 0, m->nodes);
    memset(m->ready, 0, conf->part_count * sizeof *m->ready);
    m->unready = conf->part_count * conf->assignment->held_count[conf->self];
    m->blocks = blocks;
    mesh_reports_begin(m);
    return conf->mesh->ready != NULL ? start(m) : ps_ok();
}

bool mesh_is_ready(const ps_mesh_machine *m, uint32_t part)
{
    return m->ready[part] == m->conf.assignment->held_count[m->conf.self];
}

ps_status ps_mesh_ready(ps_mesh_machine *m, uint32_t held, uint32_t part, int64_t now_us)
{
    ps_status st = ps_ok();

    assert(m->is_running && m->ready[part] == held);
    m->ready[part]++;
    m->unready--;
    if (m->unready == 0) {
        m->deadline_us = now_us + m->conf.window_us;
    }
    if (m->conf.mesh->ready != NULL) {
        st = m->conf.mesh->ready(m, held, part);
    } else if (m->unready == 0) {
        st = start(m);
    }
    if (m->unready == 0) {
        mesh_reports_say(m);
    }
    mesh_look(m);
    return st;
}

size_t ps_mesh_memory(const ps_mesh_machine *m)
{
    return m->cells.kept_floats * sizeof(float);
}

void ps_mesh_save(const ps_mesh_machine *m, uint32_t part, ps_state_out *out)
{
    size_t n;
    const float *kept = mesh_kept(m, part, &n);

    assert((n == 0 || !m->is_running) && part < m->conf.part_count);
    ps_state_put(out, kept, n * sizeof *kept);
    if (m->conf.mesh->save != NULL) {
        m->conf.mesh->save(m, part, out);
    }
}

void ps_mesh_load(ps_mesh_machine *m, uint32_t part, ps_state_in *in)
{
    size_t n;
    float *kept = mesh_kept(m, part, &n);

    assert(!m->is_running && !m->is_done && part < m->conf.part_count);
    ps_state_take(in, kept, n * sizeof *kept);
    if (m->conf.mesh->load != NULL) {
        m->conf.mesh->load(m, part, in);
    }
}

void ps_mesh_start_at(ps_mesh_machine *m, uint64_t clock)
{
    assert(!m->is_running && !m->is_done && m->early_count == 0);
    m->clock = clock;
}

static ps_status keep_early(ps_mesh_machine *m, ps_packet *packet)
{
    if (m->early_count >= EARLY_MAX) {
        return ps_fail(PS_OUT_OF_RANGE, "more than %d packets for a step that has not begun",
                       EARLY_MAX);
    }
    if (m->early_count == m->early_cap) {
        m->early_cap = m->early_cap * 2 + 16;
        m->early = ps_xrealloc(m->early, m->early_cap * sizeof(ps_packet *));
    }
    m->early[m->early_count++] = ps_packet_ref(packet);
    return ps_ok();
}

/* Sends the sender of a request (mesh_again) once more everything that this worker has sent to it
 * in the step that the request names: the newest step that has begun here, or the one before.
 * Ignores requests beyond ANSWERS_MAX a step. */
static void answer(ps_mesh_machine *m, const ps_packet *packet)
{
    bool has_begun = m->is_running || m->is_done;

    if (m->answers[packet->from] >= ANSWERS_MAX) {
        return;
    }
    m->answers[packet->from]++;
    if (has_begun && packet->clock == m->clock) {
        mesh_repeat(m, &m->now, packet->from);
    } else if (has_begun && packet->clock + 1 == m->clock) {
        mesh_repeat(m, &m->before, packet->from);
    }
}

void ps_mesh_missing(const ps_mesh_machine *m, bool *peers)
{
    memset(peers, 0, m->nodes * sizeof *peers);
    if (ps_mesh_has_begun(m)) {
        m->conf.mesh->missing(m, peers);
        mesh_reports_missing(m, peers);
    }
}

static void ask_again(ps_mesh_machine *m)
{
    bool *peers = ps_xcalloc(m->nodes, sizeof *peers);

    ps_mesh_missing(m, peers);
    for (uint32_t i = 0; i < m->nodes; i++) {
        if (peers[i]) {
            mesh_send_to(m, mesh_packet(m, mesh_again, 0, 0), i);
        }
    }
    free(peers);
}

/* Tells all others that this worker waits too, so that they do not blame it. */
static void say_waits(ps_mesh_machine *m)
{
    for (uint32_t i = 0; i < m->nodes; i++) {
        if (i != m->conf.self) {
            mesh_send_to(m, mesh_packet(m, mesh_waits, 0, 0), i);
        }
    }
}

/* Notes whether the sender of the packet waits for others itself: it does so from a packet
 * mesh_waits until a packet of a later step. Returns true if the packet is a mesh_waits. */
static bool note_waits(ps_mesh_machine *m, const ps_packet *packet)
{
    uint64_t *waits_in = &m->waits_in[packet->from];

    if (packet->what == mesh_waits) {
        *waits_in = packet->clock + 1;
        return true;
    }
    if (packet->clock >= *waits_in) {
        *waits_in = 0;
    }
    return false;
}

ps_status ps_mesh_take(ps_mesh_machine *m, ps_packet *packet)
{
    /* clock of the running step or, if none runs, of the next one */
    uint64_t first = m->clock + (m->is_done ? 1 : 0);
    ps_status st;

    if (packet->from >= m->nodes || packet->from == m->conf.self) {
        return ps_fail(PS_INVALID_ARGUMENT, "a packet from worker %u of %u", packet->from,
                       m->nodes);
    }
    if (note_waits(m, packet)) {
        return ps_ok();
    }
    if (packet->what == mesh_again) {
        answer(m, packet);
        return ps_ok();
    }
    if (packet->clock < first) {
        m->counters.duplicates++; /* the packet's step has ended here */
        return ps_ok();
    }
    if (packet->clock > m->clock + 1) {
        return ps_fail(PS_OUT_OF_RANGE, "a packet of step %llu from worker %u; this is step %llu",
                       (unsigned long long)packet->clock, packet->from,
                       (unsigned long long)m->clock);
    }
    st = packet->what == mesh_report ? mesh_reports_check(m, packet) : ps_ok();
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!ps_mesh_has_begun(m) || packet->clock != m->clock) {
        return keep_early(m, packet);
    }
    st = take(m, packet);
    mesh_look(m);
    return st;
}

/* Writes the names of the workers from whom something is missing, as in "worker 1, worker 3".
 * Leaves out those who have said that they wait for others themselves, unless all of them have said
 * so. */
static void name_missing(const ps_mesh_machine *m, char *text, size_t cap)
{
    bool *peers = ps_xcalloc(m->nodes, sizeof *peers);
    bool all_wait = true;
    size_t n = 0;

    text[0] = '\0';
    ps_mesh_missing(m, peers);
    for (uint32_t i = 0; i < m->nodes; i++) {
        all_wait = all_wait && (!peers[i] || m->waits_in[i] > 0);
    }
    for (uint32_t i = 0; i < m->nodes && n < cap; i++) {
        if (peers[i] && (all_wait || m->waits_in[i] == 0)) {
            n += (size_t)snprintf(text + n, cap - n, "%sworker %u", n > 0 ? ", " : "", i);
        }
    }
    if (all_wait && n < cap) {
        snprintf(text + n, cap - n, ", waiting too");
    }
    free(peers);
}

ps_status ps_mesh_tick(ps_mesh_machine *m, int64_t now_us)
{
    char who[72];

    if (now_us < m->deadline_us) {
        return ps_ok();
    }
    if (m->is_repaired && !m->has_listened && now_us - m->deadline_us >= m->conf.window_us / 2) {
        m->has_listened = true;
        m->deadline_us = now_us + m->conf.window_us;
        return ps_ok();
    }
    if (m->is_repaired) {
        name_missing(m, who, sizeof who);
        return ps_fail(PS_DEADLINE_EXCEEDED, "step %llu: nothing for 2 x %lld ms from %s",
                       (unsigned long long)m->clock, (long long)(m->conf.window_us / 1000), who);
    }
    m->is_repaired = true;
    m->deadline_us = now_us + m->conf.window_us;
    m->counters.repairs++;
    m->before.next = m->now.next = 0;
    if (m->conf.mesh->repair != NULL) {
        m->conf.mesh->repair(m);
    }
    ask_again(m);
    say_waits(m);
    mesh_look(m);
    return ps_ok();
}

int64_t ps_mesh_deadline(const ps_mesh_machine *m)
{
    return m->deadline_us;
}

bool ps_mesh_has_begun(const ps_mesh_machine *m)
{
    return m->is_running && m->is_started;
}

bool ps_mesh_is_done(const ps_mesh_machine *m)
{
    return m->is_done;
}

void ps_mesh_sum(ps_mesh_machine *m, float *sum)
{
    assert(m->is_done);
    m->conf.mesh->finish(m, sum);
}

const ps_mesh_counters *ps_mesh_counters_of(const ps_mesh_machine *m)
{
    return &m->counters;
}
