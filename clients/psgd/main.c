/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - psgd: finds the subcommand, connects, and runs the loop. */
#include "clients/psgd/cli.h"
#include "clients/psgd/old_names.h"

#include "common/base/address.h"
#include "common/base/container_of.h"
#include "common/base/cpu.h"
#include "common/base/log.h"
#include "common/base/nearest.h"
#include "common/base/older.h"
#include "common/base/signals.h"
#include "common/base/xalloc.h"
#include "common/job/catalogue.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PS_SUBCOMMAND(name) extern const ps_subcommand ps_subcommand_##name;
#include "clients/psgd/list.h"
#undef PS_SUBCOMMAND

static const ps_subcommand *const subcommands[] = {
#define PS_SUBCOMMAND(name) &ps_subcommand_##name,
#include "clients/psgd/list.h"
#undef PS_SUBCOMMAND
};

enum {
    SUBCOMMANDS = sizeof subcommands / sizeof subcommands[0],
    DEFAULT_PORT = 15386,
    /* Microseconds of an attempt to connect, after which psgd finds out why there is no connection
     * yet; less if --timeout is shorter. The first value is for --coordinator with one address. */
    CONNECT_US = 2000000,
    /* This one is for each of several addresses. It also bounds the time that psgd takes to find
     * out what is wrong with an address; with one address only --timeout does. */
    CONNECT_OF_SEVERAL_US = 1000000
};

static const ps_option general_options[] = {
    PS_OPTION_STRING(ps_general, coordinator, .name = "coordinator", .letter = 'c',
                     .env = "PSGD_COORDINATOR", .value = "127.0.0.1:15386",
                     .metavar = "HOST:PORT,...",
                     .help = "address of the coordinator; of several, the one that leads is "
                             "followed"),
    PS_OPTION_STRING(
        ps_general, tls_dir, .name = "tls-dir", .env = "PSGD_TLS_DIR", .metavar = "DIR",
        .help = "mutual TLS, with root.pem and identity.pem of this folder (psgd pki)"),
    PS_OPTION_STRING(ps_general, token_file, .name = "token-file", .env = "PSGD_TOKEN_FILE",
                     .metavar = "FILE",
                     .help = "be known by the token in this file (psgd token) instead of "
                             "identity.pem; of --tls-dir only root.pem is needed"),
    PS_OPTION_STRING(ps_general, format, .name = "format", .env = "PSGD_FORMAT", .value = "text",
                     .choices = "text|json|jsonl",
                     .help = "json: one document on stdout; jsonl: one a line"),
    PS_OPTION_DURATION(ps_general, timeout_us, .name = "timeout", .env = "PSGD_TIMEOUT",
                       .value = "10s", .min = 1e5, .max = 3600e6,
                       .help = "time to wait for an answer of the coordinator"),
    PS_OPTION_END,
};

static const ps_option_table general_tables[] = {{"Options", general_options}, {NULL, NULL}};

/* Connects to the address `target` of a coordinator and closes the connection. Returns OK if
 * somebody listens there, else an error that says what is wrong with the address. */
static ps_status look(const char *target, int64_t timeout_us)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    ps_address address;
    ps_status st = ps_address_parse(target, "", 0, &address);
    char port[8];
    int err = ECONNREFUSED, code;

    if (!ps_is_ok(&st)) {
        return st;
    }
    snprintf(port, sizeof port, "%u", (unsigned)address.port);
    code = getaddrinfo(address.host, port, &hints, &list);
    if (code != 0) {
        return ps_fail(PS_UNAVAILABLE, "coordinator %s: %s", target, gai_strerror(code));
    }
    for (struct addrinfo *a = list; a != NULL && err != 0; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        socklen_t size = sizeof err;

        if (fd < 0) {
            continue;
        }
        if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            err = 0;
        } else if (errno != EINPROGRESS) {
            err = errno;
        } else if (poll(&p, 1, (int)(timeout_us / 1000)) != 1) {
            err = ETIMEDOUT;
        } else {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size);
        }
        close(fd);
    }
    freeaddrinfo(list);
    if (err != 0) {
        return ps_fail(PS_UNAVAILABLE,
                       "no coordinator at %s: %s; start one, or give its address by --coordinator",
                       target, strerror(err));
    }
    return ps_ok();
}

typedef struct interrupt {
    ps_event event;
    ps_cli *cli;
    atomic_bool has_loop; /* on_signal may post `event` to the loop; false: it ends the program */
} interrupt;

static void on_interrupt(ps_event *self, bool ok)
{
    ps_cli *cli = PS_CONTAINER_OF(self, interrupt, event)->cli;

    if (!ok || cli->ended) {
        return;
    }
    if (cli->on_interrupt == NULL) {
        fflush(stdout);
        _exit(PS_EXIT_INTERRUPTED);
    }
    cli->on_interrupt(cli->arg);
}

