/* SPDX-License-Identifier: Apache-2.0 */
#include "common/explain/explain_cause.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* A cause other than computing is named if its share of a step is at least this. */
static const double named_from = 0.2;
/* The cause is sure from a share of sure_from and STEPS_ENOUGH steps on. It is unsure if its share
 * is below named_from + margin, or with fewer than STEPS_FEW steps, as it may be chance then. */
static const double sure_from = 0.5, margin = 0.1;
enum { STEPS_FEW = 20, STEPS_ENOUGH = 100 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts values[0..n), n >= 1, and returns the median; if n is even, the lower one of the two in the
 * middle. */
static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, ascending);
    return values[(n - 1) / 2];
}

static size_t find_slowest(const ps_explain_rank *ranks, size_t n)
{
    size_t slowest = 0;

    for (size_t r = 1; r < n; r++) {
        if (ranks[r].compute_s / (double)ranks[r].steps >
            ranks[slowest].compute_s / (double)ranks[slowest].steps) {
            slowest = r;
        }
    }
    return slowest;
}

/* Returns the seconds that a rank needs for a step by itself: for computing or, if that takes
 * longer, for reading its disk. The disk may be read while the rank waits for others, and would
 * take the time in any case. */
static double needed_s(const ps_explain_rank *rank)
{
    return fmax(rank->compute_s, rank->disk_s) / (double)rank->steps;
}

/* Returns the seconds of a step by which the slowest rank holds up the others, at least 0. They are
 * the lesser of two differences: its computing less the median of what the others need, and the
 * median of their waits less its own. */
static double held_up_s(const ps_explain_rank *ranks, size_t n, size_t slowest)
{
    double *compute = ps_xcalloc(n, sizeof *compute), *wait = ps_xcalloc(n, sizeof *wait);
    double longer, waited;
    size_t others = 0;

    for (size_t r = 0; r < n; r++) {
        if (r != slowest) {
            compute[others] = needed_s(&ranks[r]);
            wait[others++] = ranks[r].wait_s / (double)ranks[r].steps;
        }
    }
    longer = waited = 0;
    if (others > 0) {
        double steps = (double)ranks[slowest].steps;

        longer = ranks[slowest].compute_s / steps - median(compute, others);
        waited = median(wait, others) - ranks[slowest].wait_s / steps;
    }
    free(compute);
    free(wait);
    return fmax(0, fmin(longer, waited));
}

/* Returns what bounds the job: the cause with the largest share, computing not considered. If that
 * share is below named_from, returns computing. */
static ps_explain_cause name_cause(const ps_explanation *e)
{
    ps_explain_cause most = PS_EXPLAIN_DATA;

    for (int c = PS_EXPLAIN_DATA + 1; c < PS_EXPLAIN_CAUSES; c++) {
        most = e->shares[c] > e->shares[most] ? (ps_explain_cause)c : most;
    }
    return e->shares[most] < named_from ? PS_EXPLAIN_COMPUTE : most;
}

static ps_explain_surety weigh(const ps_explanation *e)
{
    double share = e->shares[e->cause];

    if (e->steps < STEPS_FEW || share < named_from + margin) {
        return PS_EXPLAIN_UNSURE;
    }
    return e->steps >= STEPS_ENOUGH && share >= sure_from ? PS_EXPLAIN_SURE : PS_EXPLAIN_LIKELY;
}

ps_explanation ps_explain(const ps_explain_rank *ranks, size_t n)
{
    ps_explanation e = {0};
    const ps_explain_rank *slowest;
    double computed, read, held_up;

    assert(n >= 1);
    e.slowest = find_slowest(ranks, n);
    slowest = &ranks[e.slowest];
    assert(slowest->steps > 0 && slowest->seconds > 0);
    e.steps = slowest->steps;
    e.steps_per_s = (double)slowest->steps / slowest->seconds;
    computed = fmin(1, slowest->compute_s / slowest->seconds);
    read = fmin(computed, slowest->read_s / slowest->seconds);
    held_up = fmin(computed, held_up_s(ranks, n, e.slowest) * e.steps_per_s);
    e.is_straggler_read = read > held_up / 2;
    e.shares[PS_EXPLAIN_STRAGGLER] = held_up;
    e.shares[PS_EXPLAIN_DATA] = fmax(0, read - held_up);
    e.shares[PS_EXPLAIN_COMPUTE] = computed - held_up - e.shares[PS_EXPLAIN_DATA];
    e.shares[PS_EXPLAIN_EXCHANGE] = fmin(1 - computed, slowest->wait_s / slowest->seconds);
    e.shares[PS_EXPLAIN_OTHER] = 1 - computed - e.shares[PS_EXPLAIN_EXCHANGE];
    e.cause = name_cause(&e);
    e.surety = weigh(&e);
    return e;
}

double ps_explain_without(const ps_explanation *e, double share)
{
    return share < 1 ? e->steps_per_s / (1 - share) : (double)INFINITY;
}

const char *ps_explain_cause_name(ps_explain_cause cause)
{
    static const char *const names[] = {[PS_EXPLAIN_COMPUTE] = "compute",
                                        [PS_EXPLAIN_DATA] = "data",
                                        [PS_EXPLAIN_STRAGGLER] = "straggler",
                                        [PS_EXPLAIN_EXCHANGE] = "exchange",
                                        [PS_EXPLAIN_OTHER] = "other"};

    return names[cause];
}

const char *ps_explain_surety_name(ps_explain_surety surety)
{
    static const char *const names[] = {
        [PS_EXPLAIN_UNSURE] = "unsure", [PS_EXPLAIN_LIKELY] = "likely", [PS_EXPLAIN_SURE] = "sure"};

    return names[surety];
}
