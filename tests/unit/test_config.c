/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c - settings from flags, environment, file and defaults. */
#include "common/base/config.h"

#include "common/base/files.h"
#include "common/base/nearest.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct general {
    const char *log_level;
    bool color;
    bool verbose;
} general;

typedef struct settings {
    const char *listen;
    const char *title;
    int64_t slots;
    double rate;
    int64_t grace_us;
    ps_option_list labels;
    bool quick;
} settings;

static const ps_option general_options[] = {
    PS_OPTION_STRING(general, log_level, .name = "log-level", .env = "PSGD_LOG_LEVEL",
                     .value = "info", .choices = "error|warn|info|debug",
                     .help = "how much to log"),
    PS_OPTION_BOOL(general, color, .name = "color", .value = "true", .help = "use colors"),
    PS_OPTION_BOOL(general, verbose, .name = "verbose", .letter = 'v', .help = "say more"),
    PS_OPTION_END,
};

static const ps_option own_options[] = {
    PS_OPTION_STRING(settings, listen, .name = "listen", .letter = 'l', .env = "PSGD_LISTEN",
                     .value = "127.0.0.1:15387", .metavar = "HOST:PORT",
                     .help = "where to listen; port 0 takes any free one, which is printed"),
    PS_OPTION_STRING(settings, title, .name = "title", .letter = 't',
                     .help = "a name; these are fifty columns, so it just fits.."),
    PS_OPTION_INT(settings, slots, .name = "slots", .letter = 'n', .env = "PSGD_SLOTS",
                  .value = "1", .min = 1, .max = 64, .help = "jobs at a time"),
    PS_OPTION_DOUBLE(settings, rate, .name = "rate", .value = "0.5", .help = "a rate"),
    PS_OPTION_DURATION(settings, grace_us, .name = "grace", .env = "PSGD_GRACE", .value = "10s",
                       .min = 0, .max = 3600e6, .help = "time to drain.."),
    PS_OPTION_LIST(settings, labels, .name = "label", .env = "PSGD_LABELS", .help = "a label"),
    PS_OPTION_BOOL(settings, quick, .name = "quick", .letter = 'q', .help = "hurry"),
    PS_OPTION_END,
};

static const ps_option_table tables[] = {
    {.title = "Settings", .options = own_options},
    {.title = "Log", .options = general_options},
    {.options = NULL},
};

static const ps_command command = {.name = "psgd-test",
                                   .summary = "Tests settings.",
                                   .usage = "[options] [FILE...]",
                                   .tables = tables,
                                   .args_max = 3,
                                   .has_file = true,
                                   .examples = "psgd-test --slots 2\npsgd-test -v file"};

enum { MOST_ARGS = 16 };

typedef struct world {
    settings own;
    general general;
    ps_config *config;
    char file[64];
} world;

static int make_world(void **state)
{
    static const char *const variables[] = {"PSGD_CONFIG", "PSGD_LISTEN", "PSGD_SLOTS",
                                            "PSGD_GRACE",  "PSGD_LABELS", "PSGD_LOG_LEVEL"};
    world *w = calloc(1, sizeof *w);
    int fd;

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i]);
    }
    if (w == NULL) {
        return -1;
    }
    strcpy(w->file, "/tmp/test_config.XXXXXX");
    fd = mkstemp(w->file);
    *state = w;
    return fd < 0 ? -1 : close(fd);
}

static int clear_world(void **state)
{
    world *w = *state;

    ps_config_destroy(w->config);
    unlink(w->file);
    free(w);
    return 0;
}

/* `line` is split at spaces; "%" stands for the world's file. */
static ps_status load_as(world *w, const ps_command *as, const char *line)
{
    static char copy[512]; /* argv outlives the configuration */
    static char *argv[MOST_ARGS + 1];
    void *const bases[] = {&w->own, &w->general};
    int argc = 1;

    ps_config_destroy(w->config);
    w->config = NULL;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = strtok(copy, " "); p != NULL; p = strtok(NULL, " ")) {
        assert_true(argc < MOST_ARGS);
        argv[argc++] = strcmp(p, "%") == 0 ? w->file : p;
    }
    argv[argc] = NULL;
    return ps_config_load(as, argc, argv, bases, &w->config);
}

