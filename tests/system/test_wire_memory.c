/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_memory.c - payloads of push and pull streams through shared memory: same bits, same
 * counts, and what a server does with wrong offers and wrong places. */
#include "tests/support/cmocka_all.h"

#include "common/wire/link_memory.h"
#include "tests/support/exchange_world.h"
#include "tests/support/wire_server_world.h"

#include <stdlib.h>

#define WIDE ", \"model\": {\"widths\": [700, 300]}"

typedef struct setting {
    ps_wire_server *server;
    bool is_sockets_only;
} setting;

static void set_on_loop(void *arg)
{
    const setting *s = arg;

    ps_wire_server_set_sockets_only(s->server, s->is_sockets_only);
}

/* Sets it on the thread of the server's loop, which runs already. */
static void set_sockets_only(side *on, ps_wire_server *server, bool is_sockets_only)
{
    setting s = {server, is_sockets_only};

    side_run(on, set_on_loop, &s);
}

/* --- workers and servers --------------------------------------------------------- */

enum { WORKERS = 2, STEPS = 6 };

/* Trains and returns the payload bytes through memory of all workers; *model_bytes is what a whole
 * gradient has. */
static uint64_t train(bool workers_sockets_only, bool servers_sockets_only, uint64_t *model_bytes)
{
    exchange_world w;
    uint64_t through = 0, at_servers = 0;

    xw_begin(&w, WORKERS, 2, FAKE_CHAINED, STEPS, 0, WIDE);
    *model_bytes = w.job.plan->layout.param_count * sizeof(float);
    for (uint32_t i = 0; i < w.worker_count; i++) {
        w.workers[i].is_sockets_only = workers_sockets_only;
    }
    for (uint32_t i = 0; i < w.server_count; i++) {
        set_sockets_only(&w.serving, w.servers[i].wire, servers_sockets_only);
    }
    xw_start(&w);
    xw_join(&w);
    xw_must_be_as_the_twin(&w); /* which asks the servers' loop: it has been and gone */
    for (uint32_t i = 0; i < w.worker_count; i++) {
        through += w.workers[i].stats.bytes_through_memory;
        assert_in_range(w.workers[i].stats.bytes_up, w.workers[i].stats.bytes_up_float32,
                        w.workers[i].stats.bytes_up_float32 * 101 / 100);
    }
    for (uint32_t i = 0; i < w.server_count; i++) {
        at_servers += ps_wire_server_traffic(w.servers[i].wire).bytes_through_memory;
    }
    assert_int_equal(through, at_servers);
    xw_end(&w);
    return through;
}

static void payloads_go_through_memory_with_the_twin_s_bits(void **state)
{
    uint64_t model_bytes, through = train(false, false, &model_bytes);

    (void)state;
    /* of each worker all gradients but the first one, which goes before the server's answer, and
     * the weights of at least as many steps */
    assert_true(through >= model_bytes * WORKERS * 2 * (STEPS - 1));
}

static void either_end_can_keep_to_sockets(void **state)
{
    uint64_t model_bytes;

    (void)state;
    assert_int_equal(train(true, false, &model_bytes), 0);
    assert_int_equal(train(false, true, &model_bytes), 0);
    assert_int_equal(train(true, true, &model_bytes), 0);
}

/* --- a worker by hand -------------------------------------------------------------- */

typedef struct by_hand {
    wire_server_world w;
    ps_shared_memory *memory;
    ps_link_offer offer;
    raw_stream push;
} by_hand;

static void begin(by_hand *h)
{
    sw_begin(&h->w, 1, "", 0);
    h->memory = ps_link_memory_create(&h->offer);
    assert_non_null(h->memory);
}

static void end(by_hand *h)
{
    ps_shared_memory_destroy(h->memory);
    sw_end(&h->w);
}

/* Opens a push stream and sends clock 0 by it, with the offer, if `offers`. Returns whether the
 * server takes the memory. */
