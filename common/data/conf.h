/* SPDX-License-Identifier: Apache-2.0 */
/* conf.h - the choice of a data set: a source, its numbers, its files and columns.
 *
 * A conf is plain memory without owned pointers and is copied by assignment. common/job makes
 * one of a DataSpec. Values that only the files tell (numbers of samples, words, classes) are 0
 * until ps_data_look has filled them in. From then on they are part of the job, so every node
 * computes the same shapes without the files.
 */
#ifndef PS_COMMON_DATA_CONF_H
#define PS_COMMON_DATA_CONF_H

#include "common/data/source.h"

enum {
    PS_DATA_FILES_MAX = 64, /* entries: names of files, patterns and folders */
    /* files that the entries stand for; the list of their names is one message */
    PS_DATA_LIST_MAX = 16384,
    PS_DATA_COLUMNS_MAX = 128,
    PS_DATA_NAME_MAX = 64,       /* bytes of the name of a column, with its NUL */
    PS_DATA_FILE_NAME_MAX = 128, /* bytes of the name of a file, with its NUL */
    PS_DATA_FOLDER_MAX = 192 /* bytes of the path of a folder below the data path, with its NUL */
};

typedef struct ps_column ps_column;

/* A column of a table. */
typedef struct ps_data_column {
    char name[PS_DATA_NAME_MAX];
    const ps_column *kind;
    ps_params params; /* in the order of the kind's table */
} ps_data_column;

/* Which training files are read of a set whose files are dealt to workers by their numbers: those
 * whose number modulo `of` is in [first, first + count). train_limit is then the number of samples
 * of an epoch, and no bound of what is loaded. Zeroed: files are not dealt, all are read. */
typedef struct ps_data_share {
    uint32_t of; /* workers */
    uint32_t first, count;
} ps_data_share;

typedef struct ps_learned ps_learned; /* learned.h */

struct ps_data_conf {
    const ps_data_source *source;
    ps_params params; /* in the order of the source's table */
    /* number of samples used, from the front; 0: all */
    uint32_t train_limit, test_limit;
    /* path below the data path; "": the default of the source */
    char folder[PS_DATA_FOLDER_MAX];
    /* entries for the training files, then for the test files (file_list.h) */
    char files[PS_DATA_FILES_MAX][PS_DATA_FILE_NAME_MAX];
    uint32_t train_files, test_files;       /* numbers of entries */
    char vocabulary[PS_DATA_FILE_NAME_MAX]; /* file of the words in the order of ids; "": counted */
    ps_data_column columns[PS_DATA_COLUMNS_MAX];
    uint32_t column_count;
    ps_data_share share;
    ps_learned
        *learned; /* borrowed while a look learns or a share is loaded (learned.h); or NULL */
};

/* Returns a conf of this source with the default numbers. */
ps_data_conf ps_data_conf_of(const ps_data_source *source);

/* Returns whether two confs are equal; `learned` does not count. */
bool ps_data_conf_same(const ps_data_conf *a, const ps_data_conf *b);

/* Returns whether the share lacks training files, so that what was learned from all of them comes
 * with it (learned.h). */
bool ps_data_is_part(const ps_data_conf *conf);

/* Returns the value of the source's number `name`, which must exist. */
double ps_data_number(const ps_data_conf *conf, const char *name);
/* Returns the value of the source's number `name`, which must exist and be an integer. */
uint32_t ps_data_count(const ps_data_conf *conf, const char *name);
/* Sets the source's number `name`, which must exist. */
void ps_data_set(ps_data_conf *conf, const char *name, double value);

/* Returns the path of the conf's folder below the data path. Valid as long as the conf. */
const char *ps_data_folder(const ps_data_conf *conf);

/* Returns the number of the conf's entries of files: those that are fixed by the source, or those
 * that the conf names; 0 for a source that the program draws. */
size_t ps_data_file_count(const ps_data_conf *conf);
/* Returns entry i of the ps_data_file_count entries: first those of training files. Valid as long
 * as the conf. */
const char *ps_data_file_name(const ps_data_conf *conf, size_t i);

enum { PS_DATA_WHO_BYTES = 56 };

/* Returns what to name in an error about the files as a whole: "a.csv", "a.csv and 2 more", or
 * the name of the source if the conf names no files. Uses `text` if it has to build the result.
 * The result is short enough to stand before a reason. */
const char *ps_data_who(const ps_data_conf *conf, char text[PS_DATA_WHO_BYTES]);

/* Returns whether `folder` is a valid path below a data path: names that pass ps_name_is_safe
 * between single slashes, without a slash at either end. */
bool ps_data_folder_is_safe(const char *folder);

/* Writes the number at the end of a file's name, before extensions without digits: 7 for
 * "part-007.csv" and "7". Returns false if there is none below 2^32. */
bool ps_data_file_number(const char *name, uint32_t *number);

#endif
