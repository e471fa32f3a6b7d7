/* SPDX-License-Identifier: Apache-2.0 */
/* local_exchange.c - see local_exchange.h: gradients up, weights down, waits. */
#include "common/local/local_exchange_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/store/replica.h"
#include "common/train/merge.h"
#include "common/wire/matrix.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { ANSWER_BYTES = LOCAL_PIECES * 8 * PS_CODEC_VALUES };

static uint64_t bytes_of(const Psgd__V1__Encoding *head, bool is_left_out)
{
    return is_left_out ? 0 : head->payload_bytes + psgd__v1__encoding__get_packed_size(head);
}

/* --- up ----------------------------------------------------------------------- */

static bool begin(ps_exchange *exchange, uint64_t clock, uint32_t block, bool is_last)
{
    local_exchange *x = local_exchange_of(exchange);

    (void)is_last;
    if (!x->has_begun || x->clock != clock) {
        ps_turn_pass(&x->turn);
    }
    x->has_begun = true;
    x->clock = clock;
    x->block = block;
    ps_coder_begin(&x->coder);
    return ps_gate_is_open(&x->gate);
}

static ps_status take_slice(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                            size_t len)
{
    local_exchange *x = arg;

    (void)len;
    return ps_local_servers_push(x->servers, x->rank, x->clock,
                                 x->plan->update->per_block ? x->block : x->rank, head, bytes);
}

static float *gradient_of(local_exchange *x, uint32_t slice)
{
    return (float *)(void *)x->grad->data + x->plan->layout.slices[slice].at;
}

/* The slice, or all of its variable if that goes whole. */
static void carry(local_exchange *x, uint32_t slice)
{
    const ps_layout *layout = &x->plan->layout;
    uint32_t v = layout->slices[slice].variable;
    uint32_t from = x->plan->by_matrix[v] ? layout->first_slice[v] : slice;
    uint32_t to = x->plan->by_matrix[v] ? layout->first_slice[v + 1] : slice + 1;

    for (uint32_t s = from; s < to; s++) {
        ps_coder_carry(&x->coder, s, gradient_of(x, s));
    }
}

static void push(local_exchange *x, uint32_t slice)
{
    float *grad = gradient_of(x, slice);
    bool is_plain = ps_coder_is_plain(&x->coder, slice);
    ps_encoding head;
    ps_status st;

    if (ps_matrix_slices(x->plan, x->placement, slice) == 0) {
        return; /* another brings it */
    }
    carry(x, slice);
    ps_coder_encode(&x->coder, slice, x->clock, x->block, grad, is_plain ? NULL : x->bytes, &head);
    st = ps_matrix_push(x->plan, x->placement, x->placement->server_of[slice], &head.msg,
                        is_plain ? (const uint8_t *)grad : x->bytes, head.msg.payload_bytes,
                        take_slice, x);
    if (!ps_is_ok(&st)) {
        st = ps_wrap(st, "worker %u, step %llu", x->rank, (unsigned long long)x->clock);
        ps_gate_fail(&x->gate, &st);
        return;
    }
    atomic_fetch_add_explicit(&x->base.count.bytes_up,
                              bytes_of(&head.msg, ps_coder_is_zeros(&x->coder, slice)),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&x->base.count.float32_up,
                              ps_matrix_value_count(x->plan, x->placement, slice) * sizeof(float),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&x->base.count.messages_up, 1, memory_order_relaxed);
}

static void touched(ps_exchange *exchange, uint32_t variable, const uint32_t *rows, size_t count)
{
    ps_coder_touched(&local_exchange_of(exchange)->coder, variable, rows, count);
}

static void ready(ps_exchange *exchange, uint32_t first_variable, uint32_t count)
{
    local_exchange *x = local_exchange_of(exchange);
    const uint32_t *first_slice = x->plan->layout.first_slice;
    uint32_t first = first_slice[first_variable];
    uint32_t n = first_slice[first_variable + count] - first;
    /* Whoever brings a slice last also steps it: each worker begins elsewhere, so
     * that this work is shared. */
    uint32_t begin_at = (uint32_t)((uint64_t)x->rank * n / x->plan->spec->workers);

    for (uint32_t i = 0; i < n && ps_gate_is_open(&x->gate); i++) {
        push(x, first + (begin_at + i) % n);
    }
}