static void load_ok(world *w, const char *line)
{
    ps_status st = load_as(w, &command, line);

    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", line, st.text);
    }
}

static void assert_refused(world *w, const char *line, const char *text)
{
    ps_status st = load_as(w, &command, line);

    if (st.code != PS_INVALID_ARGUMENT || strstr(st.text, text) == NULL) {
        fail_msg("%s: %s", line, ps_is_ok(&st) ? "accepted" : st.text);
    }
    assert_null(w->config);
}

static void write_file(const world *w, const char *text)
{
    ps_status st = ps_file_write(w->file, text, strlen(text));

    assert_true(ps_is_ok(&st));
}

static void without_anything_the_defaults_hold(void **state)
{
    world *w = *state;

    memset(&w->own, 0x55, sizeof w->own);
    load_ok(w, "");
    assert_string_equal(w->own.listen, "127.0.0.1:15387");
    assert_null(w->own.title);
    assert_int_equal(w->own.slots, 1);
    assert_true(w->own.rate == 0.5);
    assert_int_equal(w->own.grace_us, 10000000);
    assert_int_equal(w->own.labels.n, 0);
    assert_false(w->own.quick);
    assert_true(w->general.color);
    assert_false(w->general.verbose);
    assert_string_equal(w->general.log_level, "info");
    assert_int_equal(ps_config_source_of(w->config, "slots"), PS_FROM_DEFAULT);
    assert_int_equal(w->config->n_args, 0);
    assert_null(w->config->file);
}

static void flags_are_read_in_every_form(void **state)
{
    world *w = *state;

    load_ok(w, "--listen :0 --slots=3 a --rate -2.5 --grace=1m30s -qv --no-color --label x "
               "--label=y,z b --log_level debug");
    assert_string_equal(w->own.listen, ":0");
    assert_int_equal(w->own.slots, 3);
    assert_true(w->own.rate == -2.5);
    assert_int_equal(w->own.grace_us, 90000000);
    assert_true(w->own.quick && w->general.verbose && !w->general.color);
    assert_int_equal(w->own.labels.n, 2);
    assert_string_equal(w->own.labels.items[0], "x");
    assert_string_equal(w->own.labels.items[1], "y,z");
    assert_string_equal(w->general.log_level, "debug");
    assert_int_equal(w->config->n_args, 2);
    assert_string_equal(w->config->args[0], "a");
    assert_string_equal(w->config->args[1], "b");
    assert_int_equal(ps_config_source_of(w->config, "slots"), PS_FROM_FLAG);

    load_ok(w, "-n4 -l :1 -vqtname --verbose=false --slots 5 -- --slots -");
    assert_int_equal(w->own.slots, 5); /* the last one counts */
    assert_string_equal(w->own.listen, ":1");
    assert_string_equal(w->own.title, "name");
    assert_false(w->general.verbose);
    assert_int_equal(w->config->n_args, 2);
    assert_string_equal(w->config->args[0], "--slots");
    assert_string_equal(w->config->args[1], "-");
}

static void flags_win_over_environment_over_file_over_default(void **state)
{
    world *w = *state;

    write_file(w, "slots: 7\n");
    load_ok(w, "--config %");
    assert_int_equal(w->own.slots, 7);
    assert_int_equal(ps_config_source_of(w->config, "slots"), PS_FROM_FILE);
    assert_string_equal(w->config->file, w->file);
    setenv("PSGD_SLOTS", "8", 1);
    load_ok(w, "--config %");
    assert_int_equal(w->own.slots, 8);
    assert_int_equal(ps_config_source_of(w->config, "slots"), PS_FROM_ENVIRONMENT);
    load_ok(w, "--config % --slots 9");
    assert_int_equal(w->own.slots, 9);
    setenv("PSGD_SLOTS", "", 1); /* as if it were not there */
    load_ok(w, "");
    assert_int_equal(w->own.slots, 1);
    setenv("PSGD_CONFIG", w->file, 1);
    load_ok(w, "");
    assert_int_equal(w->own.slots, 7);
}

