/* SPDX-License-Identifier: Apache-2.0 */
/* local_sim.c - see local_sim.h. */
#include "tests/support/local_sim.h"

#include "tests/support/cmocka_all.h"

#include <math.h>
#include <string.h>

const double sim_rate = 0.05;

double sim_slope(uint32_t i, size_t k)
{
    return 0.5 + 0.3 * (double)i + 0.1 * (double)k;
}

double sim_centre(uint32_t i, size_t k)
{
    return (double)((i * 7 + k * 3) % 5) - 2.0;
}

double sim_gradient(uint32_t i, size_t k, double x)
{
    return k == STATE ? 0.1 * (x - sim_centre(i, k)) : sim_slope(i, k) * (x - sim_centre(i, k));
}

double sim_start_value(size_t k)
{
    return 1.0 + (double)k;
}

void sim_init(sim *s, const char *name)
{
    memset(s, 0, sizeof *s);
    s->update = ps_update_find(name);
    assert_non_null(s->update);
    s->local = s->update->local;
    assert_non_null(s->local);
    s->params = ps_params_default(s->update->params);
    s->outer = ps_optim_find(s->local->outer.name);
    assert_non_null(s->outer);
    assert_non_null(ps_optim_find(s->local->inner.name));
    s->outer_params = ps_params_default(s->outer->params);
    for (size_t i = 0; i < 2 && s->local->outer.number[i].key != NULL; i++) {
        int at = ps_param_find(s->outer->params, s->local->outer.number[i].key);

        assert_true(at >= 0);
        s->outer_params.v[at] = s->local->outer.number[i].value;
    }
    s->compensation_factor = 1.0;
    for (size_t k = 0; k < N; k++) {
        s->w[k] = (float)sim_start_value(k);
    }
    for (uint32_t i = 0; i < W; i++) {
        s->shares[i] = 1.0;
    }
}

void sim_set(sim *s, const char *key, double value)
{
    int at = ps_param_find(s->update->params, key);

    assert_true(at >= 0);
    s->params.v[at] = value;
}

/* Returns worker i's values of one variable: of the weights, or of the state. */
static ps_stretch stretch(sim *s, uint32_t i, bool is_state)
{
    size_t at = is_state ? STATE : 0;
    fake *f = &s->workers[i];

    return (ps_stretch){
        .n = is_state ? 1 : STATE,
        .is_state = is_state,
        .w = s->w + at,
        .x = f->x + at,
        .g = f->g + at,
        .p = f->p + at,
        .slots = f->slots + at * s->local->slots,
    };
}

static void local_steps(sim *s, uint32_t i, const ps_round *round, uint32_t steps)
{
    fake *f = &s->workers[i];

    for (uint32_t j = 0; j < steps; j++) {
        for (size_t k = 0; k < N; k++) {
            f->g[k] = (float)sim_gradient(i, k, (double)f->x[k]);
        }
        if (s->local->sends_gradients) {
            return;
        }
        if (s->local->adjust != NULL) {
            ps_stretch v = stretch(s, i, false);

            s->local->adjust(round, &v);
        }
        for (size_t k = 0; k < N; k++) {
            f->x[k] -= (k == STATE ? 1.0f : (float)sim_rate) * f->g[k];
        }
    }
}

void sim_each_part(sim *s, uint32_t i, const ps_round *round, bool adopts)
{
    for (int part = 0; part < 2; part++) {
        ps_stretch v = stretch(s, i, part == 1);

        if (adopts) {
            ps_local_adopt(s->local, round, &v);
        } else {
            s->local->contribute(round, &v);
        }
    }
}

void sim_round(sim *s)
{
    uint32_t steps = s->local->steps(&s->params, s->clock);
    float sum[N] = {0};
    bool is_in[W];
    double samples = 0;
    ps_round round = {.params = &s->params,
                      .outer = &s->outer_params,
                      .workers = W,
                      .clock = s->clock,
                      .compensation_factor = s->compensation_factor,
                      .last_rate_sum = s->rate_sum,
                      .rate_sum = sim_rate * steps};

    round.taken = ps_local_sample(s->local, &s->params, s->seed, s->clock, W, is_in);
    s->rate_sum = round.rate_sum;
    for (uint32_t i = 0; i < W; i++) {
        samples += is_in[i] ? s->shares[i] : 0;
    }
    for (uint32_t i = 0; i < W; i++) {
        if (!s->local->is_overlapped || s->clock == 0) {
            sim_each_part(s, i, &round, true);
        }
        round.share = s->shares[i] / samples;
        if (is_in[i]) {
            local_steps(s, i, &round, steps);
            sim_each_part(s, i, &round, false);
            for (size_t k = 0; k < N; k++) {
                sum[k] += s->workers[i].p[k];
            }
        }
    }
    s->outer->step(&s->outer_params, s->clock + 1, sum, s->w, s->outer_state, s->w, STATE);
    s->w[STATE] -= sum[STATE];
    s->clock++;
}

void sim_must_be(const float *got, const double *want, const char *what, uint64_t round)
{
    for (size_t k = 0; k < N; k++) {
        if (!(fabs((double)got[k] - want[k]) <= 2e-5 * (1.0 + fabs(want[k])))) {
            fail_msg("%s after round %llu: value %zu is %.9g, should be %.9g", what,
                     (unsigned long long)round, k, (double)got[k], want[k]);
        }
    }
}

/* Leaves out the state, which is averaged whatever the update is. */
void sim_weights_must_be(sim *s, const double *want, const char *what)
{
    for (size_t k = 0; k < STATE; k++) {
        if (!(fabs((double)s->w[k] - want[k]) <= 3e-5 * (1.0 + fabs(want[k])))) {
            fail_msg("%s after round %llu: value %zu is %.9g, should be %.9g", what,
                     (unsigned long long)s->clock, k, (double)s->w[k], want[k]);
        }
    }
}

void sim_start_at(double *w)
{
    for (size_t k = 0; k < N; k++) {
        w[k] = sim_start_value(k);
    }
}

/* Takes `steps` plain gradient steps of worker i from x, in x. */
void sim_descend(uint32_t i, double *x, uint32_t steps)
{
    for (uint32_t j = 0; j < steps; j++) {
        for (size_t k = 0; k < N; k++) {
            x[k] -= (k == STATE ? 1.0 : sim_rate) * sim_gradient(i, k, x[k]);
        }
    }
}
