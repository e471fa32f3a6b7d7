/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - how a worker's contributions become everybody's weights, seen by the trainer.
 *
 * The trainer says which gradients are final; whatever is behind the table
 * merges them with the other workers' and writes new weights into the block
 * that the trainer reads. It may be parameter servers over the network
 * (common/wire/wire_client.h) or anything else that keeps these
 * promises:
 *
 *   a contribution is in the gradient block, which is the exchange's from
 *   `ready` until the gate has all acknowledgements;
 *   weights are in place when the gate says so, and stay as they are until the
 *   variable is `ready` in the last contribution of the clock.
 *
 * All functions are for the one training thread, if nothing else is said.
 */
#ifndef PS_COMMON_TRAIN_EXCHANGE_H
#define PS_COMMON_TRAIN_EXCHANGE_H

#include "common/base/state.h"
#include "common/train/gate.h"

#include <stdatomic.h>

/* What has crossed the wire, and what it would have been as plain float32. Where there
 * is no wire, a message is a slice. */
typedef struct ps_exchange_stats {
    uint64_t bytes_up, bytes_down, bytes_up_float32, bytes_down_float32;
    uint64_t messages_up, messages_down;
    uint64_t verified; /* slices of a replica that had the servers' checksum */
    uint64_t resyncs;  /* answers that left a replica wrong, so that the weights were asked for */
} ps_exchange_stats;

typedef struct ps_exchange ps_exchange;

/* Rows of one sparse table that a worker has met in a block: ids ascending, each once. The
 * exchange may write gradients over. */
typedef struct ps_met_rows {
    uint64_t *keys;           /* (count) */
    float *grads;             /* (count, width) */
    uint32_t *shows, *clicks; /* (count) */
    size_t count;
} ps_met_rows;

typedef struct ps_exchange_ops {
    /* Begins the contribution (clock, block), the last of its clock or not:
     * waits until the gradient block is free. False: go home. */
    bool (*begin)(ps_exchange *x, uint64_t clock, uint32_t block, bool is_last);

    /* (optional) Before `ready` of a variable that goes by rows (ps_plan.by_rows): its gradient
     * is zeros but in these rows, ascending. They are the exchange's as long as the gradient
     * block is. Not told: any row may be something. */
    void (*touched)(ps_exchange *x, uint32_t variable, const uint32_t *rows, size_t count);

    /* These variables of the contribution are final, and their weights are no
     * longer read in this step. */
    void (*ready)(ps_exchange *x, uint32_t first_variable, uint32_t count);

    /* (optional; NULL: no) May other workers bring what this one has not brought yet? Then the
     * trainer waits for all weights before it begins a step, and skips it if
     * the gate says that it was overtaken. Any thread. */
    bool (*may_be_overtaken)(const ps_exchange *x);

    /* (optional; NULL: what others bring comes by itself) Instead of contributions
     * to `clock`: nothing is sent, the weights of the next clock are asked for.
     * False: go home. */
    bool (*leave_out)(ps_exchange *x, uint64_t clock);

    /* (optional) The whole contribution to `clock` is zeros, and none are
     * carried. NULL: they are. False: go home. */
    bool (*nothing)(ps_exchange *x, uint64_t clock);

    /* (all three or none) Sparse tables. Brings the rows of these ids, ascending and each once, as
     * they are for `clock`: of each table in turn (count, width) into rows. Blocks until they are
     * there. Returns false if stopped or failed; the caller then returns. */
    bool (*pull_rows)(ps_exchange *x, uint64_t clock, const uint64_t *keys, size_t count,
                      float *rows);
    /* Does the same without waiting: the gate owes rows until they are
     * there, and one of these may be under way while rows are pushed. */
    void (*ask_rows)(ps_exchange *x, uint64_t clock, const uint64_t *keys, size_t count,
                     float *rows);
    /* Adds the rows met, (tables), to the contribution in hand, once in each and also when nothing
     * was met; its acknowledgements are of them too. Borrowed until the gate has those. */
    void (*push_rows)(ps_exchange *x, const ps_met_rows *met);

    /* (optional, both or none) Puts, or takes into an exchange that has not begun, what is kept of
     * a variable from one clock to the next: ps_trainer_save. Nothing is under way. */
    void (*put)(const ps_exchange *x, uint32_t variable, ps_state_out *out);
    void (*take)(ps_exchange *x, uint32_t variable, ps_state_in *in);
    /* (optional) Then: the first contribution is to `clock`, whose weights are there. */
    void (*begin_at)(ps_exchange *x, uint64_t clock);
} ps_exchange_ops;

/* The first member of whatever implements it. */
struct ps_exchange {
    const ps_exchange_ops *ops;
    ps_gate *gate;
    struct {
        atomic_uint_fast64_t bytes_up, bytes_down, float32_up, float32_down;
        atomic_uint_fast64_t messages_up, messages_down, verified, resyncs;
    } count; /* any thread */
};

static inline ps_gate *ps_exchange_gate(ps_exchange *x)
{
    return x->gate;
}

static inline bool ps_exchange_begin(ps_exchange *x, uint64_t clock, uint32_t block, bool is_last)
{
    return x->ops->begin(x, clock, block, is_last);
}

static inline void ps_exchange_ready(ps_exchange *x, uint32_t first_variable, uint32_t count)
{
    x->ops->ready(x, first_variable, count);
}

static inline bool ps_exchange_may_be_overtaken(const ps_exchange *x)
{
    return x->ops->may_be_overtaken != NULL && x->ops->may_be_overtaken(x);
}

static inline bool ps_exchange_skip(ps_exchange *x, uint64_t clock)
{
    return x->ops->leave_out != NULL ? x->ops->leave_out(x, clock) : ps_gate_is_open(x->gate);
}

/* Any thread. */
static inline ps_exchange_stats ps_exchange_get_stats(ps_exchange *x)
{
    return (ps_exchange_stats){
        .bytes_up = atomic_load(&x->count.bytes_up),
        .bytes_down = atomic_load(&x->count.bytes_down),
        .bytes_up_float32 = atomic_load(&x->count.float32_up),
        .bytes_down_float32 = atomic_load(&x->count.float32_down),
        .messages_up = atomic_load(&x->count.messages_up),
        .messages_down = atomic_load(&x->count.messages_down),
        .verified = atomic_load(&x->count.verified),
        .resyncs = atomic_load(&x->count.resyncs),
    };
}

#endif
