/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - the trainer's interface to what turns contributions into new weights.
 *
 * The trainer says which gradients are final. The implementation merges them with those of the
 * other workers and writes new weights into the block that the trainer reads. It goes through
 * parameter servers (common/wire/wire_client.h) or among workers. Every implementation keeps these
 * promises:
 *
 *   A contribution is in the gradient block. The exchange owns a variable's gradient from `ready`
 *   until the gate has all acknowledgements.
 *   The weights of a variable are complete when the gate says so. They do not change until the
 *   variable is `ready` in the last contribution of the clock.
 *
 * All functions are for the trainer's thread, unless a comment says otherwise. A function that
 * returns false means that the gate was stopped or has failed; the trainer then returns.
 */
#ifndef PS_COMMON_TRAIN_EXCHANGE_H
#define PS_COMMON_TRAIN_EXCHANGE_H

#include "common/base/buf.h"
#include "common/base/state.h"
#include "common/train/gate.h"

#include <stdatomic.h>

/* Traffic of an exchange, and what it would be as float32. Without a network a message is a slice.
 */
typedef struct ps_exchange_stats {
    uint64_t bytes_up, bytes_down, bytes_up_float32, bytes_down_float32;
    uint64_t messages_up, messages_down;
    uint64_t bytes_through_memory; /* of bytes_up and bytes_down */
    uint64_t verified;             /* slices of a replica whose checksum was that of the servers */
    uint64_t resyncs; /* answers after which a replica was wrong, so that it pulled the weights */
} ps_exchange_stats;

/* Some of what a rank says with its contributions. */
typedef struct ps_said {
    const uint8_t *bytes;
    size_t len;
    bool is_partial; /* of use only with what the rank says next */
} ps_said;

typedef struct ps_exchange ps_exchange;

/* The rows of one table that occur in a contribution: ids ascending, each once. The exchange may
 * overwrite the gradients. */
typedef struct ps_met_rows {
    uint64_t *keys;           /* (count) */
    float *grads;             /* (count, width) */
    uint32_t *shows, *clicks; /* (count); NULL of a fixed vocabulary */
    size_t count;
} ps_met_rows;

/* A report goes in the head of a message, beside the heads of its slices. */
enum { PS_REPORT_PIECE = 32 << 10 };

typedef struct ps_exchange_ops {
    /* Begins the contribution of `block` to `clock`. Blocks until the gradient block is free.
     * `is_last` says that it is this worker's last one to the clock. */
    bool (*begin)(ps_exchange *x, uint64_t clock, uint32_t block, bool is_last);

    /* Says that the gradients of these variables are final, and that their weights are no longer
     * read in this step. Of variables that are tables the rows are pushed, before the last table is
     * ready. */
    void (*ready)(ps_exchange *x, uint32_t first_variable, uint32_t count);

    /* (optional; NULL: false) Returns whether a step may be made without this worker's
     * contribution. Then the trainer waits for all weights before it begins a step, and skips the
     * step if ps_gate_is_overtaken. Any thread. */
    bool (*may_be_overtaken)(const ps_exchange *x);

    /* (optional; NULL: weights arrive without a request) Skips `clock`, to which this worker
     * contributes nothing: requests the weights of the next clock. */
    bool (*leave_out)(ps_exchange *x, uint64_t clock);

    /* (optional) Contributes only zeros to `clock`, in one message. NULL: the trainer contributes a
     * gradient block of zeros. */
    bool (*nothing)(ps_exchange *x, uint64_t clock);

    /* Tables: all three functions or none. Of tables that grow: pulls the rows of `keys` (count),
     * ascending and each once, for `clock`: (count, width) for each table in turn, into `rows`.
     * Blocks until they have arrived. */
    bool (*pull_rows)(ps_exchange *x, uint64_t clock, const uint64_t *keys, size_t count,
                      float *rows);
    /* Does the same without blocking; ps_gate_wait_rows then waits for them. One such request may
     * be open while rows are pushed. */
    void (*ask_rows)(ps_exchange *x, uint64_t clock, const uint64_t *keys, size_t count,
                     float *rows);
    /* Adds the rows that occur in it, met (tables), to the current contribution: exactly once, also
     * if there are none. The acknowledgements cover them too. Borrowed until the gate
     * has all acknowledgements. */
    void (*push_rows)(ps_exchange *x, const ps_met_rows *met);

    /* (optional) Says something with the current contribution, before its last variables are ready,
     * for whoever goes on with this rank: servers keep it (common/wire/rank_reports.h). Takes
     * `report`, of at most PS_REPORT_PIECE bytes beside the rows of a step and an evaluation. If it
     * `is_partial`, it is only of use with those of the next clocks. */
    void (*say)(ps_exchange *x, ps_buf *report, bool is_partial);

    /* (optional, both or none) Write what is kept of a variable from one clock to the next, and
     * read it into an exchange that has not begun; for ps_trainer_save. Nothing may be in flight.
     */
    void (*put)(const ps_exchange *x, uint32_t variable, ps_state_out *out);
    void (*take)(ps_exchange *x, uint32_t variable, ps_state_in *in);
    /* (optional; NULL: nothing is left to send) Blocks, after the last contribution, until the
     * other workers have all that this worker sends them, at most for step_ms. The traffic is not
     * counted any further. */
    void (*drain)(ps_exchange *x);
    /* (optional) Begins at `clock`, to which the first contribution goes. has_weights: its weights
     * have been loaded; else they are pulled. */
    void (*begin_at)(ps_exchange *x, uint64_t clock, bool has_weights);

    /* (optional, all or none) For a rank that is saved while servers are lost. Writes the newest
     * contributions of the rank, to PS_SENT_CLOCKS clocks, as they were sent or will be; call it
     * before `put`. The exchange's thread, while the trainer is parked (ps_gate_park). */
    PS_MUST_USE ps_status (*put_sent)(ps_exchange *x, ps_state_out *out);
    /* Reads those to the clocks [first, end) into an exchange that has not begun. Fails with
     * DATA_LOSS. */
    PS_MUST_USE ps_status (*take_sent)(ps_exchange *x, uint64_t first, uint64_t end,
                                       ps_state_in *in);
    /* Sends that to `clock`, when the weights of that clock have arrived. */
    bool (*resend)(ps_exchange *x, uint64_t clock);
} ps_exchange_ops;

/* The base of every implementation, as its first member. */
struct ps_exchange {
    const ps_exchange_ops *ops;
    ps_gate *gate;
    struct {
        atomic_uint_fast64_t bytes_up, bytes_down, float32_up, float32_down;
        atomic_uint_fast64_t messages_up, messages_down, verified, resyncs;
        atomic_uint_fast64_t bytes_through_memory;
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

static inline void ps_exchange_drain(ps_exchange *x)
{
    if (x->ops->drain != NULL) {
        x->ops->drain(x);
    }
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
        .bytes_through_memory = atomic_load(&x->count.bytes_through_memory),
        .verified = atomic_load(&x->count.verified),
        .resyncs = atomic_load(&x->count.resyncs),
    };
}

#endif
