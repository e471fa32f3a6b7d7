/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_client.c - workers' exchanges against real servers: the bits that come
 * of it, and what is counted. */
#include "tests/support/cmocka_all.h"

#include "tests/support/exchange_world.h"

#include "common/base/xalloc.h"
#include "common/wire/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void train_and_compare(uint32_t workers, uint32_t servers, uint64_t steps, uint64_t drop_ack,
                              const char *choices)
{
    exchange_world w;

    xw_begin(&w, workers, servers, FAKE_CHAINED, steps, drop_ack, choices);
    xw_start(&w);
    xw_join(&w);
    xw_must_be_as_the_twin(&w);
    xw_end(&w);
}

/* --- bits -------------------------------------------------------------------- */

static void bsp_gives_the_twin_s_bits_with_any_number_of_workers_and_servers(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        for (uint32_t servers = 1; servers <= 3; servers++) {
            train_and_compare(workers, servers, 12, 0, "");
        }
    }
}

static void messages_of_a_mebibyte_and_many_slices_arrive(void **state)
{
    (void)state;
    train_and_compare(2, 2, 3, 0, ", \"model\": {\"widths\": [700, 300]}");
    train_and_compare(1, 1, 3, 0, ", \"model\": {\"widths\": [700, 300]}");
}

static void gradient_average_gives_the_twin_s_bits(void **state)
{
    (void)state;
    train_and_compare(3, 2, 10, 0, ", \"update\": {\"name\": \"gradient_average\"}");
    train_and_compare(4, 1, 6, 0,
                      ", \"update\": {\"name\": \"gradient_average\"}, "
                      "\"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}");
}

static void codecs_both_ways_give_the_twin_s_bits(void **state)
{
    (void)state;
    train_and_compare(
        2, 1, 10, 0, ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}");
    train_and_compare(
        3, 3, 10, 0, ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"int8\"}}");
    train_and_compare(2, 2, 10, 0,
                      ", \"codec\": {\"up\": {\"name\": \"f16\"}, \"down\": {\"name\": \"f16\"}}");
    train_and_compare(2, 2, 10, 0,
                      ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"f16\"}, "
                      "\"variables\": [{\"match\": \"dense2.*\", \"up\": {\"name\": \"f32\"}}]}");
}

/* Trains and says what worker 0 has; the others must have the same, to the bit. */
static float *weights_of_all(uint32_t servers, uint64_t drop_ack, const char *choices, size_t *n)
{
    exchange_world w;
    float *weights;

    xw_begin(&w, 3, servers, FAKE_CHAINED, 4, drop_ack, choices);
    xw_start(&w);
    xw_join(&w);
    *n = w.job.plan->layout.param_count;
    weights = ps_xcalloc(*n, sizeof *weights);
    memcpy(weights, w.workers[0].session.weights, *n * sizeof *weights);
    assert_true(memcmp(weights, w.job.weights, *n * sizeof *weights) != 0);
    for (uint32_t i = 0; i < w.worker_count; i++) {
        assert_string_equal(w.workers[i].failure.text, "");
        assert_memory_equal(w.workers[i].session.weights, weights, *n * sizeof *weights);
    }
    xw_end(&w);
    return weights;
}

/* Every codec up, and down what is for weights: what it claims to be exact about is
 * that all have the same, whatever came first and however many servers there were. */
static void try_codec(const ps_codec *codec, void *arg)
{
    ps_params params = ps_params_default(codec->params);
    bool is_for_weights = !codec->facts(&params).is_sparse;
    char choices[160];
    float *first, *second;
    size_t n;

    (void)arg;
    snprintf(choices, sizeof choices,
             ", \"codec\": {\"up\": {\"name\": \"%s\"}, \"down\": {\"name\": \"%s\"}}", codec->name,
             is_for_weights ? codec->name : "f32");
    first = weights_of_all(1, 0, choices, &n);
    second = weights_of_all(3, 0, choices, &n);
    assert_memory_equal(first, second, n * sizeof *first);
    free(first);
    free(second);
}

static void every_codec_leaves_all_workers_with_the_same_bits(void **state)
{
    (void)state;
    ps_codec_each(try_codec, NULL);
}

#define TOPK_UP                                                                                    \
    ", \"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"fraction\": 0.1, "                  \
    "\"error_feedback\": 1}}}"

static void what_an_encoding_lost_is_in_the_next_one(void **state)
{
    (void)state;
    train_and_compare(2, 1, 10, 0, TOPK_UP);
    train_and_compare(
        3, 2, 10, 0,
        ", \"codec\": {\"up\": {\"name\": \"sign\", \"params\": {\"error_feedback\": 1}}, "
        "\"variables\": [{\"match\": \"dense2.*\", \"up\": {\"name\": \"f32\"}}]}");
    train_and_compare(2, 2, 10, 0, TOPK_UP ", \"update\": {\"name\": \"gradient_average\"}");
}

/* A contribution that is sent again carries the same, and loses the same. */
static void what_was_lost_is_added_once_however_often_it_is_sent(void **state)
{
    (void)state;
    train_and_compare(2, 2, 10, 3, TOPK_UP);
    train_and_compare(2, 1, 10, 2,
                      ", \"codec\": {\"up\": {\"name\": \"threelc\", "
                      "\"params\": {\"error_feedback\": 1}}}");
}

