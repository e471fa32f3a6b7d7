/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - a sparse table, as far as one server has it: rows by key.
 *
 * Pure: no I/O, no clock; one thread at a time. Letters: D the width of a row, C the keys of a
 * call.
 *
 * A table that grows has only the rows that were touched. A key gets a row of D values at its
 * first push, drawn by (seed, table, key). A pull before that returns the same values and stores
 * nothing, so evaluations do not make a table grow. Each row is stepped by itself: the optimizer
 * sees a vector of D values with a state and a step count of its own.
 *
 * A key belongs to one of PS_SHARDS virtual shards, by a hash of the key alone. Virtual shards
 * belong to servers. Files are cut by virtual shard, so any number of servers can load what any
 * other number has written.
 *
 * A table with a fixed vocabulary has a row for every key below key_end from the start
 * (ps_table_lay). It is cut into slices of slice_rows rows, like the variable in the layout of
 * the model: slice i belongs to virtual shard (first_slice + i) % PS_SHARDS. So its rows are on
 * the servers of the variable's slices. Nothing else differs.
 *
 * Admission decides which keys get a row. By probability: a decision for each key, the same at
 * any time and on any server. By count: from the n-th push of the key on. A key that is not
 * admitted reads as zeros, and its pushes are counted and dropped. The n-th push is dropped too,
 * because its gradient was computed with zeros.
 *
 * Ageing: a push says how often the row was shown and clicked. Each ps_table_shrink makes all
 * rows one tick older:
 *
 *     show, click *= decay
 *     score = unclicked * (show - click) + clicked * click
 *
 * It removes rows with a score below `least_score`, and rows that were not pushed for more than
 * `unseen_max` ticks (as PaddlePaddle's CTR accessor, with a day for the tick).
 *
 * A push is applied on arrival. The caller ensures that it counts once (store.h). A call that
 * fails changes nothing.
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
    PS_TABLE_SLOTS_MAX = 8, /* floats of optimizer state for each value */
    PS_TABLE_UNSEEN_MAX = 65535,
    /* most keys of a call, and of a table: float32 holds them exactly */
    PS_TABLE_KEYS_MAX = 1 << 24
};

typedef enum ps_table_admission {
    PS_ADMIT_ALL,
    PS_ADMIT_PROBABILITY, /* a random share `admit_probability` of all keys */
    PS_ADMIT_COUNT        /* keys from their `admit_count`-th push on */
} ps_table_admission;

typedef struct ps_table_conf {
    uint32_t table; /* number of the table in the job, for draws */
    uint32_t width; /* D, 1 to PS_TABLE_WIDTH_MAX */
    uint64_t seed;
    float init_bound;      /* initial values are uniform in +-init_bound */
    const ps_optim *optim; /* of at most PS_TABLE_SLOTS_MAX slots */
    ps_params optim_params;

    ps_table_admission admission;
    double admit_probability;
    uint32_t admit_count; /* > 0 */

    float decay, unclicked, clicked, least_score;
    uint32_t unseen_max; /* ticks, at most PS_TABLE_UNSEEN_MAX */

    uint64_t rows_max; /* most rows; further ones are RESOURCE_EXHAUSTED */
    /* most keys that are counted without being admitted; further ones are not counted */
    uint64_t candidates_max;
    uint64_t key_end;    /* keys are less than this; 0: no limit */
    uint32_t slice_rows; /* rows of a slice, with a fixed vocabulary; 0: the table grows */
    uint32_t first_slice;
    bool values_only;   /* ps_table_load ignores optimizer state, so that it begins anew */
    bool saves_changes; /* removed keys are noted, because ps_table_save will write changes */
    const bool *owned;  /* (PS_SHARDS) virtual shards that the table has; NULL: all */
} ps_table_conf;

/* Returns a configuration with these numbers: all keys are admitted, and no row is removed for its
 * score; initial values within 0.01, decay 0.98, unclicked 0.1, clicked 1, unseen_max
 * PS_TABLE_UNSEEN_MAX, 2^25 rows. */
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

/* Returns whether workers keep all rows, so that they are given those that change. They keep the
 * rows of a fixed vocabulary. */
bool ps_table_is_followed(const ps_table *table);

