/* SPDX-License-Identifier: Apache-2.0 */
/* test_evaluation.c - shares of a test set make the bits of the whole. */
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "common/train/evaluation.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, TEST = 1130 }; /* five batches, the last not full */

typedef struct world {
    ps_plan *plan;
    ps_model *model;
    float *weights, *x, *t; /* x, t: all samples */
} world;

static ps_plan *plan_of(const char *json)
{
    ProtobufCMessage *message = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_plan *plan = NULL;
    ps_status st;

    assert_non_null(tree);
    st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &message);
    assert_string_equal(st.text, "");
    st = ps_plan_create((const Psgd__V1__JobSpec *)message, NULL, NULL, &plan);
    assert_string_equal(st.text, "");
    protobuf_c_message_free_unpacked(message, NULL);
    json_decref(tree);
    return plan;
}

static void add_metric(const ps_metric *metric, void *arg)
{
    char *json = arg;
    size_t at = strlen(json);

    snprintf(json + at, 2048 - at, "%s{\"name\":\"%s\"}", at == 0 ? "" : ",", metric->name);
}

static void begin(world *w)
{
    char metrics[2048] = "", json[4096];

    ps_metric_each(add_metric, metrics);
    snprintf(json, sizeof json,
             "{\"workers\":%d,\"split_evaluation\":true,\"metrics\":[%s],"
             "\"model\":{\"widths\":[16]},\"data\":{\"train_limit\":600,\"test_limit\":%d}}",
             WORKERS, metrics, TEST);
    w->plan = plan_of(json);
    assert_true(w->plan->metric_count >= 15);
}

static void load(world *w)
{
    ps_status st = ps_plan_model(w->plan, PS_EVALUATION_BATCH, &w->model);
    size_t features = w->plan->facts.features;
    uint64_t key = ps_draw_key(3, PS_DRAW_TEST, 0, 0, 0);

    assert_string_equal(st.text, "");
    w->weights = ps_xcalloc(w->plan->layout.param_count, sizeof(float));
    ps_model_init(w->model, 1, w->weights);
    w->x = ps_xcalloc(TEST * features, sizeof(float));
    w->t = ps_xcalloc(TEST, sizeof(float));
    for (size_t i = 0; i < TEST * features; i++) {
        w->x[i] = (float)(ps_draw_unit(key, i) - 0.5);
    }
    for (size_t i = 0; i < TEST; i++) {
        w->t[i] = (float)ps_draw_below(~key, i, 10);
    }
}

static void end(world *w)
{
    ps_model_destroy(w->model);
    ps_plan_destroy(w->plan);
    free(w->weights);
    free(w->x);
    free(w->t);
}

/* The share of a worker, or, for WORKERS, everything. */
static void evaluate(const world *w, uint32_t rank, ps_evaluation *e)
{
    ps_evaluation_init(e, w->plan);
    for (uint32_t at = 0; at < TEST; at += PS_EVALUATION_BATCH) {
        size_t n = TEST - at < PS_EVALUATION_BATCH ? TEST - at : PS_EVALUATION_BATCH;

        if (rank == WORKERS || ps_evaluation_has(w->plan, rank, at / PS_EVALUATION_BATCH)) {
            ps_evaluation_add(e, w->model, w->weights, w->x + at * w->plan->facts.features,
                              ps_targets_classes(w->t + at), n);
        }
    }
}

/* To be freed. */
static uint8_t *form_of(ps_evaluation *e, size_t *len)
{
    uint8_t *bytes;

    *len = ps_evaluation_bytes(e);
    bytes = ps_xmalloc(*len);
    ps_evaluation_write(e, bytes);
    return bytes;
}

static void expect_same(ps_evaluation *got, ps_evaluation *want)
{
    double a[PS_METRICS_MAX], b[PS_METRICS_MAX], x = ps_evaluation_loss(got),
                                                 y = ps_evaluation_loss(want);
    size_t got_len, want_len;
    uint8_t *p = form_of(got, &got_len), *q = form_of(want, &want_len);

    assert_int_equal(got_len, want_len);
    assert_memory_equal(p, q, got_len);
    ps_evaluation_values(got, a);
    ps_evaluation_values(want, b);
    assert_memory_equal(a, b, got->plan->metric_count * sizeof *a);
    assert_memory_equal(&x, &y, sizeof x);
    free(p);
    free(q);
}

static void shares_merge_to_the_bits_of_the_whole_in_any_order(void **state)
{
    ps_evaluation whole, merged, part;
    world w;

    (void)state;
    begin(&w);
    load(&w);
    evaluate(&w, WORKERS, &whole);
    assert_int_equal(whole.samples, TEST);
    for (uint32_t first = 0; first < WORKERS; first++) {
        ps_evaluation_init(&merged, w.plan);
        for (uint32_t i = 0; i < WORKERS; i++) {
            size_t len;
            uint8_t *bytes;
            ps_status st;

            evaluate(&w, (first + i) % WORKERS, &part);
            assert_true(part.samples > 0 && part.samples < TEST);
            bytes = form_of(&part, &len);
            assert_true(len <= PS_EVALUATION_PART_MAX);
            st = ps_evaluation_merge_part(&merged, bytes, len);
            assert_string_equal(st.text, "");
            free(bytes);
            ps_evaluation_fini(&part);
        }
        expect_same(&merged, &whole);
        ps_evaluation_fini(&merged);
    }
    ps_evaluation_fini(&whole);
    end(&w);
}

static void a_part_that_is_none_is_refused_and_changes_nothing(void **state)
{
    ps_evaluation e, before;
    world w;
    uint8_t *bytes;
    size_t len;
    ps_status st;

    (void)state;
    begin(&w);
    load(&w);
    evaluate(&w, 1, &e);
    evaluate(&w, 1, &before);
    bytes = form_of(&e, &len);
    for (size_t cut = 0; cut < len; cut += 1 + cut / 16) {
        uint8_t *copy = ps_xmalloc(cut + 1); /* so that reading on is seen */

        memcpy(copy, bytes, cut);
        st = ps_evaluation_merge_part(&e, copy, cut);
        assert_int_equal(st.code, PS_DATA_LOSS);
        free(copy);
    }
    bytes[PS_SUM_BYTES]++; /* samples */
    st = ps_evaluation_merge_part(&e, bytes, len);
    assert_int_equal(st.code, PS_DATA_LOSS);
    assert_non_null(strstr(st.text, "samples"));
    expect_same(&e, &before);
    free(bytes);
    ps_evaluation_fini(&e);
    ps_evaluation_fini(&before);
    end(&w);
}

static void without_a_split_every_batch_is_everybody_s(void **state)
{
    ps_plan *plan = plan_of("{\"workers\":3}");

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (uint32_t batch = 0; batch < 9; batch++) {
            assert_true(ps_evaluation_has(plan, rank, batch));
        }
    }
    ps_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_merge_to_the_bits_of_the_whole_in_any_order),
        cmocka_unit_test(a_part_that_is_none_is_refused_and_changes_nothing),
        cmocka_unit_test(without_a_split_every_batch_is_everybody_s),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
