/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a sparse table, as far as one server has it: rows by key.
 *
 * Pure: no I/O, no clock; one thread at a time. Letters: D the width of a row, C the number of keys
 * of a call.
 *
 * A table that grows has only the rows that were pushed to. A key gets a row of D values at its
 * first push; the values are drawn by (seed, table, key). A pull before that returns the same
 * values and stores nothing, so evaluations do not make a table grow. Each row is stepped by
 * itself: the optimizer sees a vector of D values with a state and a step count of its own.
 *
 * A key belongs to one of PS_SHARDS virtual shards, by a hash of the key alone. Virtual shards
 * belong to servers. Files are cut by virtual shard, so any number of servers can load what any
 * other number has written.
 *
 * A table with a fixed vocabulary has a row for every key below key_end from the start
 * (ps_table_lay). It is cut into slices of slice_rows rows, like the variable in the layout of the
 * model: slice i belongs to virtual shard (first_slice + i) % PS_SHARDS. So its rows are on the
 * servers of the variable's slices. Nothing else differs.
 *
 * Admission decides which keys get a row. By probability: by one draw for each key, so that the
 * answer is the same at any time and on any server. By count: the n-th push of the key creates its
 * row. A key without a row that was not admitted reads as zeros, and its pushes are counted and
 * dropped. The gradient of the n-th push is dropped too, because it was computed with zeros.
 *
 * Ageing: a push says how often the row was shown and clicked. Each ps_table_shrink makes all rows
 * one tick older:
 *
 *   show, click *= decay
 *   score = unclicked * (show - click) + clicked * click
 *
 * It removes rows with a score below `least_score`, and rows and counted keys that were not pushed
 * to for more than `unseen_max` ticks (as PaddlePaddle's CTR accessor, with a day for the tick).
 *
 * A push is applied on arrival. The caller ensures that it counts once (store.h). A call that fails
 * changes nothing. */
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
    PS_TABLE_SLOTS_MAX = 8, /* floats of optimizer state for each value */
    PS_TABLE_UNSEEN_MAX = 65535,
    /* most keys of a call, and of a fixed vocabulary */
    PS_TABLE_KEYS_MAX = 1 << 24
};

typedef enum ps_table_admission {
    PS_ADMIT_ALL,
    PS_ADMIT_PROBABILITY, /* a random share `admit_probability` of all keys */
    PS_ADMIT_COUNT        /* keys get their row by their `admit_count`-th push */
} ps_table_admission;

typedef struct ps_table_conf {
    uint32_t table; /* number of the table in the job; draws depend on it */
    uint32_t width; /* D, 1 to PS_TABLE_WIDTH_MAX */
    uint64_t seed;
    float init_bound;      /* initial values are uniform in +-init_bound */
    const ps_optim *optim; /* has at most PS_TABLE_SLOTS_MAX slots */
    ps_params optim_params;

    ps_table_admission admission;
    double admit_probability;
    uint32_t admit_count; /* > 0 */

    float decay, unclicked, clicked, least_score;
    uint32_t unseen_max; /* ticks, at most PS_TABLE_UNSEEN_MAX */

    /* most rows of this part of the table; a push that needs more fails with RESOURCE_EXHAUSTED */
    uint64_t rows_max;
    /* With PS_ADMIT_COUNT: most keys without a row whose pushes are counted. Pushes of further keys
     * are not counted, so these get no row. */
    uint64_t candidates_max;
    uint64_t key_end;    /* keys are less than this; 0: no limit */
    uint32_t slice_rows; /* rows of a slice, with a fixed vocabulary; 0: the table grows */
    uint32_t first_slice;
    /* ps_table_load ignores the optimizer's state in a file; the state begins anew */
    bool values_only;
    /* removed keys are noted, because the caller will have ps_table_save write changes */
    bool saves_changes;
    const bool *owned; /* (PS_SHARDS) virtual shards that the table has; NULL: all */
} ps_table_conf;

/* Returns a configuration with this width and optimizer: all keys are admitted, no row is removed
 * for its score, initial values are within 0.01, decay 0.98, unclicked 0.1, clicked 1, unseen_max
 * PS_TABLE_UNSEEN_MAX, at most 2^25 rows. */
ps_table_conf ps_table_conf_default(uint32_t width, const ps_optim *optim);

typedef struct ps_table ps_table;

/* Creates an empty table. Copies conf, but keeps its optimizer. Asserts that all numbers are in
 * range. */
ps_table *ps_table_create(const ps_table_conf *conf);
void ps_table_destroy(ps_table *table); /* NULL is allowed */

/* Returns the virtual shard of a key of a table that grows. Any thread. */
uint32_t ps_table_shard_of(uint64_t key);

/* Returns the virtual shard of a key of this table. */
uint32_t ps_table_home(const ps_table *table, uint64_t key);

/* Returns whether workers keep all rows of the table and are given those that change: true for a
 * fixed vocabulary. */
bool ps_table_is_followed(const ps_table *table);