/* Adds the rows [first, first + count) of a fixed vocabulary, which are one slice, with these
 * values (count, D). The slices of a virtual shard must be added in ascending order. */
void ps_table_lay(ps_table *table, uint64_t first, size_t count, const float *values);

/* Copies the values of the rows of these keys, which the table has, to out (count, D). */
void ps_table_copy_rows(const ps_table *table, const uint64_t *keys, size_t count, float *out);

/* Copies the values of these rows of a fixed vocabulary, which the table has, to out (count, D);
 * with is_before those from before the last push, if they are kept. */
void ps_table_copy(const ps_table *table, uint64_t first, size_t count, bool is_before, float *out);

/* Calls fn for every row of a fixed vocabulary that was ever stepped, in no order. */
void ps_table_each_stepped(const ps_table *table, void (*fn)(void *arg, uint64_t key), void *arg);

/* The rule of tables to which decrements are pushed: w -= decrement. */
extern const ps_optim ps_table_as_is;

/* Rows of one push. The caller has checked the keys (ps_table_check_keys) and the numbers. */
typedef struct ps_table_push {
    const uint64_t *keys;      /* (C), ascending, each once */
    size_t count;              /* C, at most PS_TABLE_KEYS_MAX */
    const float *grads;        /* (C, D), finite */
    const float *shows;        /* (C), finite and not negative; NULL: 1 each */
    const float *clicks;       /* (C), finite and not negative; NULL: 0 each */
    const ps_params *params;   /* parameters of the rule for this push; NULL: the table's */
    const ps_descent *descent; /* its penalties are added; NULL: none */
    double share;              /* as ps_moment.share */
    float scale;               /* factor of the step; 0 stands for 1 */
    uint64_t t;                /* step number for the rule; 0: each row counts its own steps */
} ps_table_push;

/* Steps each row by the rule: w -= scale * step(gradient). Returns RESOURCE_EXHAUSTED if the table
 * would have more than rows_max rows. */
PS_MUST_USE ps_status ps_table_push_rows(ps_table *table, const ps_table_push *push);

/* Checks keys for a push or pull. Returns INVALID_ARGUMENT if they do not ascend, are too many, are
 * no ids of the table, or are of a virtual shard that the table does not have. */
PS_MUST_USE ps_status ps_table_check_keys(const ps_table *table, const uint64_t *keys,
                                          size_t count);
/* Returns the bytes of a row of `width` values with `slots` values of state for each. */
size_t ps_table_row_bytes(uint32_t width, uint32_t slots);
uint32_t ps_table_width(const ps_table *table);
uint64_t ps_table_key_end(const ps_table *table);
/* Returns whether the table has rows of a virtual shard or can get some. */
bool ps_table_can_have_rows(const ps_table *table, uint32_t shard);

/* Copies the values of the rows to out (C, D). Returns INVALID_ARGUMENT for keys that
 * ps_table_check_keys refuses. */
PS_MUST_USE ps_status ps_table_pull_rows(const ps_table *table, const uint64_t *keys, size_t count,
                                         float *out);

/* Keeps from now on what the rows and candidates that a push or a tick changes were before the last
 * push: copies of them. */
void ps_table_keep_before(ps_table *table);

/* Sets a mark and returns its number, from 1 on. Rows that change or move to another place from now
 * on can be told from the others (table_state.h). */
uint32_t ps_table_mark(ps_table *table);

/* Makes the table one tick older, as described above. Returns the number of removed rows. */
uint64_t ps_table_shrink(ps_table *table);

/* Writes show and click of a key, decayed to the present tick. Returns false if the key has no
 * row. */
bool ps_table_shown(const ps_table *table, uint64_t key, float *show, float *click);

typedef struct ps_table_counters {
    uint64_t rows, candidates; /* at present */
    uint64_t bytes;            /* memory of these */
    uint64_t ticks;
    /* Counted since creation, in rows. */
    uint64_t applied, created, removed;
    uint64_t refused;   /* pushed to keys that were not admitted */
    uint64_t uncounted; /* of those, not counted because of candidates_max */
} ps_table_counters;

ps_table_counters ps_table_count(const ps_table *table);

/* Adds the counters of another table, or of another server's part of the table. Of ticks it takes
 * the larger number. */
void ps_table_counters_add(ps_table_counters *sum, const ps_table_counters *c);

#endif
