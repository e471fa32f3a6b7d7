/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - samples, and where they come from.
 *
 * A source is a const table (mnist, csv, ngram). A loaded data set is immutable and may be
 * read from any thread; what a job makes of it (its order, its transforms) is feed.h's. To
 * add a source: common/data/NAME.c, a line in list.h, a line in CMakeLists.txt.
 *
 * A sample's features are numbers first, then ids: words or categories as float32 values
 * that hold an integer below 2^24 exactly.
 */
#ifndef PS_COMMON_DATA_DATASET_H
#define PS_COMMON_DATA_DATASET_H

#include "common/base/status.h"
#include "common/data/conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_DATA_IDS_MAX = 1 << 24,     /* ids, and classes, a float holds exactly */
    PS_DATA_FEATURES_MAX = 1 << 20 /* of a sample */
};

typedef enum ps_split { PS_TRAIN, PS_TEST } ps_split;

/* What the samples of a conf are. */
typedef struct ps_data_facts {
    uint32_t shape[3];                /* of a sample: (channels, height, width) */
    uint32_t features;                /* their product */
    uint32_t ids;                     /* so many of the last features are ids */
    uint32_t vocabulary;              /* ids are below it; 0: there are none */
    uint32_t classes;                 /* 0: targets are values */
    uint32_t target_width;            /* values a sample is to be; 1, its index, for a class */
    uint32_t train_count, test_count; /* that there are, before the limits */
} ps_data_facts;

typedef struct ps_dataset ps_dataset;

/* A file of a data set, as on the wire: unpacked content. */
typedef struct ps_data_file {
    char name[PS_DATA_NAME_MAX];
    uint64_t size;
    char sha256[65];
} ps_data_file;

struct ps_data_source {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) numbers it takes */

    /* Files it consists of (NULL-terminated names, plain or with .gz beside
     * them); NULL: those of the conf, if it takes files, else the program draws it and load
     * ignores `folder`. */
    const char *const *files;
    bool takes_files;        /* the conf names them */
    bool takes_columns;      /* the conf names columns */
    const char *folder;      /* (optional) below the data path; NULL: `name` */
    bool some_files_suffice; /* a set may lack files; load says what it misses */
    bool is_usual_unseen; /* whoever cannot look takes it for the set it mostly is, as facts say */
    uint32_t version;     /* of a drawn source: another one when a sample changes */

    /* From the conf alone. FAILED_PRECONDITION: only the files know; look first.
     * INVALID_ARGUMENT: the numbers, columns or files do not go together. */
    PS_MUST_USE ps_status (*facts)(const ps_data_conf *conf, ps_data_facts *facts);

    /* (optional) Reads the files and fills in what is 0 in the conf and only they know,
     * limits included; what is not 0 must agree with them. Errors as of load. */
    PS_MUST_USE ps_status (*look)(const char *folder, ps_data_conf *conf);

    /* Loads from `folder`, as far as the conf's limits say; `scratch` as of spill.h.
     * *out is the caller's to destroy. Any thread.
     * NOT_FOUND          a file is not there
     * INVALID_ARGUMENT   not what it should be: file, offset or line, expected
     * DATA_LOSS          a .gz is damaged or cut */
    PS_MUST_USE ps_status (*load)(const ps_data_conf *conf, const char *folder, const char *scratch,
                                  ps_dataset **out);
};

const ps_data_source *ps_data_source_find(const char *name); /* NULL if there is none */
void ps_data_source_each(void (*fn)(const ps_data_source *source, void *arg), void *arg);

/* source->facts, source->look (or nothing) and source->load of a conf. */
PS_MUST_USE ps_status ps_data_get_facts(const ps_data_conf *conf, ps_data_facts *facts);
PS_MUST_USE ps_status ps_data_look(const char *folder, ps_data_conf *conf);
PS_MUST_USE ps_status ps_data_load(const ps_data_conf *conf, const char *folder,
                                   const char *scratch, ps_dataset **out);

/* Describes the files of a conf that are in `folder` (unpacked sizes and SHA-256) and
 * the checksum of the whole: SHA-256 over the lines "name size sha256\n". For a drawn
 * source: no files, SHA-256 of "name:version". NOT_FOUND names the first
 * missing file and where it was looked for. */
PS_MUST_USE ps_status ps_data_describe(const ps_data_conf *conf, const char *folder,
                                       ps_data_file files[PS_DATA_FILES_MAX], size_t *count,
                                       char sha256[65]);

/* Keeps at most so many samples of each split, from the front; 0 for all. */
void ps_dataset_limit(ps_dataset *data, uint32_t train, uint32_t test);
const ps_data_facts *ps_dataset_facts(const ps_dataset *data); /* counts: those it holds */
uint32_t ps_dataset_count(const ps_dataset *data, ps_split split);
void ps_dataset_destroy(ps_dataset *data);

/* Gathers samples: x (n, features), images in [-0.5, 0.5] (x / 255 - 0.5); targets (n,
 * target_width): for a class its index. index NULL: samples first..first+n-1, else
 * index[0..n). All within the count. */
void ps_dataset_gather(const ps_dataset *data, ps_split split, const uint32_t *index,
                       uint32_t first, uint32_t n, float *x, float *targets);

/* DATA_LOSS once a sample could not be read back from the disk; its values are then 0.
 * Who gathers asks when it has gathered what it needs. */
PS_MUST_USE ps_status ps_dataset_status(const ps_dataset *data);

/* The number that the name of the file ends in that training sample `at` came from;
 * for a set of files whose names all end in one. */
uint32_t ps_dataset_file_number(const ps_dataset *data, uint32_t at);

#endif
