/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - the slices of a model that one parameter server owns, and what
 * workers do to them: push contributions, pull weights.
 *
 * Pure: no I/O, no clock, no thread. It decodes, sums, steps the optimizer and
 * encodes; the caller moves the bytes. One thread at a time; different shards
 * on different threads share nothing but the reference counts of snapshots.
 *
 * Words. A clock is a training step, from 0. A contribution is (clock,
 * contributor): the contributor is a block when the update is per block, else
 * a worker. A worker brings the contributors it holds; with redundancy several
 * workers hold one, and the first to bring it counts. Each slice keeps its own
 * clocks, so parts of a step may be complete before others.
 *
 * Idempotence. What is in is in: a contribution of a slice that comes again,
 * from whomever, is PS_SHARD_DUPLICATE and changes nothing. So a push may be
 * repeated at any point, whole or in part, and a call that fails has changed
 * nothing.
 *
 * Policies that buffer (bsp, backup, quorum, half_async) add contributions to
 * an open sum; when it closes, w -= step(sum * scale * merge_scale). Under a
 * deterministic one (bsp) the sum is formed in the order of contributors,
 * whatever the order of arrival, so that the bits of the weights depend on
 * neither the network nor the number of servers: a contribution that is early
 * waits encoded in a pooled buffer. Others add on arrival. Policies that apply
 * (ssp, asp and others): each contribution is a step of its own,
 * w -= scale * step(x * merge_scale), in the order of arrival; those of one
 * contributor in the order of their clocks.
 *
 * Rounds. Where a policy closes clocks without waiting for everybody, what comes
 * for a closed clock is late: dropped and counted, or added to the open sum and
 * counted, as the policy says. A worker may leave clocks out that are closed; a
 * wish for clock c says that it brings nothing more to those before c. What
 * never came is counted as left out.
 *
 * Time is told (ps_shard_tick). Policies that look at it see the time of the
 * last telling; a shard that is never told it closes nothing by time.
 *
 * Rows. Slices of an embedding's table may go by rows (ps_shard_slice.row): what a push, a
 * step or an answer costs is then that of the rows it is about. Wishing for a later clock
 * says that all of the answer before has come.
 *
 * Codecs may ask for more (common/codec): sums of their own kind that are not
 * decoded; a step on the standing sum of all that was ever sent, where contributions
 * are differences; weights whose encoding makes up for what the one before left out.
 *
 * Memory: weights, optimizer state and one sum (only of a buffering policy, and
 * none of bsp with one contributor) of 4 bytes a value each; 8 bytes for each
 * (slice, contributor) and 20 for each (slice, worker); the policy's words for
 * each slice; one encoded snapshot a
 * slice, and those older ones that the caller still references (f32 has none:
 * the weights themselves are sent, and a step on a slice that is on its way goes
 * on in a copy). Only a deterministic policy parks; parked bytes are at most (contributors - 1)
 * times the encoded size of all slices; buffers are rounded up to powers of two, and the pool keeps
 * what it once needed.
 * Corrected delays take 4 bytes for each (value, worker) more, and 4 a value when they
 * adapt; a shard that broadcasts one snapshot of any codec, and 64 KiB. Slices by rows
 * take 12 bytes a row, 4 more of a buffering policy and the sum also with one contributor, 16
 * for each (slice, worker), and snapshots as long as the rows they hold.
 */
#ifndef PS_COMMON_STORE_SHARD_H
#define PS_COMMON_STORE_SHARD_H

#include "common/base/buf.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/consistency/consistency.h"
#include "common/optim/descent.h"
#include "common/store/clocks.h"
#include "common/store/counters.h"
#include "common/store/delay.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_shard_slice {
    uint32_t index; /* in the layout: what Encoding.slice says; ascending in the array */
    uint32_t n;     /* values, 1..PS_CODEC_VALUES */
    const ps_codec *up, *down;
    ps_params up_params, down_params;
    bool is_state; /* what is pushed are decrements, whoever has the optimizer: w -= merged */
    /* Of an embedding's table: values of a row, of which n is a multiple. Steps are those of
     * the rows that are not zeros in what was pushed, the others rest (common/optim/rows.h).
     * 0: of all values. Not where the shard broadcasts or corrects delays. */
    uint32_t row;
    bool gives_rows; /* with row, and down an identity: answers bring the rows that have changed
                      * since the worker's last answer (Encoding.others_stay) */
} ps_shard_slice;

