/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - what one server, or one of its threads, has of a job, and what workers do to it: push
 * contributions, pull weights.
 *
 * Pure: no I/O, no clock, no thread. It decodes, sums, steps the optimizer and encodes; the caller
 * moves the bytes. One thread at a time; different stores on different threads share nothing but
 * the reference counts of snapshots.
 *
 * A store has slices of dense variables and rows of sparse tables. One book of clocks (clocks.h)
 * has a column for each slice and one for the rows of all tables together. So the policies that
 * slices obey hold for rows too.
 *
 * Words. A clock is a training step, from 0. A contribution is (clock, contributor): the
 * contributor is a block when the update is per block, else a worker. A worker brings the
 * contributors it holds; with redundancy several workers hold one, and the first to bring it
 * counts. Each column keeps its own clocks, so parts of a step may be complete before others.
 *
 * Idempotence. A part of a contribution that comes again, from any worker, changes nothing. So a
 * push may be repeated at any time, completely or in part. A call that fails has changed nothing.
 *
 * Policies that buffer (bsp, backup, quorum, half_async) add contributions to an open sum; when it
 * closes, w -= step(sum * scale * merge_scale). Under a deterministic one (bsp) the sum is formed
 * in the order of contributors, whatever the order of arrival, so that the bits of the weights
 * depend on neither the network nor the number of servers: a slice that is early waits encoded in a
 * pooled buffer. Others add on arrival. Rows are added up by key, and each row is stepped once.
 * Policies that apply (ssp, asp and others): each contribution is a step of its own, w -= scale *
 * step(x * merge_scale), in the order of arrival; those of one contributor in the order of their
 * clocks.
 *
 * Rounds. Where a policy closes clocks without waiting for everybody, what comes for a closed clock
 * is late: dropped and counted, or added to the open sum and counted, as the policy says. A worker
 * may leave clocks out that are closed; a pull of clock c says that it contributes nothing more to
 * earlier ones. What never came is counted as left out.
 *
 * Rows of a contribution that is dropped count neither for admission nor for ageing.
 *
 * Time. The owner tells the store the time by ps_store_tick; policies see the time of the last
 * call. A store that is never told the time closes nothing by time.
 *
 * A sparse variable is rows by id. If ids have a fixed vocabulary, slices of the layout give the
 * rows that there are (ps_store_slice.row) and workers have all of them: a pull of weights also
 * opens one of the rows that were stepped since the worker was given them. A pull of a later clock
 * says that the whole answer before has arrived. Else rows are made when ids are met, and a worker
 * pulls those of some ids. Pushes and steps are the same.
 *
 * Codecs may ask for more (common/codec): sums of their own kind that are not decoded; a step on
 * the standing sum of all that was ever sent, where contributions are differences; weights whose
 * encoding makes up for what the one before left out.
 *
 * Memory of slices: weights, optimizer state and one sum (only of a buffering policy, and none of
 * bsp with one contributor) of 4 bytes a value each; 8 bytes for each (slice, contributor) and 20
 * for each (slice, worker); the policy's words for each slice; one encoded snapshot a slice, two if
 * earlier weights are kept and the codec has state, and those older ones that the caller still
 * references (f32 has none: the weights themselves are sent, and a step on a slice that is on its
 * way goes on in a copy). Only a deterministic policy parks; parked bytes are at most (contributors
 * - 1) times the encoded size of all slices; buffers are rounded up to powers of two, and the pool
 * keeps what it once needed. Corrected delays take 4 bytes for each (value, worker) more, and 4 a
 * value when they adapt; a store that broadcasts one snapshot of any codec, and 64 KiB. Of rows:
 * the tables (table.h), if earlier rows are kept copies of those that the last step has changed,
 * and what is not stepped yet, at most keys_max rows of each table a contribution; of a fixed
 * vocabulary also two bits for each (row, worker).
 *
 * Virtual shards. Slices and rows of a job are dealt to PS_SHARDS virtual shards
 * (common/base/shards.h). A store is made for a set of them. Which set is up to placement: it
 * changes no bit of what is computed.
 *
 * Save and load. ps_store_save writes all that the store would need to go on, cut by virtual shard;
 * ps_store_load reads the shards that are its own out of any number of files. So what some stores
 * have written, any other number can read, and the same calls give the same bits as without it.
 *
 *   - Under bsp a save belongs between two clocks or anywhere else: open sums and what waits for
 *     its turn are in the file.
 *   - Threads of a server may have the slices and the rows of one virtual shard apart. A store
 * takes the sections that are about what it has.
 *   - Slices stand for themselves: files of different clocks go together. Rows of all virtual
 *     shards share their clocks. Under policies that buffer, files go together when they are of the
 *     same ones. Under policies that apply, a contribution that comes again is applied to the rows
 *     of the virtual shards that lack it. The tables get the newest age in the files.
 *   - Not in the file: open pulls (workers pull again), parts of a contribution of rows that
 *     is not whole (it begins again with part 0), which rows a worker was given (it is given all
 *     that were ever stepped), and counters.
 *   - Policies that look at the time go on where the save left them: tell the time
 *     (ps_store_tick) before a save and before a load.
 *
 * The file is one of common/base/state.h, magic "PSGDSTO1", version 4:
 *
 *   kind 1, first     u64 job, clock, clock from which rows count (ps_store_save_since); text
 *                     policy, text optimizer ("": none); u32 workers, contributors, state floats
 *                     of a value, tables, whether changes are broadcast; (workers) u8 whether it
 *                     is lost
 *   kind 2, by shard  u32 slices, each as below; only of shards with slices
 *   kind 3, by shard  u32 tables; rows; only of shards that can have rows here
 *
 *   slice  u32 index, values (n), parts, turn; column; f32 n weights; f32 slots * n of the
 *          optimizer; then the parts that there are, lowest bit first:
 *            1    f32 n open sum
 *            2    the open sum as the codec adds it
 *            4    f32 n standing sum
 *            8    f32 state of the codec of weights
 *            16   encoding of weights, or of the last change
 *            32   f32 workers * n weights that each worker was given
 *            64   f32 n mean square
 *            128  of a slice that is ahead: u64 version before its last step, f32 n weights of
 *                 that version; where the codec of weights has state, their encoding
 *          u32 parked contributions: u32 contributor; encoding
 *   column    clocks.h (ps_book_put)
 *   encoding  u32 bytes, psgd.v1.Encoding; u32 bytes, payload
 *   rows   u64 clocks aged by; u32 age, contributions in the open sum; u32 contributor of
 *          each; (contributors) u64 next; column; tables (table_state.h); for each contribution and
 *          table: u32 rows, u64 keys, f32 gradients, f32 shows, f32 clicks
 */
