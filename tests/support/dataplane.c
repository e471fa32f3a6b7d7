/* SPDX-License-Identifier: Apache-2.0 */
/* dataplane.c - see dataplane.h. */
#include "tests/support/dataplane.h"

#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "common/rpc/serve.h"
#include "common/train/merge.h"

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
    ps_placement_init(&job->placement, &job->plan->layout, job->plan->spec->pservers,
                      job->plan->spec->workers);
    for (uint32_t i = 0; i < job->placement.server_count; i++) {
        snprintf(job->placement.servers[i].node_id, PS_ENDPOINT_ID_MAX, "ps-%u", i);
    }
    for (uint32_t i = 0; i < job->placement.rank_count; i++) {
        char id[PS_ENDPOINT_ID_MAX];

        snprintf(id, sizeof id, "worker-%u", i);
        /* the real address is set later */
        must(ps_placement_set_rank(&job->placement, i, id, "127.0.0.1:0"));
    }
    if (ps_plan_has_copies(job->plan)) {
        ps_placement_copy(&job->placement);
    }
}

void dp_job_fini(dp_job *job)
{
    ps_placement_fini(&job->placement);
    ps_plan_destroy(job->plan);
    free(job->weights);
}

void dp_gather(const ps_placement *placement, uint32_t server, const float *block, float *slices)
{
    for (uint32_t i = 0; i < ps_placement_held_count(placement, server); i++) {
        const ps_slice *slice = &placement->layout->slices[ps_placement_held(placement, server, i)];

        memcpy(slices, block + slice->at, slice->n * sizeof *slices);
        slices += slice->n;
    }
}

void dp_scatter(const ps_placement *placement, uint32_t server, const float *slices, float *block)
{
    for (uint32_t i = 0; i < placement->owned_count[server]; i++) {
        const ps_slice *slice = &placement->layout->slices[placement->owned[server][i]];

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
        .placement = job->placement, /* shares the lists of the job's placement */
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
    enum { SERVICES_MAX = 8 };
    dp_server *s = arg;
    ps_service services[SERVICES_MAX] = {ps_grpc_wire_service(s->wire)};

    assert(s->more_count < SERVICES_MAX);
    for (uint32_t i = 0; i < s->more_count; i++) {
        services[1 + i] = ps_grpc_wire_service(s->more[i].wire);
        services[1 + i].instance = s->more[i].instance;
        services[1 + i].loop = s->on->loop;
    }
    must(ps_serve(s->on->loop, services, 1 + s->more_count, s->address, &s->server));
    snprintf(s->address, sizeof s->address, "127.0.0.1:%d", ps_server_port(s->server));
}

static void open_streams(void *arg)
{
    dp_server *s = arg;
    ps_wire_attempt attempt = ps_session_attempt(&s->session);

    ps_wire_server_open(s->wire, s->job->plan, &s->job->placement, &attempt,
                        s->job->placement.first_part[s->session.rank], &s->parts);
    for (uint32_t i = 0; i < s->more_count; i++) {
        ps_wire_server_open(s->more[i].wire, s->job->plan, &s->job->placement, &attempt,
                            s->more[i].number, &s->more[i].parts);
    }
    serve(s);
}

/* Writes part `number` of server s, as the placement has it, to *parts. */
static void make_part(const dp_server *s, uint32_t number, ps_wire_parts *parts)
{
    const dp_job *job = s->job;
    const ps_placement *placement = &job->placement;
    uint32_t owner = placement->parts[ps_placement_original(placement, number)].server;
    ps_tables *tables =
        placement->parts[number].thread == 0 ? ps_merge_tables(job->plan, placement, owner) : NULL;

    ps_wire_parts_init(parts, job->plan, placement, number, s->session.weights, tables);
}

static void make_more(dp_server *s, uint64_t drop_ack)
{
    const ps_placement *placement = &s->job->placement;

    s->more = ps_xcalloc(placement->part_count, sizeof *s->more);
    for (uint32_t p = 0; p < placement->part_count; p++) {
        dp_part *part = &s->more[s->more_count];

        if (placement->parts[p].server == s->session.rank &&
            p != placement->first_part[s->session.rank]) {
            s->more_count++;
            part->number = p;
            part->wire = ps_wire_server_create(s->on->loop, drop_ack, NULL, NULL);
            make_part(s, p, &part->parts);
            ps_grpc_wire_instance(placement->parts[p].thread +
                                      (placement->parts[p].is_copy ? PS_GRPC_WIRE_COPIES : 0),
                                  part->instance);
        }
    }
}

void dp_server_start(dp_server *s, side *on, dp_job *job, uint32_t rank, uint64_t drop_ack)
{
    *s = (dp_server){.job = job, .on = on, .address = "127.0.0.1:0"};
    session_init(job, rank, &s->session);
    dp_gather(&job->placement, rank, job->weights, s->session.weights);
    make_part(s, job->placement.first_part[rank], &s->parts);
    s->store = s->parts.part[0].store;
    s->wire = ps_wire_server_create(on->loop, drop_ack, NULL, NULL);
    make_more(s, drop_ack);
    side_run(on, open_streams, s);
    snprintf(job->placement.servers[rank].address, PS_ENDPOINT_ADDRESS_MAX, "%s", s->address);
}

typedef struct ending {
    dp_server *s;
    flag down;
    bool close;
} ending;

static void close_streams(void *arg)
{
    dp_server *s = arg;

    ps_wire_server_close(s->wire, "the test is over");
    for (uint32_t i = 0; i < s->more_count; i++) {
        ps_wire_server_close(s->more[i].wire, "the test is over");
    }
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
    ps_wire_parts_fini(&s->parts);
    ps_wire_server_destroy(s->wire);
    for (uint32_t i = 0; i < s->more_count; i++) {
        ps_wire_parts_fini(&s->more[i].parts);
        ps_wire_server_destroy(s->more[i].wire);
    }
    free(s->more);
    dp_session_fini(&s->session);
}

typedef struct reading {
    dp_server *s;
    float *block;
} reading;

static void read_weights(void *arg)
{
    reading *r = arg;

    dp_scatter(&r->s->job->placement, r->s->session.rank, ps_store_weights(r->s->store), r->block);
}

void dp_server_weights(dp_server *s, float *block)
{
    reading r = {s, block};

    side_run(s->on, read_weights, &r);
}
