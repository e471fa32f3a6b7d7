/* SPDX-License-Identifier: Apache-2.0 */
/* old_names.h - translates flags and values that users know from older systems: Parallel-SGD,
 * JSAC2020, PaddlePaddle.
 *
 * Each older word is replaced by the one of psgd, and a line on stderr says which. docs/presets.md
 * has the tables. */
#ifndef PS_CLIENTS_PSGD_OLD_NAMES_H
#define PS_CLIENTS_PSGD_OLD_NAMES_H

#include <stdbool.h>

/* An argument list in which older flags were replaced. */
typedef struct ps_old_args {
    int argc;
    char **argv; /* (argc); [0] is the command */
    char **owned;
    int owned_count;
} ps_old_args;

/* Translates the arguments of a command that describes a job. argv must live as long as the
 * result. */
void ps_old_args_init(ps_old_args *args, int argc, char *const *argv);
void ps_old_args_fini(ps_old_args *args);

/* If `value` is an older name of a value of `flag`, or differs from one only in its letter case
 * ("LOSP", "Cifar10", "dup"), returns the value's name in psgd; else returns `value`. The text is
 * static or `value`. tells: if that is not `value`, writes a line to stderr that says so. */
const char *ps_old_value(const char *flag, const char *value, bool tells);

#endif
