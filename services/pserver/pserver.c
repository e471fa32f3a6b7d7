/* SPDX-License-Identifier: Apache-2.0 */
/* pserver.c - see pserver.h. The shard exists from prepare to release. A server
 * has finished when the contributions of all steps are in; it goes on serving
 * pulls, and is collected from whether it has finished or not. */
#include "services/pserver/pserver.h"

#include "common/base/xalloc.h"
#include "common/shard/shard.h"
#include "services/pserver/streams.h"

#include <stdlib.h>
#include <string.h>

struct ps_pserver {
    ps_node *node;
    ps_streams *streams;
    ps_shard *shard;  /* NULL: idle */
    bool is_complete; /* all contributions of the session are in */
};

static void complete(void *arg)
{
    ps_pserver *p = arg;
    ps_status result = ps_ok();

    p->is_complete = true;
    if (ps_node_phase(p->node) == PS_PHASE_RUNNING) {
        ps_node_finished(p->node, &result);
    }
}

ps_pserver *ps_pserver_create(uint64_t drop_ack)
{
    ps_pserver *p = ps_xcalloc(1, sizeof *p);

    p->streams = ps_streams_create(drop_ack, complete, p);
    return p;
}

void ps_pserver_destroy(ps_pserver *p)
{
    if (p != NULL) {
        ps_streams_destroy(p->streams);
        free(p);
    }
}

ps_service ps_pserver_service(ps_pserver *p)
{
    return ps_streams_service(p->streams);
}

void ps_pserver_set_node(ps_pserver *p, ps_node *node)
{
    p->node = node;
}

/* The slices of this server, as the shard wants them. */
static ps_shard_slice *slices_of(const ps_plan *plan, uint32_t rank)
{
    uint32_t count = plan->layout.owned_count[rank];
    ps_shard_slice *slices = ps_xcalloc((size_t)count + 1, sizeof *slices);

    for (uint32_t i = 0; i < count; i++) {
        const ps_slice *slice = &plan->layout.slices[plan->layout.owned[rank][i]];

        slices[i] = (ps_shard_slice){
            .index = slice->index,
            .n = slice->n,
            .up = plan->up[slice->variable].codec,
            .up_params = plan->up[slice->variable].params,
            .down = plan->down[slice->variable].codec,
            .down_params = plan->down[slice->variable].params,
            .is_state = plan->layout.variables[slice->variable].is_state,
        };
    }
    return slices;
}

ps_shard *ps_pserver_shard(const ps_session *session)
{
    const ps_plan *plan = session->plan;
    const ps_assignment *a = plan->assignment;
    bool per_block = plan->update->per_block;
    ps_shard_slice *slices = slices_of(plan, session->rank);
    ps_shard_conf conf = {
        .workers = session->worker_count,
        .contributors = per_block ? a->block_count : session->worker_count,
        .held_count = per_block ? a->held_count : NULL,
        .held = per_block ? (const uint32_t *const *)a->held : NULL,
        .policy = plan->policy,
        .policy_params = plan->policy_params,
        .optim = plan->optim_on_server ? plan->optim : NULL,
        .optim_params = plan->optim_params,
        .merge_scale = plan->update->merge_scale(&plan->update_facts),
        .seed = plan->spec->seed,
        .slice_count = plan->layout.owned_count[session->rank],
        .slices = slices,
        .weights = session->weights,
    };
    ps_shard *shard = ps_shard_create(&conf);

    free(slices);
    return shard;
}

static ps_status prepare(void *state, ps_session *session)
{
    ps_pserver *p = state;

    p->is_complete = false;
    p->shard = ps_pserver_shard(session);
    ps_streams_open(p->streams, session, p->shard);
    return ps_ok();
}

/* Workers may have come already, and even have gone: the streams are open since
 * prepare. */
static void run(void *state)
{
    ps_pserver *p = state;

    if (p->is_complete) {
        complete(p);
    }
}

static void release(void *state)
{
    ps_pserver *p = state;

    ps_streams_close(p->streams, "the attempt is over");
    ps_shard_destroy(p->shard);
    p->shard = NULL;
    ps_node_released(p->node);
}

static void collect(void *state)
{
    ps_pserver *p = state;
    size_t bytes = ps_shard_value_count(p->shard) * sizeof(float);
    ps_buf *weights = ps_buf_create(bytes);

    memcpy(weights->data, ps_shard_weights(p->shard), bytes);
    weights->len = bytes;
    ps_node_keep_bytes(p->node, "weights.f32", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL,
                       weights);
}

static void counters(void *state, Psgd__V1__ServerCounters *out)
{
    const ps_pserver *p = state;
    const ps_shard_counters *c;
    ps_traffic traffic;

    if (p->shard == NULL) {
        return;
    }
    c = ps_shard_counters_of(p->shard);
    traffic = ps_streams_traffic(p->streams);
    out->bytes_up = traffic.bytes_in;
    out->bytes_down = traffic.bytes_out;
    out->messages_up = traffic.messages_in;
    out->messages_down = traffic.messages_out;
    out->applied = c->applied;
    out->duplicates = c->duplicates;
    out->parked = c->parked_now;
    out->parked_bytes = c->parked_bytes_now;
    out->pulls_waited = ps_streams_waits(p->streams);
    out->version = ps_shard_value_count(p->shard) > 0 ? ps_shard_clock(p->shard) : 0;
    out->staleness_max = c->staleness_max;
    out->staleness_sum = c->staleness_sum;
}

const ps_role_hooks ps_pserver_hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER,
    .service = "psgd-pserver",
    .prepare = prepare,
    .run = run,
    .release = release,
    .collect = collect,
    .counters = counters,
};