static void on_signal(void *arg, int signo)
{
    interrupt *i = arg;

    if (!atomic_load(&i->has_loop)) {
        _exit(128 + signo);
    }
    ps_loop_post(i->cli->loop, &i->event);
}

/* A subcommand that waits to begin until a coordinator is connected. */
typedef struct beginning {
    ps_cli *cli;
    const ps_subcommand *sub;
    void *options;
    size_t left;   /* number of coordinators that were not tried yet */
    bool may_come; /* one of them accepts connections, but has not answered yet */
    char coordinators[PS_FOLLOW_LIST_BYTES];
} beginning;

/* Returns `us`, or --timeout if that is shorter. */
static int64_t at_most_timeout(const beginning *b, int64_t us)
{
    return b->cli->general.timeout_us < us ? b->cli->general.timeout_us : us;
}

/* Finds out why there is no connection, which gRPC does not say. Returns UNAVAILABLE if nobody
 * listens at the coordinator's address, another error if one side refuses the other's certificate,
 * and OK if neither is the case. After OK the connection may still come. */
static ps_status find_problem(const beginning *b)
{
    const char *address = ps_follow_address(b->cli->follow);
    int64_t timeout_us = ps_follow_has_others(b->cli->follow)
                             ? at_most_timeout(b, CONNECT_OF_SEVERAL_US)
                             : b->cli->general.timeout_us;
    ps_status st = look(address, timeout_us);

    if (ps_is_ok(&st) && b->cli->tls != NULL) {
        st = ps_wrap(ps_tls_probe(b->cli->tls, address, PS_PRINCIPAL_COORDINATOR, "", timeout_us),
                     "coordinator");
    }
    return st;
}

static void connect_next(beginning *b);

/* Tries the next coordinator after the present one has not been connected for this reason. Returns
 * false if all were tried, or if the reason is none for which another is tried
 * (ps_follow_failed). */
static bool try_next(beginning *b, ps_status why)
{
    ps_error error;

    if (ps_is_ok(&why)) {
        b->may_come = true;
        why = ps_fail(PS_DEADLINE_EXCEEDED, "it does not answer");
    }
    ps_error_init(&error, why, NULL);
    if (b->left == 0 || ps_follow_failed(b->cli->follow, &error) == PS_NEXT_NONE) {
        return false;
    }
    connect_next(b);
    return true;
}

static void on_connected(void *arg, bool is_connected)
{
    beginning *b = arg;
    ps_cli *cli = b->cli;
    ps_status st = is_connected ? ps_ok() : find_problem(b);

    if (!is_connected && try_next(b, st)) {
        return;
    }
    if (ps_is_ok(&st) || (st.code == PS_UNAVAILABLE && b->may_come)) {
        b->sub->start(cli, b->options);
    } else if (st.code == PS_UNAVAILABLE && b->sub->start_alone != NULL &&
               !cli->is_coordinator_named) {
        fprintf(stderr, "psgd: %s; showing what is built into psgd " PS_VERSION "\n", st.text);
        b->sub->start_alone(cli, b->options);
    } else {
        ps_cli_end(cli, ps_cli_status(&st));
    }
}

/* Begins to connect to the coordinator that cli->follow points to now; on_connected has the
 * result. */
static void connect_next(beginning *b)
{
    b->left--;
    ps_channel_connect(ps_follow_channel(b->cli->follow),
                       at_most_timeout(b, ps_follow_has_others(b->cli->follow)
                                              ? CONNECT_OF_SEVERAL_US
                                              : CONNECT_US),
                       on_connected, b);
}

/* Begins to connect to the first coordinator. If it cannot be reached, on_connected tries the next
 * one; it starts the subcommand when one is connected. */
static ps_status open_channel(beginning *b)
{
    ps_cli *cli = b->cli;
    const char *dir = cli->general.tls_dir, *token = cli->general.token_file;
    bool has_tls = dir != NULL && dir[0] != '\0', has_token = token != NULL && token[0] != '\0';
    ps_status st = ps_follow_complete("--coordinator", cli->general.coordinator, "127.0.0.1",
                                      DEFAULT_PORT, b->coordinators);

    if (!ps_is_ok(&st)) {
        return st;
    }
    b->left = 1;
    for (const char *at = b->coordinators; *at != '\0'; at++) {
        b->left += *at == ',';
    }
    if (has_token && !has_tls) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "--token-file needs --tls-dir DIR, a folder with the root.pem of the "
                       "coordinator's authority: in plaintext everybody could read the token");
    }
    if (has_tls) {
        st = has_token ? ps_wrap(ps_tls_create_guest(dir, token, &cli->tls), "--token-file")
                       : ps_wrap(ps_tls_create(dir, &cli->tls), "--tls-dir");
        if (!ps_is_ok(&st)) {
            return st;
        }
        ps_loop_use_tls(cli->loop, cli->tls);
    }
    cli->follow = ps_follow_create(cli->loop, b->coordinators);
    connect_next(b);
    return st;
}

