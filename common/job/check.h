/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - checks a field of a specification and fills in its default. For common/job only.
 *
 * ps_check_bad reports and counts a wrong field. Checking then goes on, so that the user learns of
 * all wrong fields at once. Functions that return bool return false after a report.
 */
#ifndef PS_COMMON_JOB_CHECK_H
#define PS_COMMON_JOB_CHECK_H

#include "common/job/kinds.h"
#include "common/job/spec.h"
#include "common/script/script.h"

enum { PS_FIELD_MAX = 96 }; /* most bytes of the path of a field, with the NUL */

typedef struct ps_check {
    ps_violate_fn *violate; /* (optional) */
    void *arg;
    /* (optional) the specification as the user gave it, without what its preset adds */
    const Psgd__V1__JobSpec *given;
    ps_script *const *scripts; /* (script_count): the plugins that the job brings along */
    size_t script_count;
    size_t count;
    char first[PS_FIELD_MAX + 512 + 2]; /* path and text of the first report, for a status */
} ps_check;

/* Reports a wrong field. The text says the value and what is allowed: "is 0; 1 to 64 are allowed".
 * If the job's preset set the field, and not the user (`given`), the report names the preset. */
PS_PRINTF(3, 4) void ps_check_bad(ps_check *check, const char *field, const char *fmt, ...);

/* Replaces 0 by the default and checks that the value is within [min, max]. */
void ps_check_u32(ps_check *check, const char *field, uint32_t *value, uint32_t value_default,
                  uint32_t min, uint32_t max);
/* Does what ps_check_u32 does, for 64 bits. */
void ps_check_u64(ps_check *check, const char *field, uint64_t *value, uint64_t value_default,
                  uint64_t min, uint64_t max);

/* Replaces "" by the default and checks that a plugin of the kind has this name. */
bool ps_check_plugin(ps_check *check, const char *field, const ps_kind *kind, char **name,
                     const char *name_default);

/* Checks the numbers that `message` gives (its field `params`, see numbers.h) against the table of
 * a plugin. Writes *params in the order of the table, with defaults for those left out, and then
 * stores all of them in the message. The path of a number is "field.params.KEY". Returns false,
 * after an error for each wrong number, and leaves the message as it was. */
bool ps_check_numbers(ps_check *check, const char *field, const ps_param *table,
                      ProtobufCMessage *message, ps_params *params);

/* Checks name and numbers of a choice, by ps_check_plugin and ps_check_numbers. Returns false after
 * a report. */
bool ps_check_choice(ps_check *check, const char *field, const ps_kind *kind,
                     Psgd__V1__Choice *choice, const char *name_default, ps_params *params);

#endif