/* All pointers are borrowed until create returns; plugins are const tables. */
typedef struct ps_shard_conf {
    uint32_t workers;
    uint32_t contributors;       /* block count if the update is per block, else workers */
    const uint32_t *held_count;  /* (workers) */
    const uint32_t *const *held; /* (workers)(held_count): contributors of each, ascending; NULL
                                  * for both: worker w brings contributor w */
    const ps_consistency *policy;
    ps_params policy_params;
    ps_descent descent; /* its optim may be NULL: workers send increments, w -= merged */
    float merge_scale;  /* of the update */
    uint64_t seed;      /* of the job; rounding of snapshots */
    ps_delay delay;     /* with a policy that applies: gradients are corrected (delay.h) */
    bool broadcasts;    /* workers keep replicas: they are sent what a step changed (replica.h),
                         * by the codec for the way down */
    uint32_t slice_count;
    const ps_shard_slice *slices; /* (slice_count); none is allowed */
    const float *weights;         /* initial, of these slices one after the other; NULL: zeros */
} ps_shard_conf;

typedef struct ps_shard ps_shard;

/* Every contributor must be held by somebody; asserted, as all of conf: the
 * job was validated. */
ps_shard *ps_shard_create(const ps_shard_conf *conf);
void ps_shard_destroy(ps_shard *shard); /* NULL is allowed; snapshots outlive it by reference */

/* ---- Pushes ---- */

typedef enum ps_shard_outcome {
    PS_SHARD_APPLIED,   /* in the sum, or in the weights */
    PS_SHARD_PARKED,    /* kept encoded until its turn */
    PS_SHARD_DUPLICATE, /* was in already; nothing changed */
    PS_SHARD_DROPPED    /* the policy forgets it; it is counted, and counts as in */
} ps_shard_outcome;

/* One slice of a contribution. head and bytes come from the network; both are
 * borrowed. payload_bytes 0 in the head stands for zeros.
 *
 * INVALID_ARGUMENT     no such worker or contributor, a slice that this shard
 *                      does not own, or not the slice's codec
 * PERMISSION_DENIED    a contributor that the worker does not hold
 * OUT_OF_RANGE         WRONG_CLOCK: a clock further ahead than the policy
 *                      allows, or not the next one of this contributor (with
                      rounds: nor one up to the open round)
 * DATA_LOSS            len is not payload_bytes or not what n values take, or
 *                      the codec's numbers are wrong (an int8 scale that is
 *                      negative or not finite)
 * FAILED_PRECONDITION  the worker is lost
 */
PS_MUST_USE ps_status ps_shard_push(ps_shard *shard, uint32_t worker, uint64_t clock,
                                    uint32_t contributor, const Psgd__V1__Encoding *head,
                                    const uint8_t *bytes, size_t len, ps_shard_outcome *outcome);

/* A push without slices: every slice of this contribution that is not in yet
 * is zeros; if all are in it is a repetition. Fails as ps_shard_push does, for all slices or for
 * none. */
PS_MUST_USE ps_status ps_shard_push_zeros(ps_shard *shard, uint32_t worker, uint64_t clock,
                                          uint32_t contributor);

/* All slices of this contribution are in (whoever brought them): the push may
 * be acknowledged. Always true for a shard without slices. */
bool ps_shard_is_in(const ps_shard *shard, uint64_t clock, uint32_t contributor);

/* ---- Pulls ---- */

/* Worker wishes for all slices as they are for `clock`. The same clock again
 * starts the answer anew (a reply was lost).
 *
 * INVALID_ARGUMENT     no such worker
 * OUT_OF_RANGE         WRONG_CLOCK: earlier than one asked for before, or, where
 *                      rounds leave workers behind, more than one after the open round
 * FAILED_PRECONDITION  the worker is lost, or a wish for an earlier clock is
 *                      not answered yet (ps_shard_pull_cancel takes it back)
 */
PS_MUST_USE ps_status ps_shard_pull_begin(ps_shard *shard, uint32_t worker, uint64_t clock);

/* After pull_begin: the worker has nothing of what it was given before, so that the answer shall
 * bring all. A shard that broadcasts sends the weights, as float32, and no changes; of slices by
 * rows come those that have changed since the first weights. */
void ps_shard_pull_whole(ps_shard *shard, uint32_t worker);

/* The stream is gone: forgets the wish. */
void ps_shard_pull_cancel(ps_shard *shard, uint32_t worker);