static void lists_come_from_everywhere(void **state)
{
    world *w = *state;

    write_file(w, "label: [f, 1]\n");
    load_ok(w, "--config %");
    assert_int_equal(w->own.labels.n, 2);
    assert_string_equal(w->own.labels.items[1], "1");
    setenv("PSGD_LABELS", ",e1,,e2,", 1);
    load_ok(w, "--config %");
    assert_int_equal(w->own.labels.n, 2);
    assert_string_equal(w->own.labels.items[0], "e1");
    assert_string_equal(w->own.labels.items[1], "e2");
    load_ok(w, "--config % --label a --label b --label c --label d --label e");
    assert_int_equal(w->own.labels.n, 5);
    assert_string_equal(w->own.labels.items[4], "e");
}

static void a_file_sets_what_it_says(void **state)
{
    world *w = *state;

    write_file(w, "listen: 15\ntitle: 'true'\nrate: 2\ngrace: 250ms\nquick: true\n"
                  "log: {level: warn}\ncolor: false\nslots:\nlabel: one\n");
    load_ok(w, "--config %");
    assert_string_equal(w->own.listen, "15");
    assert_string_equal(w->own.title, "true");
    assert_true(w->own.rate == 2.0);
    assert_int_equal(w->own.grace_us, 250000);
    assert_true(w->own.quick && !w->general.color);
    assert_string_equal(w->general.log_level, "warn");
    assert_int_equal(w->own.slots, 1);
    assert_int_equal(w->own.labels.n, 1);
    write_file(w, "{\"log_level\": \"error\", \"slots\": 64}");
    load_ok(w, "--config %");
    assert_string_equal(w->general.log_level, "error");
    assert_int_equal(w->own.slots, 64);
    write_file(w, "");
    load_ok(w, "--config %");
    assert_int_equal(w->own.slots, 1);
}

static void wrong_flags_are_named_with_what_is_allowed(void **state)
{
    world *w = *state;

    assert_refused(w, "--lisen :0", "unknown flag --lisen; did you mean --listen?");
    assert_refused(w, "--zzz=1", "unknown flag --zzz; --help lists all");
    assert_refused(w, "-x", "unknown flag -x");
    assert_refused(w, "-vx", "unknown flag -x in \"-vx\"");
    assert_refused(w, "--no-listen", "unknown flag --no-listen");
    assert_refused(w, "--slots many", "--slots: \"many\" is not a whole number");
    assert_refused(w, "--slots 65", "--slots: \"65\": from 1 to 64 is allowed");
    assert_refused(w, "--slots=", "--slots: \"\" is not a whole number");
    assert_refused(w, "--rate x", "--rate: \"x\" is not a number");
    assert_refused(w, "--grace 5", "--grace: \"5\" is not a duration like 10s");
    assert_refused(w, "--grace 2h", "--grace: \"2h\": from 0s to 1h is allowed");
    assert_refused(w, "--log-level loud",
                   "--log-level: \"loud\": one of error|warn|info|debug is allowed");
    assert_refused(w, "--log-level inf", "one of error|warn|info|debug");
    assert_refused(w, "--verbose=maybe", "--verbose: \"maybe\" is not true or false");
    assert_refused(w, "--slots", "--slots needs a value: INT");
    assert_refused(w, "-n", "--slots needs a value");
    assert_refused(w, "--title --quick", "--title needs a value, and --quick is a flag");
    assert_refused(w, "a b c d", "\"d\" is one too many");
}

static void wrong_variables_are_named(void **state)
{
    world *w = *state;

    setenv("PSGD_SLOTS", "0", 1);
    assert_refused(w, "", "PSGD_SLOTS: \"0\": from 1 to 64 is allowed");
    load_ok(w, "--slots 2"); /* not looked at */
}

