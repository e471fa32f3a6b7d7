/* SPDX-License-Identifier: Apache-2.0 */
/* test_peers_refused.c - messages to PeerService by hand: what it refuses, with which
 * code and reason, what comes twice, early or late, and that the exchange goes on. */
#include "tests/support/cmocka_all.h"

#include "tests/support/exchange_world.h"
#include "tests/support/raw_stream.h"

#include <stdio.h>
#include <string.h>

enum { STEPS = 4, ATTEMPT = 1, CELL = 16384, MANY = 257 };

#define PLAIN ", \"exchange\": {\"name\": \"plain\"}"

/* A message from worker 1 to worker 0: packets and their bytes. */
typedef struct note {
    Psgd__V1__ExchangeRequest head;
    Psgd__V1__WorkerIdentity who;
    Psgd__V1__PeerPacket packets[MANY], *pointers[MANY];
    Psgd__V1__Encoding encodings[2];
    Psgd__V1__F32 f32;
    Psgd__V1__Int8 int8;
    size_t bytes; /* that are sent as payload */
} note;

static uint8_t payload[(1 << 20) + 1];

/* That worker 1 is there, in the step. */
static void say_here(note *n, size_t i, uint64_t clock)
{
    psgd__v1__peer_packet__init(&n->packets[i]);
    n->packets[i].clock = clock;
    n->packets[i].what = 2; /* there are two blocks */
}

/* A cell of worker 1's block. */
static void say_cell(note *n, size_t i, uint32_t piece, uint32_t values)
{
    say_here(n, i, 0);
    n->packets[i].what = 1;
    n->packets[i].piece = piece;
    n->packets[i].encoding = &n->encodings[i];
    psgd__v1__encoding__init(&n->encodings[i]);
    n->encodings[i].payload_bytes = values * 4;
    n->encodings[i].codec_case = PSGD__V1__ENCODING__CODEC_F32;
    n->encodings[i].f32 = &n->f32;
    n->bytes += values * 4;
}

static void note_init(const exchange_world *w, note *n)
{
    memset(n, 0, sizeof *n);
    psgd__v1__exchange_request__init(&n->head);
    psgd__v1__worker_identity__init(&n->who);
    psgd__v1__f32__init(&n->f32);
    psgd__v1__int8__init(&n->int8);
    for (size_t i = 0; i < MANY; i++) {
        say_here(n, i, 0);
        n->pointers[i] = &n->packets[i];
    }
    n->who.job_id = (char *)"job-1";
    n->who.rank = 1;
    n->who.incarnation = 1;
    n->who.layout_hash = w->job.plan->layout.hash;
    n->head.worker = &n->who;
    n->head.attempt = ATTEMPT;
    n->head.packets = n->pointers;
    n->head.n_packets = 1;
}

static void open(exchange_world *w, raw_stream *s)
{
    raw_open(s, &w->working, ps_placement_process(&w->job.placement, 0)->address, "Exchange", true);
}

static bool send(raw_stream *s, note *n)
{
    return raw_send(s, &n->head.base, payload, n->bytes);
}

/* --- refusals -------------------------------------------------------------------- */

typedef void spoil_fn(note *n);

static void no_identity(note *n)
{
    n->head.worker = NULL;
}

static void another_job(note *n)
{
    n->who.job_id = (char *)"job-2";
}

static void another_attempt(note *n)
{
    n->head.attempt = ATTEMPT + 1;
}

static void another_model(note *n)
{
    n->who.layout_hash++;
}

static void no_such_rank(note *n)
{
    n->who.rank = 2;
}

static void its_own_rank(note *n)
{
    n->who.rank = 0;
}

static void an_older_process(note *n)
{
    n->who.incarnation = 0;
}

static void no_packets(note *n)
{
    n->head.n_packets = 0;
}

static void too_many_packets(note *n)
{
    n->head.n_packets = MANY;
}

static void payload_too_long(note *n)
{
    n->head.payload.data = payload;
    n->head.payload.len = sizeof payload;
}

static void a_step_behind_the_end(note *n)
{
    n->packets[0].clock = 1000000;
}

static void a_step_without_end(note *n)
{
    n->packets[0].clock = UINT64_MAX;
}

static void payload_cut(note *n)
{
    say_cell(n, 0, 0, CELL);
    n->bytes -= 4;
}

static void payload_left_over(note *n)
{
    say_cell(n, 0, 0, CELL);
    n->bytes += 4;
}

static void words_cut(note *n)
{
    n->packets[0].word_bytes = 8;
    n->bytes = 4;
}

static void a_packet_longer_than_any(note *n)
{
    n->packets[0].word_bytes = CELL * 4 + 4;
    n->bytes = CELL * 4 + 4;
}

