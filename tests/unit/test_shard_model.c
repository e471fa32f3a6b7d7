/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_model.c - random lives of a shard, beside a naive twin.
 *
 * The twin keeps what has come as a table of flags and forms sums, clocks and
 * readiness from scratch each time. After each event both must agree: the
 * outcome, every bit of the weights, who is waited for, and what each pull may
 * be given. PSGD_TEST_SEED gives another seed, PSGD_TEST_ROUNDS more lives.
 */
#include "tests/support/cmocka_all.h"

#include "tests/support/shard_world.h"

#include "common/base/draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { S = WORLD_SLICES, K = WORLD_CONTRIBUTORS, W = WORLD_WORKERS, VALUES = 1000, EVENTS = 1000 };
enum { SUM = 64, WORDS = 64 }; /* most contributions in an open sum, words of a policy */

/* What is in the open sum of a slice, as it came. */
typedef struct twin_sum {
    size_t count;
    uint64_t clock[SUM];
    uint32_t k[SUM], due;
} twin_sum;

typedef struct twin {
    world w;
    bool holds[W][K], lost[W];
    int64_t now_us, first_us[S];
    uint64_t closed[S], words[S][WORDS];
    twin_sum sum[S];
    uint64_t given_version[W][S];
    uint64_t applied[W], dropped[W], left_out[W], late;
    uint64_t next[S][K]; /* clocks of a contributor that are in */
    uint64_t version[S]; /* updates */
    float weights[S][VALUES], state[S][2 * VALUES];
    bool is_open[W], has_asked[W], given[W][S];
    uint64_t asked[W];
    ps_store *shard;
    uint64_t seed, drawn;
} twin;

static uint64_t draw(twin *t, uint64_t n)
{
    return ps_draw_below(t->seed, t->drawn++, n);
}

/* ---- The twin's view ---- */

static uint64_t done_of(const twin *t, uint32_t s, uint32_t worker)
{
    uint64_t done = UINT64_MAX;

    for (uint32_t k = 0; k < t->w.conf.contributors && !t->lost[worker]; k++) {
        if (t->holds[worker][k] && t->next[s][k] < done) {
            done = t->next[s][k];
        }
    }
    return done;
}

static bool is_live(const twin *t, uint32_t k)
{
    for (uint32_t worker = 0; worker < t->w.conf.workers; worker++) {
        if (t->holds[worker][k] && !t->lost[worker]) {
            return true;
        }
    }
    return false;
}

static ps_clocks clocks_of(const twin *t, uint32_t s, uint64_t *done)
{
    const ps_store_conf *conf = &t->w.conf;
    ps_clocks c = {.workers = conf->workers, .done = done, .least = UINT64_MAX};

    for (uint32_t worker = 0; worker < c.workers; worker++) {
        done[worker] = done_of(t, s, worker);
        c.least = done[worker] < c.least ? done[worker] : c.least;
    }
    for (uint32_t k = 0; k < conf->contributors; k++) {
        c.live += is_live(t, k);
    }
    c.contributors = conf->contributors;
    c.clock = conf->policy->has_rounds ? t->closed[s] : c.least;
    c.version = t->version[s];
    c.in = (uint32_t)t->sum[s].count;
    c.due = t->sum[s].due;
    c.now_us = t->now_us;
    c.first_us = t->first_us[s];
    c.state = (uint64_t *)t->words[s];
    return c;
}