static void wrong_files_are_named_with_the_key(void **state)
{
    static const char *const cases[][2] = {
        {"slot: 2\n", ": unknown key slot; did you mean slots?"},
        {"slots: 99\n", ": slots: \"99\": from 1 to 64"},
        {"slots: [1]\n", ": slots: one value is wanted: INT"},
        {"slots: true\n", ": slots: write the value in quotes"},
        {"title: 1.10\n", ": title: write the value in quotes"},
        {"label: [a, [b]]\n", ": label: one value is wanted"},
        {"log: {level: loud}\n", ": log-level: \"loud\""},
        {"log: {lovel: info}\n", ": unknown key log-lovel; did you mean log-level?"},
        {"- a\n", ": settings are a mapping"},
        {"config: x\n", ": key config is not for a file"},
        {"a: 1\na: 2\n", ": line 2, column 1: key \"a\""},
    };
    world *w = *state;
    ps_status st;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(w, cases[i][0]);
        assert_refused(w, "--config %", cases[i][1]);
        assert_refused(w, "--config %", w->file);
    }
    write_file(w, "slots: 99\n"); /* wrong also where a flag is better */
    assert_refused(w, "--config % --slots 1", "slots: \"99\"");
    unlink(w->file);
    st = load_as(w, &command, "--config %");
    assert_int_equal(st.code, PS_NOT_FOUND);
}

static void help_and_version_need_nothing_else(void **state)
{
    world *w = *state;

    load_ok(w, "--help --nonsense");
    assert_true(w->config->wants_help);
    load_ok(w, "-vh");
    assert_true(w->config->wants_help);
    load_ok(w, "--version a b c d e");
    assert_true(w->config->wants_version && !w->config->wants_help);
    load_ok(w, "-v");
    assert_false(w->config->wants_help || w->config->wants_version);
}

static void help_shows_every_option_within_80_columns(void **state)
{
    ps_strbuf text = {0};

    (void)state;
    ps_config_help(&command, &text);
    assert_string_equal(
        ps_strbuf_text(&text),
        "Usage: psgd-test [options] [FILE...]\n"
        "\n"
        "Tests settings.\n"
        "\n"
        "Settings:\n"
        "  -l, --listen HOST:PORT      where to listen; port 0 takes any free one, which\n"
        "                              is printed (default 127.0.0.1:15387; PSGD_LISTEN)\n"
        "  -t, --title TEXT            a name; these are fifty columns, so it just fits..\n"
        "  -n, --slots INT             jobs at a time (1 to 64; default 1; PSGD_SLOTS)\n"
        "      --rate NUMBER           a rate (default 0.5)\n"
        "      --grace DURATION        time to drain.. (0s to 1h; default 10s;\n"
        "                              PSGD_GRACE)\n"
        "      --label TEXT            a label (may be repeated; PSGD_LABELS)\n"
        "  -q, --quick                 hurry\n"
        "\n"
        "Log:\n"
        "      --log-level error|warn|info|debug\n"
        "                              how much to log (default info; PSGD_LOG_LEVEL)\n"
        "      --[no-]color            use colors (default on)\n"
        "  -v, --verbose               say more\n"
        "\n"
        "General:\n"
        "      --config FILE           read settings from a YAML file; its keys are the\n"
        "                              names of these options (PSGD_CONFIG)\n"
        "  -h, --help                  print this text\n"
        "      --version               print the version\n"
        "\n"
        "Examples:\n"
        "  psgd-test --slots 2\n"
        "  psgd-test -v file\n");
    ps_strbuf_clear(&text);
    ps_config_version(&command, "avx2, others", &text);
    assert_int_equal(strncmp(ps_strbuf_text(&text), "psgd-test " PS_VERSION "\n",
                             sizeof "psgd-test " PS_VERSION "\n" - 1),
                     0);
    assert_non_null(strstr(ps_strbuf_text(&text), "\nkernels: avx2, others\n"));
    ps_strbuf_fini(&text);
}

