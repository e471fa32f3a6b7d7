/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.h - the book of clocks: who has brought which contribution, and what a consistency policy
 * makes of it.
 *
 * A contribution is (clock, contributor): a clock is a training step, from 0; a contributor is a
 * block where the update is per block, else a worker. A worker brings the contributors that it
 * holds. With redundancy several workers hold one contributor, and the first to bring it counts.
 *
 * The book has columns. A column is what counts on its own: a slice of a dense variable, or all
 * rows of the sparse tables together. Each column keeps its own clocks, so parts of a step may be
 * complete before others. The book knows no values: its owner decodes, sums and steps.
 *
 * Rounds. Where a policy closes clocks without waiting for everybody, what comes for a closed
 * clock is late: dropped, or added to the open sum, as the policy says. A worker may leave closed
 * clocks out; what never came is counted as left out.
 *
 * Pure: no I/O, no clock, no thread. One thread at a time. Time is told (now_us).
 *
 * Letters: C columns, K contributors, W workers.
 */
#ifndef PS_COMMON_STORE_CLOCKS_H
#define PS_COMMON_STORE_CLOCKS_H

#include "common/base/state.h"
#include "common/base/status.h"
#include "common/consistency/consistency.h"
#include "common/store/counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What does not change. All pointers are borrowed until init returns; the policy is a const
 * table. */
typedef struct ps_book_conf {
    uint32_t columns, workers, contributors;
    const uint32_t *held_count;  /* (W) */
    const uint32_t *const *held; /* (W)(held_count): contributors of each worker, ascending; NULL
                                  * for both: worker w brings contributor w */
    const ps_consistency *policy;
    ps_params policy_params;
    ps_store_counters *counters; /* kept; the book counts contributions in it */
} ps_book_conf;

/* What has counted in a column since the beginning of the job. Without a policy that drops, and
 * with every contribution counted exactly once, the ledger after T clocks of K contributors is
 * count T * K and the sum of ps_book_hash over them all. */
typedef struct ps_ledger {
    uint64_t count; /* contributions that were stepped on or added to a sum */
    uint64_t hash;  /* sum of their ps_book_hash, modulo 2^64 */
} ps_ledger;

typedef struct ps_book_column {
    uint64_t version; /* number of updates; the owner increments it */
    uint64_t least;   /* least of `done` over the workers; UINT64_MAX: nobody is waited for */
    uint64_t clock;   /* under a buffering policy: number of sums that have closed */
    uint32_t in;      /* contributions in the open sum or parked for it, with late ones */
    uint32_t due;     /* contributions of `in` that are not late */
    int64_t first_us; /* arrival of the first contribution of `due`, in the policy's time */
    int64_t
        behind_us;   /* the policy's time is now_us - behind_us: it goes on where a save left it */
    uint64_t *words; /* the policy's state; NULL: it has none */
    uint32_t weight; /* contributions that one counts as; 1 unless the owner sets it */
    ps_ledger ledger;
} ps_book_column;

typedef struct ps_book_worker {
    bool is_lost;
    uint32_t held_count;
    uint32_t *held;           /* (held_count): contributors, ascending */
    ps_worker_counters share; /* counters of the worker's contributions */
} ps_book_worker;

/* Anybody may read the members. Only the functions below change them, unless a member says
 * otherwise. */
typedef struct ps_book {
    uint32_t columns, workers, contributors;
    const ps_consistency *policy;
    ps_params policy_params;
    bool buffers;   /* the policy buffers (consistency.h) */
    bool in_order;  /* sums are formed in the order of contributors */
    int64_t now_us; /* monotonic; the owner sets it */
    uint32_t live;  /* contributors that a worker holds which is not lost */
    size_t word_count;
    ps_book_column *column; /* (C) */
    ps_book_worker *worker; /* (W) */
    uint32_t *holder_at;    /* (K + 1): holders of k are holder[holder_at[k] .. holder_at[k + 1]) */
    uint32_t *holder;

    uint64_t *words;   /* (C, word_count) */
    uint64_t *next;    /* (K, C): first clock to which the contributor may still contribute */
    uint64_t *done;    /* (C, W): least of `next` over the contributors that the worker holds;
                        * UINT64_MAX: nobody waits for the worker */
    uint32_t *pending; /* (C, W): number of these contributors whose `next` is `done` */
    uint64_t *given;   /* (C, W): version of the column that the worker has */
    uint64_t *whole;   /* (K): least of `next` over the columns */
    uint32_t *left;    /* (K): number of columns whose `next` is `whole` */
    ps_store_counters *counters;
} ps_book;

/* Initialises a book. Asserts that `conf` is valid, so that every contributor is held by a worker:
 * the job was checked before. */
void ps_book_init(ps_book *book, const ps_book_conf *conf);
/* Frees what the book owns. A zeroed book is allowed. */
void ps_book_fini(ps_book *book);

static inline uint64_t ps_book_next(const ps_book *book, uint32_t column, uint32_t contributor)
{
    return book->next[(size_t)contributor * book->columns + column];
}

/* ---- A contribution comes ---- */

/* Checks that the worker may bring a contribution of the contributor.
 *
 * INVALID_ARGUMENT     no such worker or contributor
 * PERMISSION_DENIED    a contributor that the worker does not hold
 * FAILED_PRECONDITION  the worker is lost
 */
PS_MUST_USE ps_status ps_book_check_worker(const ps_book *book, uint32_t worker,
                                           uint32_t contributor);

/* Checks that the contributor may contribute to `clock` now. *is_in becomes whether the column has
 * that contribution already.
 *
 * OUT_OF_RANGE  a clock further ahead than the policy allows, or not the next one of this
 *               contributor (with rounds: nor one up to the open round)
 */