static void step(twin *t, uint32_t s, float *g, float merge, float scale)
{
    const ps_store_conf *conf = &t->w.conf;
    uint32_t n = t->w.slices[s].n;

    if (merge != 1.0f) {
        for (uint32_t i = 0; i < n; i++) {
            g[i] *= merge;
        }
    }
    t->version[s]++;
    if (conf->descent.optim != NULL && scale == 1.0f) {
        conf->descent.optim->step(&conf->descent.params, t->version[s], g, t->weights[s],
                                  t->state[s], t->weights[s], n);
        return;
    }
    if (conf->descent.optim != NULL) {
        conf->descent.optim->increment(&conf->descent.params, t->version[s], g, t->weights[s],
                                       t->state[s], g, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        t->weights[s][i] -= g[i] * scale;
    }
}

static void decoded(const twin *t, uint32_t s, uint64_t clock, uint32_t k, float *x)
{
    static gift g;
    ps_status st;

    world_gift(&t->w.slices[s], clock, k, &g);
    st = ps_codec_decode(NULL, &g.head.msg, g.bytes, g.len, PS_INTO_SET, x, t->w.slices[s].n);
    assert_int_equal(st.code, PS_OK);
}

/* A deterministic policy's order is that of contributors. */
static void sort_sum(twin_sum *sum)
{
    for (size_t i = 1; i < sum->count; i++) {
        for (size_t j = i; j > 0 && sum->k[j - 1] > sum->k[j]; j--) {
            uint32_t k = sum->k[j];
            uint64_t clock = sum->clock[j];

            sum->k[j] = sum->k[j - 1];
            sum->clock[j] = sum->clock[j - 1];
            sum->k[j - 1] = k;
            sum->clock[j - 1] = clock;
        }
    }
}

static void step_on_sum(twin *t, uint32_t s, float scale)
{
    float sum[VALUES], x[VALUES];
    twin_sum *in = &t->sum[s];

    if (t->w.conf.policy->is_deterministic) {
        sort_sum(in);
    }
    for (size_t i = 0; i < in->count; i++) {
        decoded(t, s, in->clock[i], in->k[i], i == 0 ? sum : x);
        for (uint32_t v = 0; i > 0 && v < t->w.slices[s].n; v++) {
            sum[v] = sum[v] + x[v];
        }
    }
    if (in->count > 0) {
        step(t, s, sum, t->w.conf.merge_scale * scale, 1.0f);
    }
    in->count = in->due = 0;
}

static void twin_close(twin *t, uint32_t s)
{
    const ps_store_conf *conf = &t->w.conf;
    uint64_t done[W];

    for (;;) {
        ps_clocks c = clocks_of(t, s, done);
        bool may_come = !conf->policy->has_rounds || c.least <= c.clock;
        float scale = 1.0f;

        if (conf->policy->closes == NULL || c.least == UINT64_MAX || (c.in == 0 && may_come) ||
            !conf->policy->closes(&conf->policy_params, &c, &scale)) {
            return;
        }
        step_on_sum(t, s, scale);
        t->closed[s]++;
    }
}

static ps_verdict twin_take(twin *t, uint32_t s, uint32_t worker, uint64_t clock, uint32_t k)
{
    const ps_consistency *policy = t->w.conf.policy;
    uint64_t done[W];
    ps_clocks c = clocks_of(t, s, done);
    ps_arrival a = {.worker = worker,
                    .contributor = k,
                    .clock = clock,
                    .staleness = t->version[s] - t->given_version[worker][s]};
    float x[VALUES], scale = 1.0f;
    ps_verdict verdict = policy->on_push(&t->w.conf.policy_params, &c, &a, &scale);

    if (verdict == PS_APPLY) {
        decoded(t, s, clock, k, x);
        step(t, s, x, t->w.conf.merge_scale, scale);
    } else if (verdict == PS_BUFFER) {
        twin_sum *sum = &t->sum[s];

        assert_true(sum->count < SUM);
        if (!policy->has_rounds || clock == t->closed[s]) {
            t->first_us[s] = sum->due == 0 ? t->now_us : t->first_us[s];
            sum->due++;
        }
        sum->clock[sum->count] = clock;
        sum->k[sum->count++] = k;
        t->late += policy->has_rounds && clock < t->closed[s];
    }
    t->applied[worker] += verdict != PS_DROP;
    t->dropped[worker] += verdict == PS_DROP;
    t->left_out[worker] += clock - t->next[s][k];
    t->next[s][k] = clock + 1;
    twin_close(t, s);
    return verdict;
}

static ps_code expected_code(const twin *t, uint32_t s, uint32_t worker, uint64_t clock, uint32_t k,
                             bool *is_new)
{
    uint64_t done[W];
    ps_clocks c = clocks_of(t, s, done);
    uint64_t lead = t->w.conf.policy->lead(&t->w.conf.policy_params);

    *is_new = false;
    if (t->lost[worker]) {
        return PS_FAILED_PRECONDITION;
    }
    if (!t->holds[worker][k]) {
        return PS_PERMISSION_DENIED;
    }
    if (clock < t->next[s][k]) {
        return PS_OK;
    }
    if (clock > t->next[s][k] && !(t->w.conf.policy->has_rounds && clock <= c.clock)) {
        return PS_OUT_OF_RANGE;
    }
    if (clock > c.clock && clock - c.clock > lead) {
        return PS_OUT_OF_RANGE;
    }
    *is_new = true;
    return PS_OK;
}

/* ---- Agreement ---- */

static void agree_on_clocks(const twin *t)
{
    const ps_consistency *policy = t->w.conf.policy;
    uint64_t oldest = UINT64_MAX, done[W];
    uint32_t waited[W], count = 0;
    int64_t deadline_us = INT64_MAX;

    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        ps_clocks c = clocks_of(t, s, done);
        uint64_t clock = c.least == UINT64_MAX ? UINT64_MAX : c.clock;

        oldest = clock < oldest ? clock : oldest;
        if (policy->closes_at != NULL && c.least != UINT64_MAX) {
            int64_t at = policy->closes_at(&t->w.conf.policy_params, &c);

            deadline_us = at < deadline_us ? at : deadline_us;
        }
    }
    assert_true(ps_store_deadline(t->shard) == deadline_us);
    assert_true(ps_store_clock(t->shard) == oldest);
    count = ps_store_waits_for(t->shard, waited, W);
    for (uint32_t worker = 0, at = 0; worker < t->w.conf.workers; worker++) {
        bool is_missing = false;

        for (uint32_t s = 0; s < t->w.conf.slice_count && oldest != UINT64_MAX; s++) {
            is_missing = is_missing ||
                         (clocks_of(t, s, done).clock == oldest && done_of(t, s, worker) <= oldest);
        }
        assert_int_equal(is_missing, at < count && waited[at] == worker);
        at += is_missing;
    }
}