#ifndef PS_COMMON_STORE_STORE_H
#define PS_COMMON_STORE_STORE_H

#include "common/base/buf.h"
#include "common/base/status.h"
#include "common/codec/codec.h"
#include "common/consistency/consistency.h"
#include "common/optim/descent.h"
#include "common/store/clocks.h"
#include "common/store/counters.h"
#include "common/store/delay.h"
#include "common/store/tables.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_store_slice {
    uint32_t index; /* in the layout: what Encoding.slice says; ascending in the array */
    uint32_t n;     /* values, 1..PS_CODEC_VALUES */
    const ps_codec *up, *down;
    ps_params up_params, down_params;
    bool is_state; /* what is pushed are decrements, whoever has the optimizer: w -= merged */
    /* Of a fixed vocabulary: values of a row, of which n is a multiple. The slice is then the rows
     * [first_row, first_row + n / row) of `table` of conf.tables, and neither pushed nor pulled as
     * a slice. 0: it is a slice of a dense variable. Not where the store broadcasts or corrects
     * delays. */
    uint32_t row, table;
    uint64_t first_row;
} ps_store_slice;

/* All pointers are borrowed until create returns; plugins are const tables. */
typedef struct ps_store_conf {
    uint32_t workers;
    uint32_t contributors;       /* block count if the update is per block, else workers */
    const uint32_t *held_count;  /* (workers) */
    const uint32_t *const *held; /* (workers)(held_count): contributors of each, ascending; NULL
                                  * for both: worker w brings contributor w */
    const ps_consistency *policy;
    ps_params policy_params;
    ps_descent descent; /* its optim may be NULL: workers send increments, w -= merged. With tables
                         * it is theirs too */
    float merge_scale;  /* of the update */
    uint64_t seed;      /* of the job; stochastic rounding of snapshots uses it */
    ps_delay delay;     /* with a policy that applies: gradients are corrected (delay.h) */
    bool broadcasts;    /* workers keep replicas: they are sent what a step changed (replica.h),
                         * by the codec for the way down */
    uint32_t slice_count;
    const ps_store_slice *slices; /* (slice_count); none is allowed */
    const float *weights;         /* initial, of these slices one after the other; NULL: zeros */
    ps_tables *tables;            /* of the same virtual shards; taken. NULL: no rows are here. Of
                                   * a fixed vocabulary they are empty: slices have the rows */
    uint64_t job;                 /* hash of what the job computes: a file of another is refused */
} ps_store_conf;

