/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_world.c - see exchange_world.h. */
#include "tests/support/exchange_world.h"

#include "common/base/xalloc.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void xw_begin(exchange_world *w, uint32_t workers, uint32_t servers, fake_kind kind, uint64_t steps,
              uint64_t drop_ack, const char *choices)
{
    char json[1024];

    memset(w, 0, sizeof *w);
    w->worker_count = workers;
    w->server_count = servers;
    snprintf(
        json, sizeof json,
        "{\"workers\": %u, \"pservers\": %u, \"block_size\": 4, \"seed\": 11, "
        "\"data\": {\"name\": \"glyphs\"}%s%s%s}",
        workers, servers, strstr(choices, "model") != NULL ? "" : ", \"model\": {\"widths\": [30]}",
        strstr(choices, "timeouts") != NULL ? "" : ", \"timeouts\": {\"step_ms\": 60000}", choices);
    dp_job_init(&w->job, json);
    if (kind == FAKE_COUNTED) {
        for (size_t i = 0; i < w->job.plan->layout.param_count; i++) {
            w->job.weights[i] = (float)(i % 100);
        }
    }
    side_start(&w->serving);
    side_start(&w->working);
    for (uint32_t i = 0; i < servers; i++) {
        dp_server_start(&w->servers[i], &w->serving, &w->job, i, drop_ack);
    }
    for (uint32_t i = 0; i < workers; i++) {
        w->workers[i].job = &w->job;
        w->workers[i].on = &w->working;
        w->workers[i].kind = kind;
        w->workers[i].steps = steps;
        w->workers[i].incarnation = 1;
        if (w->job.plan->mesh != NULL) {
            fake_worker_listen(&w->workers[i], i);
        }
    }
}

void xw_start(exchange_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        fake_worker_start(&w->workers[i], i);
    }
}

void xw_join(exchange_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        fake_worker_join(&w->workers[i]);
    }
}

void xw_end(exchange_world *w)
{
    for (uint32_t i = 0; i < w->server_count; i++) {
        dp_server_stop(&w->servers[i]);
        dp_server_fini(&w->servers[i]);
    }
    for (uint32_t i = 0; i < w->worker_count; i++) {
        fake_worker_fini(&w->workers[i]);
    }
    side_stop(&w->serving);
    side_stop(&w->working);
    dp_job_fini(&w->job);
}

static void must_be_equal(const float *got, const float *want, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof got[i]) != 0) {
            fail_msg("%s: value %zu is %.9g, should be %.9g", what, i, (double)got[i],
                     (double)want[i]);
        }
    }
}

static void must_have_come_to_the_end(exchange_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        if (w->workers[i].failure.text[0] != '\0') {
            fprintf(stderr, "worker %u: %s\n", i, w->workers[i].failure.text);
        }
    }
    for (uint32_t i = 0; i < w->worker_count; i++) {
        assert_string_equal(w->workers[i].failure.text, "");
        assert_false(w->workers[i].went_home);
    }
}

void xw_must_be_alike(exchange_world *w)
{
    size_t n = w->job.plan->layout.param_count;
    const float *first = w->workers[0].session.weights;

    must_have_come_to_the_end(w);
    assert_true(memcmp(first, w->job.weights, n * sizeof *first) != 0);
    for (uint32_t i = 1; i < w->worker_count; i++) {
        must_be_equal(w->workers[i].session.weights, first, n, "worker");
    }
}

void xw_must_be_as_the_twin(exchange_world *w)
{
    size_t n = w->job.plan->layout.param_count;
    float *servers = ps_xcalloc(n, sizeof *servers), *workers = ps_xcalloc(n, sizeof *workers);
    float *got = ps_xcalloc(n, sizeof *got);

    must_have_come_to_the_end(w);
    fake_twin(&w->job, w->workers[0].kind, w->workers[0].steps, servers, workers);
    assert_true(memcmp(servers, w->job.weights, n * sizeof *servers) != 0);
    for (uint32_t i = 0; i < w->server_count; i++) {
        dp_server_weights(&w->servers[i], got);
    }
    if (w->server_count > 0) {
        must_be_equal(got, servers, n, "servers");
    }
    for (uint32_t i = 0; i < w->worker_count; i++) {
        must_be_equal(w->workers[i].session.weights, workers, n, "worker");
    }
    free(servers);
    free(workers);
    free(got);
}
