/* SPDX-License-Identifier: Apache-2.0 */
/* test_connection_answers.c - a server whose answers are made by hand: what a worker does not take
 * of weights and rows, and that it says whose they were. */
#include "common/rpc/serve.h"
#include "tests/support/cmocka_all.h"

#include "tests/support/dataplane.h"

#include "common/wire/wire_client.h"
#include "services/worker/rank.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 4, KEYS = 2, WIDTH = 4 };

/* One worker and one server; four small slices, and a table that grows or whose vocabulary is
 * fixed.
 */
#define JOB(table)                                                                                 \
    "{\"workers\": 1, \"pservers\": 1, \"timeouts\": {\"step_ms\": 60000}, "                       \
    "\"data\": {\"name\": \"ngram\", \"files\": [\"a\"], \"train_limit\": 200, "                   \
    "\"test_limit\": 10, \"params\": {\"n\": 5, \"words\": 50}}, "                                 \
    "\"model\": {\"preset\": \"ngram\", \"params\": {\"width\": 4, \"hidden\": 2, \"rows\": "      \
    "1000}, "                                                                                      \
    "\"table\": {\"name\": \"" table "\"}}}"

/* What the server answers. */
typedef enum kind { WEIGHTS, ROWS, CHANGED_ROWS } kind;

/* Both answers as they should be, before a test spoils one. */
typedef struct answers {
    Psgd__V1__PullWeightsResponse weights;
    Psgd__V1__PullWeightsResponse of_rows;
    Psgd__V1__RowValues rows; /* of_rows' */
    Psgd__V1__Encoding slices[SLICES], some, *slice_ptrs[SLICES + 1], *some_ptrs[2];
    Psgd__V1__F32 f32;
    Psgd__V1__Int8 int8;
    uint64_t keys[KEYS];
    size_t weights_bytes, rows_bytes;
} answers;

typedef void spoil_fn(answers *a);

typedef struct liar {
    const ps_layout *layout;
    kind answers;    /* to requests for rows, or to those for slices */
    spoil_fn *spoil; /* (optional) */
    ps_server *server;
    side on;
    flag down;
    char address[32];
} liar;

static void plain(answers *a, Psgd__V1__Encoding *head, uint32_t slice, size_t values)
{
    psgd__v1__encoding__init(head);
    head->slice = slice;
    head->payload_bytes = (uint32_t)(values * sizeof(float));
    head->codec_case = PSGD__V1__ENCODING__CODEC_F32;
    head->f32 = &a->f32;
}

static void fill(const liar *l, answers *a)
{
    memset(a, 0, sizeof *a);
    psgd__v1__f32__init(&a->f32);
    psgd__v1__int8__init(&a->int8);
    psgd__v1__pull_weights_response__init(&a->weights);
    psgd__v1__pull_weights_response__init(&a->of_rows);
    psgd__v1__row_values__init(&a->rows);
    a->of_rows.rows = &a->rows;
    for (uint32_t i = 0; i < SLICES; i++) {
        plain(a, &a->slices[i], i, l->layout->slices[i].n);
        a->slice_ptrs[i] = &a->slices[i];
        a->weights_bytes += a->slices[i].payload_bytes;
    }
    a->slice_ptrs[SLICES] = &a->slices[0];
    a->weights.clock = 1;
    a->weights.slices = a->slice_ptrs;
    a->weights.n_slices = SLICES;
    plain(a, &a->some, 0, KEYS * WIDTH);
    a->some_ptrs[0] = a->some_ptrs[1] = &a->some;
    a->rows.count = KEYS;
    a->rows.values = a->some_ptrs;
    a->rows.n_values = 1;
    if (l->answers == CHANGED_ROWS) {
        a->of_rows.clock = 1;
        a->keys[0] = 3;
        a->keys[1] = 8;
        a->rows.keys = a->keys;
        a->rows.n_keys = KEYS;
        a->rows.is_last = true;
    }
    a->rows_bytes = a->some.payload_bytes;
    if (l->spoil != NULL) {
        l->spoil(a);
    }
}

/* ---- The server ---- */

static void gone(void *arg, ps_call *call)
{
    (void)arg;
    (void)call;
}

static void handle_push(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    (void)request;
    (void)payload;
    ps_call_on_gone(call, gone, service);
}

