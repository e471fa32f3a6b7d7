/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - the sparse tables of a job, as far as one store has them, behind the job's clocks:
 * contributions of rows in, rows out.
 *
 * Pure: no I/O, no clock, no thread; one thread at a time. A contribution is (clock, contributor)
 * and comes in parts, each rows of one table; parts are numbered, and part 0 begins it anew, so it
 * may be sent again at any point. What is in is in: it changes nothing a second time.
 *
 * The rows of all tables are one column of a book of clocks (clocks.h), so the policies that dense
 * slices obey hold for rows too. Where a policy buffers, contributions wait until the open sum
 * closes; then they are added up by key, under a deterministic policy in the order of contributors,
 * and each row is stepped once. Where it applies, each contribution is a step of its own.
 *
 * Two kinds of policies are refused by the checks of a job (common/job/table.c): those that scale a
 * step, as each row has an optimizer of its own; and those that leave workers behind or drop, as
 * rows that were shown count for admission and ageing.
 *
 * Memory: beside the tables (table.h) what is not stepped yet, at most keys_max rows of each table
 * a contribution.
 */
#ifndef PS_COMMON_STORE_TABLES_H
#define PS_COMMON_STORE_TABLES_H

#include "common/optim/descent.h"
#include "common/store/clocks.h"
#include "common/store/table.h"
#include "common/store/table_file.h"

typedef struct ps_tables_conf {
    uint32_t table_count;
    const ps_table_conf *tables; /* (table_count), copied; of one worker */
    ps_book_conf book;  /* its columns are not read: there is one. counters NULL: the tables' own */
    float merge_scale;  /* of what all contributors brought */
    ps_descent descent; /* without penalties; its rule is the tables' */
    uint32_t keys_max;  /* of a contribution and table */
    uint64_t tick;      /* clocks from one ps_table_shrink to the next; 0: never */
} ps_tables_conf;

typedef struct ps_tables ps_tables;

ps_tables *ps_tables_create(const ps_tables_conf *conf);
void ps_tables_destroy(ps_tables *tables); /* NULL is allowed */

typedef struct ps_tables_part {
    uint32_t worker; /* that brings it */
    uint64_t clock;
    uint32_t contributor, part, table;
    bool is_last;
    const uint64_t *keys; /* (count), each once, ascending */
    size_t count;
    const float *grads;             /* (count, width) */
    const uint32_t *shows, *clicks; /* (count) */
} ps_tables_part;

/* Takes a part.
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
PS_MUST_USE ps_status ps_tables_push(ps_tables *tables, const ps_tables_part *part);

/* Returns whether this contribution is in. */
bool ps_tables_is_in(const ps_tables *tables, uint64_t clock, uint32_t contributor);

/* Goes on without a worker, as ps_book_lose. */
PS_MUST_USE ps_status ps_tables_lose(ps_tables *tables, uint32_t worker);

/* It is now_us (monotonic): closes what is due. */
void ps_tables_tick(ps_tables *tables, int64_t now_us);

/* Returns the oldest clock that somebody has not brought all of; UINT64_MAX when nobody is waited
 * for. */
uint64_t ps_tables_clock(const ps_tables *tables);

/* Returns whether the policy admits the worker to this clock. Rows are fetched ahead, so that the
 * worker's own contributions to the clocks before need not be in. */
bool ps_tables_may_pull(const ps_tables *tables, uint32_t worker, uint64_t clock);

/* Notes that the worker was given rows. */
void ps_tables_gave(ps_tables *tables, uint32_t worker);

/* Of each table in turn the rows of keys (count), (count, width). INVALID_ARGUMENT as of a
 * push. */
PS_MUST_USE ps_status ps_tables_pull(const ps_tables *tables, const uint64_t *keys, size_t count,
                                     float *out);

/* ---- Save and load: for store.h, which has the layout ---- */

/* Puts what a virtual shard has of all tables, and the rows' clocks, which are those of all
 * shards. */
void ps_tables_put(const ps_tables *tables, uint32_t shard, ps_state_out *out);

/* Takes it into tables that nothing was pushed to, each shard once. Shards that were written at
 * different clocks do not go together. A failure is `in`'s; then the tables are only good for
 * destroy. */
void ps_tables_take(ps_tables *tables, uint32_t shard, ps_state_in *in);

/* The tables live on from what was taken. DATA_LOSS: they have not aged by all of their clocks. */
PS_MUST_USE ps_status ps_tables_settle(ps_tables *tables);

ps_table *ps_tables_at(ps_tables *tables, uint32_t table);
uint32_t ps_tables_table_count(const ps_tables *tables);

/* Returns the book of the rows' clocks: one column. */
ps_book *ps_tables_book(ps_tables *tables);

#endif
