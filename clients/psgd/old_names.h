/* SPDX-License-Identifier: Apache-2.0 */
/* old_names.h - flags and values as users of older systems type them: Parallel-SGD, JSAC2020,
 * PaddlePaddle.
 *
 * Each becomes today's word, and a line on stderr says which. docs/presets.md has the tables.
 */
#ifndef PS_CLIENTS_PSGD_OLD_NAMES_H
#define PS_CLIENTS_PSGD_OLD_NAMES_H

#include <stdbool.h>

/* An argument list in which old flags are today's. */
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

/* Returns today's name for the value of `flag`, where the value is an older name or differs in its
 * case alone ("LOSP", "Cifar10", "dup"); else `value` itself. The text is static or `value`.
 * `tells`: says so on stderr. */
const char *ps_old_value(const char *flag, const char *value, bool tells);

#endif
