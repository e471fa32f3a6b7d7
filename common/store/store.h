/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - what one server, or one of its threads, has of a job: slices of dense variables and
 * rows of sparse tables, behind one interface.
 *
 * Pure: no I/O, no clock, no thread. One thread at a time; different stores on different threads
 * share nothing but the reference counts of snapshots. The words, and what pushes and pulls do, are
 * those of shard.h (dense slices) and tables.h (rows by id); both keep the book of clocks.h.
 *
 * Virtual shards. Slices and rows of a job are dealt to PS_TABLE_SHARDS virtual shards: slice i to
 * i % PS_TABLE_SHARDS, a row to ps_table_shard_of its key. A store is made for a set of them. Which
 * set is up to placement: it changes no bit of what is computed.
 *
 * Save and load. ps_store_save writes all that the store would need to go on, cut by virtual shard;
 * ps_store_load reads the shards that are its own out of any number of files. So what some stores
 * have written, any other number can read, and the same calls give the same bits as without it.
 *
 *   - Under bsp a save belongs between two clocks or anywhere else: open sums and what waits for
 *     its turn are in the file.
 *   - Slices stand for themselves: files of different clocks go together. Rows of all virtual
 *     shards share their clocks: files go together when they are of the same ones.
 *   - Not in the file: wishes that wait (workers ask again), parts of a contribution of rows that
 *     is not whole (it begins again with part 0), and counters.
 *   - Policies that look at the time go on where the save left them: tell the time
 *     (ps_store_tick) before a save and before a load.
 *
 * The file is one of common/base/state.h, magic "PSGDSTO1", version 1:
 *
 *   kind 1, first     u64 job; text policy, text optimizer ("": none); u32 workers, contributors,
 *                     state floats of a value, tables, whether changes are broadcast;
 *                     (workers) u8 whether it is lost
 *   kind 2, by shard  u32 slices, each as below; u32 tables, and where there are some: rows
 *
 *   slice  u32 index, values (n), parts, turn; column; f32 n weights; f32 slots * n of the
 *          optimizer; then the parts that there are, lowest bit first:
 *            1 f32 n open sum · 2 the same as the codec adds it · 4 f32 n standing sum · 8 f32 what
 *            the codec of weights keeps · 16 encoding of weights, or of the last change · 32 f32
 *            workers * n what each was given · 64 f32 n mean square · 128 rows of an embedding
 *          u32 parked contributions: u32 contributor; encoding
 *   column    clocks.h (ps_book_put)
 *   encoding  u32 bytes, psgd.v1.Encoding; u32 bytes, payload
 *   rows of an embedding  shard_rows.c (shard_rows_put)
 *   rows   u64 clocks aged by, steps; u32 age, contributions in the open sum; u32 contributor of
 *          each; (contributors) u64 next; column; tables (table_state.h); for each contribution and
 *          table: u32 rows, u64 keys, f32 gradients, f32 shows, f32 clicks
 */
#ifndef PS_COMMON_STORE_STORE_H
#define PS_COMMON_STORE_STORE_H

#include "common/store/shard.h"
#include "common/store/tables.h"

typedef struct ps_store_conf {
    ps_shard_conf dense; /* slices of the store's virtual shards; none is allowed. What it points
                          * to is borrowed until create returns */
    ps_tables *tables; /* of the same virtual shards and the same policy, workers and contributors;
                        * taken. NULL: the job has no sparse tables */
    const bool *owned; /* (PS_TABLE_SHARDS): virtual shards whose rows are here; NULL: all.
                        * Borrowed */
    uint64_t job;      /* hash of what the job computes: a file of another is refused */
} ps_store_conf;

typedef struct ps_store ps_store;

ps_store *ps_store_create(const ps_store_conf *conf);
void ps_store_destroy(ps_store *store); /* NULL is allowed */

/* ---- Contributions ---- */

/* Takes one slice of a contribution: ps_shard_push. */
PS_MUST_USE ps_status ps_store_push(ps_store *store, uint32_t worker, uint64_t clock,
                                    uint32_t contributor, const Psgd__V1__Encoding *head,
                                    const uint8_t *bytes, size_t len, ps_shard_outcome *outcome);

/* Takes zeros for every slice of a contribution that is not in: ps_shard_push_zeros. */
PS_MUST_USE ps_status ps_store_push_zeros(ps_store *store, uint32_t worker, uint64_t clock,
                                          uint32_t contributor);

/* Takes a part of a contribution's rows: ps_tables_push. INVALID_ARGUMENT also where the job has no
 * sparse tables. */
