/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - data sets and the sources that they come from.
 *
 * A source is a const table (mnist, csv, ngram). A loaded data set is immutable and may be read
 * from any thread. feed.h applies the order and the transforms of a job to it. To add a source:
 * write common/data/NAME.c, add a line to list.h and one to CMakeLists.txt.
 *
 * The features of a sample are numbers first, then ids (words or categories). An id is an
 * integer below 2^24, stored exactly in a float32.
 */
#ifndef PS_COMMON_DATA_DATASET_H
#define PS_COMMON_DATA_DATASET_H

#include "common/base/status.h"
#include "common/data/conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_DATA_IDS_MAX = 1 << 24,     /* limit of ids and classes; a float holds them exactly */
    PS_DATA_FEATURES_MAX = 1 << 20 /* limit of the features of a sample */
};

typedef enum ps_split { PS_TRAIN, PS_TEST } ps_split;

/* The shapes of the samples of a conf. */
typedef struct ps_data_facts {
    uint32_t shape[3];   /* shape of a sample: (channels, height, width) */
    uint32_t features;   /* product of the shape */
    uint32_t ids;        /* number of features at the end that are ids */
    uint32_t vocabulary; /* ids are below it; 0: there are no ids */
    uint32_t classes;    /* 0: targets are values */
    /* target values of a sample; 1 for a class, which is its index */
    uint32_t target_width;
    uint32_t train_count, test_count; /* numbers of samples, before the limits */
} ps_data_facts;

typedef struct ps_dataset ps_dataset;

/* A file of a data set, as on the wire. Size and checksum are of the unpacked content. */
typedef struct ps_data_file {
    char name[PS_DATA_FILE_NAME_MAX];
    uint64_t size;
    char sha256[65];
} ps_data_file;

/* The files of a data set. */
typedef struct ps_data_files {
    ps_data_file *at; /* (count) */
    size_t count;
    char sha256[65]; /* of the whole: SHA-256 over the lines "name size sha256\n" of all files */
} ps_data_files;

/* Frees the list. A zeroed one is allowed. */
void ps_data_files_free(ps_data_files *files);

struct ps_data_source {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) the numbers that the source takes */

    /* Its fixed files (NULL-terminated names, plain or with .gz appended). NULL: the conf names
     * the files if takes_files; else the program draws the samples, and load ignores `folder`. */
    const char *const *files;
    bool takes_files;        /* the conf names them */
    bool takes_columns;      /* the conf names columns */
    bool takes_vocabulary;   /* the conf may name a file of words */
    const char *folder;      /* (optional) path below the data path; NULL: `name` */
    bool some_files_suffice; /* the set may lack files; load reports what is missing */
    /* a node without the files assumes the usual set, as `facts` describes it */
    bool is_usual_unseen;
    uint32_t version; /* version of a drawn source; it changes when any sample changes */

    /* Writes the shapes to *facts, from the conf alone. Returns FAILED_PRECONDITION if only the
     * files tell them (call ps_data_look first). Returns INVALID_ARGUMENT if numbers, columns
     * or files do not fit. */
    PS_MUST_USE ps_status (*facts)(const ps_data_conf *conf, ps_data_facts *facts);

    /* (optional) Reads the files and fills in the values of the conf that are 0 and that only
     * the files tell, limits included. Other values must agree with the files. Errors as of
     * load. */
    PS_MUST_USE ps_status (*look)(const char *folder, ps_data_conf *conf);

    /* Loads the samples from `folder`, up to the conf's limits. `scratch` as in spill.h. The
     * caller destroys *out. Any thread.
     *   NOT_FOUND          a file does not exist
     *   INVALID_ARGUMENT   the content is wrong: file, offset or line, what is expected
     *   DATA_LOSS          a .gz is damaged or truncated */
    PS_MUST_USE ps_status (*load)(const ps_data_conf *conf, const char *folder, const char *scratch,
                                  ps_dataset **out);
};

/* Returns the source with this name, or NULL if there is none. */
const ps_data_source *ps_data_source_find(const char *name);
/* Calls `fn` for every source, in the order of list.h. */
void ps_data_source_each(void (*fn)(const ps_data_source *source, void *arg), void *arg);

/* Calls source->facts for a conf. */
PS_MUST_USE ps_status ps_data_get_facts(const ps_data_conf *conf, ps_data_facts *facts);
/* Calls source->look for a conf; does nothing if the source has none. */
PS_MUST_USE ps_status ps_data_look(const char *folder, ps_data_conf *conf);
/* Calls source->load for a conf. */
PS_MUST_USE ps_status ps_data_load(const ps_data_conf *conf, const char *folder,
                                   const char *scratch, ps_dataset **out);

/* Describes the (unpacked) files of a conf that exist in `folder`. A drawn source has no files; its
 * checksum is the SHA-256 of "name:version". The caller frees *out after success. Returns NOT_FOUND
 * with the first missing file and its folder, or as ps_file_list_open. */
PS_MUST_USE ps_status ps_data_describe(const ps_data_conf *conf, const char *folder,
                                       ps_data_files *out);

/* Computes the checksum of the whole from those of the files. */
void ps_data_files_sum(ps_data_files *files);

/* Keeps at most so many samples of each split, from the front; 0: all. */
void ps_dataset_limit(ps_dataset *data, uint32_t train, uint32_t test);
/* Returns the shapes. The counts are those of the samples that it holds. */
const ps_data_facts *ps_dataset_facts(const ps_dataset *data);
/* Returns the number of samples of a split. */
uint32_t ps_dataset_count(const ps_dataset *data, ps_split split);
/* Frees a data set. NULL is allowed. */
void ps_dataset_destroy(ps_dataset *data);

/* Gathers n samples: features into x (n, features), targets into targets (n, target_width).
 * Bytes of images become x / 255 - 0.5, in [-0.5, 0.5]; a class becomes its index. Takes the
 * samples index[0..n), or first..first+n-1 if `index` is NULL; all must exist. */
void ps_dataset_gather(const ps_dataset *data, ps_split split, const uint32_t *index,
                       uint32_t first, uint32_t n, float *x, float *targets);

/* Returns DATA_LOSS if any sample could not be read back from the disk; its values were then 0.
 * Call it after gathering. */
PS_MUST_USE ps_status ps_dataset_status(const ps_dataset *data);

/* Returns the words of its texts in the order of their ids, a line each, and their bytes; NULL if
 * its samples are not made of words. A conf with such a file as `vocabulary` gives the same ids.
 * Valid as long as the data set. */
const char *ps_dataset_words(const ps_dataset *data, size_t *bytes);

/* Returns the number in the name of the file that training sample `at` came from. Only for sets
 * whose file names all end in a number. */
uint32_t ps_dataset_file_number(const ps_dataset *data, uint32_t at);

#endif