static void agree_on_counters(const twin *t)
{
    const ps_store_counters *c = ps_store_counters_of(t->shard);
    uint64_t applied = 0, dropped = 0, left_out = 0, open = 0, binned = 0;

    for (uint32_t worker = 0; worker < t->w.conf.workers; worker++) {
        const ps_worker_counters *of = ps_store_worker_counters_of(t->shard, worker);

        assert_int_equal(of->applied, t->applied[worker]);
        assert_int_equal(of->dropped, t->dropped[worker]);
        assert_int_equal(of->left_out, t->left_out[worker]);
        applied += of->applied;
        dropped += of->dropped;
        left_out += of->left_out;
    }
    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        open += t->sum[s].count;
    }
    for (size_t i = 0; i < PS_STALENESS_BINS; i++) {
        binned += c->staleness_bins[i];
    }
    assert_int_equal(c->applied, applied);
    assert_int_equal(c->dropped, dropped);
    assert_int_equal(c->left_out, left_out);
    assert_int_equal(c->late, t->late);
    assert_int_equal(binned, applied);
    assert_int_equal(ps_store_open(t->shard), open);
}

static void agree(const twin *t)
{
    const float *weights = ps_store_weights(t->shard);

    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        assert_memory_equal(weights, t->weights[s], t->w.slices[s].n * sizeof(float));
        assert_int_equal(ps_store_version(t->shard, s), t->version[s]);
        weights += t->w.slices[s].n;
    }
    agree_on_clocks(t);
    agree_on_counters(t);
    for (uint32_t k = 0; k < t->w.conf.contributors; k++) {
        uint64_t least = UINT64_MAX;

        for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
            least = t->next[s][k] < least ? t->next[s][k] : least;
        }
        assert_true(ps_store_is_in(t->shard, least - 1, k) || least == 0);
        assert_false(ps_store_is_in(t->shard, least, k));
    }
}

