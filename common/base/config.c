/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - see config.h. Every source (flags, environment, file, defaults) gives its texts to
 * slots, the source that overrides the others first. One place (set_member) then turns each slot's
 * text into the value of its member. */
#include "common/base/config.h"

#include "common/base/config_impl.h"
#include "common/base/container_of.h"
#include "common/base/nearest.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_GROWTH = 4 };

typedef struct loaded {
    ps_config config;
    ps_slots slots;
} loaded;

const ps_option ps_config_file_options[] = {
    PS_OPTION_STRING(ps_slots, config, .name = "config", .env = "PSGD_CONFIG", .metavar = "FILE",
                     .help = "read settings from a YAML file; its keys are the names of these "
                             "options"),
    PS_OPTION_END,
};

const ps_option ps_config_help_options[] = {
    PS_OPTION_BOOL(ps_slots, wants_help, .name = "help", .letter = 'h', .help = "print this text"),
    PS_OPTION_BOOL(ps_slots, wants_version, .name = "version", .help = "print the version"),
    PS_OPTION_END,
};

void *ps_slots_alloc(ps_slots *slots, size_t bytes)
{
    void *p = ps_arena_alloc(&slots->arena, bytes);

    if (p == NULL) {
        fprintf(stderr, "out of memory: %zu bytes of settings\n", bytes);
        abort();
    }
    return p;
}

const char *ps_slots_text(ps_slots *slots, const char *fmt, ...)
{
    ps_strbuf sb = {0};
    va_list ap;
    char *text;

    va_start(ap, fmt);
    ps_strbuf_vprintf(&sb, fmt, ap);
    va_end(ap);
    text = ps_slots_alloc(slots, sb.len + 1);
    memcpy(text, ps_strbuf_text(&sb), sb.len + 1);
    ps_strbuf_fini(&sb);
    return text;
}

ps_slot *ps_slots_find(ps_slots *slots, const char *name, size_t n)
{
    for (size_t i = 0; i < slots->n; i++) {
        const char *own = slots->slot[i].option->name;
        size_t at = 0;

        while (at < n && own[at] != '\0' && own[at] == (name[at] == '_' ? '-' : name[at])) {
            at++;
        }
        if (at == n && own[at] == '\0') {
            return &slots->slot[i];
        }
    }
    return NULL;
}

const char *ps_slots_hint(ps_slots *slots, const char *name, const char *dashes)
{
    const char *names[PS_CONFIG_MAX_OPTIONS], *nearest;

    for (size_t i = 0; i < slots->n; i++) {
        names[i] = slots->slot[i].option->name;
    }
    nearest = ps_nearest(name, names, slots->n);
    return nearest == NULL ? "; --help lists all"
                           : ps_slots_text(slots, "; did you mean %s%s?", dashes, nearest);
}

void ps_slots_give(ps_slots *slots, ps_slot *slot, ps_config_source source, const char *text)
{
    if (slot->n == slot->cap) {
        size_t cap = slot->cap * 2 + LIST_GROWTH;
        const char **larger = ps_slots_alloc(slots, cap * sizeof *larger);

        if (slot->n > 0) {
            memcpy(larger, slot->values, slot->n * sizeof *larger);
        }
        slot->values = larger;
        slot->cap = cap;
    }
    slot->values[slot->n++] = text;
    slot->source = source;
}

/* Zeroes the member of an option: it stays so if the option is not given and has no default. */
static void clear(const ps_slot *slot)
{
    static const size_t sizes[] = {
        [PS_KIND_STRING] = sizeof(const char *), [PS_KIND_INT] = sizeof(int64_t),
        [PS_KIND_DOUBLE] = sizeof(double),       [PS_KIND_BOOL] = sizeof(bool),
        [PS_KIND_DURATION] = sizeof(int64_t),    [PS_KIND_LIST] = sizeof(ps_option_list)};

    memset((char *)slot->base + slot->option->offset, 0, sizes[slot->option->kind]);
}

static void add_slots(ps_slots *slots, const ps_option *options, void *base)
{
    for (; options->name != NULL; options++) {
        assert(slots->n < PS_CONFIG_MAX_OPTIONS);
        assert(ps_slots_find(slots, options->name, strlen(options->name)) == NULL);
        slots->slot[slots->n] = (ps_slot){.option = options, .base = base};
        clear(&slots->slot[slots->n++]);
    }
}

/* Gives the slots that have no text yet the text of their environment variables. The text of a list
 * is split at commas; empty items are ignored. */
static void read_environment(ps_slots *slots)
{
    for (size_t i = 0; i < slots->n; i++) {
        ps_slot *slot = &slots->slot[i];
        const char *text = slot->option->env == NULL ? NULL : getenv(slot->option->env);

        if (slot->source != PS_FROM_DEFAULT || text == NULL || text[0] == '\0') {
            continue;
        }
        if (slot->option->kind != PS_KIND_LIST) {
            ps_slots_give(slots, slot, PS_FROM_ENVIRONMENT, ps_slots_text(slots, "%s", text));
            continue;
        }
        for (const char *p = text; *p != '\0';) {
            size_t n = strcspn(p, ",");

            if (n > 0) {
                ps_slots_give(slots, slot, PS_FROM_ENVIRONMENT,
                              ps_slots_text(slots, "%.*s", (int)n, p));
            }
            p += n + (p[n] == ',');
        }
    }
}