typedef struct ps_store ps_store;

/* Creates a store. Every contributor must be held by a worker. All of conf is asserted, because the
 * job was checked before. */
ps_store *ps_store_create(const ps_store_conf *conf);

/* Frees the store; referenced snapshots stay. NULL is allowed. */
void ps_store_destroy(ps_store *store);

/* ---- Pushes ---- */

typedef enum ps_store_outcome {
    PS_STORE_APPLIED,    /* in the sum, or in the weights */
    PS_STORE_PARKED,     /* kept encoded until its turn */
    PS_STORE_DUPLICATE,  /* was in already; nothing changed */
    PS_STORE_NOT_FINITE, /* refused: a value is NaN or infinite */
    PS_STORE_DROPPED     /* the policy forgets it; it is counted, and counts as in */
} ps_store_outcome;

/* Takes one slice of a contribution. head and bytes come from the network; both are borrowed.
 * payload_bytes 0 in the head stands for zeros. A call that fails changes nothing; of *outcome it
 * sets PS_STORE_NOT_FINITE alone.
 *
 * INVALID_ARGUMENT     no such worker or contributor, a slice that this store does not own, or not
 *                      the slice's codec; a value that is not finite
 * PERMISSION_DENIED    a contributor that the worker does not hold
 * OUT_OF_RANGE         WRONG_CLOCK: a clock further ahead than the policy allows, or not the next
 *                      one of this contributor (with rounds: nor one up to the open round)
 * DATA_LOSS            len is not payload_bytes or not what n values take, or the codec's numbers
 *                      are wrong (an int8 scale that is negative or not finite)
 * FAILED_PRECONDITION  the worker is lost
 */
PS_MUST_USE ps_status ps_store_push(ps_store *store, uint32_t worker, uint64_t clock,
                                    uint32_t contributor, const Psgd__V1__Encoding *head,
                                    const uint8_t *bytes, size_t len, ps_store_outcome *outcome);

/* Does the same with a slice that is not encoded and whose float32 values are known to be finite:
 * does not look at them again. */
PS_MUST_USE ps_status ps_store_push_finite(ps_store *store, uint32_t worker, uint64_t clock,
                                           uint32_t contributor, const Psgd__V1__Encoding *head,
                                           const uint8_t *bytes, size_t len,
                                           ps_store_outcome *outcome);

/* Takes zeros for every slice of a contribution that is not in yet; if all are in it is a
 * repetition. Fails as ps_store_push does, for all slices or for none. */
