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
 * push may be repeated at any time, completely or in part. A call that fails has changed nothing
 * but counters, unless its comment says otherwise.
 *
 * Policies that buffer (bsp, backup, quorum, half_async) add contributions to an open sum. When the
 * sum closes, w -= step(sum * scale * merge_scale). Under a deterministic policy (bsp) the sum is
 * formed in the order of contributors, whatever the order of arrival, so that the bits of the
 * weights depend on neither the network nor the number of servers. A contribution that arrives
 * before its turn is parked: it waits, encoded, in a pooled buffer. The other policies add on
 * arrival. Rows are added up by key, and each row is stepped once. Policies that apply (ssp, asp
 * and others) make each contribution a step of its own, w -= scale * step(x * merge_scale), in the
 * order of arrival; contributions of one contributor come in the order of their clocks.
 *
 * Rounds. Some policies close a clock without waiting for every worker. A contribution to a closed
 * clock is late: it is dropped, or added to the open sum, as the policy says, and counted. Under a
 * policy that leaves workers behind, a worker may leave out clocks that are closed: by its pull of
 * clock c it says that it contributes nothing more to earlier clocks. Contributions that never came
 * are counted as left out.
 *
 * Rows of a contribution that is dropped count neither for admission nor for ageing.
 *
 * Time. The owner tells the store the time by ps_store_tick; policies see the time of the last
 * call. A store that is never told the time closes nothing by time.
 *
 * A sparse variable is rows by id, of one of two kinds. With a fixed vocabulary, all rows exist
 * from the start: slices of the layout say which (ps_store_slice.row). Workers have all of these
 * rows. A worker's pull of weights then also opens a pull of the rows that were stepped since the
 * worker was given them; a pull of a later clock says that the whole answer before has arrived. In
 * a table that grows, rows are made by pushes of new ids (table.h), and a worker pulls the rows of
 * ids that it names. Pushes and steps are the same for both kinds.
 *
 * Codecs may need more of a store (common/codec): an open sum in the codec's own form, which is not
 * decoded; where contributions are differences, a step on the standing sum of all contributions
 * since the beginning; for weights, a residual of what the encoding before has lost.
 *
 * Memory for slices, in bytes: 4 for each value of the weights, of the optimizer's state and of the
 * open sum (only under a buffering policy, and not under bsp with one contributor); 8 for each
 * (slice, contributor) and 20 for each (slice, worker); the policy's words for each slice; one
 * encoded snapshot of each slice, two if earlier weights are kept and the codec has state, and
 * older snapshots that the caller still references. With the codec f32 there is no snapshot: the
 * weights themselves are sent, and if a slice is stepped while it is being sent, the step writes to
 * a copy. Only a deterministic policy parks: at most (contributors - 1) times the encoded size of
 * all slices, in buffers of powers of two, and the pool never shrinks. Corrected delays take 4 more
 * for each (value, worker), and 4 for each value if they adapt. A store that broadcasts has one
 * snapshot of each slice with any codec, and 64 KiB.
 *
 * Memory for rows: the tables (table.h); if earlier rows are kept, copies of those that the last
 * step has changed; contributions that were not stepped on yet, at most keys_max rows of each table
 * for each; with a fixed vocabulary also two bits for each (row, worker).
 *
 * Virtual shards. Each slice and row of a job belongs to one of PS_SHARDS virtual shards
 * (common/base/shards.h). A store is made for a set of them, which placement chooses. The choice
 * changes no bit of what is computed.
 *
 * Save and load. ps_store_save writes all that the store needs to go on, one virtual shard after
 * the other. ps_store_load reads the store's own virtual shards out of any number of files. So any
 * number of stores can read what any other number has written. A store that was saved and loaded
 * gives the same bits for the same calls as one that was not.
 *
 *   - A store may be saved at any time, under bsp too: open sums and parked contributions are in
 *     the file.
 *   - If one thread of a server has the slices of a virtual shard and another one has its rows,
 *     each of their stores reads only the sections of what it has.
 *   - Each slice has clocks of its own, so slices may be read from files of different clocks. The
 *     rows of all virtual shards share one column of clocks. Under policies that buffer, rows must
 *     be read from files of the same clock. Under policies that apply, the clocks may differ: a
 *     contribution that comes again is applied to the rows of those virtual shards that lack it.
 *     The tables get the newest age in the files.
 *   - Not in the file: open pulls (workers pull again); parts of a contribution of rows whose last
 *     part has not arrived (the worker begins again with part 0); which rows a worker was given (it
 *     is given all that were ever stepped); counters.
 *   - For policies with deadlines the time goes on where the save left it. Call ps_store_tick
 *     before a save and before a load.
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

