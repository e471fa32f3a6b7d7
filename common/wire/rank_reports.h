/* SPDX-License-Identifier: Apache-2.0 */
/* rank_reports.h - the reports of ranks, as a server keeps them: bytes in which a rank tells its
 * rows of reports, with each contribution. With them another process can continue the rank and
 * write the reports of the whole job.
 *
 * The bytes are made, checked and read by the trainer (common/train/trainer_said.c); the code here
 * keeps them as they are. Like the contribution with which they come, they count only when it is
 * complete. One thread at a time. */
#ifndef PS_COMMON_WIRE_RANK_REPORTS_H
#define PS_COMMON_WIRE_RANK_REPORTS_H

#include "common/base/strbuf.h"
#include "common/job/plan.h"
#include "common/train/exchange.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* most bytes of all ranks together; if there are more, all are dropped and none are kept any
 * more */
enum { PS_RANK_REPORTS_MAX = 64 << 20 };

typedef struct ps_rank_reports {
    uint32_t count; /* number of ranks; 0: no reports are kept */
    size_t bytes;   /* bytes of all ranks together */
    struct ps_rank_report {
        ps_strbuf bytes;
        bool has_any;
        uint64_t clock;   /* clock of the newest report */
        size_t at;        /* offset in `bytes` at which the newest report begins */
        bool is_partial;  /* the reports are of use only with those that follow */
        bool was_partial; /* is_partial before the newest report */
    } * ranks;            /* (count) */
} ps_rank_reports;

/* Begins to keep the reports of `ranks` ranks. */
void ps_rank_reports_init(ps_rank_reports *reports, uint32_t ranks);
/* Frees the reports. A zeroed struct is allowed. */
void ps_rank_reports_fini(ps_rank_reports *reports);

/* Checks the report that a rank sends with its contribution to `clock`, if reports are kept.
 * Returns INVALID_ARGUMENT, which names the rank, if no process could continue the rank with it
 * (ps_said_check). */
PS_MUST_USE ps_status ps_rank_reports_check(const ps_rank_reports *reports, const ps_plan *plan,
                                            uint32_t rank, uint64_t clock, const ps_said *said);

/* Appends the report that a rank sends with its contribution to `clock`. If a report for this clock
 * came before, replaces it. Ignores a report for an earlier clock than the newest. */
void ps_rank_reports_take(ps_rank_reports *reports, uint32_t rank, uint64_t clock,
                          const uint8_t *bytes, size_t len, bool is_partial);

/* Returns the rank's reports with its contributions to the clocks before `clock`, and sets *len.
 * Valid until the next change. NULL: not known, because `clock` is neither that of the newest
 * report nor the one after it, or a report is missing. */
const char *ps_rank_reports_at(const ps_rank_reports *reports, uint32_t rank, uint64_t clock,
                               size_t *len);

#endif
