/* SPDX-License-Identifier: Apache-2.0 */
/* test_table.c - sparse tables: rules one by one, and random lives beside a naive
 * twin that keeps every key it knows in one array. PSGD_TEST_SEED gives another
 * seed, PSGD_TEST_ROUNDS more lives. */
#include "tests/support/cmocka_all.h"

#include "common/store/table_file.h"
#include "common/store/table_keys.h"

#include "common/base/draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { KEYS = 120, WIDTH = 5, EVENTS = 300, FILE_MAX = 1 << 20 };

typedef struct file {
    uint8_t *bytes; /* (FILE_MAX) */
    size_t len, breaks_at;
} file;

static ps_status write_file(void *arg, const void *bytes, size_t len)
{
    file *f = arg;

    assert_true(f->len + len <= FILE_MAX);
    if (f->breaks_at > 0 && f->len + len > f->breaks_at) {
        return ps_fail(PS_UNAVAILABLE, "the disk is full");
    }
    memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
    return ps_ok();
}

static file file_of(ps_table *t, ps_table_kind kind)
{
    file f = {.bytes = malloc(FILE_MAX)};

    assert_non_null(f.bytes);
    assert_int_equal(ps_table_save(t, kind, write_file, &f).code, PS_OK);
    return f;
}

static ps_table_conf small(const char *optim)
{
    ps_table_conf conf = ps_table_conf_default(WIDTH, ps_optim_find(optim));

    conf.table = 3;
    conf.seed = 11;
    conf.init_bound = 0.5f;
    conf.saves_changes = true;
    return conf;
}

static void push_one(ps_table *t, uint64_t key, float g, float show, float click)
{
    float grads[WIDTH];
    ps_table_push push = {
        .keys = &key, .count = 1, .grads = grads, .shows = &show, .clicks = &click};

    for (int i = 0; i < WIDTH; i++) {
        grads[i] = g;
    }
    assert_int_equal(ps_table_push_rows(t, &push).code, PS_OK);
}

static void pull_one(const ps_table *t, uint64_t key, float *x)
{
    assert_int_equal(ps_table_pull_rows(t, &key, 1, x).code, PS_OK);
}

/* ---- One rule at a time ---- */

static void a_row_is_made_by_its_first_push_and_can_be_read_before(void **state)
{
    ps_table_conf conf = small("sgd");
    ps_table *t = ps_table_create(&conf), *other;
    float before[WIDTH], after[WIDTH];

    (void)state;
    pull_one(t, 77, before);
    assert_int_equal(ps_table_count(t).rows, 0);
    assert_true(before[0] != before[1] && fabsf(before[0]) <= 0.5f);
    push_one(t, 77, 1, 1, 0);
    assert_int_equal(ps_table_count(t).rows, 1);
    pull_one(t, 77, after);
    for (int i = 0; i < WIDTH; i++) {
        assert_true(after[i] == before[i] - 0.01f * 1.0f);
    }
    other = ps_table_create(&conf);
    pull_one(other, 77, after);
    assert_memory_equal(after, before, sizeof before); /* the same on every server */
    pull_one(other, 78, after);
    assert_memory_not_equal(after, before, sizeof before);
    ps_table_destroy(t);
    ps_table_destroy(other);
}

static void each_row_steps_by_itself(void **state)
{
    ps_table_conf conf = small("adam");
    ps_table *t = ps_table_create(&conf);
    float x[WIDTH], w[WIDTH], s[2 * WIDTH] = {0}, g[WIDTH] = {1, 1, 1, 1, 1};

    (void)state;
    pull_one(t, 5, w);
    for (uint64_t i = 0; i < 4; i++) {
        push_one(t, 5, 1, 1, 0);
        push_one(t, 6 + i, -1, 1, 0); /* others in between change nothing */
        conf.optim->step(&conf.optim_params, i + 1, g, w, s, w, WIDTH);
        pull_one(t, 5, x);
        assert_memory_equal(x, w, sizeof x);
    }
    ps_table_destroy(t);
}