/* Runs the subcommand on a loop until it has ended. Connects before, unless cli->is_local. */
static ps_exit run(ps_cli *cli, const ps_subcommand *sub, void *options)
{
    interrupt i = {.event.fire = on_interrupt, .cli = cli};
    beginning b = {.cli = cli, .sub = sub, .options = options};
    ps_signals signals;
    ps_status st = ps_signals_start(&signals, on_signal, &i);

    if (!ps_is_ok(&st)) {
        ps_cli_status(&st);
        return PS_EXIT_BUG;
    }
    st = ps_loop_create(&cli->loop);
    if (ps_is_ok(&st) && !cli->is_local) {
        st = open_channel(&b);
    }
    if (ps_is_ok(&st)) {
        atomic_store(&i.has_loop, true);
        if (cli->is_local) {
            sub->start(cli, options);
        }
        ps_loop_run(cli->loop);
        if (fflush(stdout) != 0 && cli->code == PS_EXIT_OK) {
            fprintf(stderr, "psgd: stdout: %s\n", strerror(errno));
            cli->code = PS_EXIT_BUG;
        }
    } else {
        cli->code = ps_cli_status(&st);
    }
    ps_signals_stop(&signals);
    ps_loop_destroy(cli->loop);
    ps_tls_release(cli->tls);
    return cli->code;
}

static void print_version(const ps_command *command)
{
    Psgd__V1__GetServerInfoResponse *info = ps_catalogue_info();
    ps_strbuf text = {0};
    ps_command psgd = *command;

    psgd.name = "psgd"; /* the version is that of psgd, not of the subcommand */
    ps_config_version(&psgd, info->kernels, &text);
    fputs(ps_strbuf_text(&text), stdout);
    ps_strbuf_fini(&text);
    psgd__v1__get_server_info_response__free_unpacked(info, NULL);
}

static void print_help(const ps_command *command)
{
    ps_strbuf text = {0};

    ps_config_help(command, &text);
    fputs(ps_strbuf_text(&text), stdout);
    ps_strbuf_fini(&text);
}

/* Copies the general options that are flags after the subcommand from *own to cli->general, which
 * has those before the subcommand: an option that is repeated counts as it stands after it. Sets
 * cli->format from the result. */
static void take_general(ps_cli *cli, const ps_general *own)
{
    const ps_config *config = cli->config;

    if (ps_config_source_of(config, "coordinator") == PS_FROM_FLAG) {
        cli->general.coordinator = own->coordinator;
        cli->is_default_coordinator = false;
        cli->is_coordinator_named = cli->is_coordinator_flag = true;
    }
    if (ps_config_source_of(config, "tls-dir") == PS_FROM_FLAG) {
        cli->general.tls_dir = own->tls_dir;
        cli->is_tls_flag = true;
    }
    if (ps_config_source_of(config, "token-file") == PS_FROM_FLAG) {
        cli->general.token_file = own->token_file;
        cli->is_tls_flag = true;
    }
    if (ps_config_source_of(config, "format") == PS_FROM_FLAG) {
        cli->general.format = own->format;
    }
    if (ps_config_source_of(config, "timeout") == PS_FROM_FLAG) {
        cli->general.timeout_us = own->timeout_us;
    }
    cli->format = strcmp(cli->general.format, "json") == 0    ? PS_FORMAT_JSON
                  : strcmp(cli->general.format, "jsonl") == 0 ? PS_FORMAT_JSONL
                                                              : PS_FORMAT_TEXT;
}