static void more_bytes_than_can_be(note *n)
{
    n->packets[0].word_bytes = UINT32_MAX;
}

static void another_codec(note *n)
{
    say_cell(n, 0, 0, CELL);
    n->encodings[0].codec_case = PSGD__V1__ENCODING__CODEC_INT8;
    n->encodings[0].int8 = &n->int8;
}

static void another_length(note *n)
{
    say_cell(n, 0, 0, CELL - 1);
}

static void words_for_values(note *n)
{
    say_here(n, 0, 0);
    n->packets[0].what = 1;
    n->packets[0].word_bytes = 64;
    n->bytes = 64;
}

static void no_such_block(note *n)
{
    say_cell(n, 0, 0, CELL);
    n->packets[0].what = 3;
}

static void no_such_cell(note *n)
{
    say_cell(n, 0, 9999, CELL);
}

static void a_block_of_another(note *n)
{
    say_cell(n, 0, 0, CELL);
    n->packets[0].what = 0;
}

/* It has a record of kind 0, which there is not: nobody could go on with that. */
static void a_report_that_is_none(note *n)
{
    n->packets[0].what = UINT32_MAX - 2;
    n->packets[0].piece = 1;
    n->packets[0].word_bytes = 17;
    n->bytes = 17;
}

static const struct {
    const char *name;
    spoil_fn *spoil;
    ps_code code;
    const char *reason;
    bool by_machine; /* it has to have begun the step */
} refusals[] = {
    {"no identity", no_identity, PS_INVALID_ARGUMENT, "NO_IDENTITY", false},
    {"another job", another_job, PS_FAILED_PRECONDITION, "WRONG_JOB", false},
    {"another attempt", another_attempt, PS_ABORTED, "WRONG_ATTEMPT", false},
    {"another model", another_model, PS_FAILED_PRECONDITION, "WRONG_MODEL", false},
    {"no such rank", no_such_rank, PS_INVALID_ARGUMENT, "WRONG_RANK", false},
    {"its own rank", its_own_rank, PS_INVALID_ARGUMENT, "WRONG_RANK", false},
    {"an older process", an_older_process, PS_ABORTED, "OLD_INCARNATION", false},
    {"no packets", no_packets, PS_INVALID_ARGUMENT, "BAD_PACKET", false},
    {"too many packets", too_many_packets, PS_INVALID_ARGUMENT, "BAD_PACKET", false},
    {"payload too long", payload_too_long, PS_RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE", false},
    {"a step behind the end", a_step_behind_the_end, PS_OUT_OF_RANGE, "WRONG_CLOCK", false},
    {"a step without end", a_step_without_end, PS_OUT_OF_RANGE, "WRONG_CLOCK", false},
    {"payload cut", payload_cut, PS_DATA_LOSS, "BAD_PACKET", false},
    {"payload left over", payload_left_over, PS_DATA_LOSS, "BAD_PACKET", false},
    {"words cut", words_cut, PS_DATA_LOSS, "BAD_PACKET", false},
    {"a packet longer than any", a_packet_longer_than_any, PS_DATA_LOSS, "BAD_PACKET", false},
    {"more bytes than can be", more_bytes_than_can_be, PS_DATA_LOSS, "BAD_PACKET", false},
    {"a report that is none", a_report_that_is_none, PS_INVALID_ARGUMENT, "BAD_PACKET", false},
    {"another codec", another_codec, PS_INVALID_ARGUMENT, "BAD_PACKET", true},
    {"another length", another_length, PS_DATA_LOSS, "BAD_PACKET", true},
    {"words for values", words_for_values, PS_DATA_LOSS, "BAD_PACKET", true},
    {"no such block", no_such_block, PS_INVALID_ARGUMENT, "BAD_PACKET", true},
    {"no such cell", no_such_cell, PS_INVALID_ARGUMENT, "BAD_PACKET", true},
    {"a block of another", a_block_of_another, PS_INVALID_ARGUMENT, "BAD_PACKET", true},
};

enum { REFUSALS = sizeof refusals / sizeof refusals[0] };

static void must_refuse(exchange_world *w, size_t i)
{
    const ps_error *error;
    raw_stream s;
    note n;

    note_init(w, &n);
    refusals[i].spoil(&n);
    open(w, &s);
    (void)send(&s, &n);
    error = raw_end(&s);
    if (error->status.code != refusals[i].code || strcmp(error->reason, refusals[i].reason) != 0) {
        fail_msg("%s: %d %s: %s", refusals[i].name, (int)error->status.code, error->reason,
                 error->status.text);
    }
    raw_close(&s);
}

/* A message that is taken, on a stream of its own; how many packets of it were. */
static uint64_t must_take(exchange_world *w, note *n)
{
    uint64_t taken;
    raw_stream s;

    open(w, &s);
    assert_true(send(&s, n));
    assert_true(raw_wait(&s, 1));
    taken = s.messages[0].taken;
    raw_close(&s);
    return taken;
}

/* A worker in the midst of step 0: it has said its block and waits for the other's. */
static void begin_alone(exchange_world *w)
{
    note n;

    fake_worker_start(&w->workers[0], 0);
    /* Its own packets to the other are what it says when its step begins. */
    while (ps_exchange_get_stats(w->workers[0].exchange).bytes_up_float32 == 0) {
        note_init(w, &n);
        (void)must_take(w, &n); /* the loop has come round once more */
    }
}

static void what_is_wrong_is_refused_and_the_exchange_goes_on(void **state)
{
    exchange_world w;
    note n;

    (void)state;
    xw_begin(&w, 2, 0, FAKE_CHAINED, STEPS, 0, PLAIN);
    note_init(&w, &n); /* of the process that is known from now on */
    (void)must_take(&w, &n);
    for (size_t i = 0; i < REFUSALS; i++) {
        if (!refusals[i].by_machine) {
            must_refuse(&w, i);
        }
    }
    begin_alone(&w);
    for (size_t i = 0; i < REFUSALS; i++) {
        must_refuse(&w, i);
    }
    fake_worker_start(&w.workers[1], 1);
    xw_join(&w);
    xw_must_be_as_the_twin(&w);
    xw_end(&w);
}

/* --- twice, early, late ------------------------------------------------------------ */

static void what_comes_twice_or_late_changes_nothing(void **state)
{
    exchange_world w;
    raw_stream s;
    note n;

    (void)state;
    xw_begin(&w, 2, 0, FAKE_CHAINED, STEPS, 0, PLAIN);
    note_init(&w, &n);
    n.head.n_packets = 200; /* each the same */
    open(&w, &s);
    assert_true(send(&s, &n));
    n.head.worker = NULL;
    assert_true(send(&s, &n));
    assert_true(raw_wait(&s, 1));
    raw_close(&s);
    xw_start(&w);
    xw_join(&w);
    xw_must_be_as_the_twin(&w);

    note_init(&w, &n); /* a cell of a step that is over, with other values */
    say_cell(&n, 0, 0, CELL);
    assert_int_equal(must_take(&w, &n), 1);
    xw_must_be_as_the_twin(&w);
    xw_end(&w);
}

/* The second message is for a step after the one to begin: it is not taken, and nothing behind
 * it is read. */
static void what_is_a_step_ahead_waits(void **state)
{
    const ps_error *error;
    exchange_world w;
    raw_stream s;
    note n;

    (void)state;
    xw_begin(&w, 2, 0, FAKE_CHAINED, STEPS, 0, PLAIN);
    note_init(&w, &n);
    open(&w, &s);
    assert_true(send(&s, &n));
    note_init(&w, &n);
    n.head.worker = NULL;
    n.head.n_packets = 2;
    n.packets[1].clock = 1;
    assert_true(send(&s, &n));
    n.head.n_packets = 1;
    assert_true(send(&s, &n));
    assert_true(raw_wait(&s, 1));
    xw_start(&w); /* its own stream takes the place of this one */
    error = raw_end(&s);
    assert_int_equal(error->status.code, PS_ABORTED);
    assert_string_equal(error->reason, "REPLACED");
    xw_join(&w);
    assert_int_equal(raw_count(&s), 1);
    assert_int_equal(s.messages[0].taken, 1);
    raw_close(&s);
    xw_must_be_as_the_twin(&w);
    xw_end(&w);
}

/* A worker that was refused says so, and by whom. */
static void who_is_refused_goes_home(void **state)
{
    exchange_world w;

    (void)state;
    xw_begin(&w, 2, 0, FAKE_CHAINED, STEPS, 0, PLAIN);
    w.workers[1].session.attempt = ATTEMPT + 1;
    xw_start(&w);
    fake_worker_wait(&w.workers[1], UINT64_MAX);
    fake_worker_stop(&w.workers[0]);
    xw_join(&w);
    assert_true(w.workers[1].went_home);
    assert_int_equal(w.workers[1].failure.code, PS_ABORTED);
    assert_non_null(strstr(w.workers[1].failure.text, "Exchange to worker-0"));
    xw_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wrong_is_refused_and_the_exchange_goes_on),
        cmocka_unit_test(what_comes_twice_or_late_changes_nothing),
        cmocka_unit_test(what_is_a_step_ahead_waits),
        cmocka_unit_test(who_is_refused_goes_home),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