static void admission_by_probability_is_one_decision_a_key(void **state)
{
    ps_table_conf conf = small("sgd");
    ps_table *t;
    uint64_t in = 0;
    float x[WIDTH], zero[WIDTH] = {0};

    (void)state;
    conf.admission = PS_ADMIT_PROBABILITY;
    conf.admit_probability = 0.3;
    t = ps_table_create(&conf);
    for (uint64_t key = 0; key < 4000; key++) {
        bool is_in;

        pull_one(t, key, x);
        is_in = memcmp(x, zero, sizeof x) != 0;
        for (int again = 0; again < 3; again++) {
            push_one(t, key, 0.1f, 1, 0);
            pull_one(t, key, x);
            assert_int_equal(memcmp(x, zero, sizeof x) != 0, is_in);
        }
        in += is_in;
    }
    assert_true(fabs((double)in / 4000 - 0.3) < 4 * sqrt(0.3 * 0.7 / 4000));
    assert_int_equal(ps_table_count(t).rows, in);
    assert_int_equal(ps_table_count(t).refused, 3 * (4000 - in));
    ps_table_destroy(t);
}

static void admission_by_count_lets_in_at_the_nth_push(void **state)
{
    ps_table_conf conf = small("sgd");
    float x[WIDTH], zero[WIDTH] = {0}, first[WIDTH];
    ps_table *t = ps_table_create(&conf);

    (void)state;
    pull_one(t, 9, first);
    ps_table_destroy(t);
    conf.admission = PS_ADMIT_COUNT;
    conf.admit_count = 3;
    conf.candidates_max = 1;
    t = ps_table_create(&conf);
    for (uint64_t i = 0; i < 3; i++) {
        pull_one(t, 9, x);
        assert_memory_equal(x, zero, sizeof x);
        push_one(t, 9, 1, 1, 0);
        assert_int_equal(ps_table_count(t).candidates, i < 2);
    }
    pull_one(t, 9, x); /* what was pushed so far was taken on zeros */
    assert_memory_equal(x, first, sizeof x);
    assert_int_equal(ps_table_count(t).refused, 3);
    push_one(t, 9, 1, 1, 0);
    pull_one(t, 9, x);
    assert_true(x[0] == first[0] - 0.01f);
    push_one(t, 10, 1, 1, 0);
    push_one(t, 11, 1, 1, 0); /* one candidate is all there may be */
    assert_int_equal(ps_table_count(t).uncounted, 1);
    ps_table_destroy(t);
}

static void rows_age_and_are_removed_for_their_score_or_silence(void **state)
{
    ps_table_conf conf = small("sgd");
    float show, click;
    ps_table *t;

    (void)state;
    conf.decay = 0.5f;
    conf.least_score = 0.8f;
    conf.unseen_max = 2;
    t = ps_table_create(&conf);
    push_one(t, 1, 0, 10, 4); /* 0.1 * 6 + 4 = 4.6, 2.3, 1.15, then unseen too long */
    push_one(t, 2, 0, 10, 0); /* 1, then 0.5 */
    assert_int_equal(ps_table_shrink(t), 1);
    assert_false(ps_table_shown(t, 2, &show, &click));
    assert_true(ps_table_shown(t, 1, &show, &click));
    assert_true(show == 5 && click == 2);
    push_one(t, 3, 0, 100, 10);
    assert_int_equal(ps_table_shrink(t), 0);
    assert_int_equal(ps_table_shrink(t), 1); /* key 1: three ticks */
    assert_int_equal(ps_table_count(t).rows, 1);
    push_one(t, 3, 0, 1, 1);
    assert_true(ps_table_shown(t, 3, &show, &click));
    assert_true(show == 26 && click == 3.5f);
    assert_int_equal(ps_table_count(t).ticks, 3);
    assert_int_equal(ps_table_count(t).removed, 2);
    ps_table_destroy(t);
}

