/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - samples in memory, and where they come from.
 *
 * A source is a const table (mnist, glyphs). A loaded data set is immutable
 * and may be read from any thread. To add a source: common/data/NAME.c, a line
 * in list.h, a line in CMakeLists.txt.
 */
#ifndef PS_COMMON_DATA_DATASET_H
#define PS_COMMON_DATA_DATASET_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PS_DATA_FILES_MAX = 8 };

typedef enum ps_split { PS_TRAIN, PS_TEST } ps_split;

/* What a source needs no files for: shapes are known before any data is. */
typedef struct ps_data_facts {
    uint32_t shape[3];     /* of a sample: (channels, height, width) */
    uint32_t features;     /* their product */
    uint32_t classes;      /* 0: targets are values */
    uint32_t target_width; /* values a sample is to be; 1, its index, for a class */
    uint32_t train_count, test_count;
} ps_data_facts;

typedef struct ps_dataset ps_dataset;

/* A file of a data set, as on the wire: unpacked content. */
typedef struct ps_data_file {
    char name[64];
    uint64_t size;
    char sha256[65];
} ps_data_file;

typedef struct ps_data_source {
    const char *name;
    const char *summary;
    ps_data_facts facts;

    /* Files it consists of (NULL-terminated names, plain or with .gz beside
     * them); NULL: the program draws it and load ignores `folder`. */
    const char *const *files;
    const char *folder;      /* (optional) below the data path; NULL: `name` */
    bool some_files_suffice; /* a set may lack files; load says what it misses */
    uint32_t version;        /* of a drawn source: another one when a sample changes */

    /* Loads from `folder` at most so many samples of each split, from the front,
     * 0 for all; *out is the caller's to destroy. Any thread.
     * NOT_FOUND          a file is not there
     * INVALID_ARGUMENT   not what it should be: file, offset, expected
     * DATA_LOSS          a .gz is damaged or cut */
    PS_MUST_USE ps_status (*load)(const char *folder, uint32_t train_limit, uint32_t test_limit,
                                  ps_dataset **out);
} ps_data_source;

/* Its folder below a data path. */
const char *ps_data_folder(const ps_data_source *source);

const ps_data_source *ps_data_source_find(const char *name); /* NULL if there is none */
void ps_data_source_each(void (*fn)(const ps_data_source *source, void *arg), void *arg);

/* Describes the files of `source` that are in `folder` (unpacked sizes and SHA-256) and
 * the checksum of the whole: SHA-256 over the lines "name size sha256\n". For a drawn
 * source: no files, SHA-256 of "name:version". NOT_FOUND names the first
 * missing file and where it was looked for. */
PS_MUST_USE ps_status ps_data_describe(const ps_data_source *source, const char *folder,
                                       ps_data_file files[PS_DATA_FILES_MAX], size_t *count,
                                       char sha256[65]);

/* Keeps at most so many samples of each split, from the front; 0 for all. */
void ps_dataset_limit(ps_dataset *data, uint32_t train, uint32_t test);
uint32_t ps_dataset_count(const ps_dataset *data, ps_split split);
void ps_dataset_destroy(ps_dataset *data);

/* Gathers samples: x (n, features) in [-0.5, 0.5] (x / 255 - 0.5), targets (n,
 * target_width): for a class its index. index NULL: samples first..first+n-1, else index[0..n). All
 * within the count. */
void ps_dataset_gather(const ps_dataset *data, ps_split split, const uint32_t *index,
                       uint32_t first, uint32_t n, float *x, float *targets);

#endif
