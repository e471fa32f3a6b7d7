/* SPDX-License-Identifier: Apache-2.0 */
/* reports.c - the reports that workers send with their parts of a step (mesh.h). A report takes the
 * way of the exchange: each worker passes a report on to its neighbours, except to the one from
 * which it got the report. */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void mesh_reports_init(ps_mesh_machine *m)
{
    if (m->conf.has_reports) {
        assert(m->conf.assignment->redundancy == 1);
        m->reports = ps_xcalloc(m->nodes, sizeof(ps_packet *));
        m->heirs = ps_xcalloc(m->nodes, sizeof *m->heirs);
    }
}

static void forget(ps_mesh_machine *m)
{
    for (uint32_t i = 0; m->reports != NULL && i < m->nodes; i++) {
        ps_packet_unref(m->reports[i]);
        m->reports[i] = NULL;
    }
}

void mesh_reports_fini(ps_mesh_machine *m)
{
    forget(m);
    free(m->reports);
    free(m->heirs);
    ps_buf_unref(m->report);
}

void mesh_reports_begin(ps_mesh_machine *m)
{
    forget(m);
    m->reports_due = m->conf.has_reports ? m->nodes : 0;
}

/* Returns the worker from which this one gets the report of `origin`, another worker. */
static uint32_t sender_of(const ps_mesh_machine *m, uint32_t origin)
{
    return m->conf.mesh->towards != NULL ? m->conf.mesh->towards(m, origin) : origin;
}

/* Writes to m->heirs to which workers this one sends the report of `origin`. Returns how many. */
static uint32_t find_heirs(ps_mesh_machine *m, uint32_t origin)
{
    bool is_own = origin == m->conf.self;
    uint32_t count = 0, kept = 0, from = is_own ? origin : sender_of(m, origin);

    if (m->conf.mesh->neighbours != NULL) {
        count = m->conf.mesh->neighbours(m, m->heirs);
    } else {
        for (uint32_t i = 0; is_own && i < m->nodes; i++) {
            m->heirs[count++] = i;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t to = m->heirs[i];

        if (to != m->conf.self && to != from && to != origin) {
            m->heirs[kept++] = to;
        }
    }
    return kept;
}

/* Keeps the report of `origin`, and sends it to the workers of find_heirs. Takes the reference. */
static void keep(ps_mesh_machine *m, uint32_t origin, ps_packet *packet)
{
    uint32_t count = find_heirs(m, origin);

    m->reports[origin] = packet;
    m->reports_due--;
    if (count > 0) {
        mesh_send(m, packet->from == m->conf.self ? ps_packet_ref(packet) : mesh_copy(m, packet, 0),
                  m->heirs, count);
    }
}

void ps_mesh_report(ps_mesh_machine *m, ps_buf *report)
{
    assert(m->is_running && m->unready > 0);
    assert(report == NULL || report->len <= PS_MESH_REPORT_MAX);
    ps_buf_unref(m->report);
    m->report = report;
}

void mesh_reports_say(ps_mesh_machine *m)
{
    ps_packet *packet;

    if (!m->conf.has_reports) {
        return;
    }
    packet = mesh_packet(m, mesh_report, m->conf.self, 0);
    if (m->report != NULL) {
        ps_buf_unref(packet->buf);
        packet->buf = m->report;
        packet->bytes = m->report->data;
        packet->len = m->report->len;
        m->report = NULL;
    }
    keep(m, m->conf.self, packet);
}

ps_status mesh_reports_check(const ps_mesh_machine *m, const ps_packet *packet)
{
    uint32_t origin = packet->piece;

    if (!m->conf.has_reports || origin >= m->nodes || origin == m->conf.self ||
        packet->from != sender_of(m, origin) || packet->len > PS_MESH_REPORT_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "the report of worker %u, %zu bytes, from worker %u",
                       origin, packet->len, packet->from);
    }
    return m->conf.check_report != NULL ? m->conf.check_report(m->conf.arg, origin, packet->clock,
                                                               packet->bytes, packet->len)
                                        : ps_ok();
}

void mesh_reports_take(ps_mesh_machine *m, ps_packet *packet)
{
    if (m->reports[packet->piece] != NULL) {
        m->counters.duplicates++;
    } else {
        keep(m, packet->piece, ps_packet_ref(packet));
    }
}

void mesh_reports_missing(const ps_mesh_machine *m, bool *peers)
{
    for (uint32_t i = 0; m->reports_due > 0 && i < m->nodes; i++) {
        if (i != m->conf.self && m->reports[i] == NULL) {
            peers[sender_of(m, i)] = true;
        }
    }
}

const uint8_t *ps_mesh_report_of(const ps_mesh_machine *m, uint32_t worker, size_t *len)
{
    const ps_packet *packet = m->conf.has_reports ? m->reports[worker] : NULL;

    assert(m->is_done);
    *len = packet != NULL ? packet->len : 0;
    return *len > 0 ? packet->bytes : NULL;
}
