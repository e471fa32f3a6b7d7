/* SPDX-License-Identifier: Apache-2.0 */
/* node_main.c - see node_main.h.
 *
 * Several nodes on one host need no settings. If another process uses the default data directory,
 * the node takes the next one (psgd-worker, psgd-worker-2, ...). If the default port is in use,
 * it takes any free port.
 */
#include "common/node/node_main.h"

#include "common/base/address.h"
#include "common/base/config.h"
#include "common/base/container_of.h"
#include "common/base/cpu.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/older.h"
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/signals.h"
#include "common/nn/blas.h"
#include "common/node/join_cluster.h"
#include "common/ops/ops.h"
#include "common/rpc/follow.h"
#include "common/rpc/join_client.h"
#include "common/rpc/process.h"
#include "common/rpc/protect.h"
#include "common/rpc/supervisor.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EXIT_GOOD = 0,
    EXIT_CANNOT = 1,
    EXIT_ARGUMENTS = 4,
    DIRS_MAX = 256,
    THREADS_DEFAULT = 4, /* most threads that a server has if --threads is 0 */
    COORDINATOR_PORT = 15386
};

static const int64_t probe_us = 2000000; /* longest try of TLS with one coordinator at the start */

typedef struct settings {
    const char *listen, *advertise, *coordinator, *data_dir, *data_path, *node_id;
    const char *log_level, *log_format, *tls_dir, *ops, *join, *loop;
    bool insecure, sockets_only;
    int64_t grace_us, checkpoint_us, threads, data_cache_mib, min_free_mib, loop_fd;
    ps_option_list faults;
} settings;

/* Settings in the types that the node takes. */
typedef struct chosen {
    ps_node_conf conf;
    ps_protect_conf protect;
    char listen[PS_ADDRESS_TEXT_BYTES], ops[PS_ADDRESS_TEXT_BYTES];
    char coordinator[PS_FOLLOW_LIST_BYTES];
    char data_dir[512], tls_dir[PS_PATH_MAX];
} chosen;

typedef struct running {
    ps_loop *loop;
    ps_node *node;
    int64_t grace_us, checkpoint_us;
    ps_event stop, stopped;
    ps_supervisor supervisor;
} running;

/* --- signals --------------------------------------------------------------- */

static void on_signal(void *arg, int signo)
{
    running *r = arg;

    (void)signo;
    ps_loop_post(r->loop, &r->stop);
}

static void begin_stop(ps_event *event, bool ok)
{
    running *r = PS_CONTAINER_OF(event, running, stop);

    if (ok) {
        ps_supervisor_stopping();
        ps_node_stop(r->node, r->grace_us, r->checkpoint_us, &r->stopped);
    }
}

static void end_loop(ps_event *event, bool ok)
{
    (void)ok;
    ps_loop_stop(PS_CONTAINER_OF(event, running, stopped)->loop);
}

/* --- the data directory ----------------------------------------------------- */

/* The entries of a node's data directory that older versions let other users open; ps_dir_lock
 * closes them. */
static const char *const entries[] = {"node-id", "sessions", "datasets", NULL};

/* Locks the given data directory, or the first default one that no other process has locked. */
static ps_status take_data_dir(const char *given, const char *name, char *path, size_t cap, int *fd)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state != NULL && state[0] == '/';
    ps_status st = ps_ok();

    if (given != NULL) {
        if (strlen(given) >= cap) {
            return ps_fail(PS_INVALID_ARGUMENT, "--data-dir is too long");
        }
        snprintf(path, cap, "%s", given);
        return ps_dir_lock(path, entries, fd);
    }
    if (!has_state && (home == NULL || home[0] != '/')) {
        return ps_fail(PS_FAILED_PRECONDITION, "no home directory: set --data-dir");
    }
    for (unsigned i = 1; i <= DIRS_MAX; i++) {
        char number[16] = "";

        if (i > 1) {
            snprintf(number, sizeof number, "-%u", i);
        }
        snprintf(path, cap, "%s%s/psgd/%s%s", has_state ? state : home,
                 has_state ? "" : "/.local/state", name, number);
        st = ps_dir_lock(path, entries, fd);
        if (st.code != PS_UNAVAILABLE) {
            return st;
        }
    }
    return st;
}

