/* SPDX-License-Identifier: Apache-2.0 */
/* script_ahead.h - calls of a script that are made together, before their results are asked for.
 *
 * Waking a sandbox and being woken takes as long as a codec of code does for a slice. So a thread
 * that has several slices adds a call for each, has the sandbox answer all of them, and takes the
 * results one by one. All of it belongs to the thread that calls; scripts stay open until the end.
 */
#ifndef PS_COMMON_SCRIPT_SCRIPT_AHEAD_H
#define PS_COMMON_SCRIPT_SCRIPT_AHEAD_H

#include "common/script/script.h"

#include <stdbool.h>

/* Which call: what it is of, compared by address, and a key. */
typedef struct ps_ahead_id {
    const void *of;
    uint64_t key;
} ps_ahead_id;

/* Adds a call of `function`, one result each. Returns false, and adds nothing, if the calls that
 * are there are of another function or script or were made already, or if no more fit. */
bool ps_script_ahead_add(ps_script *script, const char *function, ps_ahead_id id,
                         const ps_script_value *arguments, size_t count);

/* Makes the calls that were added. The script keeps a failure; then no call has a result. */
void ps_script_ahead_run(void);

/* Reads the result of a call. Returns false if it was not made. */
bool ps_script_ahead_take(ps_script *script, ps_ahead_id id, ps_script_value *result,
                          ps_status *st);

/* Forgets the calls whose results were not taken. */
void ps_script_ahead_end(void);

#endif