static void wrong_keys_and_too_many_rows_are_refused(void **state)
{
    static const uint64_t keys[] = {4, 9, 9}, down[] = {9, 4}, many[] = {100, 101, 102};
    static const float grads[3 * WIDTH];
    ps_table_conf conf = small("sgd");
    ps_table_push push = {.keys = keys, .count = 2, .grads = grads};
    bool owned[PS_SHARDS] = {false};
    float x[3 * WIDTH];
    ps_table *t;

    (void)state;
    conf.rows_max = 3;
    t = ps_table_create(&conf);
    assert_int_equal(ps_table_push_rows(t, &push).code, PS_OK);
    assert_int_equal(ps_table_count(t).applied, 2);
    assert_int_equal(ps_table_check_keys(t, keys, 3).code, PS_INVALID_ARGUMENT); /* 9 twice */
    assert_int_equal(ps_table_check_keys(t, down, 2).code, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_table_pull_rows(t, down, 2, x).code, PS_INVALID_ARGUMENT);
    push = (ps_table_push){.keys = many, .count = 3, .grads = grads};
    assert_int_equal(ps_table_push_rows(t, &push).code, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(ps_table_count(t).rows, 2);
    push.count = 1;
    assert_int_equal(ps_table_push_rows(t, &push).code, PS_OK);
    ps_table_destroy(t);
    conf.owned = owned;
    owned[ps_table_shard_of(100)] = true;
    t = ps_table_create(&conf);
    assert_int_equal(ps_table_push_rows(t, &push).code, PS_OK);
    assert_int_equal(ps_table_check_keys(t, many, 2).code, PS_INVALID_ARGUMENT);
    ps_table_destroy(t);
}

static void occurrences_become_keys_and_back(void **state)
{
    static const uint64_t keys[] = {7, 3, 7, UINT64_MAX, 3, 7};
    uint64_t unique[6];
    uint32_t place[6];

    (void)state;
    assert_int_equal(ps_keys_unique(keys, 6, unique, place), 3);
    assert_true(unique[0] == 3 && unique[1] == 7 && unique[2] == UINT64_MAX);
    for (size_t i = 0; i < 6; i++) {
        assert_true(unique[place[i]] == keys[i]);
    }
    assert_int_equal(ps_keys_unique(keys, 0, unique, place), 0);
}

/* ---- Files ---- */

static void servers_of_another_number_load_what_others_saved(void **state)
{
    ps_table_conf conf = small("adam");
    bool half[2][PS_SHARDS];
    ps_table *whole = ps_table_create(&conf), *part[2], *again;
    float x[WIDTH], y[WIDTH];
    file f[2], all;

    (void)state;
    for (uint64_t key = 0; key < 500; key++) {
        push_one(whole, key * 977, (float)key, 1, 0);
    }
    all = file_of(whole, PS_TABLE_WHOLE);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t s = 0; s < PS_SHARDS; s++) {
            half[i][s] = s % 2 == i;
        }
        conf.owned = half[i];
        part[i] = ps_table_create(&conf);
        assert_int_equal(ps_table_load(part[i], all.bytes, all.len).code, PS_OK);
        f[i] = file_of(part[i], PS_TABLE_WHOLE);
    }
    conf.owned = NULL;
    again = ps_table_create(&conf);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ps_table_load(again, f[i].bytes, f[i].len).code, PS_OK);
    }
    assert_int_equal(ps_table_count(part[0]).rows + ps_table_count(part[1]).rows, 500);
    assert_int_equal(ps_table_count(again).rows, 500);
    for (uint64_t key = 0; key < 500; key++) {
        pull_one(whole, key * 977, x);
        pull_one(again, key * 977, y);
        assert_memory_equal(x, y, sizeof x);
    }
    for (uint32_t i = 0; i < 2; i++) {
        ps_table_destroy(part[i]);
        free(f[i].bytes);
    }
    ps_table_destroy(whole);
    ps_table_destroy(again);
    free(all.bytes);
}

