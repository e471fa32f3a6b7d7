/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_world.c - see wire_server_world.h. */
#include "tests/support/wire_server_world.h"

#include "common/base/xalloc.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sw_begin(wire_server_world *w, uint32_t workers, const char *choices, uint64_t drop_ack)
{
    char json[1024];

    snprintf(json, sizeof json,
             "{\"workers\": %u, \"pservers\": 1, \"seed\": 3, \"data\": {\"name\": \"glyphs\"}, "
             "\"block_size\": 1, \"optimizer\": {\"rule\": {\"name\": \"sgd\", \"params\": "
             "{\"lr\": 1}}}%s%s}",
             workers, strstr(choices, "model") != NULL ? "" : ", \"model\": {\"widths\": [30]}",
             choices);
    dp_job_init(&w->job, json);
    for (size_t i = 0; i < w->job.plan->layout.param_count; i++) {
        w->job.weights[i] = 1000.0f; /* a whole number, so that sums are exact */
    }
    side_start(&w->serving);
    side_start(&w->calling);
    dp_server_start(&w->server, &w->serving, &w->job, 0, drop_ack);
}

void sw_end(wire_server_world *w)
{
    dp_server_stop(&w->server);
    dp_server_fini(&w->server);
    side_stop(&w->serving);
    side_stop(&w->calling);
    dp_job_fini(&w->job);
}

void sw_identify(const wire_server_world *w, Psgd__V1__WorkerIdentity *who, uint32_t rank)
{
    psgd__v1__worker_identity__init(who);
    who->job_id = (char *)w->server.session.job_id;
    who->rank = rank;
    who->incarnation = 5;
    who->layout_hash = w->job.plan->layout.hash;
}

void sw_gift_init(const wire_server_world *w, sw_gift *g, uint64_t clock, uint32_t first,
                  uint32_t count, float value)
{
    const ps_layout *layout = &w->job.plan->layout;
    size_t n = 0;

    assert_in_range(count, 0, SW_SLICES_MAX);
    memset(g, 0, sizeof *g);
    psgd__v1__push_gradient_request__init(&g->head);
    psgd__v1__f32__init(&g->f32);
    psgd__v1__int8__init(&g->int8);
    sw_identify(w, &g->who, 0);
    g->head.worker = &g->who;
    g->head.attempt = 1;
    g->head.clock = clock;
    g->head.slices = g->pointers;
    g->head.n_slices = count;
    for (uint32_t i = 0; i < count; i++) {
        Psgd__V1__Encoding *e = g->pointers[i] = &g->slices[i];

        psgd__v1__encoding__init(e);
        e->slice = first + i;
        e->payload_bytes = layout->slices[first + i].n * (uint32_t)sizeof(float);
        e->codec_case = PSGD__V1__ENCODING__CODEC_F32;
        e->f32 = &g->f32;
        g->bytes += e->payload_bytes;
        n += layout->slices[first + i].n;
    }
    g->values = ps_xcalloc(n + 1, sizeof *g->values);
    for (size_t i = 0; i < n; i++) {
        g->values[i] = value;
    }
}

void sw_gift_whole(const wire_server_world *w, sw_gift *g, uint64_t clock, float value)
{
    sw_gift_init(w, g, clock, 0, w->job.plan->layout.slice_count, value);
}

void sw_gift_send(sw_gift *g, raw_stream *s)
{
    assert_true(raw_send(s, &g->head.base, g->values, g->bytes));
    free(g->values);
}

pull_t sw_pull(uint64_t clock, Psgd__V1__WorkerIdentity *who)
{
    pull_t req = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;

    req.worker = who;
    req.attempt = 1;
    req.clock = clock;
    return req;
}

void sw_open_push(wire_server_world *w, raw_stream *s)
{
    raw_open(s, &w->calling, w->server.address, "PushGradient", true);
}

void sw_open_pull(wire_server_world *w, raw_stream *s, bool is_reading)
{
    raw_open(s, &w->calling, w->server.address, "PullWeights", is_reading);
}

float sw_first_weight(wire_server_world *w)
{
    float *block = ps_xcalloc(w->job.plan->layout.param_count, sizeof *block), value;

    dp_server_weights(&w->server, block);
    value = block[0];
    free(block);
    return value;
}

void sw_must_end(raw_stream *s, ps_code code, const char *reason)
{
    const ps_error *e = raw_end(s);

    if (e->status.code != code || strcmp(e->reason, reason) != 0) {
        fail_msg("%s ended with %s, %s: %s; should be %s, %s", s->method,
                 ps_code_name(e->status.code), e->reason, e->status.text, ps_code_name(code),
                 reason);
    }
}

void sw_push_honestly(wire_server_world *w, uint64_t clock, uint32_t rank, float value)
{
    static sw_gift g;
    raw_stream s;

    sw_open_push(w, &s);
    sw_gift_whole(w, &g, clock, value);
    g.who.rank = rank;
    g.head.block = rank;
    sw_gift_send(&g, &s);
    assert_true(raw_wait(&s, 1));
    assert_int_equal(s.messages[0].clock, clock);
    assert_int_equal(s.messages[0].block, rank);
    raw_close(&s);
}
