/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_foreign.c - a step whose gradient is computed by a program outside of psgd, and what that
 * program keeps in checkpoints. */
#include "common/train/trainer_impl.h"

#include "common/base/clock.h"
#include "common/base/named_bytes.h"
#include "common/base/xalloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 20 }; /* longest wait for the program between two looks at gate and time limit */

typedef struct foreign_step {
    ps_trainer *t;
    bool *is_ready; /* (variable_count) */
    uint32_t left;  /* number of variables that are not ready */
    bool has_loss;
    float scale, *to;
    ps_model_ready_fn *ready;
} foreign_step;

static ps_status wrong(const foreign_step *s, const char *what)
{
    return ps_fail(PS_INVALID_ARGUMENT, "rank %" PRIu32 ", step %" PRIu64 ": %s", s->t->conf.rank,
                   s->t->step + 1, what);
}

/* Returns the milliseconds that a program may take for a step: nine tenths of step_ms. Others wait
 * longer for its gradients, so that the program is blamed and not those who wait. */
static uint32_t allowed_ms(const ps_plan *plan)
{
    return (uint32_t)((uint64_t)plan->spec->timeouts->step_ms * 9 / 10);
}

/* Handles a program that takes too long for a step. It may be frozen, and this worker could be
 * chosen again for the next attempt. So if the job goes on after the loss of a worker, ends this
 * process. Returns the error. */
static ps_status too_late(const foreign_step *s)
{
    const Psgd__V1__JobSpec *spec = s->t->plan->spec;
    ps_status why = ps_fail(PS_DEADLINE_EXCEEDED,
                            "rank %" PRIu32 ", step %" PRIu64
                            ": the program has computed for %" PRIu32 " ms, with %" PRIu32
                            " of %" PRIu32 " variables not ready; timeouts.step_ms is %" PRIu32
                            ", of which a program may take nine tenths",
                            s->t->conf.rank, s->t->step + 1, allowed_ms(s->t->plan), s->left,
                            s->t->plan->layout.variable_count, spec->timeouts->step_ms);

    if (ps_loss_restarts(spec->recovery->on_worker_loss)) {
        s->t->conf.loop->give_up(s->t->conf.loop->arg, &why);
    }
    return why;
}

/* Notes the mean loss that the program reports for the step. Fails if it has reported one already.
 * Fails the gate if the loss is not finite, because the model has diverged. */
static ps_status take_loss(foreign_step *s, double loss)
{
    ps_trainer *t = s->t;
    ps_status st;

    if (s->has_loss) {
        return wrong(s, "the program has said its loss twice");
    }
    s->has_loss = true;
    t->score.samples = t->plan->spec->block_size;
    t->score.loss_sum = loss * t->plan->spec->block_size;
    if (!isfinite(t->score.loss_sum)) {
        st = ps_fail(PS_INTERNAL,
                     "rank %" PRIu32 ", step %" PRIu64 ": the loss is not finite: the program says "
                     "%g",
                     t->conf.rank, t->step + 1, loss);
        ps_gate_diverge(t->gate, &st);
    }
    return ps_ok();
}

/* Takes a metric that the program reports for the step. Fails if the job does not have it, if its
 * value is not finite, or if gradients came before: with these the row of the step may have been
 * sent already (trainer_said.c). */
static ps_status take_metric(foreign_step *s, uint32_t index, double value)
{
    ps_trainer *t = s->t;

    if (index >= t->plan->spec->n_program_metrics) {
        return wrong(s, "the program has reported what is none of the job's program_metrics");
    }
    if (!isfinite(value)) {
        return wrong(s, "the program has reported a metric that is not finite");
    }
    if (s->left < t->plan->layout.variable_count) {
        return wrong(s, "the program has reported a metric when variables were ready");
    }
    ps_step_metrics_say(&t->step_metrics, index, value);
    return ps_ok();
}

