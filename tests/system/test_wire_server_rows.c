/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_server_rows.c - rows of sparse tables on the wire: what is refused, with which code and
 * reason, that the next honest call works, and that rows wait for their clock. */
#include "tests/support/cmocka_all.h"

#include "tests/support/wire_server_world.h"

#include "common/store/tables.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 4 };

/* Two workers; a table of 100,000 ids of 4 values, and batches of more ids than a message may have.
 */
static const char job[] =
    ", \"data\": {\"name\": \"ngram\", \"files\": [\"a\"], \"train_limit\": 2000, "
    "\"test_limit\": 10, \"params\": {\"n\": 5, \"words\": 50}}, \"block_size\": 700, "
    "\"model\": {\"preset\": \"ngram\", \"params\": {\"width\": 4, \"hidden\": 2, \"rows\": "
    "100000}, \"table\": {\"name\": \"sparse\"}}, \"recovery\": {\"on_worker_loss\": "
    "\"LOSS_ACTION_RESTART\", \"on_server_loss\": \"LOSS_ACTION_RESTART\"}"; /* acknowledged at once
                                                                              */

typedef struct gift {
    Psgd__V1__PushGradientRequest head;
    Psgd__V1__RowGradients part; /* the head's */
    Psgd__V1__WorkerIdentity who;
    Psgd__V1__Encoding rows, *row_ptr;
    Psgd__V1__F32 f32;
    uint64_t keys[4096];
    uint32_t shows[4096], clicks[4096];
    float values[2 * WIDTH];
    size_t bytes;
} gift;

/* Ids 3 and 8, all gradients 1, of rank 0 to clock 0. */
static void gift_init(const wire_server_world *w, gift *g, uint32_t rank)
{
    memset(g, 0, sizeof *g);
    psgd__v1__push_gradient_request__init(&g->head);
    psgd__v1__row_gradients__init(&g->part);
    g->head.rows = &g->part;
    psgd__v1__encoding__init(&g->rows);
    psgd__v1__f32__init(&g->f32);
    sw_identify(w, &g->who, rank);
    g->row_ptr = &g->rows;
    g->rows.codec_case = PSGD__V1__ENCODING__CODEC_F32;
    g->rows.f32 = &g->f32;
    g->rows.payload_bytes = (uint32_t)(g->bytes = sizeof g->values);
    g->keys[0] = 3;
    g->keys[1] = 8;
    g->shows[0] = g->shows[1] = 1;
    for (size_t i = 0; i < 2 * WIDTH; i++) {
        g->values[i] = 1.0f;
    }
    g->head.worker = &g->who;
    g->head.attempt = 1;
    g->head.block = rank;
    g->part.is_last = true;
    g->part.keys = g->keys;
    g->part.shows = g->shows;
    g->part.clicks = g->clicks;
    g->part.n_keys = g->part.n_shows = g->part.n_clicks = 2;
    g->part.values = &g->row_ptr;
    g->part.n_values = 1;
}

static void another_attempt(gift *g)
{
    g->head.attempt = 2;
}

static void another_clock(gift *g)
{
    g->head.clock = 1;
}

static void a_clock_without_end(gift *g)
{
    g->head.clock = UINT64_MAX;
}

static void another_part(gift *g)
{
    g->part.part = 1;
}

static void a_block_of_others(gift *g)
{
    g->head.block = 1;
}

static void no_such_block(gift *g)
{
    g->head.block = 1000;
}

static void no_such_table(gift *g)
{
    g->part.table = 1;
}

static void keys_that_do_not_ascend(gift *g)
{
    g->keys[1] = 3;
}

static void no_such_id(gift *g)
{
    g->keys[1] = 100000;
}

static void too_many_keys(gift *g)
{
    for (size_t i = 0; i < 2049; i++) {
        g->keys[i] = i;
    }
    g->part.n_keys = g->part.n_shows = g->part.n_clicks = 2049;
}

static void no_shows(gift *g)
{
    g->part.n_shows = 0;
}

