/* SPDX-License-Identifier: Apache-2.0 */
/* config_slots.h - what the parts of config share: every option with what was
 * given for it. Nobody else includes it. */
#ifndef PS_COMMON_BASE_CONFIG_SLOTS_H
#define PS_COMMON_BASE_CONFIG_SLOTS_H

#include "common/base/arena.h"
#include "common/base/config.h"

typedef struct ps_slot {
    const ps_option *option;
    void *base;
    ps_config_source source;
    const char **values; /* (cap), n of them used, in the arena; a scalar's last one counts */
    size_t n, cap;
} ps_slot;

typedef struct ps_slots {
    ps_slot slot[PS_CONFIG_MAX_OPTIONS];
    size_t n;
    ps_arena arena; /* holds all texts */
    bool wants_help, wants_version;
    const char *config;
    const char **args; /* (argc) */
    size_t n_args;
} ps_slots;

/* --config, --help, --version: options like others, of a ps_slots. */
extern const ps_option ps_config_file_options[];
extern const ps_option ps_config_help_options[];

/* The option of a name of n bytes, "_" being as good as "-"; NULL: none. */
ps_slot *ps_slots_find(ps_slots *slots, const char *name, size_t n);

/* " (did you mean --listen?)", or "". `dashes` stand before the name. */
const char *ps_slots_hint(ps_slots *slots, const char *name, const char *dashes);

/* Texts that live as long as the configuration. */
void *ps_slots_alloc(ps_slots *slots, size_t bytes);
PS_PRINTF(2, 3) const char *ps_slots_text(ps_slots *slots, const char *fmt, ...);

/* Keeps `text`. */
void ps_slots_give(ps_slots *slots, ps_slot *slot, ps_config_source source, const char *text);

/* Sorts argv into slots and args; ends early at --help or --version. */
PS_MUST_USE ps_status ps_slots_read_flags(ps_slots *slots, const ps_command *command, int argc,
                                          char *const *argv);

/* Gives what is in the file to the slots that have nothing better. */
PS_MUST_USE ps_status ps_slots_read_file(ps_slots *slots, const char *path);

#endif
