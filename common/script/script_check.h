/* SPDX-License-Identifier: Apache-2.0 */
/* script_check.h - tries the plugin of a script before a job uses it. */
#ifndef PS_COMMON_SCRIPT_SCRIPT_CHECK_H
#define PS_COMMON_SCRIPT_SCRIPT_CHECK_H

#include "common/script/script.h"

/* What was measured of a codec with the defaults of its numbers. */
typedef struct ps_script_measure {
    double bits; /* bits per value, without the head, for a slice of 16,384 normal draws */
    /* root mean square of decoded - x, divided by the root mean square of x, for that slice */
    double error;
    /* mean square of the mean errors over many encodings with different keys, divided by the value
     * that chance alone would give; about 1 if the codec is unbiased */
    double bias;
    double encode_ns, decode_ns; /* nanoseconds per value, for the slowest slice */
} ps_script_measure;

/* Microseconds after which ps_script_check gives up a codec tried at the lowest priority. */
enum { PS_SCRIPT_TRIAL_US = 60 * 1000 * 1000 };

/* Calls a codec with slices of several lengths and contents, a schedule and a policy with some of
 * their arguments; of other kinds nothing can be tried without data. Returns FAILED_PRECONDITION
 * with the case and the reason if a call fails, or a codec's decoded values are not finite, its
 * bytes differ between two calls, zeros do not stay zeros (keeps_zeros), or its mean is wrong
 * (unbiased). `measure` NULL: nothing is measured, and the code runs at the lowest priority,
 * because no job needs it yet. */
PS_MUST_USE ps_status ps_script_check(ps_script *script, ps_script_measure *measure);

#endif
