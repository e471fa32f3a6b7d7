/* SPDX-License-Identifier: Apache-2.0 */
/* local_servers.c - see local_servers.h. */
#include "common/local/local_servers.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/train/merge.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS_OF_SERVER = 8 };

/* Deals the slices of a server, one after the other. */
static void deal(ps_local_servers *servers, const ps_placement *placement, uint32_t server)
{
    uint32_t owned = placement->owned_count[server];
    uint32_t parts = owned < SHARDS_OF_SERVER ? owned : SHARDS_OF_SERVER;

    for (uint32_t i = 0; i < owned; i++) {
        ps_local_shard *to = &servers->shards[servers->count + i % parts];

        if (to->slices == NULL) {
            to->server = server;
            to->slices = ps_xcalloc(owned / parts + 1, sizeof *to->slices);
        }
        servers->shard_of[placement->owned[server][i]] = servers->count + i % parts;
        to->slices[to->count++] = placement->owned[server][i];
    }
    servers->count += parts;
}

static void fill(const ps_plan *plan, ps_local_shard *shard, const float *weights)
{
    const ps_slice *slices = plan->layout.slices;
    size_t values = 0;
    float *own;

    for (uint32_t i = 0; i < shard->count; i++) {
        values += slices[shard->slices[i]].n;
    }
    own = ps_xcalloc(values, sizeof *own);
    values = 0;
    for (uint32_t i = 0; i < shard->count; i++) {
        const ps_slice *s = &slices[shard->slices[i]];

        memcpy(own + values, weights + s->at, s->n * sizeof *own);
        values += s->n;
    }
    shard->shard = ps_merge_shard(plan, shard->slices, shard->count, own);
    free(own);
}

void ps_local_servers_init(ps_local_servers *servers, const ps_plan *plan,
                           const ps_placement *placement, const float *weights)
{
    const ps_layout *layout = &plan->layout;
    pthread_mutexattr_t attr;

    *servers = (ps_local_servers){.plan = plan};
    servers->shards =
        ps_xcalloc((size_t)placement->server_count * SHARDS_OF_SERVER, sizeof *servers->shards);
    servers->shard_of = ps_xcalloc(layout->slice_count, sizeof *servers->shard_of);
    servers->gates = ps_xcalloc(plan->spec->workers, sizeof(ps_gate *));
    for (uint32_t server = 0; server < placement->server_count; server++) {
        deal(servers, placement, server);
    }
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP); /* it is never held for long */
    for (uint32_t i = 0; i < servers->count; i++) {
        pthread_mutex_init(&servers->shards[i].mutex, &attr);
        fill(plan, &servers->shards[i], weights);
    }
    pthread_mutexattr_destroy(&attr);
    pthread_mutex_init(&servers->tables_mutex, NULL);
    servers->tables = plan->has_tables ? ps_merge_tables(plan, NULL, 0) : NULL;
}

void ps_local_servers_fini(ps_local_servers *servers)
{
    for (uint32_t i = 0; i < servers->count; i++) {
        pthread_mutex_destroy(&servers->shards[i].mutex);
        ps_shard_destroy(servers->shards[i].shard);
        free(servers->shards[i].slices);
    }
    pthread_mutex_destroy(&servers->tables_mutex);
    ps_tables_destroy(servers->tables);
    free(servers->shards);
    free(servers->shard_of);
    free(servers->gates);
}

void ps_local_servers_attend(ps_local_servers *servers, uint32_t worker, ps_gate *gate)
{
    servers->gates[worker] = gate;
}

static void nudge_others(ps_local_servers *servers, uint32_t worker)
{
    for (uint32_t w = 0; w < servers->plan->spec->workers; w++) {
        if (w != worker && servers->gates[w] != NULL) {
            ps_gate_nudge(servers->gates[w]);
        }
    }
}

