/* SPDX-License-Identifier: Apache-2.0 */
/* said.c - what a node has said in a step, to whom, and what of it is still to go out. */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <stdlib.h>
#include <string.h>

const uint32_t mesh_again = UINT32_MAX;

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

void mesh_repeat(ps_mesh_node *node, const mesh_step *step, uint32_t to)
{
    size_t count = step->count; /* what is added to it now is not looked at */

    for (size_t i = 0; i < count; i++) {
        mesh_said said = step->said[i];

        for (uint32_t t = 0; t < said.count; t++) {
            if (step->targets[said.first + t] == to && said.packet->what != mesh_again) {
                mesh_say_to(node, ps_packet_ref(said.packet), to);
                break;
            }
        }
    }
}
