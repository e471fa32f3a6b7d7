/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - loads the settings of a program from flags, environment and file.
 *
 * Precedence: flags, then the environment, then a YAML or JSON file (--config
 * FILE or PSGD_CONFIG), then the defaults of the tables. main() loads them once
 * into its own struct and passes that down; nothing else reads them.
 *
 * Flags: --name value, --name=value, -n value, -nvalue, and -abc for bools. A
 * bool is --name, --no-name or --name=false. "--" ends the flags. Flags and
 * other arguments may stand in any order, unless stops_at_argument is set.
 *
 * Environment: an empty variable counts as not given. A list is split at commas.
 *
 * File: keys are the names, with - or _. Mappings nest at a "-", so
 * {log: {level: info}} is log-level. A key that is null counts as not given.
 */
#ifndef PS_COMMON_BASE_CONFIG_H
#define PS_COMMON_BASE_CONFIG_H

#include "common/base/option.h"
#include "common/base/strbuf.h"

enum { PS_CONFIG_MAX_TABLES = 8, PS_CONFIG_MAX_OPTIONS = 96 };

/* A group of options whose values all go into one struct; ps_config_load is given the struct. Two
 * commands may share a group. */
typedef struct ps_option_table {
    const char *title; /* heading of the group in the help; NULL: "Options" */
    const ps_option *options;
} ps_option_table;

/* The options and arguments of a program or a subcommand. */
typedef struct ps_command {
    const char *name;              /* such as "psgd-worker" or "psgd submit" */
    const char *summary;           /* one or a few sentences; the help wraps them */
    const char *usage;             /* follows the name; NULL: "[options]" */
    const ps_option_table *tables; /* ends with an entry whose options are NULL */
    size_t args_min, args_max;     /* number of arguments that are not flags */
    bool has_file;                 /* true: --config FILE or PSGD_CONFIG names a file of settings */
    /* true: the first argument ends the flags, and all that stands behind it is an argument, as -y
     * in psgd -x get -y */
    bool stops_at_argument;
    const char *examples; /* lines, which the help indents and does not wrap; NULL: none */
    const char *notes;    /* last paragraph of the help, wrapped; NULL: none */
} ps_command;

typedef enum ps_config_source {
    PS_FROM_DEFAULT,
    PS_FROM_FILE,
    PS_FROM_ENVIRONMENT,
    PS_FROM_FLAG
} ps_config_source;

typedef struct ps_config {
    const char *const *args; /* arguments that are not flags */
    size_t n_args;
    /* --help or -h was given: no option has a value, what stands behind it is unchecked */
    bool wants_help;
    bool wants_version; /* --version was given: as for wants_help */
    const char *file;   /* the file that was read; NULL: none */
} ps_config;

/* Loads argv[1..argc), the environment and the file. bases[i] is the struct that table i fills.
 * Strings in the structs and in *out are valid until ps_config_destroy; argv must live as long.
 *
 * Fails with INVALID_ARGUMENT, which names the flag, variable or key, the value, and what is
 * allowed. Errors of the file are those of ps_document_parse_file. Main thread only.
 */
PS_MUST_USE ps_status ps_config_load(const ps_command *command, int argc, char *const *argv,
                                     void *const *bases, ps_config **out);

/* Frees the configuration and all its strings. NULL is allowed. */
void ps_config_destroy(ps_config *config);

/* Returns which source set the option. The name must be in a table. */
ps_config_source ps_config_source_of(const ps_config *config, const char *name);

/* Appends the text of --help: usage, summary, options with defaults and variables, examples.
 * Wraps lines at 80 columns, except examples. */
void ps_config_help(const ps_command *command, ps_strbuf *out);

/* Appends "psgd-worker 0.1.0\n", the commit that was built ("commit 147dde3f2a61\n") if the build
 * knew it, and a line of "kernels: " and `kernels`, which is the text of ps_nn_kernels(). */
void ps_config_version(const ps_command *command, const char *kernels, ps_strbuf *out);

#endif