ps_status ps_local_servers_push(ps_local_servers *servers, uint32_t worker, uint64_t clock,
                                uint32_t contributor, const Psgd__V1__Encoding *head,
                                const uint8_t *bytes)
{
    ps_local_shard *to = &servers->shards[servers->shard_of[head->slice]];
    const ps_store_counters *counters = ps_shard_counters_of(to->shard);
    ps_shard_outcome outcome;
    bool is_news;
    uint64_t steps;
    ps_status st;

    pthread_mutex_lock(&to->mutex);
    steps = counters->steps;
    ps_shard_tick(to->shard, ps_clock_us());
    st = ps_shard_push(to->shard, worker, clock, contributor, head, bytes, head->payload_bytes,
                       &outcome);
    /* In step nobody may go on before the slice does. */
    is_news = counters->steps != steps || !servers->plan->policy->is_deterministic;
    pthread_mutex_unlock(&to->mutex);
    if (is_news && ps_is_ok(&st)) {
        nudge_others(servers, worker);
    }
    return st;
}

ps_status ps_local_servers_push_zeros(ps_local_servers *servers, uint32_t worker, uint64_t clock,
                                      uint32_t contributor)
{
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < servers->count && ps_is_ok(&st); i++) {
        ps_local_shard *to = &servers->shards[i];

        pthread_mutex_lock(&to->mutex);
        ps_shard_tick(to->shard, ps_clock_us());
        st = ps_shard_push_zeros(to->shard, worker, clock, contributor);
        pthread_mutex_unlock(&to->mutex);
    }
    nudge_others(servers, worker);
    return st;
}

ps_status ps_local_servers_push_rows(ps_local_servers *servers, uint32_t worker,
                                     const ps_tables_part *part)
{
    ps_status st;

    pthread_mutex_lock(&servers->tables_mutex);
    ps_tables_tick(servers->tables, ps_clock_us());
    st = ps_tables_push(servers->tables, part);
    pthread_mutex_unlock(&servers->tables_mutex);
    if (part->is_last && ps_is_ok(&st)) {
        nudge_others(servers, worker);
    }
    return st;
}

ps_status ps_local_servers_pull_rows(ps_local_servers *servers, uint32_t worker, uint64_t clock,
                                     const uint64_t *keys, size_t count, float *rows,
                                     bool *is_given)
{
    ps_status st = ps_ok();

    pthread_mutex_lock(&servers->tables_mutex);
    ps_tables_tick(servers->tables, ps_clock_us());
    *is_given = ps_tables_may_pull(servers->tables, worker, clock);
    if (*is_given) {
        st = ps_tables_pull(servers->tables, keys, count, rows);
        ps_tables_gave(servers->tables, worker);
    }
    pthread_mutex_unlock(&servers->tables_mutex);
    return st;
}

void ps_local_servers_take_weights(ps_local_servers *servers, float *block)
{
    for (uint32_t i = 0; i < servers->count; i++) {
        ps_local_shard *from = &servers->shards[i];
        const float *weights;

        pthread_mutex_lock(&from->mutex);
        weights = ps_shard_weights(from->shard);
        for (uint32_t k = 0; k < from->count; k++) {
            const ps_slice *s = &servers->plan->layout.slices[from->slices[k]];

            memcpy(block + s->at, weights, s->n * sizeof *block);
            weights += s->n;
        }
        ps_shard_destroy(from->shard);
        from->shard = NULL;
        pthread_mutex_unlock(&from->mutex);
    }
}

ps_store_counters ps_local_servers_counters(ps_local_servers *servers)
{
    ps_store_counters sum = {0};

    for (uint32_t i = 0; i < servers->count; i++) {
        ps_local_shard *from = &servers->shards[i];
        const ps_store_counters *c;

        pthread_mutex_lock(&from->mutex);
        c = ps_shard_counters_of(from->shard);
        sum.applied += c->applied;
        sum.duplicates += c->duplicates;
        sum.dropped += c->dropped;
        sum.steps += c->steps;
        sum.staleness_sum += c->staleness_sum;
        sum.staleness_count += c->staleness_count;
        if (c->staleness_max > sum.staleness_max) {
            sum.staleness_max = c->staleness_max;
        }
        pthread_mutex_unlock(&from->mutex);
    }
    return sum;
}
