/* SPDX-License-Identifier: Apache-2.0 */
/* clocks.h - the book of clocks: which contributions have arrived, and what a consistency policy
 * makes of each.
 *
 * A contribution is (clock, contributor). A clock is a training step, from 0. A contributor is a
 * block if the update is per block, else a worker. Each worker holds some contributors and sends
 * their contributions. With redundancy several workers hold one contributor; the first of them
 * whose contribution arrives counts.
 *
 * The book has columns. A column is what counts on its own: a slice of a dense variable, or all
 * rows of the sparse tables together. Each column keeps its own clocks, so parts of a step may be
 * complete before others. The book has no values of gradients: its owner, the store, decodes, sums
 * and steps.
 *
 * Rounds. Some policies close a clock without waiting for every worker. A contribution to a closed
 * clock is late: it is dropped, or added to the open sum, as the policy says. A worker may skip
 * closed clocks; the contributions that it never sends count as left out.
 *
 * Pure: no I/O, no clock, no thread. One thread at a time. The owner sets the time (now_us).
 *
 * Letters: C columns, K contributors, W workers. */
#ifndef PS_COMMON_STORE_CLOCKS_H
#define PS_COMMON_STORE_CLOCKS_H

#include "common/base/state.h"
#include "common/base/status.h"
#include "common/consistency/consistency.h"
#include "common/store/counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sizes and plugins of a book. ps_book_init copies the struct and the arrays; the policy is a const
 * table; `counters` must live as long as the book. */
typedef struct ps_book_conf {
    uint32_t columns, workers, contributors;
    const uint32_t *held_count;  /* (W): number of contributors that each worker holds */
    const uint32_t *const *held; /* (W)(held_count): contributors of each worker, ascending; NULL
                                  * for both: worker w brings contributor w */
    const ps_consistency *policy;
    ps_params policy_params;
    ps_store_counters *counters; /* the store's; the book adds to them what it counts */
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
    /* least `done` of the workers in this column; UINT64_MAX: nobody is waited for */
    uint64_t least;
    uint64_t clock; /* under a buffering policy: number of sums that have closed */
    uint32_t in;    /* contributions in the open sum or parked for it, late ones included */
    /* the contributions of `in` that are not late, so belong to the open clock itself */
    uint32_t due;
    int64_t first_us; /* when the first of the `due` contributions arrived, in the policy's time */
    /* the policy's time is now_us - behind_us; a loaded column gets the behind_us with which that
     * time goes on from the saved one */
    int64_t behind_us;
    uint64_t *words; /* the policy's state; NULL: it has none */
    /* what one contribution to this column adds to the counters; 1 unless the owner sets it */
    uint32_t weight;
    ps_ledger ledger;
} ps_book_column;