PS_MUST_USE ps_status ps_store_push_zeros(ps_store *store, uint32_t worker, uint64_t clock,
                                          uint32_t contributor);

/* Some rows of one table. A contribution's rows come in parts; parts are numbered, and part 0
 * begins them anew, so they may be sent again at any point. */
typedef struct ps_store_rows {
    uint32_t worker; /* that brings it */
    uint64_t clock;
    uint32_t contributor, part, table;
    bool is_last;
    const uint64_t *keys; /* (count), each once, ascending */
    size_t count;
    const float *grads;             /* (count, width) */
    const uint32_t *shows, *clicks; /* (count); NULL: 1 and 0 each */
} ps_store_rows;

/* Takes a part of a contribution's rows.
 *
 * INVALID_ARGUMENT    no such worker, contributor or table; keys that do not ascend, also from the
 *                     table's part before, or that are not of this store or no ids of the table;
 *                     a gradient that is not finite; clicks above shows
 * PERMISSION_DENIED   a contributor that the worker does not hold
 * OUT_OF_RANGE        another clock than the contributor's next, or one further ahead than the
 *                     policy allows; a part that leaves one out
 * FAILED_PRECONDITION the worker is lost
 * RESOURCE_EXHAUSTED  more keys than keys_max; a sum, this one or an earlier one, needed more rows
 *                     than a table may have: then the job cannot go on, and every push says so
 * A call that fails has changed nothing but in that last case. */
PS_MUST_USE ps_status ps_store_push_rows(ps_store *store, const ps_store_rows *rows);

/* Returns whether all slices and rows of this contribution are in, whoever brought them: it may be
 * acknowledged. Always true for a store without any. */
bool ps_store_is_in(const ps_store *store, uint64_t clock, uint32_t contributor);

/* ---- Pulls ---- */

/* Opens a pull: the worker asks for all slices as they are for `clock`. The same clock again starts
 * the answer anew, because a reply was lost.
 *
 * INVALID_ARGUMENT     no such worker
 * OUT_OF_RANGE         WRONG_CLOCK: earlier than one asked for before, or, where rounds leave
 *                      workers behind, more than one after the open round
 * FAILED_PRECONDITION  the worker is lost, or a pull of an earlier clock is open
 *                      (ps_store_pull_cancel cancels it)
 */
PS_MUST_USE ps_status ps_store_pull_begin(ps_store *store, uint32_t worker, uint64_t clock);

/* Returns the clock of the worker's last pull of slices. */
uint64_t ps_store_pull_clock(const ps_store *store, uint32_t worker);

/* Says, after ps_store_pull_begin, that the worker has lost what it was given before. The answer is
 * then complete: a store that broadcasts sends the weights as float32 instead of changes, and of a
 * fixed vocabulary all rows that were ever stepped come. */
void ps_store_pull_whole(ps_store *store, uint32_t worker);

/* Cancels the worker's open pulls, of slices and of rows, because its stream has ended. */
void ps_store_pull_cancel(ps_store *store, uint32_t worker);

/* One slice of an answer. */
typedef struct ps_store_piece {
    const Psgd__V1__Encoding *head; /* the store's: until the next call that changes the store */
    ps_buf *buf;                    /* likewise; take a reference to keep the bytes */
    size_t at, len;                 /* bytes of buf */
    uint64_t checksum;              /* of the weights (replica.h), if the store broadcasts */
} ps_store_piece;

typedef struct ps_store_answer {
    uint64_t clock;   /* the one asked for */
    uint64_t version; /* the least version of the slices */
    bool is_change;   /* the pieces are changes from version - 1; else weights */
    size_t count;     /* pieces written */
    size_t bytes;     /* their sum of len */
    bool is_last;     /* these complete the answer */
} ps_store_answer;