static bool may_be_overtaken(const ps_exchange *exchange)
{
    return ps_merge_may_overtake(PS_CONTAINER_OF(exchange, const local_exchange, base)->plan);
}

static bool leave_out(ps_exchange *exchange, uint64_t clock)
{
    local_exchange *x = local_exchange_of(exchange);

    (void)clock;
    return ps_gate_is_open(&x->gate);
}

static bool nothing(ps_exchange *exchange, uint64_t clock)
{
    local_exchange *x = local_exchange_of(exchange);
    ps_status st = ps_local_servers_push_zeros(x->servers, x->rank, clock, x->rank);

    ps_turn_pass(&x->turn);
    if (!ps_is_ok(&st)) {
        ps_gate_fail(&x->gate, &st);
    }
    return ps_gate_is_open(&x->gate);
}

/* --- down --------------------------------------------------------------------- */

/* Slices of a shard that this worker may have now, with references to their
 * bytes; 0 if there are none, or another is at it and `waits` is false. */
static size_t take_pieces(local_exchange *x, ps_local_shard *from, bool waits, uint64_t *clock,
                          uint64_t *version, int64_t *again_us)
{
    ps_shard_piece pieces[LOCAL_PIECES];
    ps_shard_answer answer;
    int64_t deadline_us;

    if (waits) {
        pthread_mutex_lock(&from->mutex);
    } else if (pthread_mutex_trylock(&from->mutex) != 0) {
        return 0;
    }
    ps_shard_tick(from->shard, ps_clock_us());
    ps_shard_pull_next(from->shard, x->rank, ANSWER_BYTES, pieces, LOCAL_PIECES, &answer);
    for (size_t i = 0; i < answer.count; i++) {
        ps_encoding_copy(&x->heads[i], pieces[i].head);
        x->bufs[i] = ps_buf_ref(pieces[i].buf);
        x->at[i] = pieces[i].at;
        x->checksums[i] = pieces[i].checksum;
    }
    x->is_change = answer.is_change;
    deadline_us = ps_shard_deadline(from->shard);
    pthread_mutex_unlock(&from->mutex);
    *again_us = deadline_us < *again_us ? deadline_us : *again_us;
    *clock = answer.clock;
    *version = answer.version;
    return answer.count;
}

/* A piece into the worker's block. Where that is a replica no change is ever missed
 * here, so a checksum that is not the servers' can only be a mistake. */
static ps_status put_piece(local_exchange *x, size_t i)
{
    const Psgd__V1__Encoding *head = &x->heads[i].msg;
    const ps_slice *slice = &x->plan->layout.slices[head->slice];
    const uint8_t *bytes = x->bufs[i]->data + x->at[i];
    float *to = x->weights + slice->at;
    ps_status st;

    if (!x->plan->update->broadcasts) {
        return ps_coder_decode(x->plan, head, head->slice, bytes, to);
    }
    st = ps_coder_decode_replica(x->plan, head, head->slice, x->is_change, bytes, to);
    if (ps_is_ok(&st) && ps_replica_checksum(to, slice->n) != x->checksums[i]) {
        return ps_fail(PS_DATA_LOSS, "slice %u of worker %u's replica is not what the servers have",
                       head->slice, x->rank);
    }
    atomic_fetch_add_explicit(&x->base.count.verified, 1, memory_order_relaxed);
    return st;
}

/* Decodes what was taken; false: it cannot be, and the gate has failed. */
static bool put_pieces(local_exchange *x, size_t count)
{
    bool is_good = true;

    for (size_t i = 0; i < count; i++) {
        const Psgd__V1__Encoding *head = &x->heads[i].msg;
        const ps_slice *slice = &x->plan->layout.slices[head->slice];
        ps_status st = put_piece(x, i);

        ps_buf_unref(x->bufs[i]);
        x->slices[i] = head->slice;
        if (!ps_is_ok(&st) && is_good) {
            is_good = false;
            ps_gate_fail(&x->gate, &st);
        }
        atomic_fetch_add_explicit(&x->base.count.bytes_down,
                                  bytes_of(head, head->others_stay && head->payload_bytes == 0),
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&x->base.count.float32_down, slice->n * sizeof(float),
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&x->base.count.messages_down, 1, memory_order_relaxed);
    }
    return is_good;
}

