/* SPDX-License-Identifier: Apache-2.0 */
/* rank_reports.h - what ranks say of their steps beside their contributions, as a server keeps it:
 * with it another process can go on with the rank and write the reports of the whole job.
 *
 * The bytes are the trainer's (common/train/trainer.h); nobody here looks at them. They come with a
 * contribution and count from when it is complete, like the contribution. One thread at a time.
 */
#ifndef PS_COMMON_WIRE_RANK_REPORTS_H
#define PS_COMMON_WIRE_RANK_REPORTS_H

#include "common/base/strbuf.h"
#include "common/job/plan.h"
#include "common/train/exchange.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_RANK_REPORTS_MAX = 64 << 20 }; /* most bytes of all ranks; then all are forgotten */

typedef struct ps_rank_reports {
    uint32_t count; /* 0: none are kept */
    size_t bytes;   /* of all ranks */
    struct ps_rank_report {
        ps_strbuf bytes;
        bool has_any;
        uint64_t clock;   /* of the newest bytes, */
        size_t at;        /* which begin here */
        bool is_partial;  /* more is to come before the bytes are of use */
        bool was_partial; /* the same of those before `at` */
    } * ranks;            /* (count) */
} ps_rank_reports;

/* Begins to keep the reports of so many ranks. */
void ps_rank_reports_init(ps_rank_reports *reports, uint32_t ranks);
/* Frees them. A zeroed struct is allowed. */
void ps_rank_reports_fini(ps_rank_reports *reports);

/* Checks what a rank says with its contribution to `clock`, if it is kept. Fails with
 * INVALID_ARGUMENT, which names the rank: nobody could go on with such bytes. */
PS_MUST_USE ps_status ps_rank_reports_check(const ps_rank_reports *reports, const ps_plan *plan,
                                            uint32_t rank, uint64_t clock, const ps_said *said);

/* Takes what a rank says with its contribution to `clock`. A repetition replaces what came for the
 * same clock; what comes for an earlier one is ignored. */
void ps_rank_reports_take(ps_rank_reports *reports, uint32_t rank, uint64_t clock,
                          const uint8_t *bytes, size_t len, bool is_partial);

/* Lends what the rank has said with its contributions to the clocks before `clock`. Returns NULL if
 * that is not known: `clock` is not the newest one or that after it, or something is missing. */
const char *ps_rank_reports_at(const ps_rank_reports *reports, uint32_t rank, uint64_t clock,
                               size_t *len);

#endif
