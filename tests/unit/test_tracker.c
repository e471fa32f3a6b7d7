/* SPDX-License-Identifier: Apache-2.0 */
/* test_tracker.c - what a track asks of MLflow, and what becomes of it when answers are bad. */
#include "tests/support/cmocka_all.h"
#include "tests/support/plan_rig.h"

#include "common/base/xalloc.h"
#include "common/tracker/tracker_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- addresses ---------------------------------------------------------------------- */

static void addresses_are_plain(void **state)
{
    static const char *const bad[] = {
        "",
        "http://a:1",
        "mlflow:",
        "mlflow:http://",
        "mlflow:http:///x",
        "mlflow:http://:5000",
        "mlflow:http://a:0",
        "mlflow:http://a:70000",
        "mlflow:ftp://a:1",
        "mlflow:http://me:word@a:1",
        "mlflow:http://a:1/../b",
        "mlflow:http://a:1/x?y",
        "mlflow:http://a:1/x#y",
        "mlflow:http://a:1//b",
        "mlflow:http://a b:1",
        "mlflow:http://a:1/\r\nHost: b",
        "mlflow:http://[fe80::1%eth0\r\nX: y]:1",
    };
    ps_tracker_url url;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ps_status st = ps_tracker_url_parse(bad[i], &url);

        assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    }
    assert_int_equal(ps_tracker_url_parse("mlflow:http://a:5000/", &url).code, PS_OK);
    assert_string_equal(url.base, "http://a:5000");
    assert_int_equal(ps_tracker_url_parse("mlflow:https://[::1]/ml/x", &url).code, PS_OK);
    assert_string_equal(url.base, "https://[::1]:443/ml/x");
    assert_true(url.is_tls);
}

static void jobs_name_each_tracker_once(void **state)
{
    (void)state;
    ps_plan_destroy(plan_of("{\"tracker\":[\"mlflow:http://a:1\",\"mlflow:https://b/c\"]}"));
    assert_refused("{\"tracker\":[\"http://a:1\"]}", "spec.tracker[0]", "mlflow:http://HOST:PORT");
    assert_refused("{\"tracker\":[\"mlflow:http://a\",\"mlflow:http://a\"]}", "spec.tracker[1]",
                   "is there twice");
    assert_refused("{\"tracker\":[\"\",\"\",\"\",\"\",\"\"]}", "spec.tracker", "at most 4");
}

/* --- parameters and answers --------------------------------------------------------- */

static const char *value_of(const ps_mlflow_params *params, const char *key)
{
    for (size_t i = 0; i < params->count; i++) {
        if (strcmp(params->items[i].key, key) == 0) {
            return params->items[i].value;
        }
    }
    return "";
}

static void parameters_fit_mlflow(void **state)
{
    char text[1200] = "{\"tracker\": [\"mlflow:http://a\"], \"a b/c\": {\"x\": [1, 2.5, true]}, "
                      "\"none\": null, \"empty\": \"\", \"long\": \"";
    ps_mlflow_params params;
    json_t *spec;

    (void)state;
    for (int i = 0; i < 501; i++) {
        strcat(text, i == 499 ? "\xc3\xa4" : "y");
    }
    strcat(text, "\"}");
    spec = json_loads(text, 0, NULL);
    assert_non_null(spec);
    ps_mlflow_params_of(spec, &params);
    assert_int_equal(params.count, 4);
    assert_string_equal(value_of(&params, "a_b_c.x.0"), "1");
    assert_string_equal(value_of(&params, "a_b_c.x.1"), "2.5");
    assert_string_equal(value_of(&params, "a_b_c.x.2"), "true");
    assert_int_equal(strlen(value_of(&params, "long")), 501); /* 500 characters, one of two bytes */
    ps_mlflow_params_fini(&params);
    json_decref(spec);
}

static void files_go_to_the_tracker_only(void **state)
{
    static const char *const uris[][2] = {
        {"mlflow-artifacts:/0/r/artifacts", "/0/r/artifacts/"},
        {"mlflow-artifacts://other:1/0/r/artifacts", "/0/r/artifacts/"},
        {"s3://bucket/0/r", ""},
        {"/srv/mlruns/0/r", ""},
        {"http://other/0/r", ""},
        {"mlflow-artifacts:/0/../../x", ""},
        {"mlflow-artifacts:/0/r?x", ""},
        {"mlflow-artifacts:/", ""},
    };
    ps_tracker_url url;
    ps_mlflow_run run;

    (void)state;
    assert_int_equal(ps_tracker_url_parse("mlflow:http://a:5000/ml", &url).code, PS_OK);
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        json_t *answer = json_pack("{s:{s:{s:s, s:s}}}", "run", "info", "run_id", "r1",
                                   "artifact_uri", uris[i][0]);
        char expected[200] = "";

        if (uris[i][1][0] != '\0') {
            snprintf(expected, sizeof expected,
                     "http://a:5000/ml/api/2.0/mlflow-artifacts/artifacts%s", uris[i][1]);
        }
        assert_true(ps_mlflow_read_run(answer, &url, &run));
        assert_string_equal(run.files, expected);
        json_decref(answer);
    }
}