static void a_damaged_file_changes_nothing(void **state)
{
    ps_table_conf conf = small("adam");
    ps_table *t = ps_table_create(&conf), *to;
    float x[WIDTH], before[WIDTH];
    file f;

    (void)state;
    for (uint64_t key = 0; key < 20; key++) {
        push_one(t, key, 1, 1, 0);
    }
    f = file_of(t, PS_TABLE_WHOLE);
    to = ps_table_create(&conf);
    push_one(to, 3, -5, 1, 0);
    pull_one(to, 3, before);
    for (size_t len = 0; len < f.len; len++) { /* cut anywhere */
        assert_int_equal(ps_table_load(to, f.bytes, len).code, PS_DATA_LOSS);
    }
    for (size_t at = 0; at < f.len; at++) { /* or a bit another one */
        ps_status st;

        f.bytes[at] ^= 16;
        st = ps_table_load(to, f.bytes, f.len);
        assert_int_equal(st.code, PS_DATA_LOSS);
        f.bytes[at] ^= 16;
    }
    assert_int_equal(ps_table_count(to).rows, 1);
    pull_one(to, 3, x);
    assert_memory_equal(x, before, sizeof x);
    assert_int_equal(ps_table_load(to, f.bytes, f.len).code, PS_OK);
    pull_one(to, 3, x);
    assert_memory_not_equal(x, before, sizeof x);
    ps_table_destroy(to);
    conf.rows_max = 19;
    to = ps_table_create(&conf);
    assert_int_equal(ps_table_load(to, f.bytes, f.len).code, PS_RESOURCE_EXHAUSTED);
    ps_table_destroy(to);
    conf = small("sgd");
    to = ps_table_create(&conf);
    assert_int_equal(ps_table_load(to, f.bytes, f.len).code, PS_FAILED_PRECONDITION);
    ps_table_destroy(to);
    ps_table_destroy(t);
    free(f.bytes);
}

/* How long a row may stay unseen is each job's own. */
static void rows_too_old_for_this_job_are_loaded_and_go_with_its_next_tick(void **state)
{
    ps_table_conf conf = small("sgd");
    ps_table *t = ps_table_create(&conf), *to;
    file f;

    (void)state;
    push_one(t, 1, 1, 1, 0);
    for (int i = 0; i < 4; i++) {
        (void)ps_table_shrink(t);
    }
    push_one(t, 2, 1, 1, 0);
    assert_int_equal(ps_table_count(t).rows, 2);
    f = file_of(t, PS_TABLE_WHOLE);
    conf.unseen_max = 2;
    to = ps_table_create(&conf);
    assert_int_equal(ps_table_load(to, f.bytes, f.len).code, PS_OK);
    assert_int_equal(ps_table_count(to).rows, 2);
    assert_int_equal(ps_table_shrink(to), 1);
    assert_int_equal(ps_table_count(to).rows, 1);
    ps_table_destroy(to);
    ps_table_destroy(t);
    free(f.bytes);
}

/* Makes every checksum right again, as far as the sections can be followed. */
static void forge(file *f, size_t row_bytes)
{
    size_t at = PS_TABLE_HEAD_BYTES;
    uint64_t sum = XXH3_64bits(f->bytes, at - 8);

    memcpy(f->bytes + at - 8, &sum, sizeof sum);
    while (f->len - at >= 24) {
        uint32_t head[4];
        uint64_t bytes;

        memcpy(head, f->bytes + at, sizeof head);
        bytes = 16 + head[1] * (uint64_t)row_bytes + head[2] * UINT64_C(8) + head[3] * UINT64_C(16);
        if (bytes + 8 > f->len - at) {
            return;
        }
        sum = XXH3_64bits(f->bytes + at, (size_t)bytes);
        memcpy(f->bytes + at + bytes, &sum, sizeof sum);
        at += (size_t)bytes + 8;
    }
}

static void a_forged_file_is_refused_or_taken_whole(void **state)
{
    ps_table_conf conf = small("adam");
    file good, forged = {.bytes = malloc(FILE_MAX)};
    uint64_t seed = 9, drawn = 0, taken = 0, refused = 0;
    ps_table *t;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    assert_non_null(forged.bytes);
    conf.admission = PS_ADMIT_COUNT;
    conf.admit_count = 2;
    conf.unseen_max = 5;
    t = ps_table_create(&conf);
    for (uint64_t i = 0; i < 60; i++) { /* rows of 0 to 29, candidates of the others */
        push_one(t, i < 30 ? i : i % 45, 1, 1, 0);
    }
    (void)ps_table_shrink(t);
    good = file_of(t, PS_TABLE_WHOLE);
    ps_table_destroy(t);
    for (int round = 0; round < 20000; round++) {
        ps_status st;

        memcpy(forged.bytes, good.bytes, good.len);
        forged.len = good.len;
        for (uint64_t k = 0; k <= ps_draw_below(seed, drawn, 3); k++) {
            forged.bytes[ps_draw_below(seed, drawn + 1 + 2 * k, good.len)] =
                (uint8_t)ps_draw_below(seed, drawn + 2 + 2 * k, 256);
        }
        drawn += 10;
        forge(&forged, 32 + 3 * WIDTH * sizeof(float));
        t = ps_table_create(&conf);
        push_one(t, 1000, 1, 1, 0);
        st = ps_table_load(t, forged.bytes, forged.len);
        if (ps_is_ok(&st)) {
            taken++;
            push_one(t, 1000, 1, 1, 0);
            (void)ps_table_shrink(t);
        } else {
            refused++;
            assert_true(st.code == PS_DATA_LOSS || st.code == PS_FAILED_PRECONDITION);
            assert_int_equal(ps_table_count(t).rows, 0);
            assert_int_equal(ps_table_count(t).candidates, 1);
        }
        ps_table_destroy(t);
    }
    assert_true(taken > 1000 && refused > 1000);
    free(good.bytes);
    free(forged.bytes);
}

