/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - see tally.h.
 *
 * The serialised form: samples, then the metric's counts, sums and ranking, as far as it uses
 * them.
 */
#include "common/metric/tally.h"

#include "common/base/bytes.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t samples_max = UINT64_C(1) << 48;

void ps_tally_init(ps_tally *tally, const ps_metric *metric, const ps_params *params,
                   const ps_metric_facts *facts)
{
    ps_status st = ps_metric_fits(metric, params, facts);

    assert(ps_is_ok(&st));
    assert(metric->counts <= PS_TALLY_COUNTS && metric->sums <= PS_TALLY_SUMS);
    *tally = (ps_tally){.metric = metric, .params = *params, .facts = *facts};
    tally->p = ps_xcalloc(facts->outputs, sizeof *tally->p);
}

void ps_tally_fini(ps_tally *tally)
{
    ps_ranking_fini(&tally->ranking);
    free(tally->p);
    tally->p = NULL;
}

void ps_tally_clear(ps_tally *tally)
{
    ps_ranking_fini(&tally->ranking);
    tally->samples = 0;
    memset(tally->count, 0, sizeof tally->count);
    memset(tally->sum, 0, sizeof tally->sum);
}

void ps_tally_add(ps_tally *tally, const float *y, ps_targets t, size_t n)
{
    assert(t.is_class == (tally->facts.classes > 0) && t.width == tally->facts.target_width);
    tally->metric->add(tally, y, t, n);
    tally->samples += n;
}

void ps_tally_merge(ps_tally *tally, const ps_tally *other)
{
    assert(tally->metric == other->metric);
    tally->samples += other->samples;
    for (unsigned i = 0; i < tally->metric->counts; i++) {
        tally->count[i] += other->count[i];
    }
    for (unsigned i = 0; i < tally->metric->sums; i++) {
        ps_exact_sum_merge(&tally->sum[i], &other->sum[i]);
    }
    if (tally->metric->ranks) {
        ps_ranking_merge(&tally->ranking, &other->ranking);
    }
}

double ps_tally_value(ps_tally *tally)
{
    ps_ranking_sort(&tally->ranking);
    return tally->samples == 0 ? (double)NAN : tally->metric->value(tally);
}

static size_t head_bytes(const ps_metric *metric)
{
    return 8 + 8 * (size_t)metric->counts + PS_SUM_BYTES * (size_t)metric->sums;
}

size_t ps_tally_bytes(ps_tally *tally)
{
    ps_ranking_sort(&tally->ranking);
    return head_bytes(tally->metric) +
           (tally->metric->ranks ? ps_ranking_bytes(&tally->ranking) : 0);
}

void ps_tally_write(ps_tally *tally, uint8_t *bytes)
{
    const ps_metric *metric = tally->metric;

    ps_ranking_sort(&tally->ranking);
    ps_put_u64(bytes, tally->samples);
    bytes += 8;
    for (unsigned i = 0; i < metric->counts; i++, bytes += 8) {
        ps_put_u64(bytes, tally->count[i]);
    }
    for (unsigned i = 0; i < metric->sums; i++, bytes += PS_SUM_BYTES) {
        ps_exact_sum_write(&tally->sum[i], bytes);
    }
    if (metric->ranks) {
        ps_ranking_write(&tally->ranking, bytes);
    }
}

/* Reads samples, counts and sums from head_bytes bytes. */
static ps_status read_head(ps_tally *tally, const uint8_t *bytes)
{
    const ps_metric *metric = tally->metric;
    ps_status st = ps_ok();

    tally->samples = ps_get_u64(bytes);
    bytes += 8;
    if (tally->samples > samples_max) {
        return ps_fail(PS_DATA_LOSS, "a tally of %s over %" PRIu64 " samples", metric->name,
                       tally->samples);
    }
    for (unsigned i = 0; i < metric->counts; i++, bytes += 8) {
        tally->count[i] = ps_get_u64(bytes);
        if (tally->count[i] > samples_max) {
            return ps_fail(PS_DATA_LOSS, "a tally of %s with a count of %" PRIu64, metric->name,
                           tally->count[i]);
        }
    }
    for (unsigned i = 0; i < metric->sums && ps_is_ok(&st); i++, bytes += PS_SUM_BYTES) {
        st = ps_exact_sum_read(&tally->sum[i], bytes);
    }
    return st;
}

ps_status ps_tally_read(ps_tally *tally, const uint8_t *bytes, size_t len)
{
    size_t head = head_bytes(tally->metric);
    ps_tally found = {
        .metric = tally->metric, .params = tally->params, .facts = tally->facts, .p = tally->p};
    ps_status st;

    if (len < head || (!tally->metric->ranks && len != head)) {
        return ps_fail(PS_DATA_LOSS, "a tally of %s has %zu bytes; %s %zu are allowed",
                       tally->metric->name, len, tally->metric->ranks ? "at least" : "exactly",
                       head);
    }
    st = read_head(&found, bytes);
    if (ps_is_ok(&st) && tally->metric->ranks) {
        st = ps_ranking_read(&found.ranking, bytes + head, len - head);
    }
    if (ps_is_ok(&st)) {
        ps_ranking_fini(&tally->ranking);
        *tally = found;
    } else {
        ps_ranking_fini(&found.ranking);
    }
    return st;
}