static void encodings_whose_size_depends_on_the_data_arrive(void **state)
{
    (void)state;
    train_and_compare(
        2, 2, 10, 0,
        ", \"codec\": {\"up\": {\"name\": \"threshold\"}, \"down\": {\"name\": \"intn\"}}");
    train_and_compare(2, 2, 3, 0,
                      ", \"codec\": {\"up\": {\"name\": \"threelc\"}}, "
                      "\"model\": {\"widths\": [700, 300]}");
}

/* A variable of many slices in one encoding, to one server or to each that has some of it,
 * and sent again. */
static void matrices_go_whole_to_any_number_of_servers(void **state)
{
    static const char choices[] = ", \"codec\": {\"up\": {\"name\": \"powersgd\"}}, "
                                  "\"model\": {\"widths\": [300, 200]}";
    float *first;
    size_t n;

    (void)state;
    first = weights_of_all(1, 0, choices, &n);
    for (uint32_t servers = 1; servers <= 3; servers++) {
        for (uint64_t drop_ack = servers == 1 ? 2 : 0; drop_ack <= 2; drop_ack += 2) {
            float *other = weights_of_all(servers, drop_ack, choices, &n);

            assert_memory_equal(first, other, n * sizeof *first);
            free(other);
        }
    }
    free(first);
}

/* Slices without bytes, alone in a message or beside others. */
static void encodings_of_nothing_stand_for_zeros(void **state)
{
    (void)state;
    for (uint32_t servers = 1; servers <= 3; servers++) {
        train_and_compare(2, servers, 6, 0,
                          ", \"codec\": {\"variables\": [{\"match\": \"dense0.*\", \"up\": "
                          "{\"name\": \"threshold\", \"params\": {\"magnitude\": 1e30}}}]}");
    }
}

static void increments_of_workers_are_subtracted(void **state)
{
    (void)state;
    train_and_compare(2, 2, 10, 0, ", \"optimizer\": {\"side\": \"OPTIMIZER_SIDE_WORKER\"}");
}

static void what_was_sent_is_counted_beside_what_float32_would_be(void **state)
{
    enum { STEPS = 8 };
    exchange_world w;
    const ps_exchange_stats *s;
    uint64_t plain;

    (void)state;
    xw_begin(&w, 2, 2, FAKE_CHAINED, STEPS, 0,
             ", \"codec\": {\"up\": {\"name\": \"int8\"}, \"down\": {\"name\": \"f16\"}}");
    xw_start(&w);
    xw_join(&w);
    plain = STEPS * w.job.plan->layout.param_count * sizeof(float);
    for (uint32_t i = 0; i < w.worker_count; i++) {
        s = &w.workers[i].stats;
        assert_int_equal(s->bytes_up_float32, plain);
        assert_int_equal(s->bytes_down_float32, plain);
        assert_in_range(s->bytes_up, plain / 4, plain / 4 + plain / 50);
        assert_in_range(s->bytes_down, plain / 2, plain / 2 + plain / 50);
        assert_in_range(s->messages_up, 2 * STEPS, 20 * STEPS);
    }
    xw_end(&w);
}

static void messages_become_as_short_as_a_slow_link_wants_them(void **state)
{
    const size_t full = PS_PAYLOAD_MAX, contribution = 4800000;
    const int64_t slow = 400000; /* 12 MB/s */
    size_t bytes = full;

    (void)state;
    assert_int_equal(ps_connection_message_bytes(full, contribution, 2000), full);
    assert_int_equal(ps_connection_message_bytes(full, contribution, 0), full);
    for (int i = 0; i < 3; i++) { /* by halves */
        size_t next = ps_connection_message_bytes(bytes, contribution, slow);

        assert_int_equal(next, bytes / 2);
        bytes = next;
    }
    bytes = ps_connection_message_bytes(bytes, contribution, slow);
    assert_int_equal(bytes, 120000);
    assert_int_equal(ps_connection_message_bytes(bytes, contribution, slow), 120000);
    assert_int_equal(ps_connection_message_bytes(bytes, 1000, slow), bytes); /* too few to tell */
    assert_int_equal(ps_connection_message_bytes(bytes, contribution, 100 * slow),
                     CONNECTION_MESSAGE_LEAST);
    assert_int_equal(ps_connection_message_bytes(bytes, contribution, 2000), full); /* at once */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_gives_the_twin_s_bits_with_any_number_of_workers_and_servers),
        cmocka_unit_test(messages_of_a_mebibyte_and_many_slices_arrive),
        cmocka_unit_test(gradient_average_gives_the_twin_s_bits),
        cmocka_unit_test(codecs_both_ways_give_the_twin_s_bits),
        cmocka_unit_test(every_codec_leaves_all_workers_with_the_same_bits),
        cmocka_unit_test(matrices_go_whole_to_any_number_of_servers),
        cmocka_unit_test(what_an_encoding_lost_is_in_the_next_one),
        cmocka_unit_test(what_was_lost_is_added_once_however_often_it_is_sent),
        cmocka_unit_test(encodings_whose_size_depends_on_the_data_arrive),
        cmocka_unit_test(encodings_of_nothing_stand_for_zeros),
        cmocka_unit_test(increments_of_workers_are_subtracted),
        cmocka_unit_test(messages_become_as_short_as_a_slow_link_wants_them),
        cmocka_unit_test(what_was_sent_is_counted_beside_what_float32_would_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