/* Gives the next slices of the open pull that the policy admits: each once, lowest first, at most
 * `cap` and together at most max_bytes (>= 4 * PS_CODEC_VALUES). count 0 without is_last: nothing
 * is ready, or no pull is open. Of a store without dense slices none is ever open. Under a
 * deterministic policy all pieces of an answer have the same version; a version above the clock
 * says that the step was done without this worker (redundancy).
 *
 * Call it when the stream can take a message: after ps_store_pull_begin, after a message was sent,
 * and after pushes. It is cheap if nothing has changed. */
void ps_store_pull_next(ps_store *store, uint32_t worker, size_t max_bytes, ps_store_piece *pieces,
                        size_t cap, ps_store_answer *answer);

/* Returns whether the worker has an open pull, of slices or of rows. */
bool ps_store_is_waiting(const ps_store *store, uint32_t worker);

/* Opens a pull of the rows of these keys (count) in every table, as they are for `clock`. Rows may
 * be pulled ahead: the policy must admit the worker to the clock, but the worker's contributions to
 * earlier clocks need not be in. ps_store_pull_cancel cancels it.
 *
 * INVALID_ARGUMENT     no such worker; keys that do not ascend, or that are not of this store or no
 *                      ids of a table
 * FAILED_PRECONDITION  no rows are here, or of a fixed vocabulary; the worker is lost, or has an
 *                      open pull of rows
 */
PS_MUST_USE ps_status ps_store_rows_begin(ps_store *store, uint32_t worker, uint64_t clock,
                                          const uint64_t *keys, size_t count);

/* The answer to a pull of rows, or a part of it. */
typedef struct ps_store_rows_answer {
    uint64_t clock, version;           /* the one asked for; steps that the rows have seen */
    uint32_t first_table, table_count; /* tables whose rows are here */
    size_t count;                      /* of keys */
    const uint64_t *keys; /* (count), the store's until the worker pulls again; NULL: those asked
                           * for */
    ps_buf *values;       /* float32 of each of the tables in turn (count, width); the caller's */
    bool is_last;         /* the pull is answered */
} ps_store_rows_answer;

/* Returns whether the worker has an open pull of rows. If threads share a store, the thread with
 * the worker's streams may call it at any time. */
bool ps_store_wants_rows(const ps_store *store, uint32_t worker);

/* Gives the next rows of the open pull if the policy admits it: all that were asked for, or at most
 * `most` of those that have changed. Returns false if the policy does not, or if no pull is
 * open. */
bool ps_store_rows_next(ps_store *store, uint32_t worker, size_t most,
                        ps_store_rows_answer *answer);

/* ---- Time, losses, progress ---- */

/* Tells the store the (monotonic) time and closes clocks that are due. Call it before pushes and at
 * ps_store_deadline; then call ps_store_pull_next. */
void ps_store_tick(ps_store *store, int64_t now_us);

/* Returns when the next tick is due even if nothing else happens; INT64_MAX: never. */
int64_t ps_store_deadline(const ps_store *store);

/* Continues without a worker: no other waits for its clocks, its pulls are cancelled and its pushes
 * are refused. May be repeated. The last worker may be lost too.
 *
 * INVALID_ARGUMENT     no such worker
 * FAILED_PRECONDITION  the policy does not survive a loss; nothing changed
 */
PS_MUST_USE ps_status ps_store_lose_worker(ps_store *store, uint32_t worker);
bool ps_store_is_lost(const ps_store *store, uint32_t worker);

/* Returns the oldest clock that is not complete in every slice and in the rows (with rounds:
 * closed, with whatever it got); UINT64_MAX: nothing is here, or nobody is waited for. */
uint64_t ps_store_clock(const ps_store *store);

/* Writes the workers whose contributions to that clock are missing somewhere that waits, in order,
 * lost ones left out; at most `cap`. Returns how many there are. Looks at every slice. */
uint32_t ps_store_waits_for(const ps_store *store, uint32_t *workers, uint32_t cap);

/* Returns contributions in open sums, which no step has seen yet. */
uint64_t ps_store_open(const ps_store *store);