static bool push_first(by_hand *h, bool offers)
{
    static sw_gift g;

    sw_open_push(&h->w, &h->push);
    sw_gift_whole(&h->w, &g, 0, 1.0f);
    g.head.memory = offers ? &h->offer.message : NULL;
    sw_gift_send(&g, &h->push);
    assert_true(raw_wait(&h->push, 1));
    return h->push.messages[0].takes_memory;
}

/* Sends the contribution to a clock through the memory. */
static void push_through_memory(by_hand *h, uint64_t clock)
{
    static sw_gift g;
    Psgd__V1__PayloadPlace place;
    ps_piece piece;

    sw_gift_whole(&h->w, &g, clock, 1.0f);
    g.head.worker = NULL;
    piece = (ps_piece){.data = g.values, .len = g.bytes};
    assert_true(ps_link_memory_put(h->memory, &piece, 1, &place, NULL));
    g.head.place = &place;
    g.bytes = 0;
    sw_gift_send(&g, &h->push);
}

/* Returns what the server has counted of a push of clocks 0 and 1, the second one through memory if
 * the server takes it. */
static ps_traffic traffic_of_two(bool is_sockets_only)
{
    static sw_gift g;
    by_hand h;
    ps_traffic t;

    begin(&h);
    set_sockets_only(&h.w.serving, h.w.server.wire, is_sockets_only);
    assert_int_equal(push_first(&h, true), !is_sockets_only);
    if (!is_sockets_only) {
        push_through_memory(&h, 1);
    } else {
        sw_gift_whole(&h.w, &g, 1, 1.0f);
        g.head.worker = NULL;
        sw_gift_send(&g, &h.push);
    }
    assert_true(raw_wait(&h.push, 2));
    assert_false(h.push.messages[1].takes_memory);
    assert_float_equal(sw_first_weight(&h.w), 998.0f, 0.0f);
    t = ps_wire_server_traffic(h.w.server.wire);
    raw_close(&h.push);
    end(&h);
    return t;
}

static void a_payload_in_memory_counts_as_one_in_its_message(void **state)
{
    ps_traffic through = traffic_of_two(false), plain = traffic_of_two(true);

    (void)state;
    assert_int_equal(through.bytes_in, plain.bytes_in);
    assert_int_equal(through.messages_in, plain.messages_in);
    assert_true(through.bytes_through_memory > PS_SHARED_MEMORY_LEAST);
    assert_int_equal(plain.bytes_through_memory, 0);
}

/* Makes an honest message of clock 1 through memory into a wrong one. */
typedef void spoil_fn(by_hand *h, push_t *head, Psgd__V1__PayloadPlace *place);

static void no_such_bytes(by_hand *h, push_t *head, Psgd__V1__PayloadPlace *place)
{
    (void)h;
    (void)head;
    place->position += 64;
}

static void too_many_bytes(by_hand *h, push_t *head, Psgd__V1__PayloadPlace *place)
{
    (void)h;
    (void)head;
    place->bytes = UINT32_MAX;
}

static void no_bytes(by_hand *h, push_t *head, Psgd__V1__PayloadPlace *place)
{
    (void)h;
    (void)head;
    place->bytes = 0;
}

static void a_payload_besides(by_hand *h, push_t *head, Psgd__V1__PayloadPlace *place)
{
    static uint8_t byte;

    (void)h;
    (void)place;
    head->payload = (ProtobufCBinaryData){.len = 1, .data = &byte};
}