/* A slice of a dense variable, or a run of rows of a fixed vocabulary, with the codecs of its
 * contributions (up) and of its weights (down). */
typedef struct ps_store_slice {
    /* number of the slice in the layout, which Encoding.slice names; ascending in conf.slices */
    uint32_t index;
    uint32_t n; /* values, 1..PS_CODEC_VALUES */
    const ps_codec *up, *down;
    ps_params up_params, down_params;
    /* the slice is state of a layer: what is pushed is a decrement, even if an optimizer steps
     * other slices: w -= merged */
    bool is_state;
    /* For rows of a fixed vocabulary: the number of values of one row; n is a multiple of it. The
     * slice is then the rows [first_row, first_row + n / row) of table number `table`, and is
     * neither pushed nor pulled as a slice. 0: a slice of a dense variable. Must be 0 if the store
     * broadcasts or corrects delays. */
    uint32_t row, table;
    uint64_t first_row;
} ps_store_slice;

/* All pointers are borrowed until create returns; plugins are const tables. */
typedef struct ps_store_conf {
    uint32_t workers;
    uint32_t contributors;       /* block count if the update is per block, else workers */
    const uint32_t *held_count;  /* (workers): number of contributors that each worker holds */
    const uint32_t *const *held; /* (workers)(held_count): contributors of each, ascending; NULL
                                  * for both: worker w brings contributor w */
    const ps_consistency *policy;
    ps_params policy_params;
    /* its optim is NULL if workers send increments: w -= merged. With tables, the tables' rows are
     * stepped by it too */
    ps_descent descent;
    /* factor of every sum or contribution before its step; the update chooses it */
    float merge_scale;
    uint64_t seed; /* the job's seed; stochastic rounding of snapshots uses it */
    /* corrects gradients of policies that apply (delay.h); lambda 0: no correction */
    ps_delay delay;
    /* workers keep replicas: they are sent what a step has changed (replica.h), encoded by the
     * codec `down` */
    bool broadcasts;
    uint32_t slice_count;
    const ps_store_slice *slices; /* (slice_count); none is allowed */
    /* initial values of conf.slices, one slice after the other; NULL: zeros */
    const float *weights;
    /* the sparse tables, of the same virtual shards as the slices; the store takes them. NULL: it
     * has no rows. Tables of a fixed vocabulary come empty, because conf.slices have their rows */
    ps_tables *tables;
    /* workers that go on from the files of a store have all rows of its fixed vocabularies as they
     * got them; false: they are given all rows that were ever stepped once more */
    bool workers_have_rows;
    /* hash of what the job computes; ps_store_load refuses the file of another job */
    uint64_t job;
} ps_store_conf;

typedef struct ps_store ps_store;

/* Creates a store. Every contributor must be held by a worker. All of conf is asserted, because the
 * job was checked before. */
ps_store *ps_store_create(const ps_store_conf *conf);

/* Frees the store. Snapshots to which the caller has a reference stay. NULL is allowed. */
void ps_store_destroy(ps_store *store);

/* ---- Pushes ---- */

typedef enum ps_store_outcome {
    PS_STORE_APPLIED,    /* added to the open sum, or stepped on */
    PS_STORE_PARKED,     /* kept encoded until earlier contributors were added to the sum */
    PS_STORE_DUPLICATE,  /* the slice had this contribution already; nothing changed */
    PS_STORE_NOT_FINITE, /* refused: a value is NaN or infinite */
    /* forgotten by the policy's verdict; a repetition of it counts as a duplicate */
    PS_STORE_DROPPED
} ps_store_outcome;

