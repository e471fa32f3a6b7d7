/* SPDX-License-Identifier: Apache-2.0 */
/* rescue_rounds.c - see rescue_rounds.h. */
#include "services/coordinator/domain/rescue_rounds.h"

void ps_rescue_rounds_begin(ps_rescue_rounds *r, uint64_t clock)
{
    r->has_source = false;
    r->clock = clock;
}

void ps_rescue_rounds_take(ps_rescue_rounds *r, size_t worker, uint64_t clock)
{
    /* clock 0 is an answer too: no worker has anything newer than its first weights */
    if (!r->has_source || clock > r->clock) {
        r->has_source = true;
        r->source = worker;
        r->clock = clock;
    }
}

bool ps_rescue_rounds_end(ps_rescue_rounds *r, bool is_answered)
{
    if (is_answered) {
        r->answered++;
        return false;
    }
    return ++r->unanswered < PS_RESCUE_UNANSWERED_MAX;
}

bool ps_rescue_rounds_may_repeat(const ps_rescue_rounds *r)
{
    return r->answered < PS_RESCUE_ANSWERED_MAX;
}