typedef struct ps_book_worker {
    bool is_lost;
    uint32_t held_count;
    uint32_t *held;           /* (held_count): contributors, ascending */
    ps_worker_counters share; /* what this worker's contributions came to */
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
    uint32_t live;  /* number of contributors that at least one worker holds which is not lost */
    size_t word_count;
    ps_book_column *column; /* (C) */
    ps_book_worker *worker; /* (W) */
    uint32_t *holder_at;    /* (K + 1): holders of k are holder[holder_at[k] .. holder_at[k + 1]) */
    uint32_t *holder;

    uint64_t *words; /* (C, word_count) */
    /* (K, C): first clock that the contributor may still contribute to the column */
    uint64_t *next;
    uint64_t *done; /* (C, W): least of `next` over the contributors that the worker holds;
                     * UINT64_MAX: nobody waits for the worker */
    /* (C, W): number of contributors that the worker holds whose `next` equals `done` */
    uint32_t *pending;
    uint64_t *given; /* (C, W): version of the column that the worker was given last */
    uint64_t *whole; /* (K): least of `next` over the columns */
    uint32_t *left;  /* (K): number of columns whose `next` equals `whole` */
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

/* ---- A contribution arrives ---- */

/* Checks that the worker may bring a contribution of the contributor.
 *
 * INVALID_ARGUMENT     no such worker or contributor
 * PERMISSION_DENIED    a contributor that the worker does not hold
 * FAILED_PRECONDITION  the worker is lost
 */
PS_MUST_USE ps_status ps_book_check_worker(const ps_book *book, uint32_t worker,
                                           uint32_t contributor);

/* Checks that the contributor may contribute to `clock` now. Sets *is_in if it has contributed that
 * clock to the column already, or has skipped it; that is no failure.
 *
 * OUT_OF_RANGE  a clock further ahead than the policy allows; or a clock after the contributor's
 *               next one, unless the policy has rounds and the clock is not after the open round
 */
PS_MUST_USE ps_status ps_book_check_clock(const ps_book *book, uint32_t column,
                                          uint32_t contributor, uint64_t clock, bool *is_in);

/* Asks the policy what becomes of a contribution that ps_book_check_clock has accepted with *is_in
 * false. Counts it and returns the verdict. PS_APPLY: the owner steps on it, times *scale.
 * PS_BUFFER: the owner adds it to the open sum and calls ps_book_add. PS_DROP: the owner forgets
 * it. *scale is 1 unless the policy sets another factor; *is_late becomes whether a buffered
 * contribution is for a closed clock. After any verdict the owner calls ps_book_mark. The clocks
 * that the contributor has skipped count as left out. */
ps_verdict ps_book_arrive(ps_book *book, uint32_t column, uint32_t worker, uint32_t contributor,
                          uint64_t clock, float *scale, bool *is_late);

/* Counts a contribution, late or not, as a part of the open sum. */
void ps_book_add(ps_book *book, uint32_t column, bool is_late);

/* Marks that the contributor sends the column nothing more for clocks before `to`. `to` must be
 * above the contributor's `next`. */
void ps_book_mark(ps_book *book, uint32_t column, uint32_t contributor, uint64_t to);

/* Marks that the contributor will not contribute to clocks before `to`, and counts the missing
 * contributions as left out by the worker. Returns false if none is missing. */
bool ps_book_leave_out(ps_book *book, uint32_t column, uint32_t worker, uint32_t contributor,
                       uint64_t to);

/* Returns whether the open sum may close now, as the policy says; false under a policy that buffers
 * nothing. Writes to *scale the factor by which the sum is to be multiplied. */
bool ps_book_is_whole(const ps_book *book, uint32_t column, float *scale);

/* Closes the open sum: the column's clock grows by 1, and the next sum is empty. The owner has
 * stepped on the closed one. */
void ps_book_close(ps_book *book, uint32_t column);

/* Returns the number that stands for a contribution in a ledger. If one contribution is missing or
 * counts twice, the sum of these numbers differs, but for an accident of 1 in 2^64. */
uint64_t ps_book_hash(uint64_t clock, uint32_t contributor);

/* Compares the ledgers of all columns with *ledger. If *is_first is true, *ledger first becomes the
 * ledger of the first column, and *is_first false; so calls for several books can share both.
 * Returns the number of columns whose ledger differs from *ledger. */
uint32_t ps_book_ledger(const ps_book *book, bool *is_first, ps_ledger *ledger);

/* ---- A worker asks for a column ---- */

/* Returns whether the policy lets the worker begin `clock`, judged by this column alone. */
bool ps_book_admits(const ps_book *book, uint32_t column, uint32_t worker, uint64_t clock);

/* Returns whether the policy lets the worker begin `clock` and also have the column in its present
 * state for it. */
bool ps_book_may_pull(const ps_book *book, uint32_t column, uint32_t worker, uint64_t clock);

/* Notes that the worker was given the column. The present version counts as the one it was given.
 */
void ps_book_gave(ps_book *book, uint32_t column, uint32_t worker);

/* ---- Progress ---- */

/* Returns whether every column has this contribution, or it was dropped or left out there. True if
 * the book has no columns. */
bool ps_book_is_in(const ps_book *book, uint64_t clock, uint32_t contributor);

/* Returns the oldest clock that is not complete in every column (with rounds: not closed);
 * UINT64_MAX without columns or when nobody is waited for. */
uint64_t ps_book_clock(const ps_book *book);

/* Returns the oldest clock that is not complete (with rounds: not closed) in one column;
 * UINT64_MAX if it waits for nobody. */
uint64_t ps_book_clock_of(const ps_book *book, uint32_t column);

/* Returns the clock of the column's open sum. */
uint64_t ps_book_open_clock(const ps_book *book, uint32_t column);

/* Writes the workers, in ascending order, whose contributions to the clock of ps_book_clock are
 * missing in some column whose oldest clock that is. Writes at most `cap` of them; returns the
 * number of all. */
uint32_t ps_book_waits_for(const ps_book *book, uint32_t *workers, uint32_t cap);

/* Returns whether the column's open sum may close by time now, although nothing arrives. */
bool ps_book_is_due(const ps_book *book, uint32_t column);

/* Returns the time, comparable with now_us, at which ps_book_is_due first becomes true for some
 * column; INT64_MAX: never. */
int64_t ps_book_deadline(const ps_book *book);

/* Returns the number of contributions in open sums or parked for them, added over all columns. */
uint64_t ps_book_open(const ps_book *book);

/* Marks a worker as lost: nobody waits for its clocks any more. OK if it is lost already.
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

/* Writes a column as it was when `clock` began and all workers had its weights, whose version was
 * `version`: without any contribution to `clock` or a later one. Only under a deterministic policy,
 * which keeps no words. */
void ps_book_put_at(const ps_book *book, uint32_t column, uint64_t clock, uint64_t version,
                    ps_state_out *out);

/* Takes a contributor of a column back to the earlier clock `to`: its contributions from that clock
 * on may come again, and are not in the ledger. Call it after ps_book_take and before
 * ps_book_settle. */
void ps_book_take_back(ps_book *book, uint32_t column, uint32_t contributor, uint64_t to);

/* Reads a column; the policy's time goes on from the saved one. Fails `in` if a column with these
 * values is impossible under the book's policy. Before any other function of the book, the caller
 * calls ps_book_settle. */
void ps_book_take(ps_book *book, uint32_t column, ps_state_in *in);

/* Returns the number of bytes that ps_book_put writes for a column. */
size_t ps_book_bytes(const ps_book *book);

/* Marks a worker as lost, even if the policy does not survive it. The caller then calls
 * ps_book_settle. */
void ps_book_set_lost(ps_book *book, uint32_t worker);

/* Recomputes all members that follow from `next` and from which workers are lost. */
void ps_book_settle(ps_book *book);

#endif