static bool is_ready(const twin *t, uint32_t s, uint32_t worker)
{
    const ps_store_conf *conf = &t->w.conf;
    uint64_t done[W];
    ps_clocks c = clocks_of(t, s, done);

    return conf->policy->admit(&conf->policy_params, &c, worker, t->asked[worker]) &&
           conf->policy->on_pull(&conf->policy_params, &c, worker, t->asked[worker]);
}

static void check_piece(const twin *t, uint32_t s, const ps_store_piece *piece)
{
    static uint8_t bytes[PS_CODEC_VALUES * 4];
    const ps_store_slice *slice = &t->w.slices[s];
    ps_encoding head;

    ps_codec_encode(slice->down, &slice->down_params,
                    ps_draw_key(t->w.conf.seed, PS_DRAW_DOWN, slice->index, t->version[s], 0),
                    slice->index, t->weights[s], slice->n, bytes, &head);
    assert_int_equal(piece->head->slice, slice->index);
    assert_int_equal(piece->len, head.msg.payload_bytes);
    assert_memory_equal(piece->buf->data + piece->at, bytes, piece->len);
}

/* Slices that the next answer must bring, ascending; returns how many. */
static size_t expected_slices(const twin *t, uint32_t worker, size_t cap, uint32_t *out)
{
    size_t count = 0;

    for (uint32_t s = 0; s < t->w.conf.slice_count && count < cap && t->is_open[worker]; s++) {
        if (t->given[worker][s] || !is_ready(t, s, worker)) {
            continue;
        }
        if (t->w.conf.policy->is_deterministic && count > 0 &&
            t->version[s] != t->version[out[0]]) {
            break;
        }
        out[count++] = s;
    }
    return count;
}

static void pull_next(twin *t, uint32_t worker)
{
    ps_store_piece pieces[S];
    ps_store_answer answer;
    size_t cap = (size_t)draw(t, S) + 1, given = 0, count;
    uint64_t version = UINT64_MAX;
    uint32_t slices[S];

    count = expected_slices(t, worker, cap, slices);
    ps_store_pull_next(t->shard, worker, 1 << 20, pieces, cap, &answer);
    assert_int_equal(answer.count, count);
    for (size_t i = 0; i < count; i++) {
        check_piece(t, slices[i], &pieces[i]);
        t->given[worker][slices[i]] = true;
        t->given_version[worker][slices[i]] = t->version[slices[i]];
        version = t->version[slices[i]] < version ? t->version[slices[i]] : version;
    }
    assert_true(count == 0 || answer.version == version);
    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        given += t->given[worker][s];
    }
    assert_int_equal(answer.is_last, t->is_open[worker] && given == t->w.conf.slice_count);
    t->is_open[worker] = t->is_open[worker] && !answer.is_last;
    assert_int_equal(ps_store_is_waiting(t->shard, worker), t->is_open[worker]);
}

/* ---- Events ---- */