static void a_gradient_that_is_no_number(gift *g)
{
    g->values[5] = NAN;
}

static void rows_cut(gift *g)
{
    g->rows.payload_bytes -= 4;
    g->bytes -= 4;
}

static void bytes_left_over(gift *g)
{
    g->part.n_keys = g->part.n_shows = g->part.n_clicks = 1;
    g->rows.payload_bytes = WIDTH * 4;
}

static void no_rows(gift *g)
{
    g->part.n_values = 0;
    g->bytes = 0;
}

static void another_codec(gift *g)
{
    static Psgd__V1__F16 f16 = PSGD__V1__F16__INIT;

    g->rows.codec_case = PSGD__V1__ENCODING__CODEC_F16;
    g->rows.f16 = &f16;
}

static void send_gift(gift *g, raw_stream *s)
{
    (void)raw_send(s, &g->head.base, g->values, g->bytes);
}

/* The slices of the same contribution, all zeros. */
static void send_zeros(const gift *g, raw_stream *s)
{
    Psgd__V1__PushGradientRequest zeros = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT;

    zeros.attempt = g->head.attempt;
    zeros.clock = g->head.clock;
    zeros.block = g->head.block;
    (void)raw_send(s, &zeros.base, NULL, 0);
}

typedef struct look {
    ps_tables *tables;
    uint64_t key;
    float row[WIDTH];
    ps_status st;
} look;

static void look_at(void *arg)
{
    look *l = arg;

    l->st = ps_tables_pull(l->tables, &l->key, 1, l->row);
}

/* A row of the server's, which its own thread looks up. */
static float value_of(wire_server_world *w, uint64_t key)
{
    look l = {.tables = ps_store_tables(w->server.store), .key = key};

    side_run(&w->serving, look_at, &l);
    assert_string_equal(l.st.text, "");
    return l.row[0];
}

static void what_cannot_be_is_refused_and_the_next_push_works(void **state)
{
    static const struct {
        void (*spoil)(gift *g);
        ps_code code;
        const char *reason;
    } cases[] = {
        {another_attempt, PS_ABORTED, "WRONG_ATTEMPT"},
        {another_clock, PS_OUT_OF_RANGE, "WRONG_CLOCK"},
        {a_clock_without_end, PS_OUT_OF_RANGE, "WRONG_CLOCK"},
        {another_part, PS_OUT_OF_RANGE, "WRONG_CLOCK"},
        {a_block_of_others, PS_PERMISSION_DENIED, "NOT_HELD"},
        {no_such_block, PS_PERMISSION_DENIED, "NOT_HELD"},
        {no_such_table, PS_INVALID_ARGUMENT, "BAD_ROWS"},
        {keys_that_do_not_ascend, PS_INVALID_ARGUMENT, "BAD_ROWS"},
        {no_such_id, PS_INVALID_ARGUMENT, "BAD_ROWS"},
        {too_many_keys, PS_RESOURCE_EXHAUSTED, "TOO_MANY_ROWS"},
        {no_shows, PS_INVALID_ARGUMENT, "BAD_ROWS"},
        {a_gradient_that_is_no_number, PS_INVALID_ARGUMENT, "DIVERGED"},
        {rows_cut, PS_DATA_LOSS, "BAD_ROWS"},
        {bytes_left_over, PS_DATA_LOSS, "BAD_ROWS"},
        {no_rows, PS_DATA_LOSS, "BAD_ROWS"},
        {another_codec, PS_INVALID_ARGUMENT, "BAD_ROWS"},
    };
    static gift g;
    wire_server_world w;
    raw_stream s;
    float before;

    (void)state;
    sw_begin(&w, 2, job, 0);
    before = value_of(&w, 3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        raw_open(&s, &w.calling, w.server.address, "PushGradient", true);
        gift_init(&w, &g, 0);
        cases[i].spoil(&g);
        send_gift(&g, &s);
        sw_must_end(&s, cases[i].code, cases[i].reason);
        raw_close(&s);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        raw_open(&s, &w.calling, w.server.address, "PushGradient", true);
        gift_init(&w, &g, rank);
        send_gift(&g, &s);
        send_zeros(&g, &s);
        assert_true(raw_wait(&s, 1));
        assert_int_equal(s.messages[0].block, rank);
        raw_close(&s);
    }
    assert_true(value_of(&w, 3) == before - 1.0f); /* rate 1, the mean of both */
    sw_end(&w);
}

