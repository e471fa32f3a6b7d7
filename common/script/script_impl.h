/* SPDX-License-Identifier: Apache-2.0 */
/* script_impl.h - what the files of this room share. */
#ifndef PS_COMMON_SCRIPT_SCRIPT_IMPL_H
#define PS_COMMON_SCRIPT_SCRIPT_IMPL_H

#include "common/codec/codec_type.h"
#include "common/codec/wrap.h"
#include "common/script/script.h"

enum { PS_SCRIPT_SAID_MAX = 8192 }; /* bytes of a description */

/* The tables of a plugin, of which one is used. */
typedef struct ps_script_plugin {
    ps_codec codec;
    ps_param params[PS_PARAM_MAX + 1]; /* the script's number, its own, then those of the kind */
    size_t param_count;                /* of the first two */
} ps_script_plugin;

/* Fill in the table of a kind; the numbers of the script are there. */
void ps_script_codec_make(const ps_script_about *about, ps_script_plugin *plugin);

/* Reads the lines that a sandbox says of a plugin, which may be anything. */
PS_MUST_USE ps_status ps_script_about_read(char *lines, ps_script_about *about);

/* Returns the script of a plugin with these numbers. */
ps_script *ps_script_of_params(const ps_params *params);

/* Starts a sandbox and has it load a text. */
PS_MUST_USE ps_status ps_script_load(const char *text, size_t bytes,
                                     const ps_sandbox_budget *budget, ps_sandbox **out);

/* Has a sandbox that has loaded code do `what`, as ps_script_call does for one function. The
 * failure has the reason alone. */
PS_MUST_USE ps_status ps_script_run(ps_sandbox *sandbox, uint32_t what, const char *function,
                                    const ps_script_value *arguments, size_t argument_count,
                                    ps_script_value *results, size_t result_count);

#endif
