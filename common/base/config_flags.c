/* SPDX-License-Identifier: Apache-2.0 */
/* config_flags.c - reads argv into the slots of options. */
#include "common/base/config_impl.h"
#include "common/base/shorten.h"

#include <string.h>

/* A position in argv. */
typedef struct cursor {
    char *const *argv;
    int argc;
    int at;
} cursor;

static ps_slot *find_letter(ps_slots *slots, char letter)
{
    for (size_t i = 0; i < slots->n; i++) {
        if (slots->slot[i].option->letter == letter) {
            return &slots->slot[i];
        }
    }
    return NULL;
}

/* Returns the slot of the flag that `arg` names, as "--name" or "--name=x"; NULL: no flag has this
 * name. *value is x, or NULL if there is no "=". */
static ps_slot *find_long(ps_slots *slots, const char *arg, const char **value)
{
    const char *name = arg + 2;
    size_t n = strcspn(name, "=");

    *value = name[n] == '=' ? name + n + 1 : NULL;
    return ps_slots_find(slots, name, n);
}

static bool is_bool(const ps_slot *slot)
{
    return slot->option->kind == PS_KIND_BOOL;
}

/* Gives `slot` the next argument as its value. Fails if there is none, or if it is itself a flag
 * ("--name"): the user has forgotten the value. */
static ps_status give_next(ps_slots *slots, ps_slot *slot, cursor *c)
{
    const char *name = slot->option->name, *next, *ignored;

    if (c->at + 1 >= c->argc) {
        return ps_fail(PS_INVALID_ARGUMENT, "--%s needs a value: %s", name,
                       ps_option_metavar(slot->option));
    }
    next = c->argv[c->at + 1];
    if (strncmp(next, "--", 2) == 0 && find_long(slots, next, &ignored) != NULL) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "--%s needs a value, and %s is a flag; if it is meant, write --%s=%s", name,
                       PS_SHORT(next, 32), name, PS_SHORT(next, 32));
    }
    c->at++;
    ps_slots_give(slots, slot, PS_FROM_FLAG, next);
    return ps_ok();
}

static ps_status read_long(ps_slots *slots, cursor *c)
{
    const char *arg = c->argv[c->at], *value, *name;
    ps_slot *slot = find_long(slots, arg, &value);

    if (slot == NULL && strncmp(arg, "--no-", 5) == 0 && value == NULL) {
        slot = ps_slots_find(slots, arg + 5, strlen(arg + 5));
        if (slot != NULL && is_bool(slot)) {
            ps_slots_give(slots, slot, PS_FROM_FLAG, "false");
            return ps_ok();
        }
        slot = NULL;
    }
    if (slot == NULL) {
        name = ps_slots_text(slots, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
        return ps_fail(PS_INVALID_ARGUMENT, "unknown flag --%s%s", PS_SHORT(name, 40),
                       ps_slots_hint(slots, name, "--"));
    }
    if (value == NULL && !is_bool(slot)) {
        return give_next(slots, slot, c);
    }
    ps_slots_give(slots, slot, PS_FROM_FLAG, value == NULL ? "true" : value);
    return ps_ok();
}

/* Reads flags by their letters: "-n value", "-nvalue", or bools in one argument, "-ab". */
static ps_status read_letters(ps_slots *slots, cursor *c)
{
    for (const char *p = c->argv[c->at] + 1; *p != '\0'; p++) {
        ps_slot *slot = find_letter(slots, *p);

        if (slot == NULL) {
            return ps_fail(PS_INVALID_ARGUMENT, "unknown flag -%c in \"%s\"", *p,
                           PS_SHORT(c->argv[c->at], 40));
        }
        if (is_bool(slot)) {
            ps_slots_give(slots, slot, PS_FROM_FLAG, "true");
            continue;
        }
        if (p[1] == '\0') {
            return give_next(slots, slot, c);
        }
        ps_slots_give(slots, slot, PS_FROM_FLAG, p + 1);
        break;
    }
    return ps_ok();
}

/* Returns whether the bool flag `name` (help or version) is on so far. The caller then stops
 * reading, so the rest of the arguments is not checked. */
static bool is_asked_for(const ps_slots *slots, const char *name)
{
    for (size_t i = 0; i < slots->n; i++) {
        const ps_slot *slot = &slots->slot[i];

        if (slot->n > 0 && strcmp(slot->option->name, name) == 0) {
            return strcmp(slot->values[slot->n - 1], "true") == 0;
        }
    }
    return false;
}

ps_status ps_slots_read_flags(ps_slots *slots, const ps_command *command, int argc,
                              char *const *argv)
{
    cursor c = {.argv = argv, .argc = argc};
    bool flags_ended = false;
    ps_status st = ps_ok();

    slots->args = ps_slots_alloc(slots, (size_t)(argc + 1) * sizeof *slots->args);
    for (c.at = 1; c.at < argc && ps_is_ok(&st); c.at++) {
        const char *arg = argv[c.at];

        if (flags_ended || arg[0] != '-' || arg[1] == '\0') {
            slots->args[slots->n_args++] = arg;
            flags_ended = flags_ended || command->stops_at_argument;
        } else if (strcmp(arg, "--") == 0) {
            flags_ended = true;
        } else {
            st = arg[1] == '-' ? read_long(slots, &c) : read_letters(slots, &c);
            slots->wants_help = is_asked_for(slots, "help");
            slots->wants_version = is_asked_for(slots, "version");
            if (slots->wants_help || slots->wants_version) {
                return ps_ok();
            }
        }
    }
    return st;
}
