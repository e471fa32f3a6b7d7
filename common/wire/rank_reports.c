/* SPDX-License-Identifier: Apache-2.0 */
/* rank_reports.c - see rank_reports.h. */
#include "common/wire/rank_reports.h"

#include "common/base/xalloc.h"
#include "common/train/trainer.h"

#include <inttypes.h>
#include <stdlib.h>

void ps_rank_reports_init(ps_rank_reports *reports, uint32_t ranks)
{
    *reports = (ps_rank_reports){.count = ranks};
    reports->ranks = ps_xcalloc(ranks, sizeof *reports->ranks);
}

void ps_rank_reports_fini(ps_rank_reports *reports)
{
    for (uint32_t i = 0; i < reports->count; i++) {
        ps_strbuf_fini(&reports->ranks[i].bytes);
    }
    free(reports->ranks);
    *reports = (ps_rank_reports){0};
}

ps_status ps_rank_reports_check(const ps_rank_reports *reports, const ps_plan *plan, uint32_t rank,
                                uint64_t clock, const ps_said *said)
{
    const struct ps_rank_report *r;
    ps_said before;

    if (rank >= reports->count || said->len == 0) {
        return ps_ok();
    }
    r = &reports->ranks[rank];
    if (r->has_any && clock < r->clock) {
        return ps_ok();
    }
    before = (ps_said){.bytes = (const uint8_t *)r->bytes.data,
                       .len = r->has_any && clock == r->clock ? r->at : r->bytes.len,
                       .is_partial = clock == r->clock ? r->was_partial : r->is_partial};
    return ps_wrap(ps_said_check(plan, &before, clock, said), "the report of rank %" PRIu32, rank);
}

void ps_rank_reports_take(ps_rank_reports *reports, uint32_t rank, uint64_t clock,
                          const uint8_t *bytes, size_t len, bool is_partial)
{
    struct ps_rank_report *r;

    if (rank >= reports->count || len == 0) {
        return;
    }
    r = &reports->ranks[rank];
    if (r->has_any && clock < r->clock) {
        return;
    }
    if (!r->has_any || clock > r->clock) {
        r->at = r->bytes.len;
        r->was_partial = r->is_partial;
    }
    reports->bytes -= r->bytes.len - r->at;
    ps_strbuf_truncate(&r->bytes, r->at);
    r->has_any = true;
    r->clock = clock;
    r->is_partial = is_partial;
    if (reports->bytes + len > PS_RANK_REPORTS_MAX) {
        ps_rank_reports_fini(reports);
        return;
    }
    ps_strbuf_append(&r->bytes, bytes, len);
    reports->bytes += len;
}

const char *ps_rank_reports_at(const ps_rank_reports *reports, uint32_t rank, uint64_t clock,
                               size_t *len)
{
    const struct ps_rank_report *r;

    if (rank >= reports->count) {
        return NULL;
    }
    r = &reports->ranks[rank];
    if (!r->has_any || r->is_partial || (clock != r->clock && clock != r->clock + 1)) {
        return NULL;
    }
    *len = clock == r->clock ? r->at : r->bytes.len;
    return r->bytes.data;
}
