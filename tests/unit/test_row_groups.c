/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_groups.c - rows of sparse tables are encoded to the same bits on any number of servers
 * and threads. */
#include "common/wire/row_groups.h"

#include "common/base/xalloc.h"
#include "common/train/merge.h"
#include "tests/support/plan_rig.h"

#include <stdlib.h>

enum { KEYS = 7000, PARTS_MAX = 16 };

#define GROWS ",\"table\":{\"name\":\"sparse\"}"
#define JOB(table, rows, width, up)                                                                \
    "{\"workers\":2,\"pservers\":1,\"data\":{\"name\":\"ngram\",\"files\":[\"a\"],"                \
    "\"train_limit\":2000,\"test_limit\":100,\"params\":{\"n\":5,\"words\":50}},\"model\":{"       \
    "\"preset\":\"ngram\",\"params\":{\"width\":" width ",\"hidden\":2,\"rows\":" rows "}" table   \
    "},\"codec\":{\"up\":" up "}}"

/* Rows that are sent, and what receivers read. */
typedef struct rows_world {
    ps_plan *plan;
    ps_placement placement;
    uint64_t keys[KEYS];
    float *sent; /* (KEYS, width) */
    float *read; /* (KEYS, width) */
    size_t messages;
} rows_world;

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    (void)len;
    (void)scratch;
    return (const uint8_t *)arg + at;
}

static size_t width_of(const rows_world *w)
{
    return w->plan->tables[0].width;
}

/* Sends the rows with these indices in one message and reads them. */
static void send(rows_world *w, const size_t *index, size_t n)
{
    static ps_encoding heads[PS_ROW_HEADS_MAX];
    static Psgd__V1__Encoding *head_ptrs[PS_ROW_HEADS_MAX];
    static uint8_t bytes[PS_PAYLOAD_MAX];
    static float x[PS_PAYLOAD_MAX / sizeof(float)], y[PS_PAYLOAD_MAX / sizeof(float)];
    uint64_t keys[PS_TABLE_KEYS];
    size_t width = width_of(w), count, len;
    ps_row_groups rows = {.plan = w->plan,
                          .choice = &w->plan->up[w->plan->tables[0].variable],
                          .keys = keys,
                          .count = n};
    ps_parts_reader reader = {.heads = head_ptrs, .view = view, .arg = bytes};
    ps_status st;

    for (size_t i = 0; i < n; i++) {
        keys[i] = w->keys[index[i]];
        memcpy(x + i * width, w->sent + index[i] * width, width * sizeof *x);
    }
    assert_true(ps_row_groups_bytes(&rows) <= sizeof bytes);
    len = ps_row_groups_encode(&rows, 5, PS_DRAW_UP, x, bytes, heads, &count);
    assert_true(len <= ps_row_groups_bytes(&rows) && count <= PS_ROW_HEADS_MAX);
    for (size_t i = 0; i < count; i++) {
        head_ptrs[i] = &heads[i].msg;
    }
    reader.count = count;
    reader.bytes = len;
    st = ps_row_groups_read(&rows, &reader, y);
    assert_string_equal(st.text, "");
    st = ps_parts_end(&reader);
    assert_string_equal(st.text, "");
    for (size_t i = 0; i < n; i++) {
        memcpy(w->read + index[i] * width, y + i * width, width * sizeof *y);
    }
    w->messages++;
}

/* Returns how many of the rows `index` (n) of a part go into the next message. */
typedef size_t next_message(const rows_world *w, const size_t *index, size_t n);

static size_t by_stretch(const rows_world *w, const size_t *index, size_t n)
{
    const ps_codec_choice *up = &w->plan->up[w->plan->tables[0].variable];
    size_t end = ps_row_groups_stretch(w->plan, up, index[0]), k = 0;

    while (k < n && k < ps_table_keys_of_message(w->plan) && index[k] < end) {
        k++;
    }
    return k;
}

static size_t by_cut(const rows_world *w, const size_t *index, size_t n)
{
    uint64_t *keys = ps_xcalloc(n, sizeof *keys);
    size_t k;

    for (size_t i = 0; i < n; i++) {
        keys[i] = w->keys[index[i]];
    }
    k = ps_row_groups_cut(&(ps_row_groups){.plan = w->plan,
                                           .choice = &w->plan->up[w->plan->tables[0].variable],
                                           .keys = keys,
                                           .count = n});
    free(keys);
    assert_true(k > 0 && k <= n && k <= ps_table_keys_of_message(w->plan));
    return k;
}

