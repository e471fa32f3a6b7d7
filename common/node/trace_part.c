/* SPDX-License-Identifier: Apache-2.0 */
/* trace_part.c - the node's part of the job's timeline: what its threads have recorded, by the
 * coordinator's clock. */
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"

#include <stdlib.h>
#include <string.h>

/* Returns when the first record of all tracks began; 0: there is none. */
static int64_t first_ns(const ps_trace_track *tracks, size_t count)
{
    int64_t first = 0;

    for (size_t i = 0; i < count; i++) {
        int64_t at_ns = ps_trace_first_ns(tracks[i].ring);

        first = first == 0 || (at_ns != 0 && at_ns < first) ? at_ns : first;
    }
    return first;
}

void ps_node_keep_trace(ps_node *node, const ps_trace_track *tracks, size_t count)
{
    if (node->trace.tracks != NULL || count == 0) {
        return;
    }
    node->trace.tracks = ps_xcalloc(count, sizeof *tracks);
    memcpy(node->trace.tracks, tracks, count * sizeof *tracks);
    node->trace.count = count;
    node->trace.alignment = ps_link_align(node->link, first_ns(tracks, count));
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
    if (!ps_is_ok(&st)) { /* no reason to lose a model */
        ps_log(PS_LOG_WARN, "node", "no timeline: %s", st.text);
    }
}

void ps_node_drop_trace(ps_node *node)
{
    free(node->trace.tracks);
    memset(&node->trace, 0, sizeof node->trace);
}