/* Takes one slice of a contribution. head and bytes come from the network; both are borrowed.
 * payload_bytes 0 in the head stands for a slice of zeros. A call that fails changes nothing but
 * the counter of refused contributions. Of a failure, *outcome is set only for a value that is not
 * finite: PS_STORE_NOT_FINITE.
 *
 * INVALID_ARGUMENT     no such worker or contributor, a slice that this store does not own, or not
 *                      the slice's codec; a value that is not finite
 * PERMISSION_DENIED    a contributor that the worker does not hold
 * OUT_OF_RANGE         WRONG_CLOCK: a clock further ahead than the policy allows, or after the next
 *                      one of this contributor (with rounds: and after the open round)
 * DATA_LOSS            len is not payload_bytes or not what n values take, or the codec's numbers
 *                      are wrong (an int8 scale that is negative or not finite)
 * FAILED_PRECONDITION  the worker is lost
 */
PS_MUST_USE ps_status ps_store_push(ps_store *store, uint32_t worker, uint64_t clock,
                                    uint32_t contributor, const Psgd__V1__Encoding *head,
                                    const uint8_t *bytes, size_t len, ps_store_outcome *outcome);

/* Does what ps_store_push does, but does not look for values that are not finite: the caller has
 * checked them. For a slice that is sent as plain float32. */
PS_MUST_USE ps_status ps_store_push_finite(ps_store *store, uint32_t worker, uint64_t clock,
                                           uint32_t contributor, const Psgd__V1__Encoding *head,
                                           const uint8_t *bytes, size_t len,
                                           ps_store_outcome *outcome);

/* Takes zeros for every slice of a contribution that has not arrived yet. If all slices have it
 * already, the call counts as a repetition. Fails as ps_store_push does, for all slices or for
 * none. */
PS_MUST_USE ps_status ps_store_push_zeros(ps_store *store, uint32_t worker, uint64_t clock,
                                          uint32_t contributor);

/* A part of a contribution's rows: some rows of one table. The parts of a contribution are numbered
 * from 0. Part 0 discards the parts that came before, so a worker may begin to send them anew at
 * any point. */
