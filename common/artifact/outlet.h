/* SPDX-License-Identifier: Apache-2.0 */
/* outlet.h - a file that grows line by line while a job runs; for common/artifact.
 *
 * A full disk must not end a training that can still return its weights. Lines that cannot be
 * written wait in memory, at most PS_OUTLET_WAITING_MAX bytes, until there is room. One thread at
 * a time.
 */
#ifndef PS_COMMON_ARTIFACT_OUTLET_H
#define PS_COMMON_ARTIFACT_OUTLET_H

#include "common/base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum { PS_OUTLET_WAITING_MAX = 8 << 20 };

typedef struct ps_outlet {
    int fd; /* -1: the file could not be created, or emptied to be replaced, yet */
    char *path;
    bool makes_folder; /* true: the folder of the file is made too */
    /* bytes that are not written yet; the caller appends a line here before ps_outlet_row */
    ps_strbuf rows;
    size_t whole; /* bytes of `rows` that are complete lines */
    /* time_s of the line at which ps_outlet_row last tried to write; until then as the opener sets
     * it, 0 if it does not */
    double flushed_s;
    ps_status st;  /* result of the last try to create the file or to write */
    uint64_t lost; /* lines that were dropped because memory for waiting lines was full */
} ps_outlet;

/* Creates or empties the file, and makes its folder if `makes_folder`. A full disk is not a
 * failure: the file is created later. */
PS_MUST_USE ps_status ps_outlet_open(ps_outlet *outlet, const char *path, bool makes_folder);

/* Writes all waiting lines. Returns the failure if some cannot be written; those keep waiting. */
ps_status ps_outlet_flush(ps_outlet *outlet);

/* Ends the line that the caller has appended to `rows`; drops it if more than PS_OUTLET_WAITING_MAX
 * bytes wait. `time_s` is in seconds of any clock. Writes all lines when 64 KiB wait and the last
 * write succeeded, or when a second has passed since the last try. */
void ps_outlet_row(ps_outlet *outlet, double time_s);

/* What an outlet has in its file at some time. */
typedef struct ps_outlet_past {
    int fd;         /* for reading; -1: the file has nothing */
    uint64_t bytes; /* bytes of the file then; lines may be added behind them */
} ps_outlet_past;

/* Opens the file as it is now. ps_outlet_past_close ends it, also after a failure. */
PS_MUST_USE ps_status ps_outlet_look(const ps_outlet *outlet, ps_outlet_past *past);
void ps_outlet_past_close(ps_outlet_past *past);

/* Appends to *out all lines that the outlet had at ps_outlet_look, written or waiting. The outlet
 * must be unchanged since, or this is a copy of the process that was made before it changed. Fails
 * if the file cannot be read. */
PS_MUST_USE ps_status ps_outlet_copy(const ps_outlet *outlet, const ps_outlet_past *past,
                                     ps_strbuf *out);

/* Replaces all lines so far by these bytes, which are complete lines. If they cannot be written, as
 * on a full disk, they wait in `rows` for the next write. */
void ps_outlet_replace(ps_outlet *outlet, const void *bytes, size_t len);

/* Writes the waiting lines, closes the file and frees memory. Fails only if these lines cannot be
 * written or the file cannot be closed. Logs how many lines were dropped earlier. */
PS_MUST_USE ps_status ps_outlet_close(ps_outlet *outlet);

#endif