static void a_loaded_row_ends_the_count_of_its_key(void **state)
{
    ps_table_conf conf = small("sgd");
    ps_table *t, *again;
    file whole, changes;

    (void)state;
    conf.admission = PS_ADMIT_COUNT;
    conf.admit_count = 2;
    t = ps_table_create(&conf);
    again = ps_table_create(&conf);
    push_one(t, 7, 1, 1, 0);
    push_one(t, 8, 1, 1, 0);
    whole = file_of(t, PS_TABLE_WHOLE);
    push_one(t, 7, 1, 1, 0);
    changes = file_of(t, PS_TABLE_CHANGES);
    assert_int_equal(ps_table_load(again, whole.bytes, whole.len).code, PS_OK);
    assert_int_equal(ps_table_count(again).candidates, 2);
    assert_int_equal(ps_table_load(again, changes.bytes, changes.len).code, PS_OK);
    assert_int_equal(ps_table_count(again).rows, 1);
    assert_int_equal(ps_table_count(again).candidates, 1);
    free(whole.bytes);
    free(changes.bytes);
    ps_table_destroy(t);
    ps_table_destroy(again);
}

static void changes_are_what_changed_since_a_save_that_worked(void **state)
{
    ps_table_conf conf = small("sgd");
    ps_table *t = ps_table_create(&conf);
    file all, none, one, broken = {.bytes = malloc(FILE_MAX), .breaks_at = 60};

    (void)state;
    assert_non_null(broken.bytes);
    for (uint64_t key = 0; key < 50; key++) {
        push_one(t, key, 1, 1, 0);
    }
    all = file_of(t, PS_TABLE_CHANGES);
    none = file_of(t, PS_TABLE_CHANGES);
    push_one(t, 7, 1, 1, 0);
    assert_int_equal(ps_table_save(t, PS_TABLE_CHANGES, write_file, &broken).code, PS_UNAVAILABLE);
    one = file_of(t, PS_TABLE_CHANGES);
    assert_int_equal(none.len, PS_TABLE_HEAD_BYTES);
    assert_int_equal(one.len, PS_TABLE_HEAD_BYTES + 16 + 32 + WIDTH * sizeof(float) + 8);
    assert_true(all.len > 50 * (32 + WIDTH * sizeof(float)));
    free(all.bytes);
    free(none.bytes);
    free(one.bytes);
    free(broken.bytes);
    ps_table_destroy(t);
}

/* ---- The twin ---- */

typedef struct twin_row {
    uint64_t key, steps;
    bool is_row;
    uint32_t pushes, at; /* pushes: while it is a candidate */
    float show, click, x[WIDTH], state[2 * WIDTH];
} twin_row;

typedef struct twin {
    ps_table_conf conf;
    ps_table *table, *follower; /* the follower knows changes only */
    twin_row rows[KEYS];
    uint64_t seed, drawn;
    uint32_t tick;
} twin;

static uint64_t draw(twin *t, uint64_t n)
{
    return ps_draw_below(t->seed, t->drawn++, n);
}

static float factor(const twin *t, uint32_t age)
{
    float f = 1.0f;

    for (uint32_t i = 0; i < age; i++) {
        f *= t->conf.decay;
    }
    return f;
}