PS_MUST_USE ps_status ps_book_check_clock(const ps_book *book, uint32_t column,
                                          uint32_t contributor, uint64_t clock, bool *is_in);

/* Asks the policy what becomes of a contribution that was checked and is not in, and counts it.
 * PS_APPLY: the owner steps on it, times *scale, which is else 1. PS_BUFFER: the owner adds it to
 * the open sum, and calls ps_book_add. Then, whatever the answer is, the owner calls
 * ps_book_mark. Clocks that the contributor has passed over count as left out. */
ps_verdict ps_book_arrive(ps_book *book, uint32_t column, uint32_t worker, uint32_t contributor,
                          uint64_t clock, float *scale, bool *is_late);

/* Counts a contribution as a part of the open sum. */
void ps_book_add(ps_book *book, uint32_t column, bool is_late);

/* Marks that nothing more of the contributor will come to the column for clocks before `to`, which
 * is above its next. */
void ps_book_mark(ps_book *book, uint32_t column, uint32_t contributor, uint64_t to);

/* Marks that the worker went on without what the contributor has not brought for clocks before
 * `to`, and counts it. Returns false if there was nothing. */
bool ps_book_leave_out(ps_book *book, uint32_t column, uint32_t worker, uint32_t contributor,
                       uint64_t to);

/* Returns whether the open sum of a buffering policy is complete. Writes to *scale the factor by
 * which the sum is multiplied. */
bool ps_book_is_whole(const ps_book *book, uint32_t column, float *scale);

/* Closes the open sum. The next one is of the next clock, and empty. */
void ps_book_close(ps_book *book, uint32_t column);

/* Returns what identifies a contribution in a ledger. Its sums differ if one is missing or counts
 * twice, but for an accident of 1 in 2^64. */
uint64_t ps_book_hash(uint64_t clock, uint32_t contributor);

/* Compares the ledgers of all columns with *ledger; with *is_first, *ledger becomes that of the
 * first column. Returns the number of columns that differ from it. */
uint32_t ps_book_ledger(const ps_book *book, bool *is_first, ps_ledger *ledger);

/* ---- A worker asks ---- */

/* Returns whether the policy lets the worker begin `clock`, as far as this column goes. */
bool ps_book_admits(const ps_book *book, uint32_t column, uint32_t worker, uint64_t clock);

/* Returns whether the policy also lets the worker have the column as it is for `clock`. */
bool ps_book_may_pull(const ps_book *book, uint32_t column, uint32_t worker, uint64_t clock);

/* Notes that the worker was given the column as it is. */
void ps_book_gave(ps_book *book, uint32_t column, uint32_t worker);

/* ---- How far it is ---- */

/* Returns whether all columns have this contribution, or it was left out. True without columns. */
bool ps_book_is_in(const ps_book *book, uint64_t clock, uint32_t contributor);

/* Returns the oldest clock that is not complete in every column (with rounds: not closed);
 * UINT64_MAX without columns or when nobody is waited for. */
uint64_t ps_book_clock(const ps_book *book);

/* Returns the oldest clock that is not complete (with rounds: not closed) in one column;
 * UINT64_MAX if it waits for nobody. */
uint64_t ps_book_clock_of(const ps_book *book, uint32_t column);

/* Returns the clock of the column's open sum. */
uint64_t ps_book_open_clock(const ps_book *book, uint32_t column);

/* Writes the workers, in order, whose contributions to the clock of ps_book_clock are missing in
 * some column that waits; at most `cap`. Returns how many there are. */
uint32_t ps_book_waits_for(const ps_book *book, uint32_t *workers, uint32_t cap);

/* Returns whether the time of the column's deadline has come. */
bool ps_book_is_due(const ps_book *book, uint32_t column);

/* Returns the time, comparable with now_us, at which the next column is due; INT64_MAX: never. */
int64_t ps_book_deadline(const ps_book *book);

/* Returns the number of contributions in open sums, over all columns. */
uint64_t ps_book_open(const ps_book *book);

/* Marks a worker as lost: nobody waits for its clocks any more. A repetition is OK.
 *
 * INVALID_ARGUMENT     no such worker
 * FAILED_PRECONDITION  the policy does not survive a loss; nothing changed
 */
PS_MUST_USE ps_status ps_book_lose(ps_book *book, uint32_t worker);

/* ---- Save and load ---- */

/* Writes a column: u64 version, clock; u32 in, due; i64 time of the policy, first_us; u64 count and
 * hash of the ledger; (words) u64; (K) u64 next; (W) u64 given. Does not write which workers are
 * lost. */
void ps_book_put(const ps_book *book, uint32_t column, ps_state_out *out);

/* Writes a column as it was when `clock` began and all workers had its weights, which had
 * `version`: without anything of that clock. Only of a deterministic policy, which keeps no words.
 */
void ps_book_put_at(const ps_book *book, uint32_t column, uint64_t clock, uint64_t version,
                    ps_state_out *out);

/* Takes a contributor of a column back to the earlier clock `to`: contributions from it on may come
 * again, and are not in the ledger. After ps_book_take, before ps_book_settle. */
void ps_book_take_back(ps_book *book, uint32_t column, uint32_t contributor, uint64_t to);

/* Reads a column; the policy's time goes on from the saved one. Fails `in` if this policy cannot
 * have such a column. Call ps_book_settle before any other function. */
void ps_book_take(ps_book *book, uint32_t column, ps_state_in *in);

/* Returns the bytes of a column. */
size_t ps_book_bytes(const ps_book *book);

/* Marks a worker as lost, even if the policy does not survive it. Call ps_book_settle after. */
void ps_book_set_lost(ps_book *book, uint32_t worker);

/* Recomputes all members that follow from `next` and from which workers are lost. */
void ps_book_settle(ps_book *book);

#endif
