/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.h - a file that grows row by row while a job runs; for common/artifact.
 *
 * A failed write is kept and told at the end: a full disk must not end a training
 * that still can answer with its weights. One thread at a time.
 */
#ifndef PS_COMMON_ARTIFACT_OUTLET_H
#define PS_COMMON_ARTIFACT_OUTLET_H

#include "common/base/strbuf.h"

typedef struct ps_outlet {
    int fd;
    char *path;
    ps_strbuf rows;   /* not written yet; whoever has rows appends them here */
    double flushed_s; /* time of the row that was last when rows were written */
    ps_status st;     /* the first failure */
} ps_outlet;

/* Makes the file or empties it. */
PS_MUST_USE ps_status ps_outlet_open(ps_outlet *outlet, const char *path);

/* Writes what is there. */
void ps_outlet_flush(ps_outlet *outlet);

/* A row was appended at time_s of any clock: writes all rows when there are many,
 * or when a second has passed since they were written last. */
void ps_outlet_row(ps_outlet *outlet, double time_s);

/* Writes the rest and ends it. The first failure of its whole life. */
PS_MUST_USE ps_status ps_outlet_close(ps_outlet *outlet);

#endif
