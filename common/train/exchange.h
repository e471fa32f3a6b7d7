/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - the trainer's interface to what turns contributions into new weights.
 *
 * The trainer says which gradients are final. The implementation merges them with those of the
 * other workers and writes new weights into the block that the trainer reads. It works through
 * parameter servers (common/wire/wire_client.h) or among workers (mesh_worker.h). Every
 * implementation keeps these promises:
 *
 *   A contribution lies in the gradient block. The exchange owns a variable's gradient from `ready`
 *   until the gate has all acknowledgements.
 *   The weights of a variable are complete when the gate says so. They then stay the same until the
 *   variable is `ready` in the worker's last contribution to the clock.
 *
 * All functions are for the trainer's thread, unless a comment says otherwise. A function that
 * returns false means that the gate was stopped or has failed; the trainer then returns. */
#ifndef PS_COMMON_TRAIN_EXCHANGE_H
#define PS_COMMON_TRAIN_EXCHANGE_H

#include "common/base/buf.h"
#include "common/base/state.h"
#include "common/train/gate.h"

#include <stdatomic.h>

/* What an exchange has sent and received, and what it would be as float32. An exchange within one
 * process counts its messages as if they were packed and sent. */
typedef struct ps_exchange_stats {
    uint64_t bytes_up, bytes_down, bytes_up_float32, bytes_down_float32;
    uint64_t messages_up, messages_down;
    /* how many of bytes_up and bytes_down went through shared memory */
    uint64_t bytes_through_memory;
    uint64_t verified; /* slices of a replica whose checksum equalled that of the servers */
    /* how often a replica differed from the servers, so that it pulled the weights anew */
    uint64_t resyncs;
} ps_exchange_stats;

/* Some of what a rank says with its contributions. */
typedef struct ps_said {
    const uint8_t *bytes;
    size_t len;
    bool is_partial; /* the bytes are of use only with what the rank says next */
} ps_said;

typedef struct ps_exchange ps_exchange;

/* The rows of one table that a contribution has: ids ascending, each once. The exchange may
 * overwrite the gradients. */
typedef struct ps_met_rows {
    uint64_t *keys;           /* (count) */
    float *grads;             /* (count, width) */
    uint32_t *shows, *clicks; /* (count); NULL of a fixed vocabulary */
    size_t count;
} ps_met_rows;

/* Most bytes of a report (`say`) that go with one contribution, in the head of a message. */
enum { PS_REPORT_PIECE = 32 << 10 };

typedef struct ps_exchange_ops {
    /* Begins the contribution of `block` to `clock`. Blocks until the gradient block may be
     * written. is_last: the worker makes no further contribution to the clock. */
    bool (*begin)(ps_exchange *x, uint64_t clock, uint32_t block, bool is_last);

    /* Says that the gradients of these variables are final, and that their weights are no longer
     * read in this step. For variables that are sparse tables, the caller calls push_rows before it
     * says that the last table is ready. */
    void (*ready)(ps_exchange *x, uint32_t first_variable, uint32_t count);

    /* (optional; NULL: false) Returns whether the other workers may complete a step without this
     * worker's contribution. Then the trainer waits for all weights before it begins a step, and
     * skips the step if ps_gate_is_overtaken. Any thread. */
    bool (*may_be_overtaken)(const ps_exchange *x);

    /* (optional; NULL: nothing to do) Skips `clock`, to which this worker contributes nothing, by
     * requesting the weights of the next clock. */
    bool (*leave_out)(ps_exchange *x, uint64_t clock);

    /* (optional) Contributes only zeros to `clock`, in one message. NULL: the trainer contributes a
     * gradient block of zeros instead. */
    bool (*nothing)(ps_exchange *x, uint64_t clock);

    /* (The three functions for sparse tables are all set or all NULL.) Pulls from tables that grow
     * the rows of `keys` (count), which ascend without repetition, for `clock`. Writes them to
     * `rows`: (count, width) of each table in turn. Blocks until they have arrived. */
    bool (*pull_rows)(ps_exchange *x, uint64_t clock, const uint64_t *keys, size_t count,
                      float *rows);
    /* Requests rows as pull_rows does, but does not block; ps_gate_wait_rows then waits for them.
     * One such request may be open while rows are pushed. */
    void (*ask_rows)(ps_exchange *x, uint64_t clock, const uint64_t *keys, size_t count,
                     float *rows);
    /* Adds rows to the current contribution: met (tables) has those of each table. Called exactly
     * once for each contribution, also if it has no rows. The acknowledgements of the contribution
     * cover the rows. `met` is borrowed until the gate has all acknowledgements. */
    void (*push_rows)(ps_exchange *x, const ps_met_rows *met);

    /* (optional) Sends `report` with the current contribution, for the process that may later
     * continue this rank; servers keep it (common/wire/rank_reports.h). Called before the
     * contribution's last variables are ready. Takes `report`, of at most PS_REPORT_PIECE bytes
     * beside the records of a step and an evaluation. is_partial: the report is of use only
     * together with those of the next clocks. */
    void (*say)(ps_exchange *x, ps_buf *report, bool is_partial);

    /* (optional, both or none) Write what the exchange keeps of a variable from one clock to the
     * next, such as residuals, and read it into an exchange that has not begun; for
     * ps_trainer_save. Nothing may be in flight. */
    void (*put)(const ps_exchange *x, uint32_t variable, ps_state_out *out);
    void (*take)(ps_exchange *x, uint32_t variable, ps_state_in *in);
    /* (optional; NULL: nothing is left to send) Called after the last contribution. Blocks until
     * the other workers have received everything that this worker sends them, at most for step_ms.
     * Bytes of this time are not counted. */
    void (*drain)(ps_exchange *x);
    /* (optional) Makes `clock` the clock of the first contribution. has_weights: the weights of
     * that clock were loaded; else the exchange pulls them. */
    void (*begin_at)(ps_exchange *x, uint64_t clock, bool has_weights);

    /* (optional, all or none) For a rank that is saved while servers are lost. put_sent writes the
     * rank's contributions to the newest PS_SENT_CLOCKS clocks, encoded as they were or will be
     * sent. Call it before `put`. The exchange's thread, while the trainer is parked
     * (ps_gate_park). */
    PS_MUST_USE ps_status (*put_sent)(ps_exchange *x, ps_state_out *out);
    /* Reads the contributions to the clocks [first, end) that put_sent has written, into an
     * exchange that has not begun. Returns DATA_LOSS if they are not in the file. */
    PS_MUST_USE ps_status (*take_sent)(ps_exchange *x, uint64_t first, uint64_t end,
                                       ps_state_in *in);
    /* Sends the contribution to `clock` that take_sent has read, when the weights of that clock
     * have arrived. */
    bool (*resend)(ps_exchange *x, uint64_t clock);
} ps_exchange_ops;

/* What every implementation has as its first member. */
struct ps_exchange {
    const ps_exchange_ops *ops;
    ps_gate *gate;
    struct {
        atomic_uint_fast64_t bytes_up, bytes_down, float32_up, float32_down;
        atomic_uint_fast64_t messages_up, messages_down, verified, resyncs;
        atomic_uint_fast64_t bytes_through_memory;
    } count; /* any thread may read and add */
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

/* Returns what was sent and received so far. Any thread. */
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