/* --- the program ------------------------------------------------------------ */

static ps_status start_node(running *r, const ps_node_program *program, void *state,
                            ps_node_conf *conf, bool any_port)
{
    char free_port[PS_ADDRESS_TEXT_BYTES];
    ps_node_conf elsewhere = *conf;
    ps_address address;
    ps_service extra[PS_NODE_SERVICES_MAX];
    size_t count = program->services != NULL ? program->services(state, extra) : 0;
    ps_status st = ps_node_start(r->loop, conf, program->hooks, state, extra, count, &r->node);

    if (st.code == PS_UNAVAILABLE && any_port) {
        ps_log(PS_LOG_INFO, "main", "%s is in use; taking a free port", conf->listen);
        st = ps_address_parse(conf->listen, "", 0, &address);
        address.port = 0;
        ps_address_format(&address, free_port);
        elsewhere.listen = free_port;
        if (!ps_is_ok(&st)) {
            return st;
        }
        st = ps_node_start(r->loop, &elsewhere, program->hooks, state, extra, count, &r->node);
    }
    return st;
}

/* Tries TLS with each coordinator of the list, and logs why it fails. The link to them, which tries
 * again and again, learns no reason from gRPC. */
static void try_coordinators(const ps_tls *tls, const char *list)
{
    char one[PS_ADDRESS_TEXT_BYTES];

    while (list[0] != '\0') {
        size_t n = strcspn(list, ",");
        ps_status st;

        snprintf(one, sizeof one, "%.*s", (int)n, list);
        st = ps_tls_probe(tls, one, PS_PRINCIPAL_COORDINATOR, "", probe_us);
        if (!ps_is_ok(&st)) {
            ps_log(PS_LOG_WARN, "main", "coordinator %s", st.text);
        }
        list += n + (list[n] == ',');
    }
}

/* Protects the node's links as settings say. With TLS the node id is that of the certificate; fails
 * if --node-id is another. */
static ps_status protect(ps_loop *loop, const chosen *c, ps_node_conf *conf, ps_tls **tls)
{
    ps_status st = ps_protect_loop(loop, &c->protect, tls);
    const char *name;

    if (!ps_is_ok(&st) || *tls == NULL) {
        return st;
    }
    name = ps_tls_own(*tls)->subject.who.name;
    if (conf->node_id != NULL && conf->node_id[0] != '\0' && strcmp(conf->node_id, name) != 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "--node-id %s: the certificate in --tls-dir is of node/%s; leave --node-id "
                       "out, or get a certificate of node/%s",
                       conf->node_id, name, conf->node_id);
    }
    conf->node_id = name;
    try_coordinators(*tls, conf->coordinator);
    return ps_ok();
}

static int run(const ps_node_program *program, const chosen *c, ps_node_conf *conf,
               const settings *s, bool any_port)
{
    running r = {.grace_us = s->grace_us,
                 .checkpoint_us = s->checkpoint_us,
                 .stop.fire = begin_stop,
                 .stopped.fire = end_loop};
    ps_signals signals;
    void *state = NULL;
    ps_tls *tls = NULL;
    ps_status st = ps_loop_create(&r.loop);

    if (ps_is_ok(&st)) {
        st = protect(r.loop, c, conf, &tls);
    }
    if (ps_is_ok(&st)) {
        st = program->create(r.loop, conf, &state);
    }
    if (ps_is_ok(&st)) {
        st = start_node(&r, program, state, conf, any_port);
    }
    if (ps_is_ok(&st)) {
        program->set_node(state, r.node);
        st = ps_signals_start(&signals, on_signal, &r);
    }
    if (!ps_is_ok(&st)) {
        /* What was started is not stopped: it ends with the process. */
        fprintf(stderr, "%s: %s\n", program->name, st.text);
        return EXIT_CANNOT;
    }
    ps_supervisor_ready(&r.supervisor, r.loop);
    ps_loop_run(r.loop);
    ps_signals_stop(&signals);
    ps_loop_destroy(r.loop);
    program->destroy(state);
    ps_tls_release(tls);
    return EXIT_GOOD;
}