static ps_status set_member(const ps_slot *slot)
{
    const ps_option *option = slot->option;
    ps_option_list list = {.items = slot->values, .n = slot->n};

    if (option->kind != PS_KIND_LIST) {
        return slot->n == 0 ? ps_ok()
                            : ps_option_set(option, slot->values[slot->n - 1], slot->base);
    }
    for (size_t i = 0; i < list.n; i++) {
        ps_status st = ps_option_check(option, list.items[i]);

        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    memcpy((char *)slot->base + option->offset, &list, sizeof list);
    return ps_ok();
}

static ps_status apply(ps_slots *slots)
{
    for (size_t i = 0; i < slots->n; i++) {
        ps_slot *slot = &slots->slot[i];
        const ps_option *option = slot->option;
        ps_status st;

        if (slot->source == PS_FROM_DEFAULT && option->value != NULL) {
            ps_slots_give(slots, slot, PS_FROM_DEFAULT, option->value);
        }
        if (slot->source == PS_FROM_DEFAULT && option->is_required) {
            return ps_fail(PS_INVALID_ARGUMENT, "--%s %s is required%s%s", option->name,
                           PS_SHORT(ps_option_metavar(option), 40),
                           option->env == NULL ? "" : ", or ",
                           option->env == NULL ? "" : option->env);
        }
        st = set_member(slot);
        /* A default of the option table is valid, or the table has a bug. */
        assert(ps_is_ok(&st) || slot->source != PS_FROM_DEFAULT);
        if (!ps_is_ok(&st)) {
            bool is_env = slot->source == PS_FROM_ENVIRONMENT;

            return ps_wrap(st, "%s%s", is_env ? "" : "--", is_env ? option->env : option->name);
        }
    }
    return ps_ok();
}

static ps_status check_args(const ps_command *command, const ps_slots *slots)
{
    if (slots->n_args > command->args_max) {
        return ps_fail(PS_INVALID_ARGUMENT, "argument \"%s\" is one too many; usage: %s %s",
                       PS_SHORT(slots->args[command->args_max], 40), command->name,
                       PS_SHORT(command->usage == NULL ? "[options]" : command->usage, 40));
    }
    if (slots->n_args < command->args_min) {
        return ps_fail(PS_INVALID_ARGUMENT, "an argument is missing; usage: %s %s", command->name,
                       PS_SHORT(command->usage == NULL ? "[options]" : command->usage, 60));
    }
    return ps_ok();
}

static ps_status load(const ps_command *command, ps_slots *slots, int argc, char *const *argv,
                      const char **file)
{
    ps_status st = ps_slots_read_flags(slots, command, argc, argv);
    const ps_slot *config;

    if (!ps_is_ok(&st) || slots->wants_help || slots->wants_version) {
        return st;
    }
    read_environment(slots);
    config = ps_slots_find(slots, "config", strlen("config"));
    if (command->has_file && config->n > 0) {
        *file = config->values[config->n - 1];
        st = ps_slots_read_file(slots, *file);
    }
    if (ps_is_ok(&st)) {
        st = apply(slots);
    }
    return ps_is_ok(&st) ? check_args(command, slots) : st;
}

ps_status ps_config_load(const ps_command *command, int argc, char *const *argv, void *const *bases,
                         ps_config **out)
{
    loaded *l = ps_xcalloc(1, sizeof *l);
    ps_status st;

    ps_arena_init(&l->slots.arena, SIZE_MAX / 2);
    if (command->has_file) {
        add_slots(&l->slots, ps_config_file_options, &l->slots);
    }
    add_slots(&l->slots, ps_config_help_options, &l->slots);
    for (size_t i = 0; command->tables != NULL && command->tables[i].options != NULL; i++) {
        assert(i < PS_CONFIG_MAX_TABLES);
        add_slots(&l->slots, command->tables[i].options, bases[i]);
    }
    st = load(command, &l->slots, argc, argv, &l->config.file);
    if (!ps_is_ok(&st)) {
        ps_config_destroy(&l->config);
        return st;
    }
    l->config.args = l->slots.args;
    l->config.n_args = l->slots.n_args;
    l->config.wants_help = l->slots.wants_help;
    l->config.wants_version = l->slots.wants_version;
    *out = &l->config;
    return st;
}

void ps_config_destroy(ps_config *config)
{
    if (config != NULL) {
        loaded *l = PS_CONTAINER_OF(config, loaded, config);

        ps_arena_fini(&l->slots.arena);
        free(l);
    }
}

ps_config_source ps_config_source_of(const ps_config *config, const char *name)
{
    loaded *l = PS_CONTAINER_OF(config, loaded, config);
    const ps_slot *slot = ps_slots_find(&l->slots, name, strlen(name));

    assert(slot != NULL);
    return slot->source;
}