static void pull(const wire_server_world *w, raw_stream *s, uint32_t rank, uint64_t clock,
                 const uint64_t *keys, size_t count)
{
    Psgd__V1__PullWeightsRequest req = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;
    Psgd__V1__WorkerIdentity who;

    sw_identify(w, &who, rank);
    req.worker = &who;
    req.attempt = 1;
    req.clock = clock;
    req.keys = (uint64_t *)keys;
    req.n_keys = count;
    (void)raw_send(s, &req.base, NULL, 0);
}

static void rows_wait_until_their_clock_is_whole(void **state)
{
    static const uint64_t keys[] = {3, 5, 8};
    static gift g;
    wire_server_world w;
    raw_stream pulling, pushing[2];

    (void)state;
    sw_begin(&w, 2, job, 0);
    raw_open(&pulling, &w.calling, w.server.address, "PullWeights", true);
    pull(&w, &pulling, 0, 0, keys, 3);
    assert_true(raw_wait(&pulling, 1));
    assert_int_equal(pulling.messages[0].slices, 3);
    assert_int_equal(pulling.messages[0].bytes, 3 * WIDTH * sizeof(float));
    pull(&w, &pulling, 0, 1, keys, 3);
    for (uint32_t rank = 0; rank < 2; rank++) {
        raw_open(&pushing[rank], &w.calling, w.server.address, "PushGradient", true);
        gift_init(&w, &g, rank);
        assert_int_equal(raw_count(&pulling), 1);
        send_gift(&g, &pushing[rank]);
        send_zeros(&g, &pushing[rank]);
        assert_true(raw_wait(&pushing[rank], 1));
    }
    assert_true(raw_wait(&pulling, 2));
    assert_int_equal(pulling.messages[1].clock, 1);
    for (uint32_t i = 0; i < 2; i++) {
        raw_close(&pushing[i]);
    }
    raw_close(&pulling);
    sw_end(&w);
}

static void impossible_pulls_of_rows_are_refused(void **state)
{
    static uint64_t keys[2049];
    wire_server_world w;
    raw_stream s;
    const struct {
        uint64_t clock;
        size_t count;
        ps_code code;
        const char *reason;
    } cases[] = {{0, 2049, PS_RESOURCE_EXHAUSTED, "TOO_MANY_ROWS"},
                 {UINT64_MAX, 1, PS_OUT_OF_RANGE, "WRONG_CLOCK"}};

    (void)state;
    sw_begin(&w, 2, job, 0);
    for (size_t i = 0; i < 2049; i++) {
        keys[i] = i;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        raw_open(&s, &w.calling, w.server.address, "PullWeights", true);
        pull(&w, &s, 0, cases[i].clock, keys, cases[i].count);
        sw_must_end(&s, cases[i].code, cases[i].reason);
        raw_close(&s);
    }
    keys[0] = 99;
    raw_open(&s, &w.calling, w.server.address, "PullWeights", true);
    pull(&w, &s, 0, 0, keys, 2); /* they do not ascend */
    sw_must_end(&s, PS_INVALID_ARGUMENT, "BAD_ROWS");
    raw_close(&s);
    sw_end(&w);
}

