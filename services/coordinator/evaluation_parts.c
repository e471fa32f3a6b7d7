/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation_parts.c - merges the evaluations of the workers' shares of the test set. */
#include "services/coordinator/driver_impl.h"

#include "common/base/log.h"
#include "common/train/evaluation.h"

#include <inttypes.h>

/* Returns whether the last parts of all live ranks belong to this evaluation. The last part of a
 * rank that has done a later evaluation already does not. */
static bool has_all(const ps_attempt *a, uint32_t evaluation)
{
    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        const Psgd__V1__EvaluationPart *part = a->told[r].part;

        if (!ps_rank_is_lost(a, r) && (!part || part->evaluation != evaluation)) {
            return false;
        }
    }
    return true;
}

static void take_result(ps_attempt *a, ps_evaluation *whole)
{
    Psgd__V1__Job *job = a->job->record.job;
    double values[PS_METRICS_MAX];

    ps_evaluation_values(whole, values);
    ps_job_set_result(job, "loss", ps_evaluation_loss(whole));
    for (size_t m = 0; m < a->plan->metric_count; m++) {
        ps_job_set_result(job, a->plan->metrics[m].metric->name, values[m]);
    }
}

bool ps_evaluation_parts_merge(ps_attempt *a, uint32_t evaluation)
{
    ps_evaluation whole;
    ps_status st = ps_ok();

    if (!has_all(a, evaluation)) {
        return false;
    }
    ps_evaluation_init(&whole, a->plan);
    for (uint32_t r = 0; r < a->placement.rank_count && ps_is_ok(&st); r++) {
        if (!ps_rank_is_lost(a, r)) {
            const ProtobufCBinaryData *state = &a->told[r].part->state;

            st = ps_wrap(ps_evaluation_merge_part(&whole, state->data, state->len), "%s",
                         a->commit.members[a->told[r].member].id);
        }
    }
    if (ps_is_ok(&st) && whole.samples != a->plan->test_count) {
        st = ps_fail(PS_DATA_LOSS, "%" PRIu64 " of %" PRIu32 " samples were evaluated",
                     whole.samples, a->plan->test_count);
    }
    if (ps_is_ok(&st)) {
        take_result(a, &whole);
    } else {
        ps_log(PS_LOG_WARN, "job", "%s: evaluation %u: %s", a->job_id, evaluation, st.text);
    }
    ps_evaluation_fini(&whole);
    return true;
}