const ps_store_counters *ps_store_counters_of(const ps_store *store);

/* Compares the ledgers of slices and rows; as ps_book_ledger. */
uint32_t ps_store_ledger(const ps_store *store, bool *is_first, ps_ledger *ledger);
const ps_worker_counters *ps_store_worker_counters_of(const ps_store *store, uint32_t worker);

/* ---- Contents ---- */

size_t ps_store_value_count(const ps_store *store);

/* Returns a copy of the weights of all slices, one after the other: (ps_store_value_count). It is
 * the store's, valid until the next call. */
const float *ps_store_weights(ps_store *store);

/* Copies the weights of the slice at `place` of conf.slices to out (n). */
void ps_store_copy_slice(const ps_store *store, uint32_t place, float *out);

/* Returns the version of the slice at `place` of conf.slices. */
uint64_t ps_store_version(const ps_store *store, uint32_t place);

/* Frees the slices. Afterwards the caller may only use tables and counters, cancel pulls, and
 * destroy the store. */
void ps_store_drop_slices(ps_store *store);

/* Returns the store's sparse tables, for their own files (table_file.h); NULL: there are none. */
ps_tables *ps_store_tables(ps_store *store);

/* Runs something once between two clocks of the rows. */
typedef void ps_store_at_clock_fn(void *arg, ps_tables *tables, uint64_t clock);

/* Arranges a call of fn(arg) when the contributions to all clocks before `clock` are in. The call
 * comes within the function that brings the last of them; fn may read or change the tables. If they
 * do not come, there is no call. Returns OUT_OF_RANGE if they are in already, FAILED_PRECONDITION
 * if another call is arranged. Not while the tables are lent. */
PS_MUST_USE ps_status ps_store_at_clock(ps_store *store, uint64_t clock, ps_store_at_clock_fn *fn,
                                        void *arg);
/* Cancels the call that is arranged for `clock`, if there is one. */
void ps_store_forget_at_clock(ps_store *store, uint64_t clock);

/* Returns what the tables have counted, until they are lent; zeros without tables, and of a fixed
 * vocabulary, which admits and removes nothing. */
ps_table_counters ps_store_table_counters(const ps_store *store);

/* Returns whether the store has tables that are not lent. */
bool ps_store_has_rows(const ps_store *store);

/* Lends the tables to another thread, which writes their files. Until destroy the store neither
 * accepts nor gives rows, nor reads the tables. */
void ps_store_lend_tables(ps_store *store);

/* Returns whether they were lent. */
bool ps_store_has_lent_tables(const ps_store *store);

/* ---- Save and load ---- */

/* Writes the store, whose tables are not lent. Returns the failure of `write`. */
PS_MUST_USE ps_status ps_store_save(const ps_store *store, ps_state_write_fn *write, void *arg);

/* Does the same as a file of `clock`, > 0. If ps_store_mark knows the clock `base`, the file has
 * only the rows that changed or moved since the file of `base` was written; else, and with 0, it
 * has all rows. */
PS_MUST_USE ps_status ps_store_save_since(const ps_store *store, uint64_t clock, uint64_t base,
                                          ps_state_write_fn *write, void *arg);

/* Notes that the file of `clock` is written now. Later files may count from it, and from that of
 * `base`, but from no other. Only of a store with rows. */
void ps_store_mark(ps_store *store, uint64_t clock, uint64_t base);

/* Reads from the first 4096 bytes of a file, or more, its clock (0: no file counts from it) and the
 * clock from which its rows count; 0: it has all. DATA_LOSS: not such a file, or damaged. */
PS_MUST_USE ps_status ps_store_file_clocks(const uint8_t *bytes, size_t len, uint64_t *clock,
                                           uint64_t *base);