static void a_subcommand_keeps_its_own_flags(void **state)
{
    static const ps_command outer = {.name = "psgd",
                                     .tables = tables,
                                     .args_min = 1,
                                     .args_max = SIZE_MAX,
                                     .stops_at_argument = true};
    world *w = *state;
    ps_status st = load_as(w, &outer, "-v submit --slots 99 --help -x");

    assert_true(ps_is_ok(&st));
    assert_true(w->general.verbose && !w->config->wants_help);
    assert_int_equal(w->own.slots, 1);
    assert_int_equal(w->config->n_args, 5);
    assert_string_equal(w->config->args[0], "submit");
    assert_string_equal(w->config->args[4], "-x");
    st = load_as(w, &outer, "-v");
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    st = load_as(w, &outer, "--config x get"); /* has no file */
    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
}

static void what_is_required_must_be_given(void **state)
{
    static const ps_option needed[] = {
        PS_OPTION_STRING(settings, title, .name = "title", .is_required = true,
                         .env = "PSGD_LISTEN", .help = "a name"),
        PS_OPTION_END,
    };
    static const ps_option_table only[] = {{.options = needed}, {.options = NULL}};
    static const ps_command strict = {.name = "psgd", .tables = only};
    world *w = *state;
    ps_status st = load_as(w, &strict, "");

    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
    assert_string_equal(st.text, "--title TEXT is required, or PSGD_LISTEN");
    st = load_as(w, &strict, "--title x");
    assert_true(ps_is_ok(&st));
}

static void the_nearest_word_is_found_when_it_is_near(void **state)
{
    static const char *const names[] = {"listen", "log-level", "slots"};

    (void)state;
    assert_string_equal(ps_nearest("lsten", names, 3), "listen");
    assert_string_equal(ps_nearest("slot", names, 3), "slots");
    assert_string_equal(ps_nearest("loglevel", names, 3), "log-level");
    assert_string_equal(ps_nearest("log-levle", names, 3), "log-level");
    assert_null(ps_nearest("grace", names, 3));
    assert_string_equal(ps_nearest("bps", (const char *const[]){"asp", "bsp"}, 2), "bsp");
    assert_string_equal(ps_nearest("f23", (const char *const[]){"f16", "f32"}, 2), "f32");
    assert_null(ps_nearest("", names, 3));
    assert_null(ps_nearest("listen", names, 0));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_anything_the_defaults_hold, make_world,
                                        clear_world),
        cmocka_unit_test_setup_teardown(flags_are_read_in_every_form, make_world, clear_world),
        cmocka_unit_test_setup_teardown(flags_win_over_environment_over_file_over_default,
                                        make_world, clear_world),
        cmocka_unit_test_setup_teardown(lists_come_from_everywhere, make_world, clear_world),
        cmocka_unit_test_setup_teardown(a_file_sets_what_it_says, make_world, clear_world),
        cmocka_unit_test_setup_teardown(wrong_flags_are_named_with_what_is_allowed, make_world,
                                        clear_world),
        cmocka_unit_test_setup_teardown(wrong_variables_are_named, make_world, clear_world),
        cmocka_unit_test_setup_teardown(wrong_files_are_named_with_the_key, make_world,
                                        clear_world),
        cmocka_unit_test_setup_teardown(help_and_version_need_nothing_else, make_world,
                                        clear_world),
        cmocka_unit_test_setup_teardown(help_shows_every_option_within_80_columns, make_world,
                                        clear_world),
        cmocka_unit_test_setup_teardown(a_subcommand_keeps_its_own_flags, make_world, clear_world),
        cmocka_unit_test_setup_teardown(what_is_required_must_be_given, make_world, clear_world),
        cmocka_unit_test_setup_teardown(the_nearest_word_is_found_when_it_is_near, make_world,
                                        clear_world),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_config a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
