/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - rows by key: the part of a sparse table that one server has.
 *
 * Pure: no I/O, no clock, no thread; one thread at a time. Letters: D the width
 * of a row, C the keys of a call.
 *
 * Where ids have no fixed vocabulary a table is as large as what was touched. A key has a row of D
 * values, drawn by (seed, table, key), from its first push on; a pull before that gives the same
 * values and stores nothing, so that evaluation does not make a table grow. Each
 * row steps by itself: the optimizer sees a vector of D values with state and
 * step count of its own.
 *
 * Places. A key belongs to one of PS_SHARDS virtual shards, by a hash that
 * depends on nothing else; virtual shards belong to servers. Files are cut by
 * virtual shard, so what any number of servers have written any other number
 * can load.
 *
 * A fixed vocabulary is a table in which every key below key_end has a row from the start
 * (ps_table_lay). It is cut into slices of slice_rows rows, as the layout of a model cuts a
 * variable: slice i belongs to virtual shard (first_slice + i) % PS_SHARDS. So its rows are where
 * the variable's slices are. Nothing else differs.
 *
 * Admission keeps rare keys out. By probability, one decision a key: it is in or
 * it is not, whenever and wherever it is asked. By count: a key is in from its
 * n-th push on. What is not in reads as zeros, and what is pushed to it is
 * counted and forgotten; also the push that brings it in, as its gradient was
 * taken on zeros.
 *
 * Ageing. A push says how often the row was shown and clicked. Each
 * ps_table_shrink makes all rows one tick older:
 *
 *   show, click *= decay
 *   score = unclicked * (show - click) + clicked * click
 *
 * and removes rows with a score below `least_score`, and rows that were not
 * pushed for more than `unseen_max` ticks (PaddlePaddle's CTR accessor, whose
 * day is the tick).
 *
 * Pushes are applied on arrival. That each counts once is up to the caller (store.h). A call that
 * fails has changed nothing.
 */
#ifndef PS_COMMON_STORE_TABLE_H
#define PS_COMMON_STORE_TABLE_H

#include "common/base/shards.h"
#include "common/base/status.h"
#include "common/optim/descent.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_TABLE_WIDTH_MAX = 16384,
    PS_TABLE_UNSEEN_MAX = 65535,
    PS_TABLE_KEYS_MAX = 1 << 24 /* of one call: all the ids that a table can have (a float each) */
};

typedef enum ps_table_admission {
    PS_ADMIT_ALL,
    PS_ADMIT_PROBABILITY, /* a key in `admit_probability` of all */
    PS_ADMIT_COUNT        /* a key from its `admit_count`-th push on */
} ps_table_admission;

typedef struct ps_table_conf {
    uint32_t table; /* its number in the job; for draws */
    uint32_t width; /* D, 1 to PS_TABLE_WIDTH_MAX */
    uint64_t seed;
    float init_bound; /* first values are uniform in +-init_bound */
    const ps_optim *optim;
    ps_params optim_params;

    ps_table_admission admission;
    double admit_probability;
    uint32_t admit_count; /* > 0 */

    float decay, unclicked, clicked, least_score;
    uint32_t unseen_max; /* ticks, at most PS_TABLE_UNSEEN_MAX */

    uint64_t rows_max;       /* more are RESOURCE_EXHAUSTED */
    uint64_t candidates_max; /* keys that are counted and not in; more are not counted */
    uint64_t key_end;        /* keys are below; 0: any are */
    uint32_t slice_rows;     /* of a fixed vocabulary, else 0: see below */
    uint32_t first_slice;
    bool values_only;   /* ps_table_load takes no optimizer state: rows begin it anew */
    bool saves_changes; /* ps_table_save of changes will be wanted: removed keys are noted */
    const bool *owned;  /* (PS_SHARDS): virtual shards that are here; NULL: all */
} ps_table_conf;

/* Every key is in, no row is removed for its score; first values within 0.01, decay
 * 0.98, unclicked 0.1, clicked 1, unseen_max PS_TABLE_UNSEEN_MAX; 2^25 rows. */
ps_table_conf ps_table_conf_default(uint32_t width, const ps_optim *optim);

