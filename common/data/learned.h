/* SPDX-License-Identifier: Apache-2.0 */
/* learned.h - what a process that has its own training files alone must know of all of them.
 *
 * Where files are dealt to workers (modulo), the coordinator learns from all files by
 * ps_data_learn. The result is one or two files that travel with a process's own ones:
 *
 *   PS_LEARNED_FACTS  the records and samples of each training file; the words of texts, labels and
 *                     categories with their counts; means and bounds of columns; what transforms
 *                     measured. Sections of state.h
 *   PS_LEARNED_TEST   the test records, if the set has no test files. Those of each file come
 *                     behind a line that is one NUL, and the file's header, if it has one
 *
 * A source calls the functions below in both cases: while its look learns, and while it loads a
 * share. conf->learned tells which; it is NULL where nothing of this is needed.
 */
#ifndef PS_COMMON_DATA_LEARNED_H
#define PS_COMMON_DATA_LEARNED_H

#include "common/base/sha256.h"
#include "common/base/state.h"
#include "common/base/strbuf.h"
#include "common/data/conf.h"
#include "common/data/spill.h"
#include "common/data/vocabulary.h"

enum {
    PS_LEARNED_BYTES_MAX = 64 << 20, /* limit of the facts; words take most of them */
    PS_LEARNED_VALUES_MAX = 16       /* most transforms whose values are kept */
};

/* Names that no file of a user has, since a dot is in front. */
#define PS_LEARNED_FACTS ".learned"
#define PS_LEARNED_TEST ".test"

/* A training file of the set. */
typedef struct ps_learned_file {
    char name[PS_DATA_FILE_NAME_MAX];
    /* number of its records, and of the records in the files before it */
    uint64_t records, first_record;
    /* number of its training samples, and of those in the files before it */
    uint32_t samples, first;
} ps_learned_file;

/* The learned properties of a column of numbers, as in ps_column_state. */
typedef struct ps_learned_column {
    uint64_t count;
    double mean, squares, least, most;
} ps_learned_column;

/* What a transform measured. */
typedef struct ps_learned_values {
    float *at; /* (count); NULL: it measured nothing */
    size_t count;
} ps_learned_values;

/* A file that was made by learning. */
typedef struct ps_learned_part {
    const char *name;
    uint64_t size;
    char sha256[PS_SHA256_HEX_BYTES];
    ps_spill *content;
    ps_sha256 sha;
} ps_learned_part;

typedef struct ps_learned_parts {
    ps_learned_part at[2];
    size_t count;
} ps_learned_parts;

struct ps_learned {
    bool is_learner;
    const char *folder;     /* folder that has PS_LEARNED_TEST, when a share is loaded */
    ps_learned_file *files; /* (file_count): all training files, in the order of the job */
    uint32_t file_count;
    uint32_t cursor; /* index in `files` at which ps_learned_find begins to look */
    /* Set when a share is loaded. Index: the column; 0 for the words of texts and the labels of
     * libsvm. */
    ps_vocabulary *words[PS_DATA_COLUMNS_MAX];
    ps_learned_column columns[PS_DATA_COLUMNS_MAX];
    bool has_column[PS_DATA_COLUMNS_MAX];
    /* index: the place of the transform in the list */
    ps_learned_values values[PS_LEARNED_VALUES_MAX];

    /* Set while a look learns. */
    bool has_walked; /* records were counted and test records copied */
    ps_state_out out;
    ps_learned_part *facts, *test; /* test: NULL if the set has test files */
    ps_strbuf header;              /* header line of the training file that is being read */
    uint32_t copied;               /* 1 + index of the file of the last test record; 0: none */
    ps_status status;              /* the first failure */
};

/* Frees the parts. A zeroed struct is allowed. */
void ps_learned_parts_free(ps_learned_parts *parts);

/* Reads and checks the facts in `folder` for a share of a conf; keeps `folder`. The caller destroys
 * *out. Returns NOT_FOUND if the folder has no facts, INVALID_ARGUMENT with the field, its value
 * and what is allowed, DATA_LOSS as state.h. */
PS_MUST_USE ps_status ps_learned_open(const char *folder, const ps_data_conf *conf,
                                      ps_learned **out);
/* Frees what ps_learned_open has made. NULL is allowed. */
void ps_learned_destroy(ps_learned *learned);

/* Returns what transforms measured, (PS_LEARNED_VALUES_MAX), which the caller frees. */
ps_learned_values *ps_learned_take_values(ps_learned *learned);

/* --- for lines.c and sink.c ---------------------------------------------------------- */

/* Returns whether the conf is one by which a look learns. */
static inline bool ps_is_learning(const ps_data_conf *conf)
{
    return conf->learned != NULL && conf->learned->is_learner;
}

/* Returns whether the conf is that of a share that is being loaded. */
static inline bool ps_has_learned(const ps_data_conf *conf)
{
    return conf->learned != NULL && !conf->learned->is_learner;
}

/* A record as lines.c reads it. */
typedef struct ps_learned_record {
    uint32_t file; /* index of its training file */
    bool is_header, is_test;
    const char *text;
    size_t len;
} ps_learned_record;

/* Counts a record of a training file, and copies it if it is a test record; remembers a header.
 * Called before anybody changes the text. Does nothing in later passes over the files: the first
 * pass has counted everything. */
PS_MUST_USE ps_status ps_learned_see(ps_learned *learned, const ps_learned_record *record);
/* Notes that a training file has made so many more training samples. */
void ps_learned_count(ps_learned *learned, uint32_t file, uint64_t samples);
/* Returns what was learned about the training file `name`; NULL if the set has no such file. */
const ps_learned_file *ps_learned_find(ps_learned *learned, const char *name);

/* --- for learn.c ---------------------------------------------------------------------- */

/* Begins to learn; the caller fills in the files. `has_test_files`: the set has them. */
ps_learned *ps_learned_begin(ps_learned_parts *parts, const char *scratch, bool has_test_files);
/* Writes what a transform has measured. */
void ps_learned_put_values(ps_learned *learned, uint32_t place, const float *values, size_t count);
/* Writes the list of files, if `st` is OK, and completes the parts. Frees `learned`, and after a
 * failure the parts too. Returns the first failure. */
PS_MUST_USE ps_status ps_learned_end(ps_learned *learned, ps_learned_parts *parts, ps_status st);

/* --- for the sources ----------------------------------------------------------------- */

/* Writes the numbered words, with their counts, and the sum of all counts. `advice` says which
 * field makes them fewer. */
void ps_learned_put_words(ps_learned *learned, uint32_t index, const ps_vocabulary *words,
                          uint32_t count, const char *advice);
/* Replaces *words, which is empty, by the words that were learned, with their numbers and counts.
 * The caller then calls ps_vocabulary_order. Returns INVALID_ARGUMENT if no words were learned for
 * `index`. */
PS_MUST_USE ps_status ps_learned_take_words(ps_learned *learned, uint32_t index,
                                            ps_vocabulary **words);
/* Writes the properties of a column of numbers. */
void ps_learned_put_column(ps_learned *learned, uint32_t index, const ps_learned_column *column);
/* Writes the properties that were learned of a column to *column. Returns INVALID_ARGUMENT if there
 * are none. */
PS_MUST_USE ps_status ps_learned_take_column(const ps_learned *learned, uint32_t index,
                                             ps_learned_column *column);

#endif