/* --- a track ------------------------------------------------------------------------ */

typedef struct rig {
    ps_track *track;
    atomic_uint_fast64_t dropped;
    int64_t now_us;
    char last[4096]; /* body of the last request */
} rig;

static void wake(void *arg)
{
    (void)arg;
}

static void set_up(rig *r)
{
    ps_track *t = ps_xcalloc(1, sizeof *t);
    json_t *spec = json_pack("{s:i}", "seed", 7);

    *r = (rig){.track = t, .now_us = 1000000};
    assert_int_equal(ps_tracker_url_parse("mlflow:http://a:5000", &t->url).code, PS_OK);
    t->job = (ps_mlflow_job){ps_xstrdup("job-1"), ps_xstrdup("job"), ps_xstrdup(""), 5};
    ps_mlflow_params_of(spec, &t->params);
    json_decref(spec);
    t->batch = ps_xcalloc(PS_MLFLOW_METRICS_MAX, sizeof *t->batch);
    t->dropped_of_all = &r->dropped;
    t->wake = wake;
    pthread_mutex_init(&t->lock, NULL);
}

/* Expects a request whose address ends with `call`, and answers it. `text` is JSON; status 0: the
 * tracker does not answer. */
static void serve(rig *r, const char *call, long status, const char *text)
{
    ps_track_request request;
    json_t *json = json_loads(text, 0, NULL);
    ps_track_answer answer = {
        .failure = status == 0 ? "refused" : NULL, .http = status, .json = json};
    size_t n = strlen(call);

    assert_true(ps_track_next(r->track, r->now_us, &request));
    assert_true(strlen(request.address) > n);
    assert_string_equal(request.address + strlen(request.address) - n, call);
    snprintf(r->last, sizeof r->last, "%s", request.body != NULL ? request.body : "");
    free(request.body);
    ps_track_answered(r->track, &answer, r->now_us);
    json_decref(json);
}

/* Passes time until the track may ask. */
static void pass(rig *r, int64_t at_least_us, int64_t at_most_us)
{
    ps_track_request request;

    assert_false(ps_track_next(r->track, r->now_us, &request));
    assert_true(r->track->due_us - r->now_us >= at_least_us);
    assert_true(r->track->due_us - r->now_us <= at_most_us);
    r->now_us = r->track->due_us;
}

static void until_params(rig *r)
{
    serve(r, "experiments/get-by-name?experiment_name=job", 200,
          "{\"experiment\": {\"experiment_id\": \"3\"}}");
    serve(r, "runs/search", 200, "{}");
    serve(r, "runs/create", 200,
          "{\"run\": {\"info\": {\"run_id\": \"r1\", \"artifact_uri\": "
          "\"mlflow-artifacts:/3/r1\"}}}");
}

static void add(rig *r, size_t count, uint64_t from)
{
    for (size_t i = 0; i < count; i++) {
        ps_mlflow_metric m = {.key = "loss", .value = 0.5, .step = from + i, .sequence = from + i};

        ps_track_metrics(r->track, &m, 1);
    }
}

static void a_full_queue_drops_the_oldest(void **state)
{
    rig r;

    (void)state;
    set_up(&r);
    until_params(&r);
    serve(&r, "runs/log-batch", 200, "{}");
    add(&r, PS_TRACK_METRICS_MAX, 1);
    assert_int_equal(r.dropped, 0);
    add(&r, 10, PS_TRACK_METRICS_MAX + 1);
    assert_int_equal(r.dropped, 10);
    serve(&r, "runs/log-batch", 200, "{}");
    assert_non_null(strstr(r.last, "\"step\":11}"));
    assert_null(strstr(r.last, "\"step\":10}"));
    assert_int_equal(r.track->sequence, 10 + PS_MLFLOW_METRICS_MAX);
    assert_non_null(strstr(r.track->message, "values are dropped"));
    r.track->is_news = false;
    add(&r, PS_TRACK_METRICS_MAX, 9000);
    pass(&r, 1, 1000000);
    serve(&r, "runs/log-batch", 200, "{}");
    assert_false(r.track->is_news); /* said once */
    ps_track_free(r.track);
}

