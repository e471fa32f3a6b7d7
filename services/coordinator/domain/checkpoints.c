/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.c - see checkpoints.h. */
#include "services/coordinator/domain/checkpoints.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD_BEATS = 3, AHEAD_LEAST = 2, MISSES_MAX = 8 };

void ps_cuts_init(ps_cuts *cuts, size_t nodes, uint64_t clock, int64_t now_us)
{
    *cuts = (ps_cuts){.count = nodes, .since_us = now_us};
    cuts->has = ps_xcalloc(nodes + 1, sizeof *cuts->has);
    cuts->is_away = ps_xcalloc(nodes + 1, sizeof *cuts->is_away);
    if (clock > 0) {
        ps_cuts_name(cuts, clock);
    }
}

void ps_cuts_fini(ps_cuts *cuts)
{
    free(cuts->has);
    free(cuts->is_away);
    *cuts = (ps_cuts){0};
}

bool ps_cuts_is_passing(const ps_cuts *cuts)
{
    return cuts->stays && !(cuts->wants_copy && cuts->clock > cuts->wanted_after);
}

uint64_t ps_cuts_want(ps_cuts *cuts, bool stays)
{
    if (stays && cuts->stays && cuts->stage != PS_CUT_NONE) {
        return cuts->clock - 1;
    }
    cuts->is_wanted = true;
    cuts->wants_stay |= stays;
    cuts->wants_copy |= !stays;
    cuts->wanted_after = cuts->stage > PS_CUT_NAMED ? cuts->clock : cuts->done;
    return cuts->wanted_after;
}

bool ps_cuts_is_due(const ps_cuts *cuts, int64_t every_us, int64_t now_us)
{
    return cuts->stage <= PS_CUT_NAMED &&
           (cuts->is_wanted || (every_us > 0 && now_us - cuts->since_us >= every_us));
}

uint64_t ps_cuts_ahead(const ps_cuts *cuts, double clocks_a_second, int64_t heartbeat_us)
{
    double ahead = AHEAD_LEAST + AHEAD_BEATS * clocks_a_second * (double)heartbeat_us * 1e-6;

    return (uint64_t)ahead << (cuts->misses < MISSES_MAX ? cuts->misses : MISSES_MAX);
}

void ps_cuts_name(ps_cuts *cuts, uint64_t clock)
{
    assert(clock > cuts->done &&
           (cuts->stage == PS_CUT_NONE || (cuts->stage == PS_CUT_NAMED && clock < cuts->clock)));
    cuts->stage = PS_CUT_NAMED;
    cuts->clock = clock;
    cuts->stays = cuts->is_wanted && cuts->wants_stay;
    cuts->at = 0;
    memset(cuts->has, 0, cuts->count * sizeof *cuts->has);
}

void ps_cuts_leave(ps_cuts *cuts, size_t node)
{
    cuts->is_away[node] = true;
}

bool ps_cuts_has(const ps_cuts *cuts, size_t node)
{
    return cuts->has[node] || cuts->is_away[node];
}

/* Moves cuts->at to the first node from `at` on that has taken the checkpoint. Returns whether
 * there is one; if not, cuts->at stays. */
static bool move_on(ps_cuts *cuts, size_t at)
{
    while (at < cuts->count && !cuts->has[at]) {
        at++;
    }
    cuts->at = at < cuts->count ? at : cuts->at;
    return at < cuts->count;
}

static void end(ps_cuts *cuts, int64_t now_us)
{
    cuts->stage = PS_CUT_NONE;
    cuts->done = cuts->clock;
    cuts->since_us = now_us;
}

/* Ends the checkpoint under way. If it `serves` those who asked for one, and its clock is after
 * wanted_after, clears is_wanted and wants_copy; else they stay as they are. Clears wants_stay if
 * no checkpoint is wanted any more, or if workers stay at this one. */
