/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - kinds of columns of a table: how a field of text becomes a number.
 *
 * Some kinds need a property of the whole column (its mean, its words). It is learned from the
 * training records first. Then every field is turned into one value. To add a kind: a table in
 * columns.c and a line in its list there.
 */
#ifndef PS_COMMON_DATA_COLUMNS_H
#define PS_COMMON_DATA_COLUMNS_H

#include "common/data/conf.h"
#include "common/data/vocabulary.h"

/* What the values of a column are used for. */
typedef enum ps_column_role {
    PS_ROLE_NUMBER, /* a feature */
    PS_ROLE_ID,     /* a category: an id below the size of the column */
    PS_ROLE_LABEL,  /* the class of a sample */
    PS_ROLE_TARGET  /* a target value of a sample */
} ps_column_role;

struct ps_column {
    const char *name;
    const char *summary;
    const ps_param *params;
    ps_column_role role;
    /* its fields are words; a value is the id that a vocabulary gives the word (vocabulary.h) */
    bool has_words;
};

/* Returns the kind of column with this name, or NULL if there is none. */
const ps_column *ps_column_find(const char *name);
/* Calls `fn` for every kind of column, in a fixed order. */
void ps_column_each(void (*fn)(const ps_column *column, void *arg), void *arg);

/* Returns the number of ids, or classes, of a column, if its parameters fix it; 0 if only the files
 * tell it, or if the column has no ids. */
uint32_t ps_column_size(const ps_data_column *column);

/* Returns whether each id of the column becomes a feature of its own, which is 0 or 1. */
bool ps_column_is_one_hot(const ps_data_column *column);

/* The learned properties of a column. */
typedef struct ps_column_state {
    const ps_data_column *column;
    uint32_t number;      /* index among the columns of the conf; part of the hash of a category */
    uint64_t count;       /* number of numeric fields seen */
    double mean, squares; /* mean of these numbers, and the sum of the squared distances from it */
    double least, most;   /* the least and the greatest of them */
    ps_vocabulary *words; /* NULL unless the kind has words */
    uint32_t kept;        /* how many of `words` have an id */
} ps_column_state;

/* Initialises the state of a column before the first field. */
void ps_column_state_init(ps_column_state *state, const ps_data_column *column, uint32_t number);
/* Frees the state of a column. */
void ps_column_state_fini(ps_column_state *state);

/* Learns from a field of a training record. Returns INVALID_ARGUMENT with what is expected in
 * the field. */
PS_MUST_USE ps_status ps_column_see(ps_column_state *state, const char *text, size_t len);

/* Ends learning, after all training records. Sets *size to the size that the conf gives for the
 * column, else to the number of ids or classes learned (0 for numbers). Returns INVALID_ARGUMENT if
 * a label has fewer than 2 classes, more than 65536 or not as many as the conf gives, or if a
 * one-hot column has more than 65536 categories. */
PS_MUST_USE ps_status ps_column_learn(ps_column_state *state, uint32_t *size);

/* Writes what the column has learned to `learned`. Call it after ps_column_learn. */
void ps_column_keep(const ps_column_state *state, ps_learned *learned);
/* Takes what the column learned from all files out of `learned` (learned.h). Call it in place of
 * ps_column_see, before ps_column_learn. Returns INVALID_ARGUMENT if it is not there. */
PS_MUST_USE ps_status ps_column_recall(ps_column_state *state, ps_learned *learned);

/* Turns a field of any record into its value. Returns INVALID_ARGUMENT with what is expected. */
PS_MUST_USE ps_status ps_column_read(const ps_column_state *state, const char *text, size_t len,
                                     float *value);

/* Returns the id of a category, below `buckets`: a hash of the column's index and the text. */
uint32_t ps_category_hash(uint32_t column, const char *text, size_t len, uint32_t buckets);

#endif
