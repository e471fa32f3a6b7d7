/* SPDX-License-Identifier: Apache-2.0 */
/* config_impl.h - every option with the texts that were given for it. Private to config*.c. */
#ifndef PS_COMMON_BASE_CONFIG_IMPL_H
#define PS_COMMON_BASE_CONFIG_IMPL_H

#include "common/base/arena.h"
#include "common/base/config.h"

typedef struct ps_slot {
    const ps_option *option;
    void *base; /* the struct whose member the option fills; that of ps_config_load */
    ps_config_source source;
    /* (n), room for `cap`: texts given for it; of several the last one counts, unless it is a
     * list */
    const char **values;
    size_t n, cap;
} ps_slot;

typedef struct ps_slots {
    ps_slot slot[PS_CONFIG_MAX_OPTIONS];
    size_t n;
    ps_arena arena; /* holds all texts */
    bool wants_help, wants_version;
    const char *config; /* value of --config or PSGD_CONFIG; NULL: not given */
    const char **args;  /* (n_args): the arguments that are not flags */
    size_t n_args;
} ps_slots;

/* The option --config, and the options --help and --version. Their values are members of
 * ps_slots. */
extern const ps_option ps_config_file_options[];
extern const ps_option ps_config_help_options[];

/* Returns the option with a name of n bytes, or NULL. "_" counts as "-". */
ps_slot *ps_slots_find(ps_slots *slots, const char *name, size_t n);

/* Returns what an error about an unknown `name` ends with: "; did you mean --listen?", or "; --help
 * lists all" if no option has a similar name. `dashes` are put before the name that is meant. */
const char *ps_slots_hint(ps_slots *slots, const char *name, const char *dashes);

/* Allocates memory that lives as long as the configuration. */
void *ps_slots_alloc(ps_slots *slots, size_t bytes);

/* Formats a text that lives as long as the configuration. */
PS_PRINTF(2, 3) const char *ps_slots_text(ps_slots *slots, const char *fmt, ...);

/* Adds `text` to a slot and notes its source. `text` is kept, not copied. */
void ps_slots_give(ps_slots *slots, ps_slot *slot, ps_config_source source, const char *text);

/* Sorts argv into slots and args; stops early at --help or --version. */
PS_MUST_USE ps_status ps_slots_read_flags(ps_slots *slots, const ps_command *command, int argc,
                                          char *const *argv);

/* Reads the file into the slots that neither flags nor environment have filled. */
PS_MUST_USE ps_status ps_slots_read_file(ps_slots *slots, const char *path);

#endif