typedef struct ps_store_rows {
    uint32_t worker; /* the one that sends the part */
    uint64_t clock;
    uint32_t contributor, part, table;
    bool is_last;         /* no further part of the contribution follows */
    const uint64_t *keys; /* (count), each once, ascending */
    size_t count;
    const float *grads;             /* (count, width) */
    const uint32_t *shows, *clicks; /* (count); NULL: each row was shown once, and clicked never */
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

/* Returns whether all slices and the rows of this contribution have arrived, from whichever worker;
 * it may then be acknowledged. Always true for a store that has neither slices nor rows. */
bool ps_store_is_in(const ps_store *store, uint64_t clock, uint32_t contributor);

/* ---- Pulls ---- */

/* Opens a pull: the worker asks for all slices as they are for `clock`. A second call for the same
 * clock starts the answer anew, because a reply may have been lost.
 *
 * INVALID_ARGUMENT     no such worker
 * OUT_OF_RANGE         WRONG_CLOCK: a clock before the worker's last one; or, under a policy that
 *                      leaves workers behind, a clock more than one after the open round
 * FAILED_PRECONDITION  the worker is lost, or its pull of another clock is open
 *                      (ps_store_pull_cancel cancels it)
 */
PS_MUST_USE ps_status ps_store_pull_begin(ps_store *store, uint32_t worker, uint64_t clock);

/* Returns the clock of the worker's last pull of slices. */
uint64_t ps_store_pull_clock(const ps_store *store, uint32_t worker);

/* Makes the answer of the pull that ps_store_pull_begin has just opened complete, because the
 * worker has lost what it was given before. A store that broadcasts then sends the weights as
 * float32 instead of changes; of a fixed vocabulary all rows come that were ever stepped. */
void ps_store_pull_whole(ps_store *store, uint32_t worker);

/* Cancels the worker's open pulls, of slices and of rows, because its stream has ended. */
void ps_store_pull_cancel(ps_store *store, uint32_t worker);

/* One slice of an answer. */
typedef struct ps_store_piece {
    /* the store's; valid until the next call that changes the store */
    const Psgd__V1__Encoding *head;
    /* the store's, valid as long as `head`; a caller who keeps the bytes takes a reference */
    ps_buf *buf;
    size_t at, len;    /* the bytes are [at, at + len) of buf */
    uint64_t checksum; /* checksum of the weights (replica.h), if the store broadcasts */
} ps_store_piece;

typedef struct ps_store_answer {
    uint64_t clock;   /* the clock that the pull asks for */
    uint64_t version; /* the least version of the slices */
    bool is_change;   /* the pieces are changes from version - 1; else weights */
    size_t count;     /* pieces written */
    size_t bytes;     /* sum of the pieces' len */
    bool is_last;     /* the pieces complete the answer */
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
 * be pulled ahead: the policy must let the worker begin the clock, but the worker's own
 * contributions to earlier clocks may still be missing. ps_store_pull_cancel cancels the pull.
 *
 * INVALID_ARGUMENT     no such worker; keys that do not ascend, or that are not of this store or no
 *                      ids of a table
 * FAILED_PRECONDITION  the store has no rows or only those of a fixed vocabulary; the worker is
 *                      lost, or has an open pull of rows
 */
PS_MUST_USE ps_status ps_store_rows_begin(ps_store *store, uint32_t worker, uint64_t clock,
                                          const uint64_t *keys, size_t count);

/* The answer to a pull of rows, or a part of it. */
typedef struct ps_store_rows_answer {
    /* clock: the one asked for; version: number of steps on the rows so far */
    uint64_t clock, version;
    /* the rows are of the tables [first_table, first_table + table_count) */
    uint32_t first_table, table_count;
    size_t count;         /* number of keys */
    const uint64_t *keys; /* (count), the store's, valid until the worker's next pull */
    /* float32: of each table in turn (count, width); the caller unreferences it */
    ps_buf *values;
    bool is_last; /* the answer completes the pull */
} ps_store_rows_answer;

/* Returns whether the worker has a pull of rows that is not answered completely. If threads share
 * the store, the thread that serves the worker's streams may call this without the lock. */
bool ps_store_wants_rows(const ps_store *store, uint32_t worker);

/* Returns how many of these rows of a table, which are left for a worker, the next answer has, from
 * the first: 1 to count. */
typedef size_t ps_store_rows_cut(const void *arg, uint32_t table, const uint64_t *keys,
                                 size_t count);

/* Gives the next rows of the worker's open pull: all keys that it asked for, or, of a fixed
 * vocabulary, as many of a table's changed rows as cut(arg, ...) returns; all if `cut` is NULL.
 * Returns false if the policy does not admit the pull yet, or if no pull is open. */
bool ps_store_rows_next(ps_store *store, uint32_t worker, ps_store_rows_cut *cut, const void *arg,
                        ps_store_rows_answer *answer);

/* ---- Time, losses, progress ---- */

/* Tells the store the (monotonic) time and closes clocks that are due. Call it before pushes and at
 * ps_store_deadline; then call ps_store_pull_next. */
void ps_store_tick(ps_store *store, int64_t now_us);

/* Returns the time, as in ps_store_tick, at which ps_store_tick must be called even if nothing else
 * happens; INT64_MAX: never. */
int64_t ps_store_deadline(const ps_store *store);

/* Continues without a worker: the others no longer wait for its clocks, its pulls are cancelled and
 * its later pushes are refused. May be repeated. The last worker may be lost too.
 *
 * INVALID_ARGUMENT     no such worker
 * FAILED_PRECONDITION  the policy does not survive a loss; nothing changed
 */
PS_MUST_USE ps_status ps_store_lose_worker(ps_store *store, uint32_t worker);
bool ps_store_is_lost(const ps_store *store, uint32_t worker);

/* Returns the oldest clock that is not complete in every slice and in the rows (with rounds:
 * closed, with whatever it got); UINT64_MAX: nothing is here, or nobody is waited for. */
uint64_t ps_store_clock(const ps_store *store);

/* Writes the workers, in ascending order and without lost ones, whose contributions to the clock of
 * ps_store_clock are missing in a slice or in the rows. Writes at most `cap`; returns the number of
 * all. Looks at every slice. */
uint32_t ps_store_waits_for(const ps_store *store, uint32_t *workers, uint32_t cap);

/* Returns the number of contributions in open sums or parked for them, added over the slices and
 * the rows. */
uint64_t ps_store_open(const ps_store *store);

const ps_store_counters *ps_store_counters_of(const ps_store *store);

/* Compares the ledgers of all slices and of the rows; arguments and result are those of
 * ps_book_ledger (clocks.h). */
uint32_t ps_store_ledger(const ps_store *store, bool *is_first, ps_ledger *ledger);
const ps_worker_counters *ps_store_worker_counters_of(const ps_store *store, uint32_t worker);

/* ---- Contents ---- */

size_t ps_store_value_count(const ps_store *store);

/* Returns the weights of all slices, one after the other (ps_store_value_count), in memory of the
 * store. Valid until the next call of this function. */
const float *ps_store_weights(ps_store *store);

/* Copies the weights of the slice at `place` of conf.slices to out (n). */
void ps_store_copy_slice(const ps_store *store, uint32_t place, float *out);

/* Returns the version of the slice at `place` of conf.slices. */
uint64_t ps_store_version(const ps_store *store, uint32_t place);

/* Frees the slices. Afterwards the caller may only use tables and counters, cancel pulls, and
 * destroy the store. */
void ps_store_drop_slices(ps_store *store);

/* Returns the store's sparse tables, for writing them to files (table_file.h); NULL: it has
 * none. */
ps_tables *ps_store_tables(ps_store *store);

/* What ps_store_at_clock calls: the contributions to the clocks before `clock` have arrived. */
typedef void ps_store_at_clock_fn(void *arg, ps_tables *tables, uint64_t clock);

/* Arranges one call of fn(arg) for the moment when the contributions to all clocks before `clock`
 * have arrived. The call comes within the function of the store that takes the last of them; fn may
 * read or change the tables. If some never arrive, there is no call. Returns OUT_OF_RANGE if all
 * have arrived already; FAILED_PRECONDITION if another call is arranged, or if the store has no
 * tables or has lent them. */
PS_MUST_USE ps_status ps_store_at_clock(ps_store *store, uint64_t clock, ps_store_at_clock_fn *fn,
                                        void *arg);
/* Cancels the call that is arranged for `clock`, if there is one. */
void ps_store_forget_at_clock(ps_store *store, uint64_t clock);

/* Returns what the tables have counted up to now, or up to ps_store_lend_tables. Zeros if the store
 * has no tables, or only a fixed vocabulary, which admits and removes no rows. */
ps_table_counters ps_store_table_counters(const ps_store *store);

/* Returns whether the store has tables that are not lent. */
bool ps_store_has_rows(const ps_store *store);

/* Lends the tables to another thread, which writes them to files. From then until destroy the store
 * neither takes nor gives rows, and does not read the tables. */
void ps_store_lend_tables(ps_store *store);

/* Returns whether ps_store_lend_tables was called. */
bool ps_store_has_lent_tables(const ps_store *store);

/* ---- Save and load ---- */

/* Writes the store's whole state as a file. Must not be called after ps_store_lend_tables. Returns
 * the failure of `write`. */
PS_MUST_USE ps_status ps_store_save(const ps_store *store, ps_state_write_fn *write, void *arg);

/* Writes the store's state as the file of `clock`, > 0. If the clock `base` is one that
 * ps_store_mark has noted, the file has only the rows that changed or moved since the file of
 * `base`. If it is not, or is 0, the file has all rows. Returns the failure of `write`. */
PS_MUST_USE ps_status ps_store_save_since(const ps_store *store, uint64_t clock, uint64_t base,
                                          ps_state_write_fn *write, void *arg);

/* Notes that the file of `clock` is written now. Later files may contain only what changed since
 * it, or since the file of `base`; every other file that was noted before is forgotten. Only of a
 * store with rows. */
void ps_store_mark(ps_store *store, uint64_t clock, uint64_t base);

/* Reads two clocks from the first bytes of a file, at least 4096 of them or the whole file. *clock:
 * the clock that the file was written for; 0: no later file counts from it. *base: the clock of the
 * earlier file whose rows this one adds to; 0: it has all rows. DATA_LOSS: not such a file, or
 * damaged. */
PS_MUST_USE ps_status ps_store_file_clocks(const uint8_t *bytes, size_t len, uint64_t *clock,
                                           uint64_t *base);

/* Where a cut (ps_store_cut_begin) writes to. */
typedef struct ps_store_cut_sink {
    ps_state_write_fn *write; /* takes the bytes of the file */
    /* Takes the weights (n) of a slice: its place in conf.slices. Each slice comes once. */
    ps_status (*weights)(void *arg, uint32_t place, const float *values, uint32_t n);
    /* Called with begins true before a virtual shard is written, and with false after it. */
    void (*watch)(void *arg, bool begins);
    void *arg; /* first argument of all three functions */
} ps_store_cut_sink;

/* Begins a cut: saves the present state of the store while the store goes on. What `sink` is given
 * is what ps_store_save would write now, with the virtual shards in another order. This call writes
 * the head of the file; each call of ps_store_cut_next writes one more virtual shard, and the store
 * writes a virtual shard itself before it changes it. Drops a cut that is under way. Only of a
 * store without rows. */
void ps_store_cut_begin(ps_store *store, const ps_store_cut_sink *sink);
/* Writes the next virtual shard of the cut. Returns false if there is none left, or a write has
 * failed. */
bool ps_store_cut_next(ps_store *store);
/* Writes all virtual shards that are left and ends the cut. Returns the first failure of the
 * sink. */
PS_MUST_USE ps_status ps_store_cut_end(ps_store *store);
/* Ends the cut that is under way, if there is one; its file stays incomplete. */
void ps_store_cut_drop(ps_store *store);

/* From now on keeps for each slice the weights from before its last step, until a contribution to
 * the next clock arrives. This takes as much memory again as the weights; values are copied only if
 * the store broadcasts or a sum closes empty. Of rows it keeps copies of those that the last step
 * has changed. Call it before anything is pushed or loaded, and only under a deterministic policy.
 * There a worker contributes to a clock only after it was given all slices for it. So no slice of
 * any server is ahead of another by more than one clock, and if one is ahead, nothing has arrived
 * for the clock after. If the codec `down` has state, the store encodes the weights of each clock
 * but the first, whether they are pulled or not. */
void ps_store_keep_before(ps_store *store);

/* Returns whether ps_store_save_at can write the store for the repetition of `clock`: each slice,
 * and the rows, are at that clock, or at the next one with their state from before the step. */
bool ps_store_has_at(const ps_store *store, uint64_t clock);

/* Writes the store for the repetition of `clock`. A slice that was not stepped on that clock yet is
 * written as it was when the clock began, without any contribution to it. A slice that was stepped
 * on it is ahead: it is written with these contributions, so that their repetitions change nothing,
 * and with its weights from before the step, which workers that ask for `clock` are given. Rows are
 * written as they were when the clock began, whether stepped or not. Returns the failure of
 * `write`. */
PS_MUST_USE ps_status ps_store_save_at(const ps_store *store, uint64_t clock,
                                       ps_state_write_fn *write, void *arg);

/* Copies the weights that the slice at `place` of conf.slices had when `clock` began, to out (n).
 */
void ps_store_copy_slice_at(const ps_store *store, uint32_t place, uint64_t clock, float *out);

/* Reads this store's virtual shards from a file, into a store to which nothing was pushed. After a
 * failure the caller may only destroy the store.
 *
 * DATA_LOSS            not such a file, cut, damaged, or with members that no store has
 *                      written; names the offset
 * FAILED_PRECONDITION  of another job, policy, optimizer, number of workers or contributors;
 *                      or a virtual shard that an earlier file had
 */
PS_MUST_USE ps_status ps_store_load(ps_store *store, const uint8_t *bytes, size_t len);

/* Reads a file of the checkpoint at `clock`, or an earlier file from which the rows of that one
 * count. Call it with the oldest file first; of earlier files only rows are read. Fails as
 * ps_store_load does, and with FAILED_PRECONDITION if the rows of a virtual shard count from a
 * clock of which no file was read before. */
PS_MUST_USE ps_status ps_store_load_of(ps_store *store, uint64_t clock, const uint8_t *bytes,
                                       size_t len);

/* Ends loading: there are no more files, and the store continues from what was read.
 *
 * FAILED_PRECONDITION  names a virtual shard that no file had
 * DATA_LOSS            the clocks of the rows do not fit together
 */
PS_MUST_USE ps_status ps_store_load_end(ps_store *store);

/* Makes the workers that the files list as lost present again. Call it between ps_store_load and
 * ps_store_load_end. */
void ps_store_find_workers(ps_store *store);

#endif
