/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h - where a source that reads lines puts its samples: a spill a split, with the
 * limits kept and the files' borders noted. For common/data alone.
 */
#ifndef PS_COMMON_DATA_SINK_H
#define PS_COMMON_DATA_SINK_H

#include "common/data/lines.h"
#include "common/data/samples.h"
#include "common/data/spill.h"

typedef struct ps_sink {
    ps_spill *spill[2]; /* by ps_split; NULL: samples are only counted */
    uint64_t count[2];  /* samples there were, also beyond the limits */
    uint32_t limit[2];  /* 0: none */
    uint32_t file_first[PS_DATA_FILES_MAX], files_seen;
} ps_sink;

/* To count with (parts 0), or, with spills, to keep: each of them one of so many parts of what a
 * split may have in memory. */
void ps_sink_init(ps_sink *sink, const ps_data_conf *conf, const char *scratch, unsigned parts);
void ps_sink_fini(ps_sink *sink); /* frees what was not taken */

/* Is the next sample of the split to be kept? */
bool ps_sink_wants(const ps_sink *sink, ps_split split);

/* One sample, of the same bytes each time, that came from `line`. */
PS_MUST_USE ps_status ps_sink_add(ps_sink *sink, const ps_line *line, const void *row, size_t n);

/* Ends the spills, and puts the counts into limits of `conf` that are 0. INVALID_ARGUMENT
 * when there are fewer samples than a limit says. */
PS_MUST_USE ps_status ps_sink_end(ps_sink *sink, ps_data_conf *conf);

/* A data set of so many samples as the limits say, its files' borders noted; of the facts of
 * the conf. Splits are the caller's to set. */
PS_MUST_USE ps_status ps_sink_dataset(const ps_sink *sink, const ps_data_conf *conf,
                                      ps_dataset **out);

/* The spill of a split, now the caller's. */
ps_spill *ps_sink_take(ps_sink *sink, size_t split);

/* --- rows.c ------------------------------------------------------------------ */

/* Samples as rows of floats: targets, then `stored` values. A value with a size s > 0 in
 * `sizes` (stored; NULL: none) stands for s features, 1 at the value and 0 elsewhere. Takes
 * the spill. */
ps_samples *ps_rows_create(uint32_t targets, uint32_t stored, const uint32_t *sizes,
                           ps_spill *rows);

#endif
