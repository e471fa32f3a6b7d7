/* SPDX-License-Identifier: Apache-2.0 */
/* columns.h - kinds of columns of a table: how a field of text becomes a number.
 *
 * What has to be known of a whole column (its mean, its words) is learned from the training
 * rows first; then every field is turned into one value. To add a kind: a table in
 * columns.c and a line in its list there.
 */
#ifndef PS_COMMON_DATA_COLUMNS_H
#define PS_COMMON_DATA_COLUMNS_H

#include "common/data/conf.h"
#include "common/data/vocabulary.h"

/* What the values of a column are for. */
typedef enum ps_column_role {
    PS_ROLE_NUMBER, /* a feature */
    PS_ROLE_ID,     /* a category: an id below the column's size */
    PS_ROLE_LABEL,  /* the class of a sample */
    PS_ROLE_TARGET  /* a value that a sample is to be */
} ps_column_role;

struct ps_column {
    const char *name;
    const char *summary;
    const ps_param *params;
    ps_column_role role;
    bool has_words; /* its ids are numbers of words */
};

const ps_column *ps_column_find(const char *name); /* NULL if there is none */
void ps_column_each(void (*fn)(const ps_column *column, void *arg), void *arg);

/* Ids, or classes, of a column: from its numbers; 0 when only the files know. */
uint32_t ps_column_size(const ps_data_column *column);

/* Does each of its ids become a feature that is 0 or 1? */
bool ps_column_is_one_hot(const ps_data_column *column);

/* What is learned of a column. */
typedef struct ps_column_state {
    const ps_data_column *column;
    uint32_t number;      /* among the columns of the conf: part of the hash */
    uint64_t count;       /* numbers seen */
    double mean, squares; /* of them; squares of the distances to the mean */
    double least, most;
    ps_vocabulary *words; /* NULL unless it has words */
    uint32_t kept;        /* words with a number */
} ps_column_state;

void ps_column_state_init(ps_column_state *state, const ps_data_column *column, uint32_t number);
void ps_column_state_fini(ps_column_state *state);

/* A field of a training row. INVALID_ARGUMENT says what is expected there. */
PS_MUST_USE ps_status ps_column_see(ps_column_state *state, const char *text, size_t len);

/* All training rows were seen: the number of ids or classes, into *size (0 for numbers).
 * INVALID_ARGUMENT: none, or more than are allowed. */
PS_MUST_USE ps_status ps_column_learn(ps_column_state *state, uint32_t *size);

/* A field of any row, as its value. */
PS_MUST_USE ps_status ps_column_read(const ps_column_state *state, const char *text, size_t len,
                                     float *value);

/* Number of a category among `buckets`: a hash of the column's number and the text. */
uint32_t ps_category_hash(uint32_t column, const char *text, size_t len, uint32_t buckets);

#endif