static int complain(const ps_node_program *program, const ps_status *st)
{
    fprintf(stderr, "%s: %s\nTry '%s --help'.\n", program->name, st->text, program->name);
    return EXIT_ARGUMENTS;
}

static void start_log(const ps_node_program *program, const settings *s)
{
    ps_log_level level = PS_LOG_INFO;
    ps_log_format format = isatty(STDERR_FILENO) ? PS_LOG_TEXT : PS_LOG_JSON;

    (void)ps_log_level_find(s->log_level, &level); /* the option table allows valid levels only */
    if (s->log_format != NULL) {
        (void)ps_log_format_find(s->log_format, &format);
    }
    ps_log_init(program->name, level, format);
    ps_log_keep(PS_NODE_LOG_KEPT);
}

/* Returns the number of threads for a setting. 0 stands for half of the processors that this
 * process may use, at least 1 and at most THREADS_DEFAULT. Half, because on two processors, which a
 * server shared with a worker, a second thread made jobs with embeddings take a third longer. */
static uint32_t threads_of(int64_t setting)
{
    cpu_set_t may;
    int count = sched_getaffinity(0, sizeof may, &may) == 0 ? CPU_COUNT(&may) : 1;

    if (setting > 0) {
        return (uint32_t)setting;
    }
    count /= 2;
    return count > THREADS_DEFAULT ? THREADS_DEFAULT : count > 0 ? (uint32_t)count : 1;
}

/* Has the node listen at the address by which it reaches the (first) coordinator, because others
 * reach it there. */
static ps_status listen_as_seen(chosen *c)
{
    char first[PS_ADDRESS_TEXT_BYTES], host[PS_LOCAL_HOST_BYTES];
    ps_address listen;
    ps_status st = ps_address_parse(c->listen, "", 0, &listen);

    snprintf(first, sizeof first, "%.*s", (int)strcspn(c->coordinator, ","), c->coordinator);
    if (ps_is_ok(&st)) {
        st = ps_wrap(ps_join_local_host(first, host), "--coordinator");
    }
    if (ps_is_ok(&st)) {
        snprintf(listen.host, sizeof listen.host, "%s", host);
        ps_address_format(&listen, c->listen);
    }
    return st;
}

/* Gets a certificate by the token of --join, into --tls-dir or else `tls` in the data directory. */
static ps_status join(const settings *s, chosen *c)
{
    ps_join_token token;
    ps_status st = ps_ok();

    if (s->tls_dir == NULL || s->tls_dir[0] == '\0') {
        st = ps_path_join(c->tls_dir, sizeof c->tls_dir, c->data_dir, "tls");
        c->protect.tls_dir = c->tls_dir;
    }
    if (ps_is_ok(&st)) {
        st = ps_join_token_parse(s->join, &token);
    }
    if (ps_is_ok(&st)) {
        st = ps_join_cluster(&token, c->coordinator, c->protect.tls_dir);
    }
    return ps_wrap(st, "--join");
}

