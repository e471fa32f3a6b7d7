/* SPDX-License-Identifier: Apache-2.0 */
/* old_names.c - see old_names.h. */
#include "clients/psgd/old_names.h"

#include "common/base/older.h"
#include "common/base/scalar.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/job/kinds.h"
#include "common/job/preset.h"
#include "common/job/spec.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 64 };

/* --- values ------------------------------------------------------------------- */

static const struct {
    const char *flag, *old, *now;
} values[] = {
    {"--assignment", "dpa", "duplicate"},
    {"--assignment", "dup", "duplicate"},
    {"--data", "cifar", "cifar10"},
};

/* Flags whose values are names of plugins, with the kind of these plugins. */
static const struct {
    const char *flag;
    const ps_kind *kind;
} kinds[] = {
    {"--assignment", &ps_kind_assignment},   {"--codec", &ps_kind_codec},
    {"--codec-up", &ps_kind_codec},          {"--codec-down", &ps_kind_codec},
    {"--consistency", &ps_kind_consistency}, {"--data", &ps_kind_data},
    {"--exchange", &ps_kind_exchange},       {"--model", &ps_kind_network},
    {"--optimizer", &ps_kind_optimizer},     {"--server-optimizer", &ps_kind_optimizer},
    {"--update", &ps_kind_update},
};

typedef struct search {
    const char *value;
    const char *exact, *similar; /* a name equal to `value`, or but for the case; NULL: none */
} search;

static void compare(search *s, const char *name)
{
    if (strcmp(name, s->value) == 0) {
        s->exact = name;
    } else if (strcasecmp(name, s->value) == 0) {
        s->similar = name;
    }
}

static void compare_plugin(const ps_plugin *plugin, void *arg)
{
    compare(arg, plugin->name);
}

static void compare_preset(const ps_preset *preset, void *arg)
{
    compare(arg, preset->name);
}

static const char *find_value(const char *flag, const char *value)
{
    search s = {.value = value};

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].flag, flag) == 0) {
            kinds[i].kind->each(compare_plugin, &s);
        }
    }
    if (strcmp(flag, "--preset") == 0) {
        ps_preset_each(compare_preset, &s);
    }
    for (size_t i = 0; s.exact == NULL && i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(values[i].flag, flag) == 0 && strcasecmp(values[i].old, value) == 0) {
            return values[i].now;
        }
    }
    return s.exact != NULL ? NULL : s.similar;
}

const char *ps_old_value(const char *flag, const char *value, bool tells)
{
    const char *now = find_value(flag, value);

    if (now == NULL) {
        return value;
    }
    if (tells) {
        fprintf(stderr, "psgd: %s %s is %s today\n", flag, value, now);
    }
    return now;
}

/* --- flags -------------------------------------------------------------------- */

/* Old flags and those that replace them; the first line that matches counts. Names in `old` are
 * without the dashes; an argument's `_` counts as `-`. */
static const struct {
    const char *old;
    char letter;           /* short form; 0: none */
    const char *value;     /* the only value (upper or lower case) of the line; NULL: any value */
    const char *now;       /* today's flag, with its dashes */
    const char *now_value; /* value of today's flag; NULL: the value that was given */
} flags[] = {
    {"psgd", 0, "ssgd", "--consistency", "bsp"},
    {"psgd", 0, "asgd", "--consistency", "asp"},
    {"learn-rate", 0, NULL, "--lr", NULL},
    {"gradient-descent", 0, NULL, "--optimizer", NULL},
    {"optimizer", 'O', "pa", "--preset", "simple"},
    {"optimizer", 'O', "gradient_averaging", "--preset", "simple"},
    {"optimizer", 'O', "fast", "--preset", "fast"},
    {"optimizer", 'O', "double_buffering_gradient_averaging", "--preset", "fast"},
    {"optimizer", 'O', "parameter_averaging", "--update", "parameter_average"},
    {"dataset", 0, NULL, "--data", NULL},
    {"block-assignment", 0, NULL, "--assignment", NULL},
    {"server-codec", 0, "null", "--exchange", "plain"},
    {"server-codec", 0, NULL, "--preset", NULL},
    {"algorithm", 0, NULL, "--preset", NULL},
    {"model-type", 0, NULL, "--model", NULL},
    {"dataset-type", 0, NULL, "--data", NULL},
    {"initial-lr", 0, NULL, "--lr", NULL},
    {"k-steps", 0, NULL, "--local-steps", NULL},
    {"target-acc", 0, NULL, "--stop-at", NULL},
};

/* The translation of a list of arguments: the result, and facts about the list. */
typedef struct translation {
    ps_old_args *out;
    /* --codec was replaced by a preset. The preset sets the servers' codec too, so a --server-codec
     * that follows is dropped. */
    bool has_codec;
    uint64_t workers; /* number of workers; 0: not given as a number */
    char preset[NAME_BYTES];
} translation;