static void push_some(twin *t)
{
    uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);
    uint32_t k = (uint32_t)draw(t, t->w.conf.contributors);
    uint32_t s = (uint32_t)draw(t, t->w.conf.slice_count);
    uint64_t clock = t->next[s][k];
    ps_store_outcome outcome = PS_STORE_DROPPED;
    ps_status st;
    bool is_new;
    ps_code code;

    while (!t->holds[worker][k] && draw(t, 10) > 0) { /* mostly one who holds it */
        worker = (worker + 1) % t->w.conf.workers;
    }
    if (clock < t->closed[s] && draw(t, 2) == 0) { /* leaves some out */
        clock += draw(t, t->closed[s] - clock + 1);
    }
    switch (draw(t, 8)) { /* mostly what is next */
    case 0:
        clock += draw(t, 4);
        break;
    case 1:
        clock -= clock > 0 ? 1 + draw(t, clock) : 0;
        break;
    }
    code = expected_code(t, s, worker, clock, k, &is_new);
    st = world_push(&t->w, t->shard, worker, clock, k, s, &outcome);
    if (st.code != code) {
        fail_msg("%s, not %s: %s", ps_code_name(st.code), ps_code_name(code), st.text);
    }
    if (code == PS_OK) {
        assert_int_equal(outcome == PS_STORE_DUPLICATE, !is_new);
    }
    if (is_new) {
        ps_verdict verdict = twin_take(t, s, worker, clock, k);

        assert_int_equal(outcome == PS_STORE_DROPPED, verdict == PS_DROP);
        assert_true(outcome != PS_STORE_PARKED || t->w.conf.policy->is_deterministic);
    }
}

static bool is_too_early(const twin *t, uint64_t clock)
{
    for (uint32_t s = 0; t->w.conf.policy->leaves_behind && s < t->w.conf.slice_count; s++) {
        if (clock > t->closed[s] + 1) {
            return true;
        }
    }
    return false;
}

static void leave_out(twin *t, uint32_t worker, uint64_t clock)
{
    for (uint32_t k = 0; k < t->w.conf.contributors; k++) {
        for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
            if (t->holds[worker][k] && t->next[s][k] < clock) {
                t->left_out[worker] += clock - t->next[s][k];
                t->next[s][k] = clock;
                twin_close(t, s);
            }
        }
    }
}

static void ask(twin *t)
{
    uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);
    uint64_t clock = t->asked[worker] + draw(t, 3);
    ps_code code = PS_OK;

    clock -= clock > 0 && draw(t, 8) == 0 ? 1 : 0;
    if (t->lost[worker]) {
        code = PS_FAILED_PRECONDITION;
    } else if (t->has_asked[worker] && clock < t->asked[worker]) {
        code = PS_OUT_OF_RANGE;
    } else if (t->is_open[worker] && clock > t->asked[worker]) {
        code = PS_FAILED_PRECONDITION;
    } else if (is_too_early(t, clock)) {
        code = PS_OUT_OF_RANGE;
    }
    assert_int_equal(ps_store_pull_begin(t->shard, worker, clock).code, code);
    if (code == PS_OK) {
        t->has_asked[worker] = t->is_open[worker] = true;
        t->asked[worker] = clock;
        memset(t->given[worker], 0, sizeof t->given[worker]);
        if (t->w.conf.policy->leaves_behind) {
            leave_out(t, worker, clock);
        }
    }
}

static void lose(twin *t)
{
    uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);
    bool survives = t->w.conf.policy->survives_loss;

    assert_int_equal(ps_store_lose_worker(t->shard, worker).code,
                     survives ? PS_OK : PS_FAILED_PRECONDITION);
    t->lost[worker] = t->lost[worker] || survives;
    t->is_open[worker] = t->is_open[worker] && !survives;
    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        twin_close(t, s);
    }
}

static void pass_time(twin *t)
{
    t->now_us += (int64_t)draw(t, 2000);
    ps_store_tick(t->shard, t->now_us);
    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        twin_close(t, s);
    }
}

/* Numbers that are small beside a life, and pass the policy's own check. */
static void choose_numbers(twin *t)
{
    const ps_consistency *policy = t->w.conf.policy;
    ps_params *params = &t->w.conf.policy_params;
    size_t tries = 0;
    ps_status st;

    do {
        for (size_t i = 0; policy->params != NULL && policy->params[i].name != NULL; i++) {
            double x = (double)draw(t, 4);

            params->v[i] = policy->params[i].is_integer ? x : x * 0.7;
            params->v[i] =
                params->v[i] < policy->params[i].min ? policy->params[i].min : params->v[i];
        }
        st = policy->check != NULL ? policy->check(params, t->w.conf.contributors) : ps_ok();
    } while (!ps_is_ok(&st) && ++tries < 100);
}