/* An acknowledgement is of both, whatever comes last. */
static void a_contribution_is_in_when_its_slices_and_its_rows_are(void **state)
{
    static gift g;
    wire_server_world w;
    raw_stream s;

    (void)state;
    sw_begin(&w, 2, job, 0);
    for (uint32_t rank = 0; rank < 2; rank++) {
        raw_open(&s, &w.calling, w.server.address, "PushGradient", true);
        gift_init(&w, &g, rank);
        if (rank == 0) {
            g.part.is_last = false;
            send_gift(&g, &s);
            send_zeros(&g, &s);
            g.head.worker = NULL;
            g.part.is_last = true;
            g.part.part = 1;
            g.keys[0] = 9;
            g.keys[1] = 11;
        }
        send_gift(&g, &s);
        if (rank == 1) {
            send_zeros(&g, &s);
        }
        assert_true(raw_wait(&s, 1));
        assert_int_equal(s.messages[0].block, rank);
        assert_int_equal(raw_count(&s), 1);
        raw_close(&s);
    }
    sw_end(&w);
}

static void rows_that_are_asked_for_twice_are_refused(void **state)
{
    static const uint64_t keys[] = {3};
    wire_server_world w;
    raw_stream s;

    (void)state;
    sw_begin(&w, 2, job, 0);
    raw_open(&s, &w.calling, w.server.address, "PullWeights", true);
    pull(&w, &s, 0, 1, keys, 1);
    pull(&w, &s, 0, 1, keys, 1);
    sw_must_end(&s, PS_FAILED_PRECONDITION, "FAILED_PRECONDITION");
    raw_close(&s);
    sw_end(&w);
}

static void close_tables(void *arg)
{
    ps_wire_server_close_tables(arg);
}

static void tables_that_are_collected_are_left_alone(void **state)
{
    static const uint64_t keys[] = {3};
    static gift g;
    wire_server_world w;
    raw_stream pushing, pulling, waiting;

    (void)state;
    sw_begin(&w, 2, job, 0);
    raw_open(&pushing, &w.calling, w.server.address, "PushGradient", true);
    gift_init(&w, &g, 0);
    send_gift(&g, &pushing);
    send_zeros(&g, &pushing);
    assert_true(raw_wait(&pushing, 1));
    raw_open(&pulling, &w.calling, w.server.address, "PullWeights", true);
    pull(&w, &pulling, 0, 0, keys, 1);
    assert_true(raw_wait(&pulling, 1));
    raw_open(&waiting, &w.calling, w.server.address, "PullWeights", true);
    pull(&w, &waiting, 1, 1, keys, 1);
    side_run(&w.serving, close_tables, w.server.wire);
    g.head.clock = 1;
    send_gift(&g, &pushing);
    sw_must_end(&pushing, PS_FAILED_PRECONDITION, "NO_TABLES");
    pull(&w, &pulling, 0, 0, keys, 1);
    sw_must_end(&pulling, PS_FAILED_PRECONDITION, "NO_TABLES");
    assert_int_equal(raw_count(&waiting), 0);
    raw_close(&pushing);
    raw_close(&pulling);
    raw_open(&pushing, &w.calling, w.server.address, "PushGradient", true);
    gift_init(&w, &g, 1);
    send_gift(&g, &pushing); /* the clock's last */
    sw_must_end(&pushing, PS_FAILED_PRECONDITION, "NO_TABLES");
    raw_close(&pushing);
    raw_close(&waiting);
    sw_end(&w);
}

static void a_job_without_tables_says_so(void **state)
{
    static gift g;
    wire_server_world w;
    raw_stream s;

    (void)state;
    sw_begin(&w, 1, "", 0);
    raw_open(&s, &w.calling, w.server.address, "PushGradient", true);
    gift_init(&w, &g, 0);
    send_gift(&g, &s);
    sw_must_end(&s, PS_FAILED_PRECONDITION, "NO_TABLES");
    raw_close(&s);
    sw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused_and_the_next_push_works),
        cmocka_unit_test(rows_wait_until_their_clock_is_whole),
        cmocka_unit_test(impossible_pulls_of_rows_are_refused),
        cmocka_unit_test(a_contribution_is_in_when_its_slices_and_its_rows_are),
        cmocka_unit_test(rows_that_are_asked_for_twice_are_refused),
        cmocka_unit_test(tables_that_are_collected_are_left_alone),
        cmocka_unit_test(a_job_without_tables_says_so),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
