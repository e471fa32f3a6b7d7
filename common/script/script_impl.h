/* SPDX-License-Identifier: Apache-2.0 */
/* script_impl.h - what the files of common/script share. Private to common/script. */
#ifndef PS_COMMON_SCRIPT_SCRIPT_IMPL_H
#define PS_COMMON_SCRIPT_SCRIPT_IMPL_H

#include "common/codec/codec_type.h"
#include "common/codec/wrap.h"
#include "common/script/script.h"

#include <stdbool.h>
#include <stddef.h>

enum { PS_SCRIPT_SAID_MAX = 8192 }; /* most bytes of a description of a plugin */

/* The tables of a plugin, of which one is used. */
typedef struct ps_script_plugin {
    ps_codec codec;
    ps_consistency policy;
    ps_metric metric;
    ps_schedule schedule;
    ps_transform transform;
    /* in this order: numbers that plugins of the kind have in front; the number `script`; the
     * plugin's own numbers; numbers that plugins of the kind have at the end */
    ps_param params[PS_PARAM_MAX + 1];
    size_t param_count; /* number of params without those at the end */
} ps_script_plugin;

/* Each fills in the table of its kind in *plugin; plugin->params and param_count are set
 * already. */
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

/* Stores a failure of the script, because its answer is not allowed, unless one is stored
 * already. */
PS_PRINTF(2, 3) void ps_script_fail(ps_script *script, const char *fmt, ...);

/* Reads the description of a plugin from the lines that a sandbox wrote, which may be anything;
 * changes `lines`. */
PS_MUST_USE ps_status ps_script_about_read(char *lines, ps_script_about *about);

/* Returns the open script that the number `script` among `params` names. */
ps_script *ps_script_of_params(const ps_params *params);

/* Between them sandboxes of the script start at the lowest priority, because no job needs the code
 * yet. A call of another thread may get one of them meanwhile; none is kept for later. */
void ps_script_trial_begin(ps_script *script);
void ps_script_trial_end(ps_script *script);
/* Returns the time that calls took so far, at the lowest priority their processor time. For one
 * thread that tries a script out and makes its only calls. */
int64_t ps_script_trial_us(ps_script *script);

/* Takes an idle sandbox of the script, or starts a new one. If none can be started, waits until
 * another thread gives one back; before that ends the calls that this thread has added
 * (ps_script_ahead_end). Returns the script's first failure if there is one; RESOURCE_EXHAUSTED:
 * the script has no sandbox, and none can be started. */
PS_MUST_USE ps_status ps_script_take(ps_script *script, ps_sandbox **out);
/* Gives a sandbox, which may be NULL, back to the script. If *st is a failure, stores it as the
 * script's first failure, unless one is stored already, and makes its code FAILED_PRECONDITION: the
 * code has failed, and not the node. */
void ps_script_give_back(ps_script *script, ps_sandbox *sandbox, ps_status *st);

/* Writes to the shared memory which call the sandbox has to make (`what`, `function`).
 * `result_max`: most results of one call, without the bytes of a writer. */
void ps_script_set_call(ps_sandbox_memory *shared, uint32_t what, const char *function,
                        size_t result_max);
/* Writes arguments to the shared memory, from argument `first` and byte *at on, and moves *at
 * behind them. Returns false if they do not fit. */
bool ps_script_put_arguments(ps_sandbox_memory *shared, size_t first, size_t *at,
                             const ps_script_value *arguments, size_t count);
/* Reads results (count) from the shared memory, from result number `first` on. What the sandbox
 * wrote may be anything. */
PS_MUST_USE ps_status ps_script_take_results(const ps_sandbox_memory *shared, uint32_t first,
                                             ps_script_value *results, size_t count);

/* Starts a sandbox and has it load the code in `text` (bytes). */
PS_MUST_USE ps_status ps_script_load(const char *text, size_t bytes,
                                     const ps_sandbox_budget *budget, ps_sandbox **out);

/* Has a sandbox that has loaded code make the call `what` (PS_SANDBOX_...), with arguments and
 * results as in ps_script_call. The text of a failure has only the reason, without file and
 * function. */
PS_MUST_USE ps_status ps_script_run(ps_sandbox *sandbox, uint32_t what, const char *function,
                                    const ps_script_value *arguments, size_t argument_count,
                                    ps_script_value *results, size_t result_count);

/* ---- Calls that are made together, before their results are asked for ----
 *
 * Waking a sandbox and being woken takes as long as a codec of code does for a slice. So a thread
 * that has several slices adds a call for each, has the sandbox answer all of them, and takes the
 * results one by one. All of it belongs to the thread that calls; scripts stay open until the end.
 */

/* Identifies a call: an address, such as that of the values to encode, and a key. */
typedef struct ps_ahead_id {
    const void *of;
    uint64_t key;
} ps_ahead_id;

/* Adds a call of `function`, which has one result. NULL: a round trip, which is encode and then
 * decode of what encode wrote; the first argument is the vector. Returns false, and adds nothing,
 * if the calls that this thread has added before are of another function or script or were made
 * already, or if no more fit. */
bool ps_script_ahead_add(ps_script *script, const char *function, ps_ahead_id id,
                         const ps_script_value *arguments, size_t count);

/* Makes all calls that this thread has added. If that fails, the script stores the failure, and
 * none of the calls has a result. */
void ps_script_ahead_run(void);

/* Reads the result of the call `id`; of a round trip, the result of encode. Returns false if that
 * call was not made. */
bool ps_script_ahead_take(ps_script *script, ps_ahead_id id, ps_script_value *result,
                          ps_status *st);

/* Reads the values that decode returned in the round trip of which ps_script_ahead_take has read
 * the result last. Returns false if `bytes` (len) are not what encode wrote in it, if *result asks
 * for another number of values, or if there was no round trip. */
bool ps_script_ahead_take_back(ps_script *script, const uint8_t *bytes, size_t len,
                               ps_script_value *result, ps_status *st);

/* Forgets the calls of this thread whose results were not read. */
void ps_script_ahead_end(void);

#endif