/* A flag among the arguments, with its value. */
typedef struct flag {
    const char *text;  /* the argument with the flag */
    const char *name;  /* the flag's name in `text`, without the dashes and not ended by a NUL */
    size_t n;          /* bytes of the name; 1 for a short form */
    const char *value; /* from `text`, or else the next argument; NULL: there is none */
    int used;          /* number of arguments that flag and value take, 1 or 2 */
} flag;

static flag read_flag(char *const *argv, int argc, int at)
{
    flag f = {.text = argv[at], .used = 1};
    const char *next = at + 1 < argc ? argv[at + 1] : NULL, *equals = strchr(f.text, '=');
    bool is_long = strncmp(f.text, "--", 2) == 0;

    if (is_long) {
        f.name = f.text + 2;
        f.n = equals != NULL ? (size_t)(equals - f.name) : strlen(f.name);
        f.value = equals != NULL ? equals + 1 : next;
        f.used = equals != NULL || next == NULL ? 1 : 2;
    } else {
        f.name = f.text + 1;
        f.n = 1;
        f.value = f.text[2] != '\0' ? f.text + 2 : next;
        f.used = f.text[2] != '\0' || next == NULL ? 1 : 2;
    }
    return f;
}

static bool is_flag(const flag *f, const char *name, char letter)
{
    return ps_older_is_name(f->name, f->n, name) ||
           (f->n == 1 && letter != 0 && f->name[0] == letter);
}

static void add(ps_old_args *out, char *text)
{
    out->argv[out->argc++] = text;
}

static void add_owned(ps_old_args *out, const char *text)
{
    char *copy = ps_xstrdup(text);

    out->owned[out->owned_count++] = copy;
    add(out, copy);
}

static void give(translation *t, const flag *f, const char *now, const char *value)
{
    fprintf(stderr, "psgd: %.*s%.*s %s is %s %s today\n", f->text[1] == '-' ? 2 : 1, f->text,
            (int)f->n, f->name, f->value, now, value);
    add_owned(t->out, now);
    add_owned(t->out, value);
    if (strcmp(now, "--preset") == 0) {
        snprintf(t->preset, sizeof t->preset, "%s", value);
    }
}

/* Writes the part of the text before its first dot: "sgq" of "sgq.SGQClient". */
static void module_of(const char *text, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%.*s", (int)strcspn(text, "."), text);
}

static bool steps_locally(const char *preset)
{
    const ps_preset *found = ps_preset_find(preset);
    Psgd__V1__JobSpec *spec;
    bool is_local;

    if (found == NULL) {
        return false;
    }
    spec = ps_spec_of_preset(found->json);
    is_local = ps_spec_steps_locally(spec);
    ps_spec_free(spec);
    return is_local;
}

static bool is_codec(const char *name)
{
    search s = {.value = name};

    ps_kind_codec.each(compare_plugin, &s);
    return s.exact != NULL || s.similar != NULL;
}

/* Replaces --codec or -C. The name is the part of the value before its first dot; the form is old
 * with -C, or with a dot ("sgq.SGQClient"). A preset with that name replaces the flag if the form
 * is old or no codec has the name. Else --codec NAME replaces an old form if a codec has the name.
 * Returns whether the flag was replaced. */
static bool take_codec(translation *t, const flag *f)
{
    bool is_old = f->n == 1 || strchr(f->value, '.') != NULL;
    char name[NAME_BYTES];

    module_of(f->value, name);
    if (ps_preset_find(name) != NULL && (is_old || !is_codec(name))) {
        give(t, f, "--preset", name);
        t->has_codec = true;
        return true;
    }
    if (is_old && is_codec(name)) {
        give(t, f, "--codec", name);
        return true;
    }
    return false;
}

/* Replaces --batch-size, the old global batch, by --block-size with each worker's share of it.
 * Returns false after a message if the number of workers is unknown or does not divide it. */
static bool take_batch(translation *t, const flag *f)
{
    char text[NAME_BYTES];
    int64_t batch = 0;

    if (!ps_scalar_int(f->value, &batch) || batch < 1 || t->workers == 0 ||
        (uint64_t)batch % t->workers != 0) {
        fputs("psgd: --batch-size was the global batch, divided by the node count: give a multiple "
              "of --node-count, or --block-size, the samples of each block\n",
              stderr);
        return false;
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)batch / t->workers);
    fprintf(stderr,
            "psgd: --batch-size %s is the global batch; divided by the node count, %llu, it is "
            "--block-size %s today\n",
            f->value, (unsigned long long)t->workers, text);
    add_owned(t->out, "--block-size");
    add_owned(t->out, text);
    return true;
}

/* Replaces --all-iterations, the steps of all workers together, by --max-steps with the steps of
 * each, rounded up. Returns false after a message if the value is not 1 or more, or the number of
 * workers is unknown. */