static void on_request(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                       ps_call *call)
{
    static const uint8_t zeros[4096];
    const Psgd__V1__PullWeightsRequest *request = (const Psgd__V1__PullWeightsRequest *)message;
    liar *l = arg;
    ps_piece piece = {.data = zeros};
    answers a;

    (void)payload;
    if (request == NULL || (request->n_keys > 0) != (l->answers == ROWS)) {
        if (request != NULL) {
            ps_call_read(call, on_request, l);
        }
        return;
    }
    fill(l, &a);
    piece.len = l->answers != WEIGHTS ? a.rows_bytes : a.weights_bytes;
    assert(piece.len <= sizeof zeros);
    ps_call_send(call, l->answers != WEIGHTS ? &a.of_rows.base : &a.weights.base, &piece,
                 piece.len > 0, NULL, NULL);
}

/* Weights or rows; their bytes are zeros. */
static void handle_pull(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    ps_call_on_gone(call, gone, service);
    on_request(service, request, payload, call);
}

#define STREAM(called, handler)                                                                    \
    {                                                                                              \
        .name = called, .handle = handler, .may = PS_MAY_ALL, .streams_in = true,                  \
        .streams_out = true, .max_bytes = 64 << 10,                                                \
    }

static const ps_method methods[] = {
    STREAM("PushGradient", handle_push),
    STREAM("PullWeights", handle_pull),
};

static void serve(void *arg)
{
    liar *l = arg;
    ps_service service = {
        .type = &psgd__v1__parameter_service__descriptor,
        .methods = methods,
        .method_count = sizeof methods / sizeof methods[0],
        .state = l,
    };
    ps_status st = ps_serve(l->on.loop, &service, 1, "127.0.0.1:0", &l->server);

    if (!ps_is_ok(&st)) {
        abort();
    }
    snprintf(l->address, sizeof l->address, "127.0.0.1:%d", ps_server_port(l->server));
}

static void stop_serving(void *arg)
{
    liar *l = arg;

    ps_server_stop(l->server, 0, &l->down.event);
}

/* ---- The worker ---- */

typedef struct opening {
    ps_loop *loop;
    const ps_session *session;
    ps_buf *grad;
    ps_exchange *exchange;
    flag closed;
} opening;

static void open_exchange(void *arg)
{
    opening *o = arg;

    o->exchange = ps_rank_connect(o->loop, o->session, 1, o->grad, false);
    ps_wire_client_start(o->exchange);
}

static void close_exchange(void *arg)
{
    opening *o = arg;

    ps_wire_client_stop(o->exchange, &o->closed.event);
}

/* Waits for weights of clock 1, or for two rows; what came of it. */
static ps_status have(kind what, spoil_fn *spoil)
{
    static const uint64_t keys[KEYS] = {3, 8};
    float values[KEYS * WIDTH] = {0};
    liar l = {.answers = what, .spoil = spoil};
    opening o = {0};
    ps_session session;
    side working;
    dp_job d;
    ps_status st;
    bool is_there;

    dp_job_init(&d, what == CHANGED_ROWS ? JOB("none") : JOB("sparse"));
    l.layout = &d.plan->layout;
    assert_int_equal(l.layout->slice_count, SLICES + (what == CHANGED_ROWS));
    flag_init(&l.down);
    flag_init(&o.closed);
    side_start(&l.on);
    side_start(&working);
    side_run(&l.on, serve, &l);
    snprintf(d.placement.servers[0].address, PS_ENDPOINT_ADDRESS_MAX, "%s", l.address);
    dp_worker_session(&d, 0, &session);
    o.loop = working.loop;
    o.session = &session;
    o.grad = ps_buf_create(session.weight_count * sizeof(float));
    side_run(&working, open_exchange, &o);
    is_there = what == ROWS
                   ? o.exchange->ops->pull_rows(o.exchange, 0, keys, KEYS, values)
                   : ps_gate_wait_weights(ps_exchange_gate(o.exchange), 0,
                                          what == CHANGED_ROWS ? 1 : l.layout->variable_count, 1);
    st = ps_gate_failure(ps_exchange_gate(o.exchange));
    assert_int_equal(is_there, ps_is_ok(&st));
    side_run(&working, close_exchange, &o);
    flag_wait(&o.closed);
    ps_wire_client_destroy(o.exchange);
    side_run(&l.on, stop_serving, &l);
    flag_wait(&l.down);
    side_stop(&working);
    side_stop(&l.on);
    flag_fini(&l.down);
    flag_fini(&o.closed);
    ps_buf_unref(o.grad);
    dp_session_fini(&session);
    dp_job_fini(&d);
    return st;
}

typedef struct lie {
    spoil_fn *spoil;
    const char *text;
} lie;

static void must_be_refused(kind what, const lie *lies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ps_status st = have(what, lies[i].spoil);

        if (strstr(st.text, lies[i].text) == NULL || strstr(st.text, "from ps-0: ") == NULL) {
            fail_msg("%s: %s; should say %s", ps_code_name(st.code), st.text, lies[i].text);
        }
    }
}

