/* SPDX-License-Identifier: Apache-2.0 */
/* tables.h - the sparse tables of a job, as far as one server has them, behind the job's clocks:
 * contributions of rows in, rows out.
 *
 * Pure: no I/O, no clock, no thread; one thread at a time. A contribution is (clock, contributor)
 * and comes in parts, each rows of one table; parts are numbered, and part 0 begins it anew, so it
 * may be sent again at any point. What is in is in: it changes nothing a second time.
 *
 * In step (bsp): what all contributors brought to a clock is added up by key, in their order, and
 * each row is stepped once; then the rows of the next clock may be had. Else (asp, ssp) each
 * contribution is a step of its own, and rows may be had within a lead.
 *
 * Memory: beside the tables (table.h) what is not stepped yet, at most keys_max rows of each table
 * a contributor.
 */
#ifndef PS_COMMON_STORE_TABLES_H
#define PS_COMMON_STORE_TABLES_H

#include "common/optim/descent.h"
#include "common/store/table.h"
#include "common/store/table_file.h"

typedef struct ps_tables_conf {
    uint32_t table_count;
    const ps_table_conf *tables; /* (table_count), copied; of one worker */
    uint32_t contributors;
    bool in_step;
    uint64_t lead; /* else: clocks that rows may be had ahead of the oldest that somebody has not
                    * brought; UINT64_MAX: any number */
    float merge_scale;  /* of what all contributors brought */
    ps_descent descent; /* without penalties; its rule is the tables' */
    uint32_t keys_max;  /* of a contribution and table */
    uint64_t tick;      /* clocks from one ps_table_shrink to the next; 0: never */
} ps_tables_conf;

typedef struct ps_tables ps_tables;

ps_tables *ps_tables_create(const ps_tables_conf *conf);
void ps_tables_destroy(ps_tables *tables); /* NULL is allowed */

typedef struct ps_tables_part {
    uint64_t clock;
    uint32_t contributor, part, table;
    bool is_last;
    const uint64_t *keys; /* (count), each once, ascending */
    size_t count;
    const float *grads;             /* (count, width) */
    const uint32_t *shows, *clicks; /* (count) */
} ps_tables_part;

/* INVALID_ARGUMENT    no such contributor or table; keys that do not ascend, also from the
 *                     table's part before, or that are not of this server or no ids of the table;
 *                     a gradient that is not finite; clicks above shows
 * OUT_OF_RANGE        another clock than the contributor's next, or one that is not open yet; a
 *                     part that leaves one out
 * RESOURCE_EXHAUSTED  more keys than keys_max; more rows than a table may have
 * A call that fails has changed nothing, but of the last: then the job cannot go on. */
PS_MUST_USE ps_status ps_tables_push(ps_tables *tables, const ps_tables_part *part);

/* Is this contribution in? */
bool ps_tables_is_in(const ps_tables *tables, uint64_t clock, uint32_t contributor);

/* Nobody waits for this contributor any more. Not in step. */
void ps_tables_lose(ps_tables *tables, uint32_t contributor);

/* The oldest clock that somebody has not brought all of. */
uint64_t ps_tables_clock(const ps_tables *tables);

/* May rows for this clock be had? */
bool ps_tables_may_pull(const ps_tables *tables, uint64_t clock);

/* Of each table in turn the rows of keys (count), (count, width). INVALID_ARGUMENT as of a
 * push. */
PS_MUST_USE ps_status ps_tables_pull(const ps_tables *tables, const uint64_t *keys, size_t count,
                                     float *out);

ps_table *ps_tables_at(ps_tables *tables, uint32_t table);
uint32_t ps_tables_table_count(const ps_tables *tables);

typedef struct ps_tables_counters {
    uint64_t applied, duplicates, refused; /* contributions, and parts that were refused */
} ps_tables_counters;

ps_tables_counters ps_tables_count(const ps_tables *tables);

#endif