static bool admits(const twin *t, uint64_t key)
{
    uint64_t stream = ps_draw_key(t->conf.seed, PS_DRAW_ROWS, t->conf.table, 1, 0);

    return t->conf.admission == PS_ADMIT_ALL ||
           (t->conf.admission == PS_ADMIT_PROBABILITY &&
            ps_draw_unit(stream, key) < t->conf.admit_probability);
}

static void first_values(const twin *t, uint64_t key, float *x)
{
    uint64_t stream = ps_draw_key(t->conf.seed, PS_DRAW_ROWS, t->conf.table, 0, key);

    for (uint32_t i = 0; i < WIDTH; i++) {
        x[i] = (float)((2.0 * ps_draw_unit(stream, i) - 1.0) * (double)t->conf.init_bound);
    }
}

static void twin_push(twin *t, twin_row *row, const float *g, float show, float click)
{
    bool was_row = row->is_row;

    if (!was_row && !admits(t, row->key)) {
        if (t->conf.admission != PS_ADMIT_COUNT) {
            return;
        }
        row->at = t->tick;
        if (++row->pushes < t->conf.admit_count) {
            return;
        }
    }
    if (!was_row) {
        uint64_t key = row->key;

        was_row = admits(t, key);
        *row = (twin_row){.key = key, .is_row = true, .at = t->tick};
        first_values(t, key, row->x);
    }
    row->show = row->show * factor(t, t->tick - row->at) + show;
    row->click = row->click * factor(t, t->tick - row->at) + click;
    row->at = t->tick;
    if (was_row) {
        t->conf.optim->step(&t->conf.optim_params, ++row->steps, g, row->x, row->state, row->x,
                            WIDTH);
    }
}

static void push_some(twin *t)
{
    uint64_t keys[KEYS];
    float grads[KEYS * WIDTH], shows[KEYS], clicks[KEYS];
    ps_table_push push = {.keys = keys, .grads = grads, .shows = shows, .clicks = clicks};
    uint64_t one_of = 1 + draw(t, 30);

    for (size_t k = 0; k < KEYS; k++) {
        if (draw(t, one_of) != 0) {
            continue;
        }
        keys[push.count] = t->rows[k].key;
        shows[push.count] = (float)draw(t, 4);
        clicks[push.count] = (float)draw(t, 2);
        for (size_t i = 0; i < WIDTH; i++) {
            grads[push.count * WIDTH + i] = (float)draw(t, 100) * 0.01f;
        }
        twin_push(t, &t->rows[k], grads + push.count * WIDTH, shows[push.count],
                  clicks[push.count]);
        push.count++;
    }
    assert_int_equal(ps_table_push_rows(t->table, &push).code, PS_OK);
}

static void shrink(twin *t)
{
    uint64_t removed = 0;

    t->tick++;
    for (size_t k = 0; k < KEYS; k++) {
        twin_row *row = &t->rows[k];
        uint32_t age = t->tick - row->at;
        float show = row->show * factor(t, age), click = row->click * factor(t, age);
        bool is_old = age > t->conf.unseen_max;

        if (row->is_row && (is_old || t->conf.unclicked * (show - click) + t->conf.clicked * click <
                                          t->conf.least_score)) {
            *row = (twin_row){.key = row->key};
            removed++;
        } else if (!row->is_row && is_old) {
            row->pushes = 0;
        }
    }
    assert_int_equal(ps_table_shrink(t->table), removed);
}

static void agree(const twin *t, const ps_table *table)
{
    uint64_t keys[KEYS], rows = 0;
    float x[KEYS * WIDTH], want[WIDTH], show, click;

    for (size_t k = 0; k < KEYS; k++) {
        keys[k] = t->rows[k].key;
        rows += t->rows[k].is_row;
    }
    assert_int_equal(ps_table_count(table).rows, rows);
    assert_int_equal(ps_table_count(table).ticks, t->tick);
    assert_int_equal(ps_table_pull_rows(table, keys, KEYS, x).code, PS_OK);
    for (size_t k = 0; k < KEYS; k++) {
        const twin_row *row = &t->rows[k];

        memset(want, 0, sizeof want);
        if (row->is_row) {
            memcpy(want, row->x, sizeof want);
        } else if (admits(t, row->key)) {
            first_values(t, row->key, want);
        }
        assert_memory_equal(x + k * WIDTH, want, sizeof want);
        assert_int_equal(ps_table_shown(table, row->key, &show, &click), row->is_row);
        if (row->is_row) {
            assert_true(show == row->show * factor(t, t->tick - row->at));
            assert_true(click == row->click * factor(t, t->tick - row->at));
        }
    }
}

