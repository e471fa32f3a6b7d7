/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - data sets: loads the data set that a conf chooses, and gathers its samples.
 *
 * A loaded data set is immutable and may be read from any thread. feed.h applies the order and the
 * transforms of a job to it.
 *
 * The features of a sample are numbers first, then ids (words or categories). An id is an
 * integer below 2^24, stored exactly in a float32.
 */
#ifndef PS_COMMON_DATA_DATASET_H
#define PS_COMMON_DATA_DATASET_H

#include "common/data/conf.h"

enum {
    PS_DATA_IDS_MAX = 1 << 24,     /* limit of ids and classes; a float holds them exactly */
    PS_DATA_FEATURES_MAX = 1 << 20 /* limit of the features of a sample */
};

typedef enum ps_split { PS_TRAIN, PS_TEST } ps_split;

/* Calls source->facts for a conf. */
PS_MUST_USE ps_status ps_data_get_facts(const ps_data_conf *conf, ps_data_facts *facts);
/* Calls source->look for a conf; does nothing if the source has none. */
PS_MUST_USE ps_status ps_data_look(const char *folder, ps_data_conf *conf);
/* Calls source->load for a conf whose training files are all there. */
PS_MUST_USE ps_status ps_data_load(const ps_data_conf *conf, const char *folder,
                                   const char *scratch, ps_dataset **out);

/* Keeps at most so many samples of each split, from the front; 0: all. */
void ps_dataset_limit(ps_dataset *data, uint32_t train, uint32_t test);
/* Returns the shapes of the samples. The counts are those of the samples that the data set
 * holds. */
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

/* Returns the words of the data set's texts in the order of their ids, a line each, and sets
 * *bytes; NULL if its samples are not made of words. A conf that names a file of these lines as
 * `vocabulary` gives the same ids. Valid as long as the data set. */
const char *ps_dataset_words(const ps_dataset *data, size_t *bytes);

/* Returns the text that the source `text` has read, and sets *bytes; NULL for other sources. Valid
 * as long as the data set. */
const char *ps_dataset_text(const ps_dataset *data, size_t *bytes);

/* Returns how many training files with samples the data set has; 0 if the name of one ends in no
 * number, or the source does not read lines (lines.h). */
uint32_t ps_dataset_file_count(const ps_dataset *data);

/* Returns the number in the name of the file that training sample `at` came from. Only for sets
 * whose file names all end in a number. */
uint32_t ps_dataset_file_number(const ps_dataset *data, uint32_t at);

#endif