static void place(rows_world *w, uint32_t servers, uint32_t threads)
{
    ps_placement_fini(&w->placement);
    ps_placement_init(&w->placement, &w->plan->layout, servers, 2);
    for (uint32_t s = 0; s < servers; s++) {
        ps_status st = ps_placement_set_threads(&w->placement, s, threads);

        assert_string_equal(st.text, "");
    }
}

/* Sends all rows to the parts that have them. */
static void send_all(rows_world *w, next_message *next)
{
    static size_t index[PARTS_MAX][KEYS];
    size_t count[PARTS_MAX] = {0};

    w->messages = 0;
    memset(w->read, 0, KEYS * width_of(w) * sizeof *w->read);
    for (size_t i = 0; i < KEYS; i++) {
        uint32_t part = ps_merge_part_of(w->plan, &w->placement, 0, w->keys[i]);

        index[part][count[part]++] = i;
    }
    for (uint32_t p = 0; p < w->placement.part_count; p++) {
        for (size_t at = 0; at < count[p];) {
            size_t n = next(w, index[p] + at, count[p] - at);

            send(w, index[p] + at, n);
            at += n;
        }
    }
}

static void the_bits_are_those_of_one_server(const char *job, next_message *next, bool is_exact)
{
    static const uint32_t places[][2] = {{1, 1}, {2, 1}, {3, 1}, {3, 2}, {5, 3}};
    rows_world w = {.plan = plan_of(job)};
    uint32_t step = w.plan->tables[0].rows / KEYS, width;
    float *first;

    assert_int_equal(w.plan->table_count, 1);
    width = w.plan->tables[0].width;
    w.sent = ps_xcalloc((size_t)KEYS * width, sizeof(float));
    w.read = ps_xcalloc((size_t)KEYS * width, sizeof(float));
    first = ps_xcalloc((size_t)KEYS * width, sizeof(float));
    for (size_t i = 0; i < KEYS; i++) {
        w.keys[i] = i * step + ps_draw_below(3, i, step);
    }
    for (size_t i = 0; i < (size_t)KEYS * width; i++) {
        w.sent[i] = (float)(ps_draw_normal(7, i) * (1 + ps_draw_unit(8, i / width)));
    }
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        place(&w, places[p][0], places[p][1]);
        send_all(&w, next);
        assert_true(w.messages >= KEYS / PS_TABLE_KEYS);
        if (p == 0) {
            memcpy(first, w.read, (size_t)KEYS * width * sizeof *first);
            assert_int_equal(memcmp(first, w.sent, (size_t)KEYS * width * sizeof *first) == 0,
                             is_exact);
        }
        assert_memory_equal(first, w.read, (size_t)KEYS * width * sizeof *first);
    }
    ps_placement_fini(&w.placement);
    free(first);
    free(w.read);
    free(w.sent);
    ps_plan_destroy(w.plan);
}

static void of_a_table_that_grows(void **state)
{
    (void)state;
    the_bits_are_those_of_one_server(JOB(GROWS, "100000", "8", "{\"name\":\"int8\"}"), by_stretch,
                                     false);
    the_bits_are_those_of_one_server(JOB(GROWS, "100000", "200", "{\"name\":\"qsgd\"}"), by_stretch,
                                     false);
    the_bits_are_those_of_one_server(
        JOB(GROWS, "100000", "3", "{\"name\":\"intn\",\"params\":{\"lossless\":1}}"), by_stretch,
        false);
    the_bits_are_those_of_one_server(JOB(GROWS, "100000", "8", "{\"name\":\"f32\"}"), by_stretch,
                                     true);
}

static void of_a_fixed_vocabulary(void **state)
{
#define ROWS(name) "{\"name\":\"" name "\",\"params\":{\"rows\":1}}"
    (void)state;
    for (int i = 0; i < 2; i++) {
        next_message *next = i == 0 ? by_stretch : by_cut;

        the_bits_are_those_of_one_server(JOB("", "20000", "8", ROWS("int8")), next, false);
        the_bits_are_those_of_one_server(JOB("", "50000", "1", ROWS("intn")), next, false);
        the_bits_are_those_of_one_server(JOB("", "7000", "200", ROWS("qsgd")), next, false);
        the_bits_are_those_of_one_server(JOB("", "20000", "8", "{\"name\":\"f32\"}"), next, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_table_that_grows),
        cmocka_unit_test(of_a_fixed_vocabulary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
