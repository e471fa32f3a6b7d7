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

typedef struct twin {
    world w;
    bool buffers;
    bool holds[W][K], lost[W];
    uint64_t next[S][K]; /* clocks of a contributor that are in */
    uint64_t version[S]; /* updates */
    float weights[S][VALUES], state[S][2 * VALUES];
    bool is_open[W], has_asked[W], given[W][S];
    uint64_t asked[W];
    ps_shard *shard;
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

static ps_clocks clocks_of(const twin *t, uint32_t s, uint64_t *done)
{
    ps_clocks c = {.workers = t->w.conf.workers, .done = done, .least = UINT64_MAX};

    for (uint32_t worker = 0; worker < c.workers; worker++) {
        done[worker] = done_of(t, s, worker);
        c.least = done[worker] < c.least ? done[worker] : c.least;
    }
    c.version = t->version[s];
    return c;
}

static void step(twin *t, uint32_t s, float *g)
{
    const ps_shard_conf *conf = &t->w.conf;
    uint32_t n = t->w.slices[s].n;

    if (conf->merge_scale != 1.0f) {
        for (uint32_t i = 0; i < n; i++) {
            g[i] *= conf->merge_scale;
        }
    }
    t->version[s]++;
    if (conf->optim != NULL) {
        conf->optim->step(&conf->optim_params, t->version[s], g, t->state[s], t->weights[s], n);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        t->weights[s][i] -= g[i];
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

static void twin_take(twin *t, uint32_t s, uint64_t clock, uint32_t k)
{
    float sum[VALUES], x[VALUES];

    t->next[s][k]++;
    if (!t->buffers) {
        decoded(t, s, clock, k, x);
        step(t, s, x);
        return;
    }
    for (uint32_t other = 0; other < t->w.conf.contributors; other++) {
        if (t->next[s][other] <= clock) {
            return;
        }
    }
    for (uint32_t other = 0; other < t->w.conf.contributors; other++) {
        decoded(t, s, clock, other, other == 0 ? sum : x);
        for (uint32_t i = 0; other > 0 && i < t->w.slices[s].n; i++) {
            sum[i] = sum[i] + x[i];
        }
    }
    step(t, s, sum);
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
    if (clock > t->next[s][k] || (clock > c.least && clock - c.least > lead)) {
        return PS_OUT_OF_RANGE;
    }
    *is_new = true;
    return PS_OK;
}

/* ---- Agreement ---- */

static void agree(const twin *t)
{
    const float *weights = ps_shard_weights(t->shard);
    uint64_t oldest = UINT64_MAX, done[W];
    uint32_t waited[W], count = 0;

    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        ps_clocks c = clocks_of(t, s, done);

        assert_memory_equal(weights, t->weights[s], t->w.slices[s].n * sizeof(float));
        assert_int_equal(ps_shard_version(t->shard, s), t->version[s]);
        weights += t->w.slices[s].n;
        oldest = c.least < oldest ? c.least : oldest;
    }
    assert_true(ps_shard_clock(t->shard) == oldest);
    count = ps_shard_waits_for(t->shard, waited, W);
    for (uint32_t worker = 0, at = 0; worker < t->w.conf.workers; worker++) {
        bool is_missing = false;

        for (uint32_t s = 0; s < t->w.conf.slice_count && oldest != UINT64_MAX; s++) {
            is_missing = is_missing || done_of(t, s, worker) == oldest;
        }
        assert_int_equal(is_missing, at < count && waited[at] == worker);
        at += is_missing;
    }
    for (uint32_t k = 0; k < t->w.conf.contributors; k++) {
        uint64_t least = UINT64_MAX;

        for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
            least = t->next[s][k] < least ? t->next[s][k] : least;
        }
        assert_true(ps_shard_is_in(t->shard, least - 1, k) || least == 0);
        assert_false(ps_shard_is_in(t->shard, least, k));
    }
}

static bool is_ready(const twin *t, uint32_t s, uint32_t worker)
{
    const ps_shard_conf *conf = &t->w.conf;
    uint64_t done[W];
    ps_clocks c = clocks_of(t, s, done);

    return conf->policy->admit(&conf->policy_params, &c, worker, t->asked[worker]) &&
           conf->policy->on_pull(&conf->policy_params, &c, worker, t->asked[worker]);
}

static void check_piece(const twin *t, uint32_t s, const ps_shard_piece *piece)
{
    static uint8_t bytes[PS_CODEC_VALUES * 4];
    const ps_shard_slice *slice = &t->w.slices[s];
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
    ps_shard_piece pieces[S];
    ps_shard_answer answer;
    size_t cap = (size_t)draw(t, S) + 1, given = 0, count;
    uint64_t version = UINT64_MAX;
    uint32_t slices[S];

    count = expected_slices(t, worker, cap, slices);
    ps_shard_pull_next(t->shard, worker, 1 << 20, pieces, cap, &answer);
    assert_int_equal(answer.count, count);
    for (size_t i = 0; i < count; i++) {
        check_piece(t, slices[i], &pieces[i]);
        t->given[worker][slices[i]] = true;
        version = t->version[slices[i]] < version ? t->version[slices[i]] : version;
    }
    assert_true(count == 0 || answer.version == version);
    for (uint32_t s = 0; s < t->w.conf.slice_count; s++) {
        given += t->given[worker][s];
    }
    assert_int_equal(answer.is_last, t->is_open[worker] && given == t->w.conf.slice_count);
    t->is_open[worker] = t->is_open[worker] && !answer.is_last;
    assert_int_equal(ps_shard_is_waiting(t->shard, worker), t->is_open[worker]);
}

/* ---- Events ---- */

static void push_some(twin *t)
{
    uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);
    uint32_t k = (uint32_t)draw(t, t->w.conf.contributors);
    uint32_t s = (uint32_t)draw(t, t->w.conf.slice_count);
    uint64_t clock = t->next[s][k];
    ps_shard_outcome outcome = PS_SHARD_DROPPED;
    ps_status st;
    bool is_new;
    ps_code code;

    while (!t->holds[worker][k] && draw(t, 10) > 0) { /* mostly one who holds it */
        worker = (worker + 1) % t->w.conf.workers;
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
        assert_int_equal(outcome == PS_SHARD_DUPLICATE, !is_new);
        assert_true(outcome != PS_SHARD_DROPPED);
    }
    if (is_new) {
        twin_take(t, s, clock, k);
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
    }
    assert_int_equal(ps_shard_pull_begin(t->shard, worker, clock).code, code);
    if (code == PS_OK) {
        t->has_asked[worker] = t->is_open[worker] = true;
        t->asked[worker] = clock;
        memset(t->given[worker], 0, sizeof t->given[worker]);
    }
}

