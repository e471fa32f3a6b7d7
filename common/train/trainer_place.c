/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_place.c - where a rank is that is saved in the middle of a clock.
 *
 * When servers are lost, ranks are parked: each stands still at its first wait that is not over at
 * once. Then it has made all of its contributions to the clocks before t->clock, and none to
 * t->clock. With an overlapped update the rank may have taken the local steps of the round
 * t->clock. The servers give their state at t->clock, or at the clock before or two before. So the
 * file of a rank has its contributions to these clocks, and the rank sends them again; to compute
 * them again it would need its earlier state. A rank that has ended is saved in the same way. A
 * rank that was held because the job ends early is held again, so the job ends where it would have.
 *
 * A rank that is not parked has this section too if it has taken steps of the round, or if the
 * evaluation of its weights has reached stop_at: the job ends at t->clock, and the rank must not
 * train beyond it. In a job that goes on from the checkpoint of another job, the rank evaluates
 * these weights itself, so that the job has a result.
 *
 * The section, kind 6 of a rank's file:
 *   u32 bits (below); u32 epoch of the evaluation that is owed; u32 local steps of the round that
 *   were taken, f64 sum of their losses
 *   OWES_EVALUATION: the entry of the record of rounds that waits for it: u64 round, steps, bytes
 *   up, down; f64 time, loss, seconds of computing, of the exchange, of waits
 *   IS_PARKED: u64 number of bytes, and a file of common/wire/kept_pushes.h
 */
#include "common/train/trainer_impl.h"

#include "common/job/stop.h"

#include <inttypes.h>
#include <math.h>

enum { IS_PARKED = 1, OWES_EVALUATION = 2, IS_EVALUATED = 4, IS_HELD = 8, IS_AT_GOAL = 16 };

static const uint32_t all_bits = 2 * IS_AT_GOAL - 1;

/* Calls fn for each member of a record's entry that the file has, in the order of the file. */
static void each_of_entry(ps_round_entry *e, trainer_member_fn *fn, void *arg)
{
    fn(arg, &e->round, sizeof e->round);
    fn(arg, &e->steps, sizeof e->steps);
    fn(arg, &e->bytes_up, sizeof e->bytes_up);
    fn(arg, &e->bytes_down, sizeof e->bytes_down);
    fn(arg, &e->time_s, sizeof e->time_s);
    fn(arg, &e->loss, sizeof e->loss);
    fn(arg, &e->compute_s, sizeof e->compute_s);
    fn(arg, &e->exchange_s, sizeof e->exchange_s);
    fn(arg, &e->wait_s, sizeof e->wait_s);
}

static void put_member(void *arg, void *member, size_t bytes)
{
    ps_state_put(arg, member, bytes);
}

static void take_member(void *arg, void *member, size_t bytes)
{
    ps_state_take(arg, member, bytes);
}

bool ps_trainer_is_at_goal(const ps_trainer *t)
{
    return t->progress.reached_stop && ps_stop_is_common(t->plan) &&
           t->evaluated_at == t->clock + 1;
}

ps_status ps_trainer_put_place(ps_trainer *t, ps_exchange *exchange, bool is_parked,
                               ps_state_out *out)
{
    bool owes = is_parked && t->is_evaluating;
    bool is_held = is_parked && ps_gate_held_at(ps_exchange_gate(exchange)) > 0;
    ps_exchange_stats stats = ps_exchange_get_stats(exchange);
    ps_round_entry entry = t->record.before;

    ps_state_put_u32(out, (is_parked ? IS_PARKED : 0u) | (owes ? OWES_EVALUATION : 0u) |
                              (t->evaluated_at == t->clock + 1 ? IS_EVALUATED : 0u) |
                              (is_held ? IS_HELD : 0u) |
                              (ps_trainer_is_at_goal(t) ? IS_AT_GOAL : 0u));
    ps_state_put_u32(out, t->evaluated_epoch);
    ps_state_put_u32(out, t->rounds.stepped);
    ps_state_put(out, &t->record.now.loss, sizeof t->record.now.loss);
    if (owes) {
        entry.bytes_up += stats.bytes_up - t->record.so_far.bytes_up;
        entry.bytes_down += stats.bytes_down - t->record.so_far.bytes_down;
        each_of_entry(&entry, put_member, out);
    }
    if (!is_parked) {
        return ps_ok();
    }
    return exchange->ops->put_sent != NULL
               ? exchange->ops->put_sent(exchange, out)
               : ps_fail(PS_FAILED_PRECONDITION, "the exchange keeps no contributions");
}