static ps_exit run_subcommand(ps_cli *cli, const ps_subcommand *sub, int argc, char **argv)
{
    ps_option_table tables[] = {
        {"Options", sub->options}, {"Connection and output", general_options}, {NULL, NULL}};
    ps_command command = sub->command;
    void *options = ps_xcalloc(1, sub->options_size + 1);
    ps_general own = cli->general;
    void *bases[] = {options, &own};
    size_t skipped = sub->options == NULL;
    ps_config *config = NULL;
    ps_exit code = PS_EXIT_OK;
    ps_old_args old = {.argc = argc, .argv = argv};
    ps_older_args older = {0};
    ps_strbuf said = {0};
    ps_status st = ps_ok();

    command.tables = tables + skipped;
    if (sub->takes_job) {
        st = ps_older_args_init(&older, PS_OLDER_JOB | sub->older, "psgd", argc, argv, &said);
        fputs(ps_strbuf_text(&said), stderr);
        ps_strbuf_fini(&said);
        ps_old_args_init(&old, older.argc, older.argv);
    }
    if (ps_is_ok(&st)) {
        st = ps_config_load(&command, old.argc, old.argv, bases + skipped, &config);
    }
    if (ps_is_ok(&st) && !config->wants_help && !config->wants_version) {
        st = ps_cpu_init();
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "psgd: %s\nSee '%s --help'.\n", st.text, command.name);
        code = PS_EXIT_ARGUMENTS;
    } else if (config->wants_help) {
        print_help(&command);
    } else if (config->wants_version) {
        print_version(&command);
    } else {
        cli->config = config;
        take_general(cli, &own);
        cli->is_local = sub->is_local;
        code = sub->prepare != NULL && !sub->prepare(cli, options) ? PS_EXIT_ARGUMENTS
               : sub->run != NULL                                  ? sub->run(cli, options)
                                                                   : run(cli, sub, options);
        if (sub->fini != NULL) {
            sub->fini(options);
        }
    }
    ps_config_destroy(config);
    if (sub->takes_job) {
        ps_old_args_fini(&old);
    }
    ps_older_args_fini(&older);
    free(options);
    return code;
}

/* Returns the subcommand's name without "psgd ": "list" for "psgd list". */
static const char *name_of(const ps_subcommand *sub)
{
    return sub->command.name + strlen("psgd ");
}

/* Runs the subcommand that the arguments name. */
static ps_exit dispatch(ps_cli *cli, int argc, char **argv)
{
    const char *names[SUBCOMMANDS], *nearest;

    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        names[i] = name_of(subcommands[i]);
        if (strcmp(argv[0], names[i]) == 0) {
            return run_subcommand(cli, subcommands[i], argc, argv);
        }
    }
    nearest = ps_nearest(argv[0], names, SUBCOMMANDS);
    fprintf(stderr, "psgd: unknown command '%s'", argv[0]);
    fprintf(stderr, nearest != NULL ? "; did you mean '%s'?\n" : "\n", nearest);
    fputs("See 'psgd --help'.\n", stderr);
    return PS_EXIT_ARGUMENTS;
}

static void put_notes(ps_strbuf *notes)
{
    ps_strbuf_puts(notes, "Commands: ");
    for (size_t i = 0; i < SUBCOMMANDS; i++) {
        ps_strbuf_printf(notes, "%s%s", i > 0 ? ", " : "", name_of(subcommands[i]));
    }
    ps_strbuf_puts(notes,
                   ". 'psgd COMMAND --help' describes one. Exit codes: 0 ok, 1 the job failed "
                   "or the server refused, 2 no connection, 3 time-out, 4 wrong arguments, "
                   "5 a bug of psgd. " PS_CPU_HELP);
}

int main(int argc, char **argv)
{
    ps_command command = {
        .name = "psgd",
        .summary =
            "Trains in this process, or submits jobs to a psgd coordinator, follows them and "
            "downloads their files.",
        .usage = "[options] COMMAND [options]",
        .tables = general_tables,
        .args_max = 64,
        .stops_at_argument = true,
        .examples = "psgd train --preset tutorial-glyphs\npsgd submit --preset tutorial-glyphs "
                    "--watch\npsgd list\npsgd logs -f JOB\n"
                    "psgd download JOB",
    };
    ps_cli cli = {.program = argv[0]};
    void *bases[] = {&cli.general};
    ps_config *config = NULL;
    ps_strbuf notes = {0};
    ps_exit code = PS_EXIT_OK;
    ps_status st;

    ps_signals_block();
    ps_log_init("psgd", PS_LOG_ERROR, PS_LOG_TEXT);
    put_notes(&notes);
    command.notes = ps_strbuf_text(&notes);
    st = ps_config_load(&command, argc, argv, bases, &config);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "psgd: %s\nSee 'psgd --help'.\n", st.text);
        code = PS_EXIT_ARGUMENTS;
    } else if (config->wants_version) {
        print_version(&command);
    } else if (config->wants_help || config->n_args == 0) {
        print_help(&command);
        code = config->wants_help ? PS_EXIT_OK : PS_EXIT_ARGUMENTS;
    } else {
        int first = argc - (int)config->n_args;

        cli.is_default_coordinator = ps_config_source_of(config, "coordinator") != PS_FROM_FLAG;
        cli.is_coordinator_named = ps_config_source_of(config, "coordinator") != PS_FROM_DEFAULT;
        cli.is_coordinator_flag = !cli.is_default_coordinator;
        cli.is_tls_flag = ps_config_source_of(config, "tls-dir") == PS_FROM_FLAG ||
                          ps_config_source_of(config, "token-file") == PS_FROM_FLAG;
        code = dispatch(&cli, argc - first, argv + first);
    }
    ps_config_destroy(config);
    ps_strbuf_fini(&notes);
    return (int)code;
}