static ps_status take_gradients(foreign_step *s, uint32_t first, uint32_t count)
{
    ps_trainer *t = s->t;
    const ps_layout *layout = &t->plan->layout;

    if (!s->has_loss) {
        return wrong(s, "the program has said that gradients are ready, and not its loss before");
    }
    if (first >= layout->variable_count || count > layout->variable_count - first) {
        return wrong(s, "the program has said that variables are ready that the model has not");
    }
    for (uint32_t v = first; v < first + count; v++) {
        const ps_variable *var = &layout->variables[v];
        const float *from = t->conf.loop->gradients + var->at;
        float *to = s->to + var->at;

        if (s->is_ready[v]) {
            return wrong(s, "the program has said twice that a variable is ready");
        }
        s->is_ready[v] = true;
        s->left--;
        for (size_t i = 0; i < var->size; i++) {
            to[i] = from[i] * s->scale;
        }
    }
    if (s->ready != NULL) {
        s->ready(t, first, count);
    }
    return ps_ok();
}

/* Handles what the program has said; it may be PS_FOREIGN_NOTHING. */
static ps_status take(foreign_step *s, const ps_foreign_said *said)
{
    switch (said->kind) {
    case PS_FOREIGN_NOTHING:
        break;
    case PS_FOREIGN_LOSS:
        return take_loss(s, said->number);
    case PS_FOREIGN_METRIC:
        return take_metric(s, said->first, said->number);
    case PS_FOREIGN_READY:
        return take_gradients(s, said->first, said->count);
    }
    return ps_ok();
}

bool ps_trainer_foreign_block(ps_trainer *t, const float *weights, float scale, float *to,
                              ps_model_ready_fn *ready)
{
    const ps_foreign_loop *loop = t->conf.loop;
    uint32_t count = t->plan->layout.variable_count;
    foreign_step s = {.t = t,
                      .left = count,
                      .scale = t->plan->spec->optimizer->maximise ? -scale : scale,
                      .to = to,
                      .ready = ready};
    int64_t until_us = ps_clock_us() + (int64_t)allowed_ms(t->plan) * 1000;
    ps_foreign_said said;
    ps_status st;

    s.is_ready = ps_xcalloc(count, sizeof *s.is_ready);
    st = loop->begin(loop->arg, t->step, weights);
    while (ps_is_ok(&st) && s.left > 0 && ps_gate_is_open(t->gate)) {
        st = loop->next(loop->arg, LOOK_MS, &said);
        st = ps_is_ok(&st) ? take(&s, &said) : st;
        if (ps_is_ok(&st) && s.left > 0 && ps_clock_us() > until_us) {
            st = too_late(&s);
        }
    }
    free(s.is_ready);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(t->gate, &st);
    }
    return ps_gate_is_open(t->gate);
}

/* ---- What the program keeps ---- */

ps_status ps_trainer_keep_program(ps_trainer *t)
{
    const ps_foreign_loop *loop = t->conf.loop;
    size_t len;
    ps_status st;

    if (loop == NULL || loop->state_bytes == 0) {
        return ps_ok();
    }
    len = ps_named_used(loop->state, loop->state_bytes);
    ps_buf_unref(t->program);
    t->program = ps_buf_create(len);
    memcpy(t->program->data, loop->state, len);
    t->program->len = len;
    /* checks the copy, which the program cannot change any more */
    st = ps_named_check(t->program->data, len);
    return ps_wrap(st, "rank %" PRIu32 ", step %" PRIu64 ": what the program keeps", t->conf.rank,
                   t->step);
}

void ps_trainer_drop_program(ps_trainer *t)
{
    ps_buf_unref(t->program);
    t->program = NULL;
}

ps_status ps_trainer_take_program(ps_trainer *t, ps_state_in *in)
{
    const ps_foreign_loop *loop = t->conf.loop;
    size_t n = in->end - in->at, room = loop != NULL ? loop->state_bytes : 0;
    const uint8_t *bytes = ps_state_view(in, n);
    ps_status st;

    if (bytes == NULL) {
        return ps_state_done(in);
    }
    if (n > room) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "the program has kept %zu bytes; with program_state_mib %" PRIu32
                       " %zu are allowed",
                       n, t->plan->spec->program_state_mib, room);
    }
    st = ps_named_check(bytes, n);
    if (!ps_is_ok(&st) || ps_named_used(bytes, n) != n) {
        ps_state_fail(in, "%s", ps_is_ok(&st) ? "bytes behind the named values" : st.text);
        return in->status;
    }
    memcpy(loop->state, bytes, n);
    return ps_state_done(in);
}
