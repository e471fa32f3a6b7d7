/* SPDX-License-Identifier: Apache-2.0 */
/* script.h - a plugin that a job brings along: a file of Lua code with its description.
 *
 * The code runs in sandboxes (sandbox.h), as many at a time as threads call it. It has no state, so
 * it does not matter which of them answers. If no more can be started, threads share those that are
 * there. The first failure stays: later calls fail with it at once, and whoever trains or serves
 * ends the job with it, or with RESOURCE_EXHAUSTED the attempt. Any thread may call any function.
 */
#ifndef PS_COMMON_SCRIPT_SCRIPT_H
#define PS_COMMON_SCRIPT_SCRIPT_H

#include "common/base/param.h"
#include "common/base/status.h"
#include "common/codec/codec_type.h"
#include "common/consistency/consistency.h"
#include "common/data/transform.h"
#include "common/metric/metric.h"
#include "common/optim/schedule.h"
#include "common/script/sandbox.h"

#include <stddef.h>
#include <stdint.h>

enum { PS_SCRIPT_NAME = 32, PS_SCRIPT_SUMMARY = 192 };

/* Traits: what a plugin promises of itself, as bits. */
enum {
    PS_TRAIT_UNBIASED = 1,
    PS_TRAIT_SPARSE = 2,
    PS_TRAIT_KEEPS_ZEROS = 4,
    PS_TRAIT_COST = 8, /* of a metric: a smaller value is better */
    PS_TRAIT_END = 16
};
/* Returns the name of a trait, as files of code have it. */
const char *ps_script_trait_name(uint32_t trait);

/* What a file says of its plugin. */
typedef struct ps_script_about {
    char kind[PS_SCRIPT_NAME]; /* codec, schedule, metric, transform, consistency, compute */
    char name[PS_SCRIPT_NAME];
    char summary[PS_SCRIPT_SUMMARY];
    double bits;     /* of a codec: most bits a value */
    uint32_t traits; /* bits PS_TRAIT_... */
    uint32_t number_count;
    ps_param numbers[PS_SANDBOX_NUMBERS + 1]; /* ends with a number without name */
    char names[PS_SANDBOX_NUMBERS][PS_SCRIPT_NAME];
    char help[PS_SANDBOX_NUMBERS][PS_SCRIPT_SUMMARY];
} ps_script_about;

/* Runs a file in a sandbox and reads the description of its plugin. Returns INVALID_ARGUMENT with
 * the reason if the file is not a plugin; fails as ps_sandbox_start does if no sandbox starts.
 * Blocks. */
PS_MUST_USE ps_status ps_script_describe(const char *text, size_t bytes, ps_script_about *about);

/* Returns how many numbers a plugin of a kind may have. */
uint32_t ps_script_numbers_max(const char *kind);

/* Makes the pointers in about->numbers point to the names and texts in *about itself. Call it after
 * *about was copied. */
void ps_script_about_settle(ps_script_about *about);

typedef struct ps_script ps_script;

/* Opens the code of this text (bytes), whose description is `about`. Opening the same text again
 * returns the same script; ps_script_close undoes one opening. `file` is its name for messages. */
ps_script *ps_script_open(const char *file, const char *text, size_t bytes,
                          const ps_script_about *about);
/* Undoes one ps_script_open. The last call for a script ends its sandboxes and frees it. NULL is
 * allowed. */
void ps_script_close(ps_script *script);

/* Returns the script's number: the first 53 bits of the SHA-256 of its text, which a double has
 * exactly. */
uint64_t ps_script_id(const ps_script *script);
/* Returns the open script with this number, or NULL. Valid while the script is open. */
ps_script *ps_script_of_id(uint64_t id);
const ps_script_about *ps_script_about_of(const ps_script *script);
/* Return the name of the script's file, for messages, and its text. Valid while the script is
 * open. */
const char *ps_script_file(const ps_script *script);
const char *ps_script_text(const ps_script *script, size_t *bytes);

/* Return the plugin's table if the script is of that kind, else NULL. Valid while the script is
 * open. One of its numbers, `script`, says which script it is; it has one value. */
const ps_codec *ps_script_codec(const ps_script *script);
const ps_consistency *ps_script_consistency(const ps_script *script);
const ps_metric *ps_script_metric(const ps_script *script);
const ps_schedule *ps_script_schedule(const ps_script *script);
const ps_transform *ps_script_transform(const ps_script *script);

/* Returns the table of numbers of the plugin. */
const ps_param *ps_script_params(const ps_script *script);

/* An argument or a result of a call. */
typedef struct ps_script_value {
    uint32_t kind; /* PS_SANDBOX_... */
    /* number of elements of a vector, of bytes or of numbers; of a writer its room in bytes, and
     * after the call the bytes written */
    uint32_t count;
    double number;
    int64_t integer;
    const void *in; /* of an argument: its elements or bytes */
    /* of an argument that is a vector without `in`: becomes where the caller writes its values
     * before the call */
    float **room;
    void *out; /* of a result: room for `count` elements or bytes, the caller's */
    /* of a result that is a vector: room for PS_SANDBOX_SPARSE_MAX positions. If the vector is
     * sparse, `integer` becomes the number of values that are given, `out` gets these and
     * `positions` their positions, ascending, and `kind` becomes PS_SANDBOX_SPARSE. NULL: `out`
     * gets all values. */
    uint16_t *positions;
} ps_script_value;

/* Calls a function. Results must be of the kind and, for vectors, the count that `results` says; a
 * number may be an integer and the other way round if the value is the same. The writer among the
 * arguments, if there is one, is the first result. Returns FAILED_PRECONDITION with file, function
 * and reason; RESOURCE_EXHAUSTED if the script has no sandbox and none can be started. */
PS_MUST_USE ps_status ps_script_call(ps_script *script, const char *function,
                                     const ps_script_value *arguments, size_t argument_count,
                                     ps_script_value *results, size_t result_count);

/* Returns the first failure of the code, or OK. */
ps_status ps_script_failure(ps_script *script);

#endif
