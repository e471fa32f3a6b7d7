/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - what a data source is: a const table (mnist, csv, ngram) that makes data sets.
 *
 * conf.h chooses a source; dataset.h calls the functions of the source that a conf names. To add a
 * source: write common/data/NAME.c, add a line to list.h and one to CMakeLists.txt.
 */
#ifndef PS_COMMON_DATA_SOURCE_H
#define PS_COMMON_DATA_SOURCE_H

#include "common/base/param.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_data_conf ps_data_conf;
typedef struct ps_dataset ps_dataset;

/* The shapes of the samples of a conf. */
typedef struct ps_data_facts {
    uint32_t shape[3];   /* shape of a sample: (channels, height, width) */
    uint32_t features;   /* product of the shape */
    uint32_t ids;        /* number of features at the end that are ids */
    uint32_t vocabulary; /* ids are below it; 0: there are no ids */
    uint32_t classes;    /* 0: targets are values */
    /* target values of a sample; 1 for a class, which is its index */
    uint32_t target_width;
    /* numbers of samples; the conf's limits may bound them further */
    uint32_t train_count, test_count;
} ps_data_facts;

typedef struct ps_data_source {
    const char *name;
    const char *summary;
    const ps_param *params; /* (optional) the numbers that the source takes */

    /* Its fixed files (NULL-terminated names, plain or with .gz appended). NULL: the conf names
     * the files if takes_files; else the program draws the samples, and load ignores `folder`. */
    const char *const *files;
    bool takes_files;        /* the conf names the files */
    bool takes_columns;      /* the conf names columns */
    bool takes_vocabulary;   /* the conf may name a file of words */
    const char *folder;      /* (optional) path below the data path; NULL: `name` */
    bool some_files_suffice; /* the set may lack files; load reports what is missing */
    /* a node without the files assumes the usual set, as `facts` describes it */
    bool is_usual_unseen;
    uint32_t version; /* version of a drawn source; it changes when any sample changes */

    /* Writes the shapes to *facts, from the conf alone. Returns FAILED_PRECONDITION if only the
     * files tell them (call `look` first). Returns INVALID_ARGUMENT if numbers, columns
     * or files do not fit. */
    PS_MUST_USE ps_status (*facts)(const ps_data_conf *conf, ps_data_facts *facts);

    /* (optional) Reads the files and fills in the values of the conf that are 0 and that only
     * the files tell, limits included. Other values must agree with the files. Errors as of
     * load. If the conf says so, it also keeps what samples depend on besides their own file
     * (learned.h). */
    PS_MUST_USE ps_status (*look)(const char *folder, ps_data_conf *conf);

    /* Loads the samples from `folder`, up to the conf's limits. `scratch` as in spill.h. The
     * caller destroys *out. Any thread.
     * If the conf is that of a part, nothing is learned from its files; see learned.h.
     *   NOT_FOUND          a file does not exist
     *   INVALID_ARGUMENT   the content is wrong: file, offset or line, what is expected
     *   DATA_LOSS          a .gz is damaged or truncated */
    PS_MUST_USE ps_status (*load)(const ps_data_conf *conf, const char *folder, const char *scratch,
                                  ps_dataset **out);
} ps_data_source;

/* The name of the source of models that users' programs compute. */
#define PS_DATA_FOREIGN "foreign"
/* The name of the source of texts that code of jobs reads. */
#define PS_DATA_TEXT "text"

/* Returns the source with this name, or NULL if there is none. */
const ps_data_source *ps_data_source_find(const char *name);
/* Calls `fn` for every source, in the order of list.h. */
void ps_data_source_each(void (*fn)(const ps_data_source *source, void *arg), void *arg);

#endif