static void choose_holders(twin *t, uint32_t blocks)
{
    uint32_t workers = t->w.conf.workers;
    bool is_shared = !t->w.conf.policy->leaves_behind;

    for (uint32_t k = 0; k < t->w.conf.contributors; k++) {
        uint32_t first = (uint32_t)draw(t, workers); /* somebody has each block */

        for (uint32_t worker = 0; worker < workers; worker++) {
            t->holds[worker][k] =
                blocks == 0 ? worker == k : worker == first || (is_shared && draw(t, 3) == 0);
            if (blocks > 0 && t->holds[worker][k]) {
                world_hold(&t->w, worker, k);
            }
        }
    }
}

static void begin_life(twin *t, const ps_consistency *policy, uint64_t seed)
{
    static const char *const codecs[] = {"f32", "f16", "int8"};
    static const char *const optims[] = {"sgd", "adam"};
    uint32_t workers, blocks;

    *t = (twin){.seed = seed};
    workers = (uint32_t)draw(t, 4) + 1;
    world_init(&t->w, policy->name, workers, (uint32_t)draw(t, S) + 1);
    world_codecs(&t->w, codecs[draw(t, 3)], codecs[draw(t, 3)]);
    if (draw(t, 3) > 0) {
        t->w.conf.descent.optim = ps_optim_find(optims[draw(t, 2)]);
        t->w.conf.descent.params = ps_params_default(t->w.conf.descent.optim->params);
    } else {
        t->w.conf.descent.optim = NULL;
    }
    t->w.conf.merge_scale = draw(t, 2) == 0 ? 1.0f : 0.3f;
    blocks = draw(t, 2) == 0 ? 0 : (uint32_t)draw(t, K) + 1;
    if (blocks > 0) {
        world_blocks(&t->w, blocks);
    }
    choose_holders(t, blocks);
    choose_numbers(t);
    t->shard = ps_store_create(&t->w.conf);
}

/* Returns the updates of slices. */
static uint64_t live(const ps_consistency *policy, uint64_t seed)
{
    twin *t = malloc(sizeof *t);
    uint64_t steps;

    assert_non_null(t);
    begin_life(t, policy, seed);
    for (int event = 0; event < EVENTS; event++) {
        uint64_t what = draw(t, 200);

        if (what == 0) {
            lose(t);
        } else if (what < 20) {
            ask(t);
        } else if (what < 22) {
            uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);

            ps_store_pull_cancel(t->shard, worker);
            t->is_open[worker] = false;
        } else if (what < 50) {
            pass_time(t);
        } else {
            push_some(t);
        }
        agree(t);
        pull_next(t, (uint32_t)draw(t, t->w.conf.workers));
    }
    steps = ps_store_counters_of(t->shard)->steps;
    ps_store_destroy(t->shard);
    free(t);
    return steps;
}

typedef struct lives {
    uint64_t seed, rounds, policies;
} lives;

static void live_under(const ps_consistency *policy, void *arg)
{
    lives *l = arg;
    uint64_t steps = 0;

    for (uint64_t i = 0; i < l->rounds; i++) {
        steps += live(policy, ps_draw_key(l->seed, PS_DRAW_TEST, l->policies, i, 0));
    }
    print_message("%s: %" PRIu64 " steps\n", policy->name, steps);
    assert_true(steps > l->rounds * 10); /* lives worth the name */
    l->policies++;
}

static void a_shard_lives_as_its_naive_twin_under_every_policy(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED"), *more = getenv("PSGD_TEST_ROUNDS");
    lives l = {.seed = given != NULL ? strtoull(given, NULL, 0) : 22,
               .rounds = more != NULL ? strtoull(more, NULL, 0) : 40};

    (void)state;
    print_message("seed %" PRIu64 ", %" PRIu64 " lives of each policy\n", l.seed, l.rounds);
    ps_consistency_each(live_under, &l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_lives_as_its_naive_twin_under_every_policy),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
