/* SPDX-License-Identifier: Apache-2.0 */
/* conf.h - which data set: a source, its numbers, its files and columns.
 *
 * Plain memory without pointers to own, copied by assignment. What a job says
 * (DataSpec) becomes one of these in common/job; what only the files know (how many
 * samples, words or classes there are) is 0 until ps_data_look has filled it in, and from
 * then on part of the job, so that every node resolves the same shapes without files.
 */
#ifndef PS_COMMON_DATA_CONF_H
#define PS_COMMON_DATA_CONF_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_DATA_FILES_MAX = 64,
    PS_DATA_COLUMNS_MAX = 128,
    PS_DATA_NAME_MAX = 64,   /* bytes of a file's or column's name, with its NUL */
    PS_DATA_FOLDER_MAX = 192 /* bytes of a folder below the data path, with its NUL */
};

typedef struct ps_data_source ps_data_source;
typedef struct ps_column ps_column;

/* A column of a table. */
typedef struct ps_data_column {
    char name[PS_DATA_NAME_MAX];
    const ps_column *kind;
    ps_params params; /* in the order of the kind's table */
} ps_data_column;

typedef struct ps_data_conf {
    const ps_data_source *source;
    ps_params params;                                /* in the order of the source's table */
    uint32_t train_limit, test_limit;                /* samples used, from the front; 0: all */
    char folder[PS_DATA_FOLDER_MAX];                 /* below the data path; "": the source's own */
    char files[PS_DATA_FILES_MAX][PS_DATA_NAME_MAX]; /* training files, then test files */
    uint32_t train_files, test_files;
    ps_data_column columns[PS_DATA_COLUMNS_MAX];
    uint32_t column_count;
} ps_data_conf;

/* A source with its defaults. */
ps_data_conf ps_data_conf_of(const ps_data_source *source);

bool ps_data_conf_same(const ps_data_conf *a, const ps_data_conf *b);

/* Value of a number of the source's, which has it. */
double ps_data_number(const ps_data_conf *conf, const char *name);
uint32_t ps_data_count(const ps_data_conf *conf, const char *name); /* of a whole number */
void ps_data_set(ps_data_conf *conf, const char *name, double value);

/* Its folder below a data path. */
const char *ps_data_folder(const ps_data_conf *conf);

/* Names of its files, in order: those the source always has, or those of the conf; 0 for
 * a set that the program draws. Valid as long as the conf. */
size_t ps_data_file_count(const ps_data_conf *conf);
const char *ps_data_file_name(const ps_data_conf *conf, size_t i);

/* Whose fault it is when the files as a whole are wrong: "a.csv", "a.csv and 2 more", or the
 * source, where a conf does not name them. Short enough to stand before a reason. */
enum { PS_DATA_WHO_BYTES = 56 };
const char *ps_data_who(const ps_data_conf *conf, char text[PS_DATA_WHO_BYTES]);

/* Can it be a folder below a data path? Names as of ps_name_is_safe between single
 * slashes, no slash at either end. */
bool ps_data_folder_is_safe(const char *folder);

/* The number a file's name ends in, but for extensions without digits: 7 for "part-007.csv"
 * and "7"; false when there is none below 2^32. */
bool ps_data_file_number(const char *name, uint32_t *number);

#endif
