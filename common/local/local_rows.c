/* SPDX-License-Identifier: Apache-2.0 */
/* local_rows.c - see local_exchange.h: rows of sparse tables, out of the servers' tables and
 * gradients into them. */
#include "common/local/local_exchange_impl.h"

#include "common/base/draw.h"

#include "psgd/v1/parameter.pb-c.h"

#include <stdatomic.h>

/* What n values become by a codec, in place; the bytes that travel. */
static ps_status send_values(const ps_codec_choice *by, uint64_t key, float *x, size_t n,
                             size_t *bytes)
{
    for (size_t at = 0; at < n; at += PS_CODEC_VALUES) {
        size_t some = n - at < PS_CODEC_VALUES ? n - at : PS_CODEC_VALUES;
        uint8_t out[4 * PS_CODEC_VALUES + 8];
        ps_encoding head;
        size_t len = ps_codec_encode(by->codec, &by->params, key + at / PS_CODEC_VALUES,
                                     (uint32_t)(at / PS_CODEC_VALUES), x + at, some, out, &head);
        ps_status st = ps_codec_decode(by->codec, &head.msg, out, len, PS_INTO_SET, x + at, some);

        if (!ps_is_ok(&st)) {
            return st;
        }
        *bytes += len + psgd__v1__encoding__get_packed_size(&head.msg);
    }
    return ps_ok();
}

/* Bytes of ids in a message. */
static size_t bytes_of_keys(const uint64_t *keys, size_t count)
{
    Psgd__V1__PullWeightsRequest req = PSGD__V1__PULL_WEIGHTS_REQUEST__INIT;

    req.keys = (uint64_t *)keys;
    req.n_keys = count;
    return psgd__v1__pull_weights_request__get_packed_size(&req);
}

void local_try_rows(local_exchange *x)
{
    const ps_plan *plan = x->plan;
    float *rows = x->rows;
    size_t bytes = 0;
    bool is_given;
    ps_status st;

    if (!x->wants_rows) {
        return;
    }
    st = ps_local_servers_pull_rows(x->servers, x->rank, x->rows_clock, x->keys, x->key_count, rows,
                                    &is_given);
    for (uint32_t t = 0; is_given && ps_is_ok(&st) && t < plan->table_count; t++) {
        size_t n = x->key_count * plan->tables[t].width;

        st = send_values(&plan->down[plan->tables[t].variable],
                         ps_draw_key(plan->spec->seed, PS_DRAW_DOWN, t, x->rows_clock, x->rank),
                         rows, n, &bytes);
        rows += n;
        atomic_fetch_add_explicit(&x->base.count.float32_down, n * sizeof(float),
                                  memory_order_relaxed);
    }
    if (!ps_is_ok(&st)) {
        ps_gate_fail(&x->gate, &st);
        return;
    }
    if (is_given) {
        x->wants_rows = false;
        atomic_fetch_add_explicit(&x->base.count.bytes_down, bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&x->base.count.messages_down, 1, memory_order_relaxed);
        ps_gate_rows_came(&x->gate, 0);
    }
}

bool local_pull_rows(ps_exchange *exchange, uint64_t clock, const uint64_t *keys, size_t count,
                     float *rows)
{
    local_exchange *x = local_exchange_of(exchange);

    x->wants_rows = true;
    x->rows_clock = clock;
    x->keys = keys;
    x->key_count = count;
    x->rows = rows;
    atomic_fetch_add_explicit(&x->base.count.bytes_up, bytes_of_keys(keys, count),
                              memory_order_relaxed);
    ps_gate_owe_rows(&x->gate, 0);
    return ps_gate_wait_rows(&x->gate, clock);
}

void local_push_rows(ps_exchange *exchange, const ps_met_rows *met)
{
    local_exchange *x = local_exchange_of(exchange);
    uint64_t clock = x->clock;
    uint32_t block = x->block;
    const ps_plan *plan = x->plan;
    size_t bytes = 0;

    for (uint32_t t = 0; t < plan->table_count && ps_gate_is_open(&x->gate); t++) {
        size_t n = met[t].count * plan->tables[t].width;
        ps_status st = send_values(&plan->up[plan->tables[t].variable],
                                   ps_draw_key(plan->spec->seed, PS_DRAW_UP, t, clock, block),
                                   met[t].grads, n, &bytes);

        if (ps_is_ok(&st)) {
            st = ps_local_servers_push_rows(x->servers, x->rank,
                                            &(ps_tables_part){
                                                .worker = x->rank,
                                                .clock = clock,
                                                .contributor = block,
                                                .part = t,
                                                .table = t,
                                                .is_last = t + 1 == plan->table_count,
                                                .keys = met[t].keys,
                                                .count = met[t].count,
                                                .grads = met[t].grads,
                                                .shows = met[t].shows,
                                                .clicks = met[t].clicks,
                                            });
        }
        if (!ps_is_ok(&st)) {
            ps_gate_fail(&x->gate, &st);
        }
        bytes += bytes_of_keys(met[t].keys, met[t].count) + 2 * met[t].count;
        atomic_fetch_add_explicit(&x->base.count.float32_up, n * sizeof(float),
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&x->base.count.messages_up, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&x->base.count.bytes_up, bytes, memory_order_relaxed);
}