/* Adds the rows [first, first + count) of a fixed vocabulary, with these values (count, D). They
 * must be exactly one slice. The slices of a virtual shard must be added in ascending order. */
void ps_table_lay(ps_table *table, uint64_t first, size_t count, const float *values);

/* Copies the values of the rows of these keys to out (count, D). The table must have all of
 * them. */
void ps_table_copy_rows(const ps_table *table, const uint64_t *keys, size_t count, float *out);

/* Copies the values of the rows [first, first + count) of a fixed vocabulary to out (count, D). The
 * table must have all of them. is_before: the values from before the last push, if the table keeps
 * them (ps_table_keep_before). */
void ps_table_copy(const ps_table *table, uint64_t first, size_t count, bool is_before, float *out);

/* Calls fn for the key of every row of a fixed vocabulary that was ever stepped, in no particular
 * order. */
void ps_table_each_stepped(const ps_table *table, void (*fn)(void *arg, uint64_t key), void *arg);

/* A rule without parameters for tables to which decrements are pushed: w -= decrement. */
extern const ps_optim ps_table_as_is;

/* The rows of one push. The caller has checked the keys (ps_table_check_keys) and the numbers. */
typedef struct ps_table_push {
    const uint64_t *keys;      /* (C), ascending, each once */
    size_t count;              /* C, at most PS_TABLE_KEYS_MAX */
    const float *grads;        /* (C, D), finite */
    const float *shows;        /* (C), finite and not negative; NULL: 1 each */
    const float *clicks;       /* (C), finite and not negative; NULL: 0 each */
    const ps_params *params;   /* parameters of the rule for this push; NULL: the table's */
    const ps_descent *descent; /* its penalties are added to each gradient; NULL: none */
    /* which part of a whole gradient `grads` are, for the penalties (ps_moment.share in
     * common/optim/descent.h) */
    double share;
    float scale; /* factor of the increment; 0 counts as 1 */
    uint64_t t;  /* step number for the rule; 0: each row counts its own steps */
} ps_table_push;

/* Steps each row by the table's rule: w -= scale * step(gradient). Returns RESOURCE_EXHAUSTED if
 * the table would have more than rows_max rows. */
PS_MUST_USE ps_status ps_table_push_rows(ps_table *table, const ps_table_push *push);

/* Checks keys for a push or pull. Returns INVALID_ARGUMENT if they do not ascend, are too many, are
 * no ids of the table, or are of a virtual shard that the table does not have. */
PS_MUST_USE ps_status ps_table_check_keys(const ps_table *table, const uint64_t *keys,
                                          size_t count);
/* Returns the bytes of memory that a row of `width` values takes, with `slots` values of optimizer
 * state for each of them. */
size_t ps_table_row_bytes(uint32_t width, uint32_t slots);
uint32_t ps_table_width(const ps_table *table);
uint64_t ps_table_key_end(const ps_table *table);
/* Returns whether the table has rows of the virtual shard or can get some. */
bool ps_table_can_have_rows(const ps_table *table, uint32_t shard);

/* Copies the values of the keys (count, which is C) to out (C, D): of a row, or what a key without
 * a row reads as. Returns INVALID_ARGUMENT for keys that ps_table_check_keys refuses. */
PS_MUST_USE ps_status ps_table_pull_rows(const ps_table *table, const uint64_t *keys, size_t count,
                                         float *out);

/* From now on keeps copies of the rows and counted keys that the last push, or a tick after it, has
 * changed, as they were before that push. */
void ps_table_keep_before(ps_table *table);

/* Sets a mark and returns its number, from 1 on. ps_table_put_shard (table_state.h) can then write
 * only the rows that changed or moved to another place after the mark was set. */
uint32_t ps_table_mark(ps_table *table);

/* Makes the table one tick older and removes rows, as described at the top of this file. Returns
 * the number of removed rows. */
uint64_t ps_table_shrink(ps_table *table);

/* Writes show and click of a key, decayed to the present tick, and returns true. Returns false if
 * the key has no row. */
bool ps_table_shown(const ps_table *table, uint64_t key, float *show, float *click);

typedef struct ps_table_counters {
    /* rows: at present; candidates: keys without a row whose pushes are counted, at present */
    uint64_t rows, candidates;
    uint64_t bytes; /* memory that rows, candidates and their indices take */
    uint64_t ticks; /* calls of ps_table_shrink, with those before a loaded file was saved */
    /* Since creation: rows of pushes that were stepped on; rows that pushes have created; rows that
     * ticks have removed. */
    uint64_t applied, created, removed;
    uint64_t refused; /* rows of pushes that were dropped, because their key was not admitted */
    /* of `refused`: not counted towards the key's admission, because candidates_max was reached */
    uint64_t uncounted;
} ps_table_counters;

ps_table_counters ps_table_count(const ps_table *table);

/* Adds the counters of another table, or of another server's part of the same table, to *sum.
 * `ticks` becomes the larger of the two. */
void ps_table_counters_add(ps_table_counters *sum, const ps_table_counters *c);

#endif