static void settle(ps_cuts *cuts, bool serves, int64_t now_us)
{
    cuts->is_wanted = cuts->is_wanted && (cuts->clock <= cuts->wanted_after || !serves);
    cuts->wants_stay = cuts->wants_stay && cuts->is_wanted && !cuts->stays;
    cuts->wants_copy = cuts->wants_copy && cuts->is_wanted;
    end(cuts, now_us);
}

bool ps_cuts_told(ps_cuts *cuts, size_t node, uint64_t has, uint64_t missed, int64_t now_us)
{
    if (cuts->stage != PS_CUT_NAMED) {
        return false;
    }
    if (missed == cuts->clock) {
        /* kept: a clock that was named too late does not begin a new interval of every_seconds */
        int64_t since_us = cuts->since_us;

        cuts->misses++;
        end(cuts, now_us);
        cuts->since_us = since_us;
        return false;
    }
    cuts->has[node] = has == cuts->clock;
    for (size_t i = 0; i < cuts->count; i++) {
        if (!ps_cuts_has(cuts, i)) {
            return false;
        }
    }
    if (!move_on(cuts, 0)) {
        return false;
    }
    cuts->stage = PS_CUT_COLLECTING;
    return true;
}

bool ps_cuts_collected(ps_cuts *cuts)
{
    assert(cuts->stage == PS_CUT_COLLECTING);
    if (move_on(cuts, cuts->at + 1)) {
        return true;
    }
    cuts->stage = PS_CUT_STORING;
    return false;
}

void ps_cuts_stored(ps_cuts *cuts, int64_t now_us)
{
    assert(cuts->stage == PS_CUT_STORING);
    cuts->misses = 0;
    settle(cuts, cuts->stays || !cuts->wants_stay, now_us);
}

void ps_cuts_give_up(ps_cuts *cuts, int64_t now_us)
{
    if (cuts->stage != PS_CUT_NONE) {
        settle(cuts, true, now_us);
    }
}

void ps_chain_stored(ps_chain *chain, uint64_t clock, bool is_whole, uint64_t bytes)
{
    bool is_large = !is_whole && bytes > chain->whole / 2;

    chain->changes = is_whole ? 0 : chain->changes + 1;
    chain->changed = is_whole ? 0 : chain->changed + bytes;
    chain->whole = is_whole ? bytes : chain->whole;
    chain->rest = is_large ? PS_CHAIN_MAX : chain->rest - (is_whole && chain->rest > 0);
    chain->clock =
        chain->rest == 0 && chain->changes < PS_CHAIN_MAX && chain->changed <= chain->whole / 2
            ? clock
            : 0;
}

size_t ps_checkpoints_best(const double *values, size_t count, bool is_cost)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++) {
        if (!isnan(values[i]) &&
            (best == count || (is_cost ? values[i] < values[best] : values[i] > values[best]))) {
            best = i;
        }
    }
    return best;
}

void ps_checkpoints_choose(const uint64_t *steps, size_t count, uint32_t keep, uint64_t keep_every,
                           size_t best, bool *drop)
{
    for (size_t i = 0; i < count; i++) {
        drop[i] = count - i > keep && count - i > 1 && i != best &&
                  (keep_every == 0 || steps[i] % keep_every != 0);
    }
}

void ps_checkpoints_keep_parents(const size_t *parent, size_t count, bool has_other, bool *drop)
{
    size_t *root = ps_xcalloc(count + 1, sizeof *root), other = count;

    for (size_t i = 0; i < count; i++) {
        root[i] = parent[i] < i ? root[parent[i]] : i;
    }
    for (size_t i = 0; i < count; i++) {
        other = root[i] != root[count - 1] ? i : other;
        has_other = has_other && (drop[i] || root[i] == root[count - 1]);
    }
    if (has_other && other < count) {
        drop[other] = false;
    }
    for (size_t i = count; i-- > 0;) {
        if (!drop[i] && parent[i] < i) {
            drop[parent[i]] = false;
        }
    }
    free(root);
}
