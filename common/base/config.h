/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the settings of a program, from wherever they are given.
 *
 * Precedence: flags, then the environment, then a YAML or JSON file (--config
 * FILE or PSGD_CONFIG), then the defaults of the tables. main() loads them once
 * into a struct of its own and hands that down; nothing else reads them.
 *
 * Flags: --name value, --name=value, -n value, -nvalue, -abc for bools; a bool
 * is --name, --no-name or --name=false; "--" ends them; flags and other
 * arguments may stand in any order. A file's keys are the names, with - or _;
 * mappings nest at a "-": {log: {level: info}} is log-level. null is not given.
 */
#ifndef PS_COMMON_BASE_CONFIG_H
#define PS_COMMON_BASE_CONFIG_H

#include "common/base/option.h"
#include "common/base/strbuf.h"

enum { PS_CONFIG_MAX_TABLES = 8, PS_CONFIG_MAX_OPTIONS = 64 };

/* A group of options with the struct they fill; two commands may share one. */
typedef struct ps_option_table {
    const char *title; /* over the group in the help; NULL: "Options" */
    const ps_option *options;
} ps_option_table;

/* What a program, or a subcommand of one, takes. */
typedef struct ps_command {
    const char *name;              /* "psgd-worker", "psgd submit" */
    const char *summary;           /* a sentence or a few; wrapped */
    const char *usage;             /* after the name; NULL: "[options]" */
    const ps_option_table *tables; /* the last has options NULL */
    size_t args_min, args_max;     /* of arguments that are no flags */
    bool has_file;                 /* --config FILE */
    bool stops_at_argument; /* flags after the first argument are arguments: psgd -x get -y */
    const char *examples;   /* lines as they are, without indent; NULL: none */
    const char *notes;      /* a last paragraph; wrapped; NULL: none */
} ps_command;

typedef enum ps_config_source {
    PS_FROM_DEFAULT,
    PS_FROM_FILE,
    PS_FROM_ENVIRONMENT,
    PS_FROM_FLAG
} ps_config_source;

typedef struct ps_config {
    const char *const *args; /* arguments that are no flags */
    size_t n_args;
    bool wants_help;    /* --help or -h: nothing else is set or checked */
    bool wants_version; /* --version: likewise */
    const char *file;   /* that was read; NULL: none */
} ps_config;

/* Reads argv[1..argc), the environment and the file. bases[i] is the struct
 * that table i fills. Strings in the structs and in *out live until destroy;
 * argv must too.
 *
 * INVALID_ARGUMENT names the flag, variable or file and key, the value, and what
 * is allowed. Errors of the file as of ps_tree_parse_file. Main thread. */
PS_MUST_USE ps_status ps_config_load(const ps_command *command, int argc, char *const *argv,
                                     void *const *bases, ps_config **out);
void ps_config_destroy(ps_config *config); /* NULL is allowed */

/* Who gave it. The name must be in a table. */
ps_config_source ps_config_source_of(const ps_config *config, const char *name);

/* Appends the text of --help: usage, summary, options with defaults and
 * variables, examples; lines of at most 80 columns. */
void ps_config_help(const ps_command *command, ps_strbuf *out);

/* Appends "psgd-worker 0.1.0\n". */
void ps_config_version(const ps_command *command, ps_strbuf *out);

#endif