static void lose(twin *t)
{
    uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);
    bool survives = t->w.conf.policy->survives_loss;

    assert_int_equal(ps_shard_lose_worker(t->shard, worker).code,
                     survives ? PS_OK : PS_FAILED_PRECONDITION);
    t->lost[worker] = t->lost[worker] || survives;
    t->is_open[worker] = t->is_open[worker] && !survives;
}

static void begin_life(twin *t, uint64_t seed)
{
    static const char *const policies[] = {"bsp", "bsp", "ssp", "asp"};
    static const char *const codecs[] = {"f32", "f16", "int8"};
    static const char *const optims[] = {"sgd", "adam"};
    uint32_t workers, blocks;

    *t = (twin){.seed = seed};
    workers = (uint32_t)draw(t, 4) + 1;
    world_init(&t->w, policies[draw(t, 4)], workers, (uint32_t)draw(t, S) + 1);
    world_codecs(&t->w, codecs[draw(t, 3)], codecs[draw(t, 3)]);
    if (t->w.conf.policy->params != NULL) {
        t->w.conf.policy_params.v[0] = (double)draw(t, 3);
    }
    if (draw(t, 3) > 0) {
        t->w.conf.optim = ps_optim_find(optims[draw(t, 2)]);
        t->w.conf.optim_params = ps_params_default(t->w.conf.optim->params);
    } else {
        t->w.conf.optim = NULL;
    }
    t->w.conf.merge_scale = draw(t, 2) == 0 ? 1.0f : 0.3f;
    blocks = draw(t, 2) == 0 ? 0 : (uint32_t)draw(t, K) + 1;
    if (blocks > 0) {
        world_blocks(&t->w, blocks);
    }
    for (uint32_t k = 0; k < t->w.conf.contributors; k++) {
        uint32_t first = (uint32_t)draw(t, workers); /* somebody has each block */

        for (uint32_t worker = 0; worker < workers; worker++) {
            t->holds[worker][k] = blocks == 0 ? worker == k : worker == first || draw(t, 3) == 0;
            if (blocks > 0 && t->holds[worker][k]) {
                world_hold(&t->w, worker, k);
            }
        }
    }
    t->buffers = strcmp(t->w.conf.policy->name, "bsp") == 0;
    t->shard = ps_shard_create(&t->w.conf);
}

/* Returns the updates of slices. */
static uint64_t live(uint64_t seed)
{
    twin *t = malloc(sizeof *t);
    uint64_t steps;

    assert_non_null(t);
    begin_life(t, seed);
    for (int event = 0; event < EVENTS; event++) {
        uint64_t what = draw(t, 200);

        if (what == 0) {
            lose(t);
        } else if (what < 20) {
            ask(t);
        } else if (what < 22) {
            uint32_t worker = (uint32_t)draw(t, t->w.conf.workers);

            ps_shard_pull_cancel(t->shard, worker);
            t->is_open[worker] = false;
        } else {
            push_some(t);
        }
        agree(t);
        pull_next(t, (uint32_t)draw(t, t->w.conf.workers));
    }
    steps = ps_shard_counters_of(t->shard)->steps;
    ps_shard_destroy(t->shard);
    free(t);
    return steps;
}

static void a_shard_lives_as_its_naive_twin(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED"), *more = getenv("PSGD_TEST_ROUNDS");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 22;
    uint64_t rounds = more != NULL ? strtoull(more, NULL, 0) : 200, steps = 0;

    (void)state;
    print_message("seed %" PRIu64 ", %" PRIu64 " lives\n", seed, rounds);
    for (uint64_t i = 0; i < rounds; i++) {
        steps += live(ps_draw_key(seed, PS_DRAW_TEST, i, 0, 0));
    }
    assert_true(steps > rounds * 20); /* lives worth the name */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_lives_as_its_naive_twin),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