/* One slice of an answer. */
typedef struct ps_shard_piece {
    const Psgd__V1__Encoding *head; /* the shard's: until the next call that changes the shard */
    ps_buf *buf;                    /* likewise; take a reference to keep the bytes */
    size_t at, len;                 /* bytes of buf */
    uint64_t checksum;              /* of the weights (replica.h), if the shard broadcasts */
} ps_shard_piece;

typedef struct ps_shard_answer {
    uint64_t clock;   /* the one wished for */
    uint64_t version; /* updates that the slices have seen, the least of them */
    bool is_change;   /* the pieces are changes from version - 1; else weights */
    size_t count;     /* pieces written */
    size_t bytes;     /* their sum of len */
    bool is_last;     /* the wish is answered with these */
} ps_shard_answer;

/* Next slices of the wish that the policy lets go, each once, lowest first, at
 * most `cap` and together at most max_bytes (>= 4 * PS_CODEC_VALUES). count 0
 * and not is_last: nothing is ready, or there is no wish. A shard without
 * slices answers at once with none. Under a deterministic policy all
 * pieces of one answer have one version; a version above the clock tells a
 * worker that the step went on without it (redundancy).
 *
 * To be called when a stream can take another message: after pull_begin, after
 * a message was sent, and after pushes. It costs little when nothing changed. */
void ps_shard_pull_next(ps_shard *shard, uint32_t worker, size_t max_bytes, ps_shard_piece *pieces,
                        size_t cap, ps_shard_answer *answer);

/* A wish is not answered yet. */
bool ps_shard_is_waiting(const ps_shard *shard, uint32_t worker);

/* ---- Time ---- */

/* It is now_us (monotonic): closes what is due. To be called before pushes and
 * when ps_shard_deadline has come; then pulls may go on. */
void ps_shard_tick(ps_shard *shard, int64_t now_us);

/* When the next tick is due even if nothing else happens; INT64_MAX: never. */
int64_t ps_shard_deadline(const ps_shard *shard);

/* ---- Membership, status, results ---- */

/* Goes on without a worker: nobody waits for its clocks, its wish is gone and
 * its pushes are refused. Again is OK. The last worker may be lost too.
 *
 * INVALID_ARGUMENT     no such worker
 * FAILED_PRECONDITION  the policy does not survive a loss; nothing changed
 */
PS_MUST_USE ps_status ps_shard_lose_worker(ps_shard *shard, uint32_t worker);

bool ps_shard_is_lost(const ps_shard *shard, uint32_t worker);

/* The oldest clock that is not complete in every slice (with rounds: closed, with
 * whatever it got); UINT64_MAX when there
 * are no slices or all workers are lost. */
uint64_t ps_shard_clock(const ps_shard *shard);

/* Workers whose contributions to that clock are missing in some slice that waits, in
 * order, lost ones left out; at most `cap` are written. Returns how many there
 * are. Looks at every slice. */
uint32_t ps_shard_waits_for(const ps_shard *shard, uint32_t *workers, uint32_t cap);

/* ---- Save and load: for store.h, which has the layout ---- */

/* Returns how many slices of a virtual shard there are: those of index % PS_TABLE_SHARDS. */
uint32_t ps_shard_count(const ps_shard *shard, uint32_t virtual_shard);

/* Puts them. */
void ps_shard_put(const ps_shard *shard, uint32_t virtual_shard, ps_state_out *out);

/* Takes them into a shard that nothing was pushed to. A failure is `in`'s; then the shard is only
 * good for destroy. */
void ps_shard_take(ps_shard *shard, uint32_t virtual_shard, ps_state_in *in);

/* The shard lives on from what was taken. */
void ps_shard_settle(ps_shard *shard);

/* The book of its clocks: a column a slice. */
ps_book *ps_shard_book(ps_shard *shard);

size_t ps_shard_value_count(const ps_shard *shard);

/* A copy of the weights of the slices, one after the other:
 * (ps_shard_value_count). The shard's: valid until the next call of this. */
const float *ps_shard_weights(ps_shard *shard);

/* Updates that the slice at `place` of conf.slices has seen. */
uint64_t ps_shard_version(const ps_shard *shard, uint32_t place);

const ps_store_counters *ps_shard_counters_of(const ps_shard *shard);
const ps_worker_counters *ps_shard_worker_counters_of(const ps_shard *shard, uint32_t worker);

/* Slice contributions in open sums, which no step has seen yet. */
uint64_t ps_shard_open(const ps_shard *shard);

#endif
