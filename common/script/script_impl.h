/* SPDX-License-Identifier: Apache-2.0 */
/* script_impl.h - what the files of this room share. */
#ifndef PS_COMMON_SCRIPT_SCRIPT_IMPL_H
#define PS_COMMON_SCRIPT_SCRIPT_IMPL_H

#include "common/codec/codec_type.h"
#include "common/codec/wrap.h"
#include "common/script/script.h"

#include <stdbool.h>
#include <stddef.h>

enum { PS_SCRIPT_SAID_MAX = 8192 }; /* bytes of a description */

/* The tables of a plugin, of which one is used. */
typedef struct ps_script_plugin {
    ps_codec codec;
    ps_consistency policy;
    ps_metric metric;
    ps_schedule schedule;
    ps_transform transform;
    /* those of the kind that come first, the script's number, its own, those of the kind behind */
    ps_param params[PS_PARAM_MAX + 1];
    size_t param_count; /* without those behind */
} ps_script_plugin;

/* Fill in the table of a kind; the numbers of the script are there. */
void ps_script_codec_make(const ps_script_about *about, ps_script_plugin *plugin);
void ps_script_consistency_make(const ps_script_about *about, ps_script_plugin *plugin);
void ps_script_metric_make(const ps_script_about *about, ps_script_plugin *plugin);
void ps_script_schedule_make(const ps_script_about *about, ps_script_plugin *plugin);
void ps_script_transform_make(const ps_script_about *about, ps_script_plugin *plugin);

/* Most features of a sample that a script transforms: they fit into the shared memory. */
enum { PS_SCRIPT_FEATURES_MAX = 262144 };

/* Calls a function that returns a number or a boolean (0 or 1). */
PS_MUST_USE ps_status ps_script_number(ps_script *script, const char *function,
                                       const ps_script_value *arguments, size_t count, double *out);

/* Returns the argument with the script's own numbers, which begin at params->v[at]. */
ps_script_value ps_script_numbers(const ps_script *script, const ps_params *params, size_t at);

/* Keeps a failure of a script whose answer is not allowed. */
PS_PRINTF(2, 3) void ps_script_fail(ps_script *script, const char *fmt, ...);

/* Reads the lines that a sandbox says of a plugin, which may be anything. */
PS_MUST_USE ps_status ps_script_about_read(char *lines, ps_script_about *about);

/* Returns the script of a plugin with these numbers. */
ps_script *ps_script_of_params(const ps_params *params);

/* Takes a sandbox that waits, or starts another one. Returns the first failure if there is one. */
PS_MUST_USE ps_status ps_script_take(ps_script *script, ps_sandbox **out);
/* Gives a sandbox back, which may be NULL, and keeps the first failure. Makes *st one that is no
 * loss of the node. */
void ps_script_give_back(ps_script *script, ps_sandbox *sandbox, ps_status *st);

/* Writes what is called to the shared memory. `result_max`: without the bytes of a writer. */
void ps_script_set_call(ps_sandbox_memory *shared, uint32_t what, const char *function,
                        size_t result_max);
/* Writes arguments to the shared memory, from argument `first` and byte *at on, and moves *at
 * behind them. Returns false if they do not fit. */
bool ps_script_put_arguments(ps_sandbox_memory *shared, size_t first, size_t *at,
                             const ps_script_value *arguments, size_t count);
/* Reads results from number `first` on. What the sandbox wrote may be anything. */
PS_MUST_USE ps_status ps_script_take_results(const ps_sandbox_memory *shared, uint32_t first,
                                             ps_script_value *results, size_t count);

/* Starts a sandbox and has it load a text. */
PS_MUST_USE ps_status ps_script_load(const char *text, size_t bytes,
                                     const ps_sandbox_budget *budget, ps_sandbox **out);

/* Has a sandbox that has loaded code do `what`, as ps_script_call does for one function. The
 * failure has the reason alone. */
PS_MUST_USE ps_status ps_script_run(ps_sandbox *sandbox, uint32_t what, const char *function,
                                    const ps_script_value *arguments, size_t argument_count,
                                    ps_script_value *results, size_t result_count);

/* ---- Calls that are made together, before their results are asked for ----
 *
 * Waking a sandbox and being woken takes as long as a codec of code does for a slice. So a thread
 * that has several slices adds a call for each, has the sandbox answer all of them, and takes the
 * results one by one. All of it belongs to the thread that calls; scripts stay open until the end.
 */

/* Which call: what it is of, compared by address, and a key. */
typedef struct ps_ahead_id {
    const void *of;
    uint64_t key;
} ps_ahead_id;

/* Adds a call of `function`, one result each. NULL: a round trip, that is encode, and then decode
 * for what encode wrote; the first argument is the vector. Returns false, and adds nothing, if the
 * calls that are there are of another function or script or were made already, or if no more fit.
 */
bool ps_script_ahead_add(ps_script *script, const char *function, ps_ahead_id id,
                         const ps_script_value *arguments, size_t count);

/* Makes the calls that were added. The script keeps a failure; then no call has a result. */
void ps_script_ahead_run(void);

/* Reads the result of a call, of a round trip that of encode. Returns false if it was not made. */
bool ps_script_ahead_take(ps_script *script, ps_ahead_id id, ps_script_value *result,
                          ps_status *st);

/* Reads the values that decode returned in the round trip whose other result was taken last. Returns
 * false if these (len) are not the bytes that encode wrote there, if *result asks for another number
 * of values, or if there was no round trip. */
bool ps_script_ahead_take_back(ps_script *script, const uint8_t *bytes, size_t len,
                               ps_script_value *result, ps_status *st);

/* Forgets the calls whose results were not taken. */
void ps_script_ahead_end(void);

#endif
