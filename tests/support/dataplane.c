/* SPDX-License-Identifier: Apache-2.0 */
/* dataplane.c - see dataplane.h. */
#include "tests/support/dataplane.h"

#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "common/train/merge.h"
#include "services/pserver/pserver.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- job ------------------------------------------------------------------- */

static void say(void *arg, const char *field, const char *text)
{
    (void)arg;
    fprintf(stderr, "%s: %s\n", field, text);
}

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s\n", st.text);
        abort();
    }
}

void dp_job_init(dp_job *job, const char *json)
{
    ProtobufCMessage *message = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_model *model = NULL;

    assert(tree != NULL);
    must(ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &message));
    json_decref(tree);
    must(ps_plan_create((Psgd__V1__JobSpec *)message, say, NULL, &job->plan));
    protobuf_c_message_free_unpacked(message, NULL);
    must(ps_plan_model(job->plan, 1, &model));
    job->weights = ps_xcalloc(job->plan->layout.param_count, sizeof *job->weights);
    ps_model_init(model, job->plan->spec->seed, job->weights);
    ps_model_destroy(model);
    job->addresses = ps_xcalloc(job->plan->layout.server_count, sizeof *job->addresses);
    job->ids = ps_xcalloc(job->plan->layout.server_count, sizeof *job->ids);
    for (uint32_t i = 0; i < job->plan->layout.server_count; i++) {
        snprintf(job->ids[i], sizeof job->ids[i], "ps-%u", i);
    }
    job->worker_addresses = ps_xcalloc(job->plan->spec->workers, sizeof *job->worker_addresses);
    job->worker_ids = ps_xcalloc(job->plan->spec->workers, sizeof *job->worker_ids);
    for (uint32_t i = 0; i < job->plan->spec->workers; i++) {
        snprintf(job->worker_ids[i], sizeof job->worker_ids[i], "worker-%u", i);
    }
}

void dp_job_fini(dp_job *job)
{
    ps_plan_destroy(job->plan);
    free(job->weights);
    free(job->addresses);
    free(job->ids);
    free(job->worker_addresses);
    free(job->worker_ids);
}

void dp_gather(const ps_layout *layout, uint32_t server, const float *block, float *slices)
{
    for (uint32_t i = 0; i < layout->owned_count[server]; i++) {
        const ps_slice *slice = &layout->slices[layout->owned[server][i]];

        memcpy(slices, block + slice->at, slice->n * sizeof *slices);
        slices += slice->n;
    }
}

void dp_scatter(const ps_layout *layout, uint32_t server, const float *slices, float *block)
{
    for (uint32_t i = 0; i < layout->owned_count[server]; i++) {
        const ps_slice *slice = &layout->slices[layout->owned[server][i]];

        memcpy(block + slice->at, slices, slice->n * sizeof *slices);
        slices += slice->n;
    }
}

static void session_init(const dp_job *job, uint32_t rank, ps_session *session)
{
    *session = (ps_session){
        .job_id = "job-1",
        .attempt = 1,
        .rank = rank,
        .plan = job->plan,
        .server_count = job->plan->layout.server_count,
        .worker_count = job->plan->spec->workers,
        .servers = job->addresses,
        .server_ids = job->ids,
        .workers = job->worker_addresses,
        .worker_ids = job->worker_ids,
    };
    session->weight_count = job->plan->layout.param_count;
    session->weights = ps_xcalloc(session->weight_count, sizeof *session->weights);
}

void dp_worker_session(const dp_job *job, uint32_t rank, ps_session *session)
{
    session_init(job, rank, session);
    memcpy(session->weights, job->weights, session->weight_count * sizeof *session->weights);
}

void dp_session_fini(ps_session *session)
{
    free(session->weights);
}

/* --- server ---------------------------------------------------------------- */

static void serve(void *arg)
{
    dp_server *s = arg;

    must(ps_server_start(s->on->loop, &s->service, 1, s->address, &s->server));
    snprintf(s->address, sizeof s->address, "127.0.0.1:%d", ps_server_port(s->server));
}

static void open_streams(void *arg)
{
    dp_server *s = arg;

    ps_wire_server_open(s->streams, &s->session, s->shard);
    if (s->tables != NULL) {
        ps_wire_server_open_tables(s->streams, s->tables);
    }
    serve(s);
}

void dp_server_start(dp_server *s, side *on, dp_job *job, uint32_t rank, uint64_t drop_ack)
{
    *s = (dp_server){.job = job, .on = on, .address = "127.0.0.1:0"};
    session_init(job, rank, &s->session);
    dp_gather(&job->plan->layout, rank, job->weights, s->session.weights);
    s->shard = ps_pserver_shard(&s->session);
    s->tables = job->plan->has_tables ? ps_merge_tables(job->plan, rank) : NULL;
    s->streams = ps_wire_server_create(on->loop, drop_ack, NULL, NULL);
    s->service = ps_wire_server_service(s->streams);
    side_run(on, open_streams, s);
    snprintf(job->addresses[rank], sizeof job->addresses[rank], "%s", s->address);
}

typedef struct ending {
    dp_server *s;
    flag down;
    bool close;
} ending;

static void close_streams(void *arg)
{
    dp_server *s = arg;

    ps_wire_server_close(s->streams, "the test is over");
}

static void begin_end(void *arg)
{
    ending *e = arg;

    if (e->close) {
        close_streams(e->s);
    }
    if (e->s->server == NULL) {
        flag_raise(&e->down);
        return;
    }
    ps_server_stop(e->s->server, 0, &e->down.event);
    e->s->server = NULL;
}

static void end(dp_server *s, bool close)
{
    ending e = {.s = s, .close = close};

    flag_init(&e.down);
    side_run(s->on, begin_end, &e);
    flag_wait(&e.down);
    flag_fini(&e.down);
}

void dp_server_break(dp_server *s)
{
    end(s, false);
}

void dp_server_resume(dp_server *s)
{
    side_run(s->on, serve, s);
}

void dp_server_close(dp_server *s)
{
    side_run(s->on, close_streams, s);
}

void dp_server_stop(dp_server *s)
{
    end(s, true);
}

void dp_server_fini(dp_server *s)
{
    ps_shard_destroy(s->shard);
    ps_tables_destroy(s->tables);
    ps_wire_server_destroy(s->streams);
    dp_session_fini(&s->session);
}

typedef struct reading {
    dp_server *s;
    float *block;
} reading;

static void read_weights(void *arg)
{
    reading *r = arg;

    dp_scatter(&r->s->job->plan->layout, r->s->session.rank, ps_shard_weights(r->s->shard),
               r->block);
}

void dp_server_weights(dp_server *s, float *block)
{
    reading r = {s, block};

    side_run(s->on, read_weights, &r);
}
