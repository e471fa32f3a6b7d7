/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_record.c - writes what a rank does in each round to ROUND-{title}.csv
 * (common/artifact/round_record.h).
 *
 * A round is complete when its weights have arrived. The training thread knows this at the latest
 * when it sends the first contribution of the next round, because it has read all weights by then.
 * All traffic up to that moment belongs to earlier rounds, because it was acknowledged. */
#include "common/train/trainer_impl.h"

#include "common/base/clock.h"

#include <math.h>
#include <string.h>

enum { OF_BEFORE, OF_NOW };

/* Notes that the next round begins now. */
static void begin_round(ps_trainer *t, int64_t now_ns, int64_t waited_ns)
{
    t->record.began_ns = now_ns;
    t->record.began_waited_ns = t->record.waited_ns = waited_ns;
    ps_trace_enter(t->trace, t->clock + 1);
}

/* Returns the nanoseconds, since the present round began, in which the training thread did not
 * wait. */
static int64_t computed_ns(const trainer_record *r, int64_t now_ns, int64_t waited_ns)
{
    return now_ns - r->began_ns - (waited_ns - r->began_waited_ns);
}

ps_trainer_times ps_trainer_record_times(const ps_trainer *t, uint64_t steps)
{
    const trainer_record *r = &t->record;
    int64_t now_ns = ps_clock_ns(), computed = computed_ns(r, now_ns, ps_gate_waited_ns(t->gate));

    return (ps_trainer_times){
        .steps = steps,
        .training_s = (double)(now_ns - r->started_ns) * 1e-9,
        .computing_s = (double)(r->computed_ns + computed) * 1e-9,
        .reading_s = t->ahead == NULL ? 0 : (double)ps_ahead_waited_ns(t->ahead) * 1e-9,
        .disk_s = t->ahead == NULL ? 0 : (double)ps_ahead_read_ns(t->ahead) * 1e-9,
    };
}

void ps_trainer_record_begin(ps_trainer *t)
{
    /* began_us lies before the attempt if the job goes on from a checkpoint */
    t->record.started_ns = t->last_row_us * 1000;
    begin_round(t, t->record.started_ns, ps_gate_waited_ns(t->gate));
}

void ps_trainer_record_step(ps_trainer *t, double loss)
{
    t->record.now.steps++;
    t->record.now.loss += loss;
}

static void write_entry(ps_trainer *t)
{
    pthread_mutex_lock(&t->files_mutex);
    ps_rounds_add(t->record.file, &t->record.before);
    pthread_mutex_unlock(&t->files_mutex);
    t->record.before = (ps_round_entry){0};
}

void ps_trainer_record_finish(ps_trainer *t)
{
    trainer_record *r = &t->record;
    ps_round_entry *e = &r->before;
    ps_exchange_stats stats = ps_exchange_get_stats(t->exchange);
    int64_t whole_us = ps_gate_whole_us(t->gate);

    if (e->round == 0) {
        return;
    }
    if (r->sent_us[OF_BEFORE] > 0 && whole_us >= r->sent_us[OF_BEFORE] &&
        ps_gate_has_weights(t->gate, e->round)) {
        e->exchange_s = (double)(whole_us - r->sent_us[OF_BEFORE]) * 1e-6;
        e->time_s = (double)(whole_us - t->began_us) * 1e-6;
    }
    /* added and not set: the entry of a rank that was parked has bytes of the attempt before */
    e->bytes_up += stats.bytes_up - r->so_far.bytes_up;
    e->bytes_down += stats.bytes_down - r->so_far.bytes_down;
    r->so_far = stats;
    write_entry(t);
}

void ps_trainer_record_sent(ps_trainer *t)
{
    trainer_record *r = &t->record;

    if (!r->is_sent) {
        ps_trainer_record_finish(t);
        r->is_sent = true;
        r->sent_us[OF_NOW] = ps_clock_us();
    }
}

static void end_round(ps_trainer *t, uint64_t round)
{
    trainer_record *r = &t->record;
    int64_t now_ns = ps_clock_ns(), waited_ns = ps_gate_waited_ns(t->gate);

    /* Writes the entry of the round before if this round has sent nothing. If it has,
     * ps_trainer_record_sent has written the entry, and this call does nothing. */
    ps_trainer_record_finish(t);
    r->before = r->now;
    r->before.round = round;
    r->before.loss /= (double)r->now.steps;
    r->before.wait_s = (double)(waited_ns - r->waited_ns) * 1e-9;
    r->computed_ns += computed_ns(r, now_ns, waited_ns);
    r->before.compute_s = (double)computed_ns(r, now_ns, waited_ns) * 1e-9;
    /* time_s and exchange_s are replaced when the round's weights have arrived */
    r->before.time_s = (double)(now_ns / 1000 - t->began_us) * 1e-6;
    r->before.exchange_s = (double)NAN;
    r->sent_us[OF_BEFORE] = r->is_sent ? r->sent_us[OF_NOW] : 0;
    r->now = (ps_round_entry){0};
    r->is_sent = false;
    if (ps_trace_here != NULL) {
        ps_trace_add_until(PS_TRACE_STEP, r->began_ns, now_ns, 0, NULL, 0);
    }
    begin_round(t, now_ns, waited_ns);
}

void ps_trainer_record_round(ps_trainer *t)
{
    end_round(t, t->clock);
}

void ps_trainer_record_evaluation(ps_trainer *t, const ps_eval_row *row)
{
    trainer_record *r = &t->record;

    ps_trace_end(PS_TRACE_EVALUATE, r->evaluation_ns, 0, NULL);
    r->began_ns = ps_clock_ns();
    r->began_waited_ns = ps_gate_waited_ns(t->gate);
    r->before.is_evaluated = true;
    r->before.test_loss = row->loss;
    memcpy(r->before.values, row->values, t->plan->metric_count * sizeof *row->values);
}

void ps_trainer_record_end(ps_trainer *t)
{
    trainer_record *r = &t->record;

    if (r->now.steps > 0) { /* training stopped within a round */
        end_round(t, t->clock + 1);
    }
    r->before.wait_s += (double)(ps_gate_waited_ns(t->gate) - r->waited_ns) * 1e-9;
    ps_trainer_record_finish(t);
    ps_trace_enter(NULL, 0);
}