static void values_that_are_not_finite_stay_out(void **state)
{
    ps_mlflow_metric m[] = {{.key = "loss", .value = (double)NAN},
                            {.key = "loss", .value = (double)INFINITY}};
    rig r;

    (void)state;
    set_up(&r);
    ps_track_metrics(r.track, m, 2);
    assert_int_equal(r.track->queue_count, 0);
    ps_track_free(r.track);
}

static void what_fails_is_asked_again_after_growing_pauses(void **state)
{
    static const long statuses[] = {0, 500, 503, 429, 408, 0, 0, 0, 0, 0};
    int64_t floor_us = 375000;
    rig r;

    (void)state;
    set_up(&r);
    until_params(&r);
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        serve(&r, "runs/log-batch", statuses[i], "null");
        pass(&r, floor_us, 60000000);
        floor_us = floor_us < 22500000 ? 2 * floor_us : 45000000;
    }
    serve(&r, "runs/log-batch", 200, "{}");
    assert_int_equal(r.track->failures, 0);
    assert_string_equal(r.track->message, "");
    ps_track_free(r.track);
}

static void a_refused_batch_is_lost_and_the_run_goes_on(void **state)
{
    rig r;

    (void)state;
    set_up(&r);
    until_params(&r);
    serve(&r, "runs/log-batch", 400, "{\"error_code\": \"BAD\", \"message\": \"no\\u001b way\"}");
    assert_string_equal(r.track->message,
                        "parameters are missing: it answers HTTP 400 BAD: no? way");
    add(&r, 3, 1);
    serve(&r, "runs/log-batch", 400, "{}");
    assert_int_equal(r.dropped, 3);
    assert_memory_equal(r.track->message, "parameters", 10); /* said once */
    assert_int_equal(r.track->stage, PS_TRACK_METRICS);
    add(&r, 1, 4);
    serve(&r, "runs/log-batch", 200, "{}");
    assert_int_equal(r.track->sequence, 4);
    ps_track_free(r.track);
}

static void without_a_run_nothing_is_kept(void **state)
{
    static const char *const answers[] = {"{}", "{\"run\": {\"info\": {\"run_id\": \"a/../b\"}}}"};
    rig r;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        set_up(&r);
        add(&r, 5, 1);
        serve(&r, "experiments/get-by-name?experiment_name=job", 404, "{}");
        serve(&r, "experiments/create", 200, "{\"experiment_id\": \"3\"}");
        serve(&r, "runs/search", 200, "{\"runs\": []}");
        serve(&r, "runs/create", 200, answers[i]);
        assert_int_equal(r.track->stage, PS_TRACK_OVER);
        add(&r, 2, 6);
        assert_int_equal(r.dropped, 7);
        ps_track_free(r.track);
    }
}

static void the_end_is_given_up_after_a_day(void **state)
{
    const ps_track_end end = {.how = PS_MLFLOW_FAILED, .end_ms = 9, .folder = ""};
    rig r;

    (void)state;
    set_up(&r);
    ps_track_end_run(r.track, &end);
    for (int i = 0; i < 100; i++) {
        serve(&r, "experiments/get-by-name?experiment_name=job", 0, "null");
        pass(&r, 375000, 60000000);
    }
    r.now_us += PS_TRACK_PATIENCE_S * INT64_C(1000000);
    serve(&r, "experiments/get-by-name?experiment_name=job", 0, "null");
    assert_int_equal(r.track->stage, PS_TRACK_OVER);
    ps_track_free(r.track);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_plain),
        cmocka_unit_test(jobs_name_each_tracker_once),
        cmocka_unit_test(parameters_fit_mlflow),
        cmocka_unit_test(files_go_to_the_tracker_only),
        cmocka_unit_test(a_full_queue_drops_the_oldest),
        cmocka_unit_test(values_that_are_not_finite_stay_out),
        cmocka_unit_test(what_fails_is_asked_again_after_growing_pauses),
        cmocka_unit_test(a_refused_batch_is_lost_and_the_run_goes_on),
        cmocka_unit_test(without_a_run_nothing_is_kept),
        cmocka_unit_test(the_end_is_given_up_after_a_day),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
