/* SPDX-License-Identifier: Apache-2.0 */
/* said.c - the packets of a step, sent or to be sent, with their receivers. */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

const uint32_t mesh_again = UINT32_MAX, mesh_waits = UINT32_MAX - 1, mesh_report = UINT32_MAX - 2;

void mesh_step_forget(mesh_step *step)
{
    for (size_t i = 0; i < step->count; i++) {
        ps_packet_unref(step->said[i].packet);
    }
    step->count = step->target_count = step->next = 0;
}

void mesh_step_fini(mesh_step *step)
{
    mesh_step_forget(step);
    free(step->said);
    free(step->targets);
}

void mesh_send(ps_mesh_machine *m, ps_packet *packet, const uint32_t *targets, uint32_t count)
{
    mesh_step *step = &m->now;

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
        (mesh_sent){.packet = packet, .first = (uint32_t)step->target_count, .count = count};
    step->target_count += count;
}

void mesh_send_to(ps_mesh_machine *m, ps_packet *packet, uint32_t target)
{
    mesh_send(m, packet, &target, 1);
}

static bool next_of(ps_mesh_machine *m, mesh_step *step, ps_mesh_out *out)
{
    const mesh_sent *said;

    if (step->next == step->count) {
        return false;
    }
    said = &step->said[step->next++];
    *out = (ps_mesh_out){.packet = ps_packet_ref(said->packet),
                         .targets = step->targets + said->first,
                         .count = said->count};
    if (said->packet->what == mesh_report) {
        return true;
    }
    m->counters.packets++;
    m->counters.copies += said->count;
    m->counters.bytes += said->packet->len;
    m->counters.bytes_copied += said->packet->len * said->count;
    m->counters.values_copied += (uint64_t)said->packet->n * said->count;
    return true;
}

bool ps_mesh_next(ps_mesh_machine *m, ps_mesh_out *out)
{
    return next_of(m, &m->before, out) || next_of(m, &m->now, out);
}

void mesh_repeat(ps_mesh_machine *m, const mesh_step *step, uint32_t to)
{
    /* mesh_send_to below may append to `step` itself, and what it appends must not be repeated */
    size_t count = step->count;

    for (size_t i = 0; i < count; i++) {
        mesh_sent said = step->said[i];

        for (uint32_t t = 0; t < said.count; t++) {
            if (step->targets[said.first + t] == to && said.packet->what < mesh_waits) {
                mesh_send_to(m, ps_packet_ref(said.packet), to);
                break;
            }
        }
    }
}
