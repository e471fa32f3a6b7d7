/* SPDX-License-Identifier: Apache-2.0 */
/* evaluation.c - see evaluation.h. */
#include "common/train/evaluation.h"

#include "common/base/bytes.h"
#include "common/metric/outputs.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void ps_evaluation_init(ps_evaluation *e, const ps_plan *plan)
{
    memset(e, 0, sizeof *e);
    e->plan = plan;
    for (size_t i = 0; i < plan->metric_count; i++) {
        ps_tally_init(&e->tallies[i], plan->metrics[i].metric, &plan->metrics[i].params,
                      &plan->metric_facts);
    }
}

void ps_evaluation_fini(ps_evaluation *e)
{
    for (size_t i = 0; i < PS_METRICS_MAX; i++) {
        ps_tally_fini(&e->tallies[i]);
    }
}

void ps_evaluation_clear(ps_evaluation *e)
{
    memset(&e->loss, 0, sizeof e->loss);
    e->samples = 0;
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        ps_tally_clear(&e->tallies[i]);
    }
}

double ps_evaluation_add(ps_evaluation *e, ps_model *model, const float *weights, const float *x,
                         ps_targets targets, size_t n)
{
    const float *y = ps_model_predict(model, weights, x, n);
    ps_score score = {0};

    e->plan->loss->eval(y, targets, n, ps_model_output_width(model), 1.0f, NULL, &score);
    ps_exact_sum_add(&e->loss, score.loss_sum);
    e->samples += n;
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        ps_tally_add(&e->tallies[i], y, targets, n);
    }
    return score.loss_sum;
}

void ps_evaluation_read(const ps_plan *plan, const float *row, double *p)
{
    ps_outputs_read(plan->loss->link, row, plan->outputs, p);
}

int64_t ps_evaluation_class(const ps_plan *plan, const float *row)
{
    size_t said = ps_outputs_class(plan->loss->link, row, plan->outputs);

    return said == PS_OUTPUTS_NO_CLASS ? -1 : (int64_t)said;
}

double ps_evaluation_loss(const ps_evaluation *e)
{
    return e->samples == 0 ? (double)NAN : ps_exact_sum_value(&e->loss) / (double)e->samples;
}

void ps_evaluation_values(ps_evaluation *e, double *values)
{
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        values[i] = ps_tally_value(&e->tallies[i]);
    }
}

/* ---- Parts ---- */

bool ps_evaluation_has(const ps_plan *plan, uint32_t rank, uint32_t batch)
{
    return !plan->spec->split_evaluation || batch % plan->spec->workers == rank;
}

void ps_evaluation_merge(ps_evaluation *e, const ps_evaluation *other)
{
    assert(e->plan == other->plan);
    ps_exact_sum_merge(&e->loss, &other->loss);
    e->samples += other->samples;
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        ps_tally_merge(&e->tallies[i], &other->tallies[i]);
    }
}

enum { HEAD_BYTES = PS_SUM_BYTES + 8 };

size_t ps_evaluation_bytes(ps_evaluation *e)
{
    size_t bytes = HEAD_BYTES;

    for (size_t i = 0; i < e->plan->metric_count; i++) {
        bytes += 8 + ps_tally_bytes(&e->tallies[i]);
    }
    return bytes;
}

void ps_evaluation_write(ps_evaluation *e, uint8_t *bytes)
{
    ps_exact_sum_write(&e->loss, bytes);
    ps_put_u64(bytes + PS_SUM_BYTES, e->samples);
    bytes += HEAD_BYTES;
    for (size_t i = 0; i < e->plan->metric_count; i++) {
        size_t len = ps_tally_bytes(&e->tallies[i]);

        ps_put_u64(bytes, len);
        ps_tally_write(&e->tallies[i], bytes + 8);
        bytes += 8 + len;
    }
}

/* Reads tally number i from the front of *bytes, of which *len are left, and moves *bytes behind
 * it. */
static ps_status read_tally(ps_evaluation *e, size_t i, const uint8_t **bytes, size_t *len)
{
    const char *name = e->plan->metrics[i].metric->name;
    uint64_t n = *len < 8 ? UINT64_MAX : ps_get_u64(*bytes);
    ps_status st;

    if (*len < 8 || n > *len - 8) {
        return ps_fail(PS_DATA_LOSS, "an evaluation ends within %s", name);
    }
    st = ps_tally_read(&e->tallies[i], *bytes + 8, (size_t)n);
    if (ps_is_ok(&st) && e->tallies[i].samples != e->samples) {
        st = ps_fail(PS_DATA_LOSS, "an evaluation of %" PRIu64 " samples, %" PRIu64 " in %s",
                     e->samples, e->tallies[i].samples, name);
    }
    *bytes += 8 + n;
    *len -= 8 + n;
    return st;
}

static ps_status read_all(ps_evaluation *e, const uint8_t *bytes, size_t len)
{
    ps_status st;

    if (len < HEAD_BYTES) {
        return ps_fail(PS_DATA_LOSS, "an evaluation of %zu bytes", len);
    }
    st = ps_exact_sum_read(&e->loss, bytes);
    e->samples = ps_get_u64(bytes + PS_SUM_BYTES);
    bytes += HEAD_BYTES;
    len -= HEAD_BYTES;
    for (size_t i = 0; i < e->plan->metric_count && ps_is_ok(&st); i++) {
        st = read_tally(e, i, &bytes, &len);
    }
    if (ps_is_ok(&st) && (len > 0 || e->samples > e->plan->test_count)) {
        st = ps_fail(PS_DATA_LOSS,
                     "an evaluation of %" PRIu64 " samples of %" PRIu32 " and with %zu bytes more",
                     e->samples, e->plan->test_count, len);
    }
    return st;
}

ps_status ps_evaluation_merge_part(ps_evaluation *e, const uint8_t *bytes, size_t len)
{
    ps_evaluation part;
    ps_status st;

    ps_evaluation_init(&part, e->plan);
    st = read_all(&part, bytes, len);
    if (ps_is_ok(&st)) {
        ps_evaluation_merge(e, &part);
    }
    ps_evaluation_fini(&part);
    return st;
}