static bool take_iterations(translation *t, const flag *f)
{
    char text[NAME_BYTES];
    int64_t all = 0;

    if (!ps_scalar_int(f->value, &all) || all < 1 || t->workers == 0) {
        fputs("psgd: --all_iterations were the steps of all workers together: give 1 or more, and "
              "the workers (-W N); or --max-steps, the steps of each\n",
              stderr);
        return false;
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)(((uint64_t)all - 1) / t->workers + 1));
    fprintf(stderr,
            "psgd: --all_iterations %s of all workers together is --max-steps %s of each of the "
            "%llu today\n",
            f->value, text, (unsigned long long)t->workers);
    add_owned(t->out, "--max-steps");
    add_owned(t->out, text);
    return true;
}

/* Returns whether the value is a negative number, which as a learning rate meant a gradient
 * ascent. */
static bool is_negative(const char *value)
{
    double x;

    return value[0] == '-' && ps_scalar_double(value, &x) && x < 0;
}

/* Replaces a flag with a negative learning rate by --maximise and --lr with the positive rate. */
static void take_ascent(translation *t, const flag *f)
{
    fprintf(stderr, "psgd: --%.*s %s is --maximise --lr %s today\n", (int)f->n, f->name, f->value,
            f->value + 1);
    add_owned(t->out, "--maximise");
    add_owned(t->out, "--lr");
    add_owned(t->out, f->value + 1);
}

/* Returns false if `f` is not an old flag, or cannot be translated. Else adds today's flags to the
 * list, or none if a preset has their effect, and returns true. */
static bool translate(translation *t, const flag *f)
{
    if (f->value == NULL) {
        return false;
    }
    if (is_flag(f, "codec", 'C')) {
        return take_codec(t, f);
    }
    if (is_flag(f, "batch-size", 0)) {
        return take_batch(t, f);
    }
    if (is_flag(f, "all-iterations", 0)) {
        return take_iterations(t, f);
    }
    if (is_flag(f, "lr", 0) && is_negative(f->value)) {
        take_ascent(t, f);
        return true;
    }
    if (is_flag(f, "optimizer", 'O') && strcmp(f->value, "psgd") == 0) {
        if (steps_locally(t->preset)) {
            fprintf(stderr, "psgd: -O psgd is what preset %s does\n", t->preset);
        } else {
            give(t, f, "--optimizer-side", "worker");
        }
        return true;
    }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char name[NAME_BYTES];

        if (!is_flag(f, flags[i].old, flags[i].letter) ||
            (flags[i].value != NULL && strcasecmp(flags[i].value, f->value) != 0)) {
            continue;
        }
        if (strcmp(flags[i].old, "server-codec") == 0 && t->has_codec) {
            fprintf(stderr, "psgd: --server-codec %s: preset %s has its servers' side\n", f->value,
                    t->preset);
            return true;
        }
        if (strcmp(flags[i].now, "--lr") == 0 && is_negative(f->value)) {
            take_ascent(t, f);
            return true;
        }
        module_of(f->value, name);
        give(t, f, flags[i].now,
             flags[i].now_value != NULL                  ? flags[i].now_value
             : strcmp(flags[i].old, "server-codec") == 0 ? name
                                                         : f->value);
        return true;
    }
    return false;
}

/* Sets t->workers and t->preset, which the translation of one flag needs, from all arguments. */
static void look_ahead(translation *t, int argc, char *const *argv)
{
    for (int i = 1; i < argc; i++) {
        flag f;
        int64_t n;

        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            continue;
        }
        f = read_flag(argv, argc, i);
        if (f.value == NULL) {
            continue;
        }
        if ((is_flag(&f, "node-count", 'n') || is_flag(&f, "workers", 'W')) &&
            ps_scalar_int(f.value, &n) && n > 0) {
            t->workers = (uint64_t)n;
        } else if (is_flag(&f, "preset", 'p') || is_flag(&f, "server-codec", 0) ||
                   is_flag(&f, "codec", 'C')) {
            module_of(f.value, t->preset);
        }
    }
}

void ps_old_args_init(ps_old_args *args, int argc, char *const *argv)
{
    translation t = {.out = args};
    size_t most = 3 * (size_t)argc + 2;

    *args = (ps_old_args){.argv = ps_xcalloc(most, sizeof *args->argv),
                          .owned = ps_xcalloc(most, sizeof *args->owned)};
    look_ahead(&t, argc, argv);
    for (int i = 0; i < argc;) {
        bool can_be = i > 0 && argv[i][0] == '-' && argv[i][1] != '\0';
        flag f = can_be ? read_flag(argv, argc, i) : (flag){0};

        if (can_be && strcmp(argv[i], "--") != 0 && translate(&t, &f)) {
            i += f.used;
        } else {
            add(args, argv[i++]);
        }
    }
    assert((size_t)args->argc < most);
}

void ps_old_args_fini(ps_old_args *args)
{
    for (int i = 0; i < args->owned_count; i++) {
        free(args->owned[i]);
    }
    free(args->owned);
    free(args->argv);
}