/* ---- Weights ---- */

static void of_another_clock(answers *a)
{
    a->weights.clock = 7;
}

static void of_a_slice_twice(answers *a)
{
    a->weights.n_slices = SLICES + 1;
}

static void of_no_slice(answers *a)
{
    a->slices[1].slice = SLICES;
}

static void of_bytes_that_are_not_there(answers *a)
{
    a->weights_bytes -= sizeof(float);
}

static void of_bytes_left_over(answers *a)
{
    a->weights_bytes += sizeof(float);
}

static void of_fewer_values(answers *a)
{
    a->slices[2].payload_bytes -= 4;
}

static void of_another_codec(answers *a)
{
    a->slices[0].codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    a->slices[0].int8 = &a->int8;
}

static void weights_that_cannot_be_are_refused(void **state)
{
    static const lie lies[] = {
        {of_another_clock, "an answer for clock 7 with 4 slices"},
        {of_a_slice_twice, "with 5 slices, asked for clock 1 of 4"},
        {of_no_slice, "slice 4 is not of this server"},
        {of_bytes_that_are_not_there, "bytes are not in the message"},
        {of_bytes_left_over, "payload: 4 bytes that belong to no slice"},
        {of_fewer_values, "slice 2"},
        {of_another_codec, "slice 0"},
    };
    ps_status st = have(WEIGHTS, NULL);

    (void)state;
    assert_string_equal(st.text, "");
    must_be_refused(WEIGHTS, lies, sizeof lies / sizeof lies[0]);
}

/* ---- Rows ---- */

static void of_another_step(answers *a)
{
    a->of_rows.clock = 3;
}

static void of_another_count(answers *a)
{
    a->rows.count = 1;
}

static void of_no_values(answers *a)
{
    a->rows.n_values = 0;
    a->rows_bytes = 0;
}

static void of_two_encodings(answers *a)
{
    a->rows.n_values = 2;
    a->rows_bytes *= 2;
}

static void of_bytes_too_many(answers *a)
{
    a->rows_bytes++;
}

static void of_bytes_too_few(answers *a)
{
    a->rows_bytes--;
}

static void of_another_number(answers *a)
{
    a->some.slice = 1;
}

static void rows_that_cannot_be_are_refused(void **state)
{
    static const lie lies[] = {
        {of_another_step, "2 rows of clock 3, asked for 2 of clock 0"},
        {of_another_count, "1 rows of clock 0"},
        {of_no_values, "rows: has 0 encodings, more are needed"},
        {of_two_encodings, "1 encodings and 32 bytes that belong to no row"},
        {of_bytes_too_many, "0 encodings and 1 bytes that belong to no row"},
        {of_bytes_too_few,
         "rows[0]: is number 0 of 32 bytes; number 0 is next and 31 bytes are left"},
        {of_another_number, "rows[0]: is number 1"},
    };
    ps_status st = have(ROWS, NULL);

    (void)state;
    assert_string_equal(st.text, "");
    must_be_refused(ROWS, lies, sizeof lies / sizeof lies[0]);
}

/* ---- Rows that have changed ---- */

static void of_no_table(answers *a)
{
    a->rows.table = 1;
}

static void of_fewer_keys(answers *a)
{
    a->rows.n_keys = 1;
}

static void of_no_row(answers *a)
{
    a->keys[1] = 1000;
}

static void of_a_slice_of_rows(answers *a)
{
    a->of_rows.rows = NULL;
    a->of_rows.slices = a->slice_ptrs;
    a->of_rows.n_slices = 1;
}

static void changed_rows_that_cannot_be_are_refused(void **state)
{
    static const lie lies[] = {
        {of_another_step, "2 rows of table 0 for clock 3, asked for clock 1"},
        {of_another_count, "1 rows of table 0 for clock 1"},
        {of_fewer_keys, "2 rows of table 0 for clock 1"},
        {of_no_table, "2 rows of table 1"},
        {of_no_row, "row 1000 of table 0 is not of this server"},
        {of_no_values, "rows: has 0 encodings, more are needed"},
        {of_bytes_too_many, "0 encodings and 1 bytes that belong to no row"},
        {of_a_slice_of_rows, "slice 0 is not of this server"},
    };
    ps_status st = have(CHANGED_ROWS, NULL);

    (void)state;
    assert_string_equal(st.text, "");
    must_be_refused(CHANGED_ROWS, lies, sizeof lies / sizeof lies[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_that_cannot_be_are_refused),
        cmocka_unit_test(rows_that_cannot_be_are_refused),
        cmocka_unit_test(changed_rows_that_cannot_be_are_refused),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
