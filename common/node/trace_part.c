/* SPDX-License-Identifier: Apache-2.0 */
/* trace_part.c - the node's part of the job's timeline: what its threads have recorded, by the
 * coordinator's clock. */
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the time at which the earliest record of any track began; 0: there is no record. */
static int64_t first_ns(const ps_trace_track *tracks, size_t count)
{
    int64_t first = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t at_ns = ps_trace_first_ns(tracks[i].ring);

        first = first == 0 || (at_ns != 0 && at_ns < first) ? at_ns : first;
    }
    return first;
}

/* Lists the session's rings in node->trace, and how this node's clock relates to the coordinator's
 * when their first record began. */
static void list_tracks(ps_node *node)
{
    free(node->trace.tracks);
    node->trace.tracks = NULL;
    node->trace.count = node->hooks->tracks(node->state, &node->trace.tracks);
    node->trace.alignment =
        ps_link_align(node->link, first_ns(node->trace.tracks, node->trace.count));
}

void ps_node_keep_trace(ps_node *node)
{
    if (node->session->plan->spec->trace == NULL || node->hooks->tracks == NULL ||
        node->trace.tracks != NULL) {
        return;
    }
    list_tracks(node);
    ps_node_keep_if_there(node, PS_TRACE_PART, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
}

void ps_node_write_trace(ps_node *node)
{
    char path[sizeof node->folder + sizeof PS_TRACE_PART + 1];
    ps_status st;

    if (node->trace.tracks == NULL || node->trace.is_written) {
        return;
    }
    node->trace.is_written = true;
    st = ps_path_join(path, sizeof path, node->folder, PS_TRACE_PART);
    if (ps_is_ok(&st)) {
        st = ps_trace_write_part(path, node->trace.tracks, node->trace.count,
                                 &node->trace.alignment);
    }
    if (!ps_is_ok(&st)) { /* the model is worth more than the timeline: Collect does not fail */
        ps_log(PS_LOG_WARN, "node", "no timeline: %s", st.text);
    }
}

void ps_trace_obey(ps_node *node, const Psgd__V1__HeartbeatResponse *reply)
{
    ps_trace_track *tracks = NULL;
    size_t count;

    if (node->session == NULL || node->is_releasing || node->agent.phase != PS_PHASE_RUNNING ||
        node->hooks->tracks == NULL || node->session->plan->spec->trace != NULL ||
        reply->trace_from == node->trace.from_step || node->trace.is_being_read ||
        reply->trace_steps > PS_TRACE_STEPS_MAX) {
        return;
    }
    node->trace.from_step = reply->trace_from;
    count = node->hooks->tracks(node->state, &tracks);
    for (size_t i = 0; i < count; i++) {
        ps_trace_ring_set(tracks[i].ring, reply->trace_from,
                          reply->trace_from > 0 ? reply->trace_steps : 0);
    }
    free(tracks);
}

ps_status ps_trace_begin_live(ps_node *node, uint64_t from_step)
{
    if (from_step != node->trace.from_step || node->session == NULL ||
        node->hooks->tracks == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "node %s does not record steps from %llu on",
                       node->node_id, (unsigned long long)from_step);
    }
    if (node->trace.is_being_read) {
        return ps_fail(PS_UNAVAILABLE, "node %s is writing a timeline", node->node_id);
    }
    list_tracks(node);
    node->trace.is_being_read = true;
    return ps_ok();
}

ps_status ps_trace_write_live(ps_node *node, int *fd)
{
    char path[sizeof node->folder + sizeof PS_TRACE_PART + 1];
    ps_status st = ps_path_join(path, sizeof path, node->folder, PS_TRACE_PART);

    if (ps_is_ok(&st)) {
        st = ps_trace_write_part(path, node->trace.tracks, node->trace.count,
                                 &node->trace.alignment);
    }
    if (ps_is_ok(&st)) {
        *fd = open(path, O_RDONLY | O_CLOEXEC);
        st = *fd < 0 ? ps_fail_errno(errno, "open %s", PS_TRACE_PART) : st;
        unlink(path);
    }
    return st;
}

void ps_trace_end_live(ps_node *node)
{
    free(node->trace.tracks);
    node->trace.tracks = NULL;
    node->trace.count = 0;
    node->trace.is_being_read = false;
}

void ps_node_drop_trace(ps_node *node)
{
    free(node->trace.tracks);
    memset(&node->trace, 0, sizeof node->trace);
}