/* Completes the settings with defaults into *out, and checks what the option table does not. */
static ps_status take_settings(const ps_node_program *program, const settings *s,
                               bool is_default_listen, chosen *out)
{
    bool joins = s->join != NULL && s->join[0] != '\0';
    ps_join_token token;
    ps_address listen;
    char advertise[PS_ADDRESS_TEXT_BYTES];
    ps_status st = ps_address_parse(program->listen, "", 0, &listen);

    if (ps_is_ok(&st)) {
        st = ps_address_complete("--listen", s->listen, listen.host, listen.port, out->listen);
    }
    if (ps_is_ok(&st)) {
        st = ps_follow_complete("--coordinator", s->coordinator, "127.0.0.1", COORDINATOR_PORT,
                                out->coordinator);
    }
    if (ps_is_ok(&st) && joins) {
        st = ps_wrap(ps_join_token_parse(s->join, &token), "--join");
    }
    if (ps_is_ok(&st) && joins && is_default_listen) {
        st = listen_as_seen(out);
    }
    if (ps_is_ok(&st) && s->advertise != NULL && s->advertise[0] != '\0') {
        st = ps_address_complete("--advertise", s->advertise, listen.host, listen.port, advertise);
    }
    if (ps_is_ok(&st) && s->node_id != NULL && s->node_id[0] != '\0' &&
        !ps_plain_name_is_valid(s->node_id, PS_PLAIN_NAME_NODE)) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "--node-id: \"%s\": 1 to 64 of A-Z a-z 0-9 . _ - are allowed",
                     PS_SHORT(s->node_id, 80));
    }
    out->conf = (ps_node_conf){
        .listen = out->listen,
        .ops = out->ops,
        .advertise = s->advertise,
        .coordinator = out->coordinator,
        .node_id = s->node_id,
        .data_path = s->data_path,
        .data_cache_bytes = (uint64_t)s->data_cache_mib << 20,
        .min_free_bytes = (uint64_t)s->min_free_mib << 20,
        .threads = program->has_threads ? threads_of(s->threads) : 0,
        .loop = s->loop != NULL && s->loop[0] != '\0' ? s->loop : NULL,
        .loop_fd = (int)s->loop_fd,
        .is_sockets_only = s->sockets_only,
    };
    if (ps_is_ok(&st) && out->conf.loop != NULL &&
        (!ps_plain_name_is_valid(s->loop, PS_PLAIN_NAME_NODE) || s->loop[0] == '.')) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "--loop: \"%s\": 1 to 64 of A-Z a-z 0-9 . _ - are allowed, no dot in front",
                     PS_SHORT(s->loop, 80));
    }
    out->protect = (ps_protect_conf){
        .program = program->name,
        .listen = out->listen,
        .tls_dir = joins && (s->tls_dir == NULL || s->tls_dir[0] == '\0') ? "tls" : s->tls_dir,
        .is_insecure = s->insecure,
        .kind = PS_PRINCIPAL_NODE};
    if (ps_is_ok(&st)) {
        st = ps_protect_check(&out->protect);
    }
    if (ps_is_ok(&st) && s->ops != NULL && s->ops[0] != '\0') {
        st = ps_ops_check(s->ops, &out->protect, out->ops);
    }
    for (size_t i = 0; i < s->faults.n && ps_is_ok(&st); i++) {
        st = ps_faults_add(&out->conf.faults, s->faults.items[i]);
    }
    return st;
}

static int run_with(const ps_node_program *program, const settings *s, const ps_config *config)
{
    bool is_default_listen = ps_config_source_of(config, "listen") == PS_FROM_DEFAULT;
    chosen c = {.listen = ""}; /* without --ops, `ops` stays empty */
    char kernels[PS_NN_KERNELS_BYTES];
    int lock = -1, code;
    ps_status st = take_settings(program, s, is_default_listen, &c);

    if (ps_is_ok(&st)) {
        st = ps_cpu_init();
    }
    if (!ps_is_ok(&st)) {
        return complain(program, &st);
    }
    ps_nn_init_process();
    start_log(program, s);
    ps_log(PS_LOG_INFO, "main", "kernels: %s", ps_nn_kernels(kernels));
    st = take_data_dir(s->data_dir, program->name, c.data_dir, sizeof c.data_dir, &lock);
    if (ps_is_ok(&st) && s->join != NULL && s->join[0] != '\0') {
        st = join(s, &c);
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s: %s\n", program->name, st.text);
        return EXIT_CANNOT;
    }
    c.conf.data_dir = c.data_dir;
    c.conf.tls_dir =
        c.protect.tls_dir != NULL && c.protect.tls_dir[0] != '\0' ? c.protect.tls_dir : NULL;
    code = run(program, &c, &c.conf, s, is_default_listen);
    close(lock);
    return code;
}