typedef struct ps_table ps_table;

/* conf is copied but for the optimizer's table. Numbers out of range are asserted. */
ps_table *ps_table_create(const ps_table_conf *conf);
void ps_table_destroy(ps_table *table); /* NULL is allowed */

/* Returns the virtual shard of a key where ids have no fixed vocabulary. Any thread. */
uint32_t ps_table_shard_of(uint64_t key);

/* Returns the virtual shard of a key of this table. */
uint32_t ps_table_home(const ps_table *table, uint64_t key);

/* Returns whether the table is of a fixed vocabulary. */
bool ps_table_is_fixed(const ps_table *table);

/* Makes the rows [first, first + count) of a fixed vocabulary, which are a slice, from values
 * (count, D). Slices of a virtual shard come in ascending order. */
void ps_table_lay(ps_table *table, uint64_t first, size_t count, const float *values);

/* Copies the values of these rows of a fixed vocabulary, which are here, to out (count, D). */
void ps_table_copy(const ps_table *table, uint64_t first, size_t count, float *out);

/* Calls fn for every row of a fixed vocabulary that was ever stepped, in no order. */
void ps_table_each_stepped(const ps_table *table, void (*fn)(void *arg, uint64_t key), void *arg);

/* The rule of a table to which decrements are pushed: w -= what is pushed. */
extern const ps_optim ps_table_as_is;

/* Rows of one push. Keys ascend, each once. */
typedef struct ps_table_push {
    const uint64_t *keys;      /* (C) */
    size_t count;              /* C, at most PS_TABLE_KEYS_MAX */
    const float *grads;        /* (C, D) */
    const float *shows;        /* (C), not negative; NULL: 1 each */
    const float *clicks;       /* (C), not negative; NULL: 0 each */
    const ps_params *params;   /* of the rule, for this push; NULL: the table's */
    const ps_descent *descent; /* whose penalties there are; NULL: none */
    double share;              /* of a step's gradient that `grads` are (ps_moment) */
    float scale;               /* of the step; 0: 1 */
    uint64_t t;                /* steps that the rule counts by; 0: those of each row */
} ps_table_push;

/* w -= scale * step(gradient), row by row.
 *
 * INVALID_ARGUMENT    keys that do not ascend, are too many, are no ids or of a virtual shard that
 *                     is not here; shows or clicks that are negative or not finite
 * RESOURCE_EXHAUSTED  more rows than rows_max
 */
PS_MUST_USE ps_status ps_table_push_rows(ps_table *table, const ps_table_push *push);

/* Are these keys as a push or pull wants them? INVALID_ARGUMENT as above. */
PS_MUST_USE ps_status ps_table_check_keys(const ps_table *table, const uint64_t *keys,
                                          size_t count);
/* Returns the bytes of a row of so many values with `slots` values of state each. */
size_t ps_table_row_bytes(uint32_t width, uint32_t slots);
uint32_t ps_table_width(const ps_table *table);
uint64_t ps_table_key_end(const ps_table *table);
bool ps_table_owns(const ps_table *table, uint32_t shard); /* virtual shard */

/* Values of the rows into out (C, D); keys as of a push, and the same
 * INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_table_pull_rows(const ps_table *table, const uint64_t *keys, size_t count,
                                         float *out);

/* A tick: see above. Returns how many rows were removed. */
uint64_t ps_table_shrink(ps_table *table);

/* Show and click of a key as of now; false: it has no row. */
bool ps_table_shown(const ps_table *table, uint64_t key, float *show, float *click);

typedef struct ps_table_counters {
    uint64_t rows, candidates; /* now */
    uint64_t bytes;            /* held for them */
    uint64_t ticks;
    /* Since create, by row. */
    uint64_t applied, created, removed;
    uint64_t refused;   /* pushed to keys that are not in */
    uint64_t uncounted; /* of those: candidates_max was reached */
} ps_table_counters;

ps_table_counters ps_table_count(const ps_table *table);

/* Adds what another table, or another server's part of one, has counted; of ticks takes the larger.
 */
void ps_table_counters_add(ps_table_counters *sum, const ps_table_counters *c);

#endif