/* The table goes on as a new one that has loaded its file. */
static void restart(twin *t)
{
    file f = file_of(t->table, PS_TABLE_WHOLE);
    ps_table *fresh = ps_table_create(&t->conf);

    assert_int_equal(ps_table_load(fresh, f.bytes, f.len).code, PS_OK);
    ps_table_destroy(t->table);
    ps_table_destroy(t->follower);
    t->table = fresh;
    t->follower = ps_table_create(&t->conf);
    assert_int_equal(ps_table_load(t->follower, f.bytes, f.len).code, PS_OK);
    free(f.bytes);
}

static void follow(twin *t)
{
    file f = file_of(t->table, PS_TABLE_CHANGES);

    assert_int_equal(ps_table_load(t->follower, f.bytes, f.len).code, PS_OK);
    agree(t, t->follower);
    free(f.bytes);
}

static void live(uint64_t seed)
{
    static const char *const optims[] = {"sgd", "adam", "adagrad"};
    twin *t = calloc(1, sizeof *t);

    assert_non_null(t);
    t->seed = seed;
    t->conf = small(optims[draw(t, 3)]);
    t->conf.admission = (ps_table_admission)draw(t, 3);
    t->conf.admit_probability = 0.5;
    t->conf.admit_count = 1 + (uint32_t)draw(t, 4);
    t->conf.least_score = (float)draw(t, 3) * 0.4f;
    t->conf.unseen_max = 1 + (uint32_t)draw(t, 6);
    t->conf.decay = 0.75f;
    for (size_t k = 0; k < KEYS; k++) { /* ascending, near and far */
        t->rows[k].key =
            k == 0 ? draw(t, 3) : t->rows[k - 1].key + 1 + draw(t, UINT64_C(1) << (k % 40));
    }
    t->table = ps_table_create(&t->conf);
    t->follower = ps_table_create(&t->conf);
    for (int event = 0; event < EVENTS; event++) {
        uint64_t what = draw(t, 20);

        if (what == 0) {
            restart(t);
        } else if (what < 3) {
            follow(t);
        } else if (what < 6) {
            shrink(t);
        } else {
            push_some(t);
        }
        agree(t, t->table);
    }
    ps_table_destroy(t->table);
    ps_table_destroy(t->follower);
    free(t);
}

static void a_table_lives_as_its_naive_twin(void **state)
{
    const char *given = getenv("PSGD_TEST_SEED"), *more = getenv("PSGD_TEST_ROUNDS");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 5;
    uint64_t rounds = more != NULL ? strtoull(more, NULL, 0) : 60;

    (void)state;
    print_message("seed %" PRIu64 ", %" PRIu64 " lives\n", seed, rounds);
    for (uint64_t i = 0; i < rounds; i++) {
        live(ps_draw_key(seed, PS_DRAW_TEST, i, 1, 0));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_made_by_its_first_push_and_can_be_read_before),
        cmocka_unit_test(each_row_steps_by_itself),
        cmocka_unit_test(admission_by_probability_is_one_decision_a_key),
        cmocka_unit_test(admission_by_count_lets_in_at_the_nth_push),
        cmocka_unit_test(rows_age_and_are_removed_for_their_score_or_silence),
        cmocka_unit_test(wrong_keys_and_too_many_rows_are_refused),
        cmocka_unit_test(occurrences_become_keys_and_back),
        cmocka_unit_test(servers_of_another_number_load_what_others_saved),
        cmocka_unit_test(a_damaged_file_changes_nothing),
        cmocka_unit_test(rows_too_old_for_this_job_are_loaded_and_go_with_its_next_tick),
        cmocka_unit_test(a_forged_file_is_refused_or_taken_whole),
        cmocka_unit_test(changes_are_what_changed_since_a_save_that_worked),
        cmocka_unit_test(a_loaded_row_ends_the_count_of_its_key),
        cmocka_unit_test(a_table_lives_as_its_naive_twin),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