/* Where a cut writes. */
typedef struct ps_store_cut_sink {
    ps_state_write_fn *write; /* takes the bytes of the file */
    /* Takes the weights (n) of a slice: its place in conf.slices. Each slice comes once. */
    ps_status (*weights)(void *arg, uint32_t place, const float *values, uint32_t n);
    /* Called before and after a piece is written. */
    void (*watch)(void *arg, bool begins);
    void *arg; /* of all three */
} ps_store_cut_sink;

/* Saves the store as it is now while it goes on: what is written and given to `sink` is what
 * ps_store_save would write now, its virtual shards in another order. Writes little at once. The
 * rest is written by ps_store_cut_next, and each virtual shard before the store changes it. A cut
 * that is under way is dropped. Only of a store without rows. */
void ps_store_cut_begin(ps_store *store, const ps_store_cut_sink *sink);
/* Writes the next virtual shard of the cut. Returns false if there is none left, or a write has
 * failed. */
bool ps_store_cut_next(ps_store *store);
/* Writes all that is left and ends the cut. Returns the first failure of the sink. */
PS_MUST_USE ps_status ps_store_cut_end(ps_store *store);
/* Ends the cut, if there is one, without its file. */
void ps_store_cut_drop(ps_store *store);

/* Keeps of each slice the weights from before its last step, from now on, until a contribution to
 * the next clock comes: as much memory again as weights, and no copies. Of rows it keeps copies of
 * those that the last step has changed. Call it before anything is pushed or loaded. Only under a
 * deterministic policy. A worker contributes to a clock only when it has all slices as they are for
 * it. So no slice of any server is ahead of another by more than one clock, and then nothing has
 * come for the clock after. A codec with state encodes the weights of each clock but the first,
 * whether they are pulled or not. */
void ps_store_keep_before(ps_store *store);

/* Returns whether ps_store_save_at can write the store for the repetition of `clock`: each slice,
 * and the rows, are at that clock, or at the next one and have what was before. */
bool ps_store_has_at(const ps_store *store, uint64_t clock);

/* Writes the store for the repetition of `clock`. A slice that has not been stepped on it is
 * written as it was when the clock began, without anything of the contributions to it. One that has
 * been is ahead: it is written with these contributions, of which repetitions then change nothing,
 * and with the weights from before, which are given to workers that ask for `clock`. Rows are
 * written as they were when the clock began, stepped or not. */
PS_MUST_USE ps_status ps_store_save_at(const ps_store *store, uint64_t clock,
                                       ps_state_write_fn *write, void *arg);

/* Copies the weights that the slice at `place` of conf.slices had when `clock` began, to out (n).
 */
void ps_store_copy_slice_at(const ps_store *store, uint32_t place, uint64_t clock, float *out);

/* Reads this store's virtual shards from a file, into a store that nothing was pushed to. After a
 * failure the caller may only destroy the store.
 *
 *  DATA_LOSS            not such a file, cut, damaged, or with members that no store has
 *                       written; names the offset
 *  FAILED_PRECONDITION  of another job, policy, optimizer, number of workers or contributors;
 *                       or a virtual shard that an earlier file had
 *
 */
PS_MUST_USE ps_status ps_store_load(ps_store *store, const uint8_t *bytes, size_t len);

/* Does the same with a file of the checkpoint at `clock`, or of an earlier one from which its rows
 * count: of these the oldest comes first, and only rows are read. FAILED_PRECONDITION too: rows of
 * a virtual shard count from a clock of which no file came before. */
PS_MUST_USE ps_status ps_store_load_of(ps_store *store, uint64_t clock, const uint8_t *bytes,
                                       size_t len);

/* Ends loading: there are no more files, and the store continues from what they brought.
 *
 *  FAILED_PRECONDITION  names a virtual shard that no file had
 *  DATA_LOSS            the clocks of the rows do not fit together
 *
 */
PS_MUST_USE ps_status ps_store_load_end(ps_store *store);

/* Has the workers that the files list as lost be there again. Between ps_store_load and
 * ps_store_load_end. */
void ps_store_find_workers(ps_store *store);

#endif