/* Copies a join token, and hides it in the command line, which other users of the host can read. */
static void take_join(settings *s, char **argv, char join[PS_JOIN_TOKEN_BYTES])
{
    static const char scheme[] = "psgd-join:";

    if (s->join == NULL) {
        return;
    }
    snprintf(join, PS_JOIN_TOKEN_BYTES, "%s", s->join);
    s->join = join;
    for (char **at = argv; *at != NULL; at++) {
        char *token = strstr(*at, scheme);

        if (token != NULL) {
            token += sizeof scheme - 1;
            memset(token, '-', strlen(token));
        }
    }
}

int ps_node_main(int argc, char **argv, const ps_node_program *program)
{
    const ps_option options[] = {
        PS_OPTION_STRING(settings, listen, .name = "listen", .letter = 'l', .env = "PSGD_LISTEN",
                         .value = program->listen, .metavar = "HOST:PORT",
                         .help =
                             "address to listen on; port 0: any free port; if the default port is "
                             "in use, a free one"),
        PS_OPTION_STRING(settings, advertise, .name = "advertise", .env = "PSGD_ADVERTISE",
                         .metavar = "HOST[:PORT]",
                         .help = "address at which others reach it (default: that of --listen)"),
        PS_OPTION_STRING(settings, ops, .name = "ops", .env = "PSGD_OPS", .metavar = "HOST:PORT",
                         .help = PS_OPS_HELP),
        PS_OPTION_STRING(settings, tls_dir, .name = "tls-dir", .env = "PSGD_TLS_DIR",
                         .metavar = "DIR", .help = PS_PROTECT_TLS_HELP),
        PS_OPTION_STRING(settings, join, .name = "join", .env = "PSGD_JOIN", .metavar = "TOKEN",
                         .help = "get a certificate from the coordinator by this token (psgd pki "
                                 "token), unless --tls-dir has one; listen where the coordinator "
                                 "can reach it, unless --listen says otherwise"),
        PS_OPTION_BOOL(settings, insecure, .name = "insecure", .env = "PSGD_INSECURE",
                       .help = PS_PROTECT_INSECURE_HELP),
        PS_OPTION_STRING(settings, coordinator, .name = "coordinator", .letter = 'c',
                         .env = "PSGD_COORDINATOR", .value = "127.0.0.1:15386",
                         .metavar = "HOST:PORT,...",
                         .help = "address of the coordinator; of several, the one that leads is "
                                 "followed"),
        PS_OPTION_STRING(
            settings, data_dir, .name = "data-dir", .letter = 'd', .env = "PSGD_DATA_DIR",
            .metavar = "DIR",
            .help = "folder for its id, data sets and running jobs (default: an unused one "
                    "in $XDG_STATE_HOME/psgd or ~/.local/state/psgd)"),
        PS_OPTION_STRING(
            settings, data_path, .name = "data-path", .env = "PSGD_DATA", .metavar = "DIR",
            .help = "folder of data sets that are there already, with DIR/mnist and others"),
        PS_OPTION_INT(settings, data_cache_mib, .name = "data-cache", .env = "PSGD_DATA_CACHE",
                      .value = "20480", .min = 0, .max = 1e9, .metavar = "MIB",
                      .help =
                          "disk space for data sets that it receives; the least recently used are "
                          "removed, a larger one is refused; 0: no limit, but no set is kept "
                          "after its job"),
        PS_OPTION_INT(settings, min_free_mib, .name = "min-free", .env = "PSGD_MIN_FREE",
                      .value = "64", .min = 0, .max = 1e9, .metavar = "MIB",
                      .help = "free space on the disk of --data-dir below which it gets no job; 0: "
                              "no limit"),
        PS_OPTION_STRING(
            settings, node_id, .name = "node-id", .env = "PSGD_NODE_ID", .metavar = "ID",
            .help = "its name (default: drawn at random at the first start, then kept)"),
        PS_OPTION_DURATION(settings, grace_us, .name = "grace", .env = "PSGD_GRACE", .value = "5s",
                           .min = 0, .max = 86400e6,
                           .help = "how long a running job may go on after SIGTERM"),
        PS_OPTION_DURATION(settings, checkpoint_us, .name = "checkpoint-grace",
                           .env = "PSGD_CHECKPOINT_GRACE", .value = "30s", .min = 0, .max = 86400e6,
                           .help = "after SIGTERM, longest wait for a last checkpoint of a running "
                                   "job, which then goes on without this node, or ends; 0: takes "
                                   "none"),
        PS_OPTION_BOOL(settings, sockets_only, .name = "sockets-only", .env = "PSGD_SOCKETS_ONLY",
                       .help = "send all payloads by sockets; else those between a worker and a "
                               "server of one host and one user go through shared memory"),
        PS_OPTION_STRING(settings, log_level, .name = "log-level", .env = "PSGD_LOG_LEVEL",
                         .value = "info", .choices = "error|warn|info|debug",
                         .help = "lowest level of lines that are logged"),
        PS_OPTION_STRING(settings, log_format, .name = "log-format", .env = "PSGD_LOG_FORMAT",
                         .choices = "json|text",
                         .help = "format of the log (default: text on a terminal, else json)"),
        PS_OPTION_LIST(settings, faults, .name = "fault", .env = "PSGD_FAULT", .metavar = "FAULT",
                       .help = "for tests: fail on purpose by exit-at:PHASE, stop-at:PHASE or "
                               "drop-ack:N"),
        PS_OPTION_END,
    };
    const ps_option threads[] = {
        PS_OPTION_INT(settings, threads, .name = "threads", .letter = 'T', .env = "PSGD_THREADS",
                      .value = "0", .min = 0, .max = PS_THREADS_MAX, .metavar = "N",
                      .help =
                          "threads, each with a part of its slices; 0: half as many as there are "
                          "processors, at most 4"),
        PS_OPTION_END,
    };
    const ps_option loop[] = {
        PS_OPTION_STRING(settings, loop, .name = "loop", .metavar = "TITLE",
                         .help = "take only jobs of this title, whose model the program computes "
                                 "that has started this worker (libpsgd)"),
        PS_OPTION_INT(settings, loop_fd, .name = "loop-fd", .value = "-1", .min = -1,
                      .max = 1 << 20, .metavar = "FD",
                      .help = "socket to that program; libpsgd sets it"),
        PS_OPTION_END,
    };
    const ps_option_table tables[] = {{.options = options},
                                      {.title = program->has_loop ? "Your own loop" : "Speed",
                                       .options = program->has_loop      ? loop
                                                  : program->has_threads ? threads
                                                                         : NULL},
                                      {.options = NULL}};
    const ps_command command = {
        .name = program->name,
        .summary = program->summary,
        .tables = tables,
        .has_file = true,
        .notes = "SIGTERM and SIGINT drain: no new job is accepted, and a running job may continue "
                 "for the time of --grace. A second signal ends the process at once. " PS_CPU_HELP,
    };
    settings s = {0};
    void *bases[] = {&s, &s};
    ps_config *config = NULL;
    ps_older_args older;
    ps_strbuf text = {0};
    char kernels[PS_NN_KERNELS_BYTES];
    ps_status st;
    int code = EXIT_GOOD;
    char join[PS_JOIN_TOKEN_BYTES];

    ps_signals_block();
    ps_rpc_init_process();
    ps_files_private();
    st = ps_older_args_init(&older, program->has_threads ? PS_OLDER_PSERVER : PS_OLDER_WORKER,
                            program->name, argc, argv, &text);
    fputs(ps_strbuf_text(&text), stderr);
    ps_strbuf_clear(&text);
    if (ps_is_ok(&st)) {
        st = ps_config_load(&command, older.argc, older.argv, bases, &config);
    }
    if (!ps_is_ok(&st)) {
        ps_older_args_fini(&older);
        return complain(program, &st);
    }
    take_join(&s, argv, join);
    if (config->wants_help || config->wants_version) {
        if (config->wants_help) {
            ps_config_help(&command, &text);
        } else {
            ps_config_version(&command, ps_nn_kernels(kernels), &text);
        }
        fputs(ps_strbuf_text(&text), stdout);
        ps_strbuf_fini(&text);
    } else {
        code = run_with(program, &s, config);
    }
    ps_config_destroy(config);
    ps_older_args_fini(&older);
    return code;
}
