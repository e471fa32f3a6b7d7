/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h - collects the samples of a source that reads lines: a spill per split, limited to the
 * conf's counts, with the borders between files. Private to common/data. */
#ifndef PS_COMMON_DATA_SINK_H
#define PS_COMMON_DATA_SINK_H

#include "common/data/dataset_impl.h"
#include "common/data/lines.h"
#include "common/data/spill.h"

typedef struct ps_sink {
    ps_spill *spill[2]; /* index: a ps_split; NULL: samples are only counted */
    uint64_t count[2];  /* number of samples added, also beyond the limits */
    /* how many samples are kept; 0: all, which is so for training samples of a share */
    uint32_t limit[2];
    ps_file_start *files; /* (files_cap) training files with samples so far */
    uint32_t files_seen, files_cap;
    uint32_t next_file;  /* a training file with this index or a greater one has not begun */
    bool has_unnumbered; /* the name of a training file with samples ends in no number */
    ps_learned *learner; /* NULL: nobody learns how many samples files have */
} ps_sink;

/* Initialises a sink. With `parts` 0 it only counts; else it keeps samples, and each spill may hold
 * 1/parts of ps_split_memory in memory. */
void ps_sink_init(ps_sink *sink, const ps_data_conf *conf, const char *scratch, unsigned parts);
/* Frees the spills and borders that were not taken. */
void ps_sink_fini(ps_sink *sink);

/* Returns whether the next sample of the split will be kept. */
bool ps_sink_wants(const ps_sink *sink, ps_split split);

/* Adds one sample of n bytes that was read from `line`. n must be the same in every call.
 * Returns disk errors. */
PS_MUST_USE ps_status ps_sink_add(ps_sink *sink, const ps_line *line, const void *record, size_t n);

/* Ends the spills, and writes the numbers of samples to limits of `conf` that are 0, as
 * ps_data_found_counts does. Returns its INVALID_ARGUMENT, or disk errors. */
PS_MUST_USE ps_status ps_sink_end(ps_sink *sink, ps_data_conf *conf);

/* Creates a data set with the shapes and limits of the conf and, if all training files have names
 * that end in numbers, the borders between them. The caller sets the splits. Returns
 * INVALID_ARGUMENT if a file of a share has other samples than were learned of it, or as the
 * source's `facts`. */
PS_MUST_USE ps_status ps_sink_dataset(ps_sink *sink, const ps_data_conf *conf, ps_dataset **out);

/* Returns the spill of a split, which then belongs to the caller. */
ps_spill *ps_sink_take(ps_sink *sink, size_t split);

/* --- float_records.c ------------------------------------------------------------------ */

/* Makes samples of float records: `targets` targets, then `stored` values. If sizes[i] (stored;
 * NULL: all 0) is s > 0, value i becomes s features, 1 at index `value` and 0 elsewhere. Takes
 * the spill. */
ps_samples *ps_float_records_create(uint32_t targets, uint32_t stored, const uint32_t *sizes,
                                    ps_spill *records);

#endif