static bool ask(local_exchange *x, uint64_t clock)
{
    for (uint32_t i = 0; i < x->servers->count; i++) {
        ps_local_shard *shard = &x->servers->shards[i];
        ps_status st;

        pthread_mutex_lock(&shard->mutex);
        st = ps_shard_pull_begin(shard->shard, x->rank, clock);
        pthread_mutex_unlock(&shard->mutex);
        if (!ps_is_ok(&st)) {
            ps_gate_fail(&x->gate, &st);
            return false;
        }
    }
    x->wish = clock;
    x->left = x->plan->layout.slice_count;
    return true;
}

/* --- waits --------------------------------------------------------------------- */

/* For the gate: in a wait for the weights of a clock, or for rows of tables. */
static int64_t fetch(void *arg, uint64_t clock, bool is_thorough)
{
    local_exchange *x = arg;
    int64_t again_us = INT64_MAX;

    ps_turn_take(&x->turn);
    local_try_rows(x);
    if (clock > x->wish && !ask(x, clock)) {
        return again_us;
    }
    for (uint32_t i = 0; i < x->servers->count && x->left > 0; i++) {
        ps_local_shard *shard = &x->servers->shards[i];
        uint64_t version, of_clock;
        size_t count;

        while ((count = take_pieces(x, shard, is_thorough, &of_clock, &version, &again_us)) > 0) {
            if (!put_pieces(x, count)) {
                return again_us;
            }
            x->left -= (uint32_t)count;
            if (ps_merge_may_overtake(x->plan)) {
                ps_gate_overtake(&x->gate, of_clock, version);
            }
            ps_gate_lane_brought(&x->gate, shard->server, x->slices, (uint32_t)count, of_clock,
                                 x->left == 0);
        }
    }
    return again_us;
}

static void rest(void *arg)
{
    ps_turn_give(&((local_exchange *)arg)->turn);
}

static void wake(void *arg)
{
    ps_turn_take(&((local_exchange *)arg)->turn);
}

/* --- life --------------------------------------------------------------------- */

static const ps_exchange_ops ops = {
    .begin = begin,
    .touched = touched,
    .ready = ready,
    .may_be_overtaken = may_be_overtaken,
    .leave_out = leave_out,
    .nothing = nothing,
    .pull_rows = local_pull_rows,
    .push_rows = local_push_rows,
};

ps_exchange *ps_local_exchange_create(const ps_local_exchange_conf *conf)
{
    const ps_plan *plan = conf->plan;
    local_exchange *x = ps_xcalloc(1, sizeof *x);
    ps_gate_hooks hooks = {.fetch = fetch,
                           .rest = rest,
                           .wake = wake,
                           .arg = x,
                           .spin_us = conf->turns == NULL ? PS_TURNS_SPIN_US : 0};

    x->base.ops = &ops;
    x->base.gate = &x->gate;
    x->plan = plan;
    x->rank = conf->rank;
    x->servers = conf->servers;
    x->turn.turns = conf->turns;
    x->weights = conf->weights;
    x->grad = ps_buf_ref(conf->grad);
    x->bytes = ps_xmalloc(PS_MATRIX_BYTES_MAX);
    x->placement = conf->placement;
    ps_coder_init(&x->coder, plan, conf->placement, conf->rank);
    /* All may have to wait for one thread. */
    ps_gate_init(&x->gate, conf->placement,
                 (int64_t)plan->spec->timeouts->step_ms * 1000 * plan->spec->workers);
    ps_gate_set_hooks(&x->gate, &hooks);
    ps_local_servers_attend(conf->servers, conf->rank, &x->gate);
    return &x->base;
}

void ps_local_exchange_destroy(ps_exchange *exchange)
{
    local_exchange *x;

    if (exchange == NULL) {
        return;
    }
    x = local_exchange_of(exchange);
    ps_local_servers_attend(x->servers, x->rank, NULL);
    ps_gate_fini(&x->gate);
    ps_coder_fini(&x->coder);
    ps_buf_unref(x->grad);
    free(x->bytes);
    free(x);
}

size_t ps_local_exchange_feedback(const ps_exchange *exchange)
{
    return ps_coder_memory(&PS_CONTAINER_OF(exchange, const local_exchange, base)->coder);
}

void ps_local_exchange_leave(ps_exchange *exchange)
{
    ps_turn_give(&local_exchange_of(exchange)->turn);
}
