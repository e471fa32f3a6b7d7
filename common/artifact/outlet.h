/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.h - a file that grows row by row while a job runs; for common/artifact.
 *
 * A full disk must not end a training that still can answer with its weights: rows
 * that cannot be written wait in memory, at most PS_OUTLET_WAITING_MAX bytes of them,
 * and are written when there is room. One thread at a time.
 */
#ifndef PS_COMMON_ARTIFACT_OUTLET_H
#define PS_COMMON_ARTIFACT_OUTLET_H

#include "common/base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_OUTLET_WAITING_MAX = 8 << 20 };

typedef struct ps_outlet {
    int fd; /* -1: it could not be made yet */
    char *path;
    bool makes_folder; /* that it lies in */
    ps_strbuf rows;    /* not written yet; whoever has rows appends them here */
    size_t whole;      /* bytes of `rows` that are whole rows taken */
    double flushed_s;  /* time of the row that was last when rows were written */
    ps_status st;      /* of the last write */
    uint64_t lost;     /* rows that found no room in memory either */
} ps_outlet;

/* Makes the file, and its folder if makes_folder, or empties it. A full disk is no failure: the
 * file is made later. */
PS_MUST_USE ps_status ps_outlet_open(ps_outlet *outlet, const char *path, bool makes_folder);

/* Writes what is there. What cannot be written stays; the failure is returned. */
ps_status ps_outlet_flush(ps_outlet *outlet);

/* A row was appended at time_s of any clock: writes all rows when there are many,
 * or when a second has passed since that was last tried. */
void ps_outlet_row(ps_outlet *outlet, double time_s);

/* Writes the rest and ends it. Rows that were lost on the way are logged; only rows that
 * cannot be written now are a failure. */
PS_MUST_USE ps_status ps_outlet_close(ps_outlet *outlet);

#endif