static void wrong_places_end_the_stream_and_the_next_one_works(void **state)
{
    static const struct {
        spoil_fn *spoil;
        bool offers;
    } cases[] = {
        {no_such_bytes, true},     {too_many_bytes, true}, {no_bytes, true},
        {a_payload_besides, true}, {NULL, false},
    };
    static sw_gift g;
    by_hand h;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Psgd__V1__PayloadPlace place;
        ps_piece piece;

        begin(&h);
        assert_int_equal(push_first(&h, cases[i].offers), cases[i].offers);
        sw_gift_whole(&h.w, &g, 1, 1.0f);
        g.head.worker = NULL;
        piece = (ps_piece){.data = g.values, .len = g.bytes};
        assert_true(ps_link_memory_put(h.memory, &piece, 1, &place, NULL));
        g.head.place = &place;
        g.bytes = 0;
        if (cases[i].spoil != NULL) {
            cases[i].spoil(&h, &g.head, &place);
        }
        sw_gift_send(&g, &h.push);
        sw_must_end(&h.push, PS_INVALID_ARGUMENT, "BAD_PLACE");
        raw_close(&h.push);
        sw_push_honestly(&h.w, 1, 0, 1.0f);
        assert_float_equal(sw_first_weight(&h.w), 998.0f, 0.0f);
        end(&h);
    }
}

static void a_first_message_with_a_place_is_refused(void **state)
{
    static sw_gift g;
    Psgd__V1__PayloadPlace place = PSGD__V1__PAYLOAD_PLACE__INIT;
    by_hand h;

    (void)state;
    begin(&h);
    place.bytes = PS_SHARED_MEMORY_LEAST;
    sw_open_push(&h.w, &h.push);
    sw_gift_whole(&h.w, &g, 0, 1.0f);
    g.head.memory = &h.offer.message;
    g.head.place = &place;
    g.bytes = 0;
    sw_gift_send(&g, &h.push);
    sw_must_end(&h.push, PS_INVALID_ARGUMENT, "BAD_PLACE"); /* nothing was agreed on */
    raw_close(&h.push);
    end(&h);
}

static void wrong_offers_are_not_taken_and_payloads_go_by_the_stream(void **state)
{
    by_hand h;

    (void)state;
    for (int i = 0; i < 4; i++) {
        begin(&h);
        switch (i) {
        case 0:
            h.offer.offer.token[0] ^= 1;
            break;
        case 1:
            h.offer.message.token.len--;
            break;
        case 2:
            h.offer.message.process = UINT32_MAX;
            break;
        default:
            h.offer.message.descriptor_number = 0;
            break;
        }
        assert_false(push_first(&h, true));
        assert_float_equal(sw_first_weight(&h.w), 999.0f, 0.0f);
        raw_close(&h.push);
        end(&h);
    }
}

static void a_pull_with_an_offer_is_answered_through_memory(void **state)
{
    (void)state;
    for (int is_sockets_only = 0; is_sockets_only < 2; is_sockets_only++) {
        Psgd__V1__WorkerIdentity who;
        raw_stream pull;
        size_t bytes;
        by_hand h;
        pull_t req;

        begin(&h);
        set_sockets_only(&h.w.serving, h.w.server.wire, is_sockets_only);
        sw_identify(&h.w, &who, 0);
        bytes = h.w.job.plan->layout.param_count * sizeof(float);
        sw_push_honestly(&h.w, 0, 0, 1.0f);
        req = sw_pull(1, &who);
        req.memory = &h.offer.message;
        sw_open_pull(&h.w, &pull, true);
        assert_true(raw_send(&pull, &req.base, NULL, 0));
        assert_true(raw_wait(&pull, 1));
        assert_int_equal(pull.messages[0].bytes, is_sockets_only ? bytes : 0);
        assert_int_equal(pull.messages[0].bytes_in_memory, is_sockets_only ? 0 : bytes);
        raw_close(&pull);
        end(&h);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_go_through_memory_with_the_twin_s_bits),
        cmocka_unit_test(either_end_can_keep_to_sockets),
        cmocka_unit_test(a_payload_in_memory_counts_as_one_in_its_message),
        cmocka_unit_test(wrong_places_end_the_stream_and_the_next_one_works),
        cmocka_unit_test(a_first_message_with_a_place_is_refused),
        cmocka_unit_test(wrong_offers_are_not_taken_and_payloads_go_by_the_stream),
        cmocka_unit_test(a_pull_with_an_offer_is_answered_through_memory),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