PS_MUST_USE ps_status ps_store_push_rows(ps_store *store, const ps_tables_part *part);

/* Return whether all slices, or all rows, of a contribution are in: it may be acknowledged. */
bool ps_store_is_in(const ps_store *store, uint64_t clock, uint32_t contributor);
bool ps_store_has_rows(const ps_store *store, uint64_t clock, uint32_t contributor);

/* ---- Answers ---- */

/* A wish for slices, and what is to be sent of it: ps_shard_pull_begin and its siblings. */
PS_MUST_USE ps_status ps_store_pull_begin(ps_store *store, uint32_t worker, uint64_t clock);
void ps_store_pull_whole(ps_store *store, uint32_t worker);
void ps_store_pull_cancel(ps_store *store, uint32_t worker);
void ps_store_pull_next(ps_store *store, uint32_t worker, size_t max_bytes, ps_shard_piece *pieces,
                        size_t cap, ps_shard_answer *answer);
bool ps_store_is_waiting(const ps_store *store, uint32_t worker);

/* Returns whether the worker may have rows for this clock: ps_tables_may_pull. */
bool ps_store_may_pull_rows(const ps_store *store, uint32_t worker, uint64_t clock);

/* Gives the worker rows of each table in turn, (count, width): ps_tables_pull. */
PS_MUST_USE ps_status ps_store_pull_rows(ps_store *store, uint32_t worker, const uint64_t *keys,
                                         size_t count, float *out);

/* ---- Time, losses, how far it is ---- */

/* It is now_us (monotonic): closes what is due. */
void ps_store_tick(ps_store *store, int64_t now_us);

/* Returns when the next tick is due even if nothing else happens; INT64_MAX: never. */
int64_t ps_store_deadline(const ps_store *store);

/* Goes on without a worker: ps_shard_lose_worker. */
PS_MUST_USE ps_status ps_store_lose_worker(ps_store *store, uint32_t worker);
bool ps_store_is_lost(const ps_store *store, uint32_t worker);

/* Returns the oldest clock that is not complete in every slice and in the rows; UINT64_MAX: nothing
 * is here, or nobody is waited for. */
uint64_t ps_store_clock(const ps_store *store);

/* Writes the workers that it waits for, as ps_book_waits_for. */
uint32_t ps_store_waits_for(const ps_store *store, uint32_t *workers, uint32_t cap);

/* Returns contributions in open sums, which no step has seen yet. */
uint64_t ps_store_open(const ps_store *store);

const ps_store_counters *ps_store_counters_of(const ps_store *store);
/* Returns what slices and rows of one worker have come to. */
ps_worker_counters ps_store_worker_counters_of(const ps_store *store, uint32_t worker);

/* ---- What is here ---- */

/* Weights of the slices, one after the other: ps_shard_weights. */
size_t ps_store_value_count(const ps_store *store);
const float *ps_store_weights(ps_store *store);
uint64_t ps_store_version(const ps_store *store, uint32_t place); /* of the slice there */

/* Frees the slices, as nobody wants them any more. Then only the tables and counters are asked for,
 * wishes taken back, and the store destroyed. */
void ps_store_drop_slices(ps_store *store);

/* Sparse tables, for their own files (table_file.h); NULL: the job has none. The store's. */
ps_tables *ps_store_tables(ps_store *store);

/* Gives the tables to whoever writes their files, on another thread: until destroy the store
 * neither takes nor gives rows, nor looks at what is there. */
void ps_store_lend_tables(ps_store *store);
bool ps_store_has_tables(const ps_store *store); /* that are not lent */

/* ---- Save and load ---- */

/* Writes the store. The failure is `write`'s. */
PS_MUST_USE ps_status ps_store_save(const ps_store *store, ps_state_write_fn *write, void *arg);

/* Takes the virtual shards that are this store's out of a file, into a store that nothing was
 * pushed to. After a failure the store is only good for destroy.
 *
 * DATA_LOSS            not such a file, cut, damaged, or with members that no store has written;
 *                      names the offset
 * FAILED_PRECONDITION  of another job, policy, optimizer, number of workers or contributors; a
 *                      virtual shard that has come before
 */
PS_MUST_USE ps_status ps_store_load(ps_store *store, const uint8_t *bytes, size_t len);

/* There are no more files: the store lives on from what they brought.
 *
 * FAILED_PRECONDITION  names a virtual shard that none has brought
 * DATA_LOSS            the clocks of the rows do not fit together */
PS_MUST_USE ps_status ps_store_load_end(ps_store *store);

#endif