/* Reads how many local steps of its last round the rank took before it was parked, and the sum of
 * their losses. Subtracts the number from t->step and own_steps, because train_round adds it
 * again. */
static void take_stepped(ps_trainer *t, ps_state_in *in)
{
    uint32_t stepped = ps_state_take_u32(in);
    double loss;

    ps_state_take(in, &loss, sizeof loss);
    if (stepped > 0 && (t->rounds.local == NULL || !t->rounds.local->is_overlapped ||
                        stepped > t->rounds.own_steps || !isfinite(loss))) {
        ps_state_fail(in, "%" PRIu32 " steps of a round, with a loss of %g", stepped, loss);
        return;
    }
    t->rounds.stepped = stepped;
    t->rounds.own_steps -= stepped;
    t->step -= stepped;
    if (stepped > 0) {
        t->record.now.steps = stepped;
        t->record.now.loss = loss;
    }
}

static void take_entry(ps_trainer *t, ps_state_in *in)
{
    ps_round_entry entry = {0};

    each_of_entry(&entry, take_member, in);
    if (entry.round > t->clock) {
        ps_state_fail(in, "an entry of round %" PRIu64 " at clock %" PRIu64, entry.round, t->clock);
    } else if (ps_trainer_is_own(t)) {
        t->record.before = entry;
    }
}

/* Notes what the section says about evaluations and the job's end, except the entry that is
 * owed. */
static void take_bits(ps_trainer *t, uint32_t bits, uint32_t epoch)
{
    bool is_own = ps_trainer_is_own(t), is_at_goal = (bits & IS_AT_GOAL) != 0;

    t->place.owes_evaluation = (bits & OWES_EVALUATION) != 0 || (is_at_goal && !is_own);
    t->place.epoch = epoch;
    t->place.is_held = is_own && ((bits & IS_HELD) != 0 || is_at_goal);
    t->evaluated_at = is_own && (bits & IS_EVALUATED) ? t->clock + 1 : 0;
    t->progress.reached_stop = is_own && is_at_goal;
}

ps_status ps_trainer_take_place(ps_trainer *t, ps_exchange *exchange, bool has_variables,
                                ps_state_in *in)
{
    uint32_t bits = ps_state_take_u32(in), epoch = ps_state_take_u32(in);
    uint64_t first = t->conf.first_clock;
    ps_status st;

    if (bits > all_bits || (!has_variables && (bits & IS_PARKED)) ||
        ((bits & (OWES_EVALUATION | IS_AT_GOAL)) && epoch > t->plan->spec->epochs)) {
        ps_state_fail(in, "bits %" PRIx32 ", epoch %" PRIu32, bits, epoch);
    }
    take_stepped(t, in);
    take_bits(t, bits, epoch);
    if (bits & OWES_EVALUATION) {
        take_entry(t, in);
    }
    if (!(bits & IS_PARKED) || !ps_state_is_ok(in)) {
        return ps_state_done(in);
    }
    if (first > t->clock || exchange->ops->take_sent == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "the rank is at clock %" PRIu64 "; the job begins at %" PRIu64, t->clock,
                       first);
    }
    t->place.lacks_weights = true;
    t->place.from = first;
    st = exchange->ops->take_sent(exchange, first, t->clock, in);
    return ps_is_ok(&st) ? ps_state_done(in) : st;
}
