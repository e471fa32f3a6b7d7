/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - psgd-coordinator: settings, then one loop until a signal. */
#include "common/base/address.h"
#include "common/base/config.h"
#include "common/base/container_of.h"
#include "common/base/cpu.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/memory_limit.h"
#include "common/base/shorten.h"
#include "common/base/signals.h"
#include "common/data/packed.h"
#include "common/nn/blas.h"
#include "common/pki/join.h"
#include "common/rpc/process.h"
#include "common/rpc/protect.h"
#include "common/rpc/serve.h"
#include "common/rpc/supervisor.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/coordinator_life.h"
#include "services/coordinator/coordinator_metrics.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/database_copy.h"
#include "services/coordinator/io/recover.h"
#include "services/coordinator/joins.h"
#include "services/coordinator/trackers.h"
#include "services/coordinator/web/web.h"

#include <errno.h>
#include <linux/close_range.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_PORT = 15386, EXIT_USAGE = 4 };

/* how long calls in progress may last when the coordinator is told to stop. grace_of_several_us:
 * with etcd, where another coordinator can lead and clients follow it. */
static const int64_t grace_us = 2000000, grace_of_several_us = 300000;

typedef struct settings {
    const char *listen, *advertise, *data_dir, *checkpoint_path, *data_path, *log_level,
        *log_format, *fault, *backup;
    const char *tls_dir, *tokens, *quotas, *registry, *ops, *web;
    const char *etcd_ca, *etcd_cert, *etcd_key;
    const char *pki, *join_listen;
    const char *code;
    const char *tracker_allow, *tracker_logins;
    int64_t heartbeat_us, lease_us, leader_lease_us, checkpoint_us, grow_us;
    int64_t min_free_mib, max_memory_mib;
    int64_t max_unpacked_mib, cert_life_us;
    bool recover, insecure;
} settings;

static const ps_option options[] = {
    PS_OPTION_STRING(settings, listen, .name = "listen", .letter = 'l', .env = "PSGD_LISTEN",
                     .value = "127.0.0.1:15386", .metavar = "HOST:PORT",
                     .help = "address to listen on; port 0: any free port, which is printed"),
    PS_OPTION_STRING(settings, advertise, .name = "advertise", .env = "PSGD_ADVERTISE",
                     .metavar = "HOST[:PORT]",
                     .help = "address that nodes are told (default: that of --listen)"),
    PS_OPTION_STRING(settings, ops, .name = "ops", .env = "PSGD_OPS", .metavar = "HOST:PORT",
                     .help = PS_OPS_HELP),
    PS_OPTION_STRING(settings, web, .name = "web", .env = "PSGD_WEB", .metavar = "HOST:PORT",
                     .help = PS_WEB_HELP),
    PS_OPTION_STRING(settings, tls_dir, .name = "tls-dir", .env = "PSGD_TLS_DIR", .metavar = "DIR",
                     .help = PS_PROTECT_TLS_HELP),
    PS_OPTION_STRING(settings, tokens, .name = "tokens", .env = "PSGD_TOKENS", .metavar = "FILE",
                     .help = "users may also prove who they are by a token of this file (psgd "
                             "token) instead of a certificate; needs --tls-dir"),
    PS_OPTION_STRING(settings, pki, .name = "pki", .env = "PSGD_COORDINATOR_PKI", .metavar = "DIR",
                     .help = "folder of the authority (psgd pki init): nodes may join by a token "
                             "(psgd pki token), and the certificates of nodes are renewed; needs "
                             "--tls-dir"),
    PS_OPTION_STRING(settings, join_listen, .name = "join-listen", .env = "PSGD_JOIN_LISTEN",
                     .metavar = "HOST:PORT",
                     .help = "with --pki: where nodes join (default: the host of --listen, port "
                             "15389)"),
    PS_OPTION_DURATION(settings, cert_life_us, .name = "node-cert-life",
                       .env = "PSGD_NODE_CERT_LIFE", .value = "1d", .min = 20e6,
                       .max = 365 * 86400e6,
                       .help = "with --pki: how long certificates of nodes are valid; a node asks "
                               "for another after two thirds of it"),
    PS_OPTION_STRING(settings, quotas, .name = "quotas", .env = "PSGD_QUOTAS", .metavar = "FILE",
                     .help = "how many jobs, workers, parameters and bytes of files each submitter "
                             "may have (docs/security.md); needs --tls-dir"),
    PS_OPTION_STRING(settings, code, .name = "code", .env = "PSGD_CODE", .value = "admin",
                     .choices = "admin|submitter|off",
                     .help =
                         "who may submit jobs with code (docs/code.md): admins, submitters too, "
                         "or nobody; without TLS everybody is an admin"),
    PS_OPTION_STRING(settings, tracker_allow, .name = "tracker-allow", .env = "PSGD_TRACKER_ALLOW",
                     .metavar = "HOST:PORT,...",
                     .help = "trackers that jobs may name (docs/trackers.md); off: none (default: "
                             "those of this host if --listen is on loopback, else none)"),
    PS_OPTION_STRING(settings, tracker_logins, .name = "tracker-logins",
                     .env = "PSGD_TRACKER_LOGINS", .metavar = "FILE",
                     .help =
                         "tokens and passwords for trackers; only its owner may read it. Others "
                         "get MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
                         "MLFLOW_TRACKING_PASSWORD, of the environment"),
    PS_OPTION_BOOL(settings, insecure, .name = "insecure", .env = "PSGD_INSECURE",
                   .help = PS_PROTECT_INSECURE_HELP),
    PS_OPTION_STRING(settings, data_dir, .name = "data-dir", .letter = 'd', .env = "PSGD_DATA_DIR",
                     .metavar = "DIR",
                     .help = "folder for jobs and their files (default: "
                             "~/.local/state/psgd/psgd-coordinator)"),
    PS_OPTION_STRING(settings, checkpoint_path, .name = "checkpoint-path",
                     .env = "PSGD_CHECKPOINT_PATH", .metavar = "DIR",
                     .help = "folder for the checkpoints of new jobs, such as one of another disk; "
                             "it exists already. With etcd all coordinators share it (default: "
                             "with the job's files in --data-dir)"),
    PS_OPTION_STRING(settings, registry, .name = "registry", .env = "PSGD_REGISTRY",
                     .value = "sqlite:", .metavar = "URL",
                     .help = "where jobs are stored: sqlite: (jobs.db in --data-dir), or "
                             "etcd://HOST:PORT,.../PREFIX for several coordinators, of which one "
                             "leads and all share the folder --data-dir; etcds://... by TLS"),
    PS_OPTION_STRING(settings, etcd_ca, .name = "etcd-ca", .env = "PSGD_ETCD_CA", .metavar = "FILE",
                     .help = "with etcds://: certificates of the authorities of etcd, in PEM"),
    PS_OPTION_STRING(settings, etcd_cert, .name = "etcd-cert", .env = "PSGD_ETCD_CERT",
                     .metavar = "FILE",
                     .help = "with etcds://: the certificate that etcd is shown, in PEM"),
    PS_OPTION_STRING(settings, etcd_key, .name = "etcd-key", .env = "PSGD_ETCD_KEY",
                     .metavar = "FILE", .help = "with --etcd-cert: its private key, in PEM"),
    PS_OPTION_DURATION(settings, leader_lease_us, .name = "leader-lease",
                       .env = "PSGD_LEADER_LEASE", .value = "2s", .min = 2e6, .max = 60e6,
                       .help = "with etcd: time after which another coordinator leads if the "
                               "leader is gone; whole seconds"),
    PS_OPTION_STRING(settings, data_path, .name = "data-path", .env = "PSGD_DATA", .metavar = "DIR",
                     .help = "folder of the data sets, with DIR/mnist and others"),
    PS_OPTION_DURATION(settings, heartbeat_us, .name = "heartbeat", .env = "PSGD_HEARTBEAT",
                       .value = "500ms", .min = 10e3, .max = 60e6,
                       .help = "time between two heartbeats of a node"),
    PS_OPTION_DURATION(settings, lease_us, .name = "lease", .env = "PSGD_LEASE", .value = "10s",
                       .min = 50e3, .max = 600e6,
                       .help =
                           "time without a heartbeat after which an idle node counts as lost, at "
                           "least three times --heartbeat; a job has its own "
                           "(timeouts.lease_ms)"),
    PS_OPTION_DURATION(settings, checkpoint_us, .name = "checkpoint-grace",
                       .env = "PSGD_CHECKPOINT_GRACE", .value = "0s", .min = 0, .max = 86400e6,
                       .help = "when it is stopped by SIGTERM: longest wait for a last checkpoint "
                               "of the running jobs that have checkpoints; 0: takes none"),
    PS_OPTION_DURATION(settings, grow_us, .name = "grow-interval", .env = "PSGD_GROW_INTERVAL",
                       .value = "60s", .min = 0, .max = 86400e6,
                       .help = "time for which a job trains before idle workers join it "
                               "(workers_min, workers_max), so that this costs less than it gives"),
    PS_OPTION_INT(settings, min_free_mib, .name = "min-free", .env = "PSGD_MIN_FREE", .value = "64",
                  .min = 0, .max = 1e9, .metavar = "MIB",
                  .help = "free space on the disk of --data-dir below which no job is accepted or "
                          "started; running jobs continue; on that of --checkpoint-path no "
                          "checkpoint is stored; 0: no limit"),
    PS_OPTION_INT(settings, max_memory_mib, .name = "max-memory", .env = "PSGD_MAX_MEMORY",
                  .value = "0", .min = 0, .max = 1e9, .metavar = "MIB",
                  .help = "memory for the initial weights of all jobs that are being started; "
                          "other jobs wait; 0: half of the host's memory, or of the limit of "
                          "its control group (cgroup)"),
    PS_OPTION_INT(settings, max_unpacked_mib, .name = "max-unpacked", .env = "PSGD_MAX_UNPACKED",
                  .value = "65536", .min = 0, .max = 1e9, .metavar = "MIB",
                  .help = "largest size of an unpacked file of a data set; 0: no limit"),
    PS_OPTION_STRING(settings, log_level, .name = "log-level", .env = "PSGD_LOG_LEVEL",
                     .value = "info", .choices = "error|warn|info|debug",
                     .help = "lowest level of lines that are logged"),
    PS_OPTION_STRING(settings, log_format, .name = "log-format", .env = "PSGD_LOG_FORMAT",
                     .value = "text", .choices = "text|json",
                     .help = "format of the log on stderr"),
    PS_OPTION_STRING(settings, backup, .name = "backup", .metavar = "FILE",
                     .help = "copy the registry (jobs.db) to FILE, replacing an older backup, and "
                             "exit; a coordinator may be running"),
    PS_OPTION_BOOL(settings, recover, .name = "recover",
                   .help = "add jobs that are missing from the registry, from summary.json and "
                           "manifest.json of their folders, print them, and exit; no coordinator "
                           "may be running"),
    PS_OPTION_STRING(settings, fault, .name = "fault", .metavar = "exit-at:STATE",
                     .help = "for tests: kill this process when a job enters the state"),
    PS_OPTION_END,
};

static const ps_option_table tables[] = {{NULL, options}, {NULL, NULL}};

static const ps_command command = {
    .name = "psgd-coordinator",
    .summary = "Accepts training jobs, starts them on workers and parameter servers, monitors "
               "them and stores their results. Users need only its address.",
    .tables = tables,
    .has_file = true,
    .examples = "psgd-coordinator\n"
                "psgd-coordinator --listen 0.0.0.0:15386 --advertise coordinator.example:15386 "
                "--tls-dir /etc/psgd/tls\n"
                "psgd-coordinator --data-path ~/data --log-format json\n"
                "psgd-coordinator --registry etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 "
                "--data-dir /shared/psgd\n"
                "psgd-coordinator --backup /srv/backup/jobs.db\n"
                "psgd-coordinator --recover",
    .notes = "SIGTERM or SIGINT stops it in order: running jobs continue without it, maybe after a "
             "checkpoint (--checkpoint-grace), and it monitors them again after a restart. A "
             "second signal ends it at once. " PS_CPU_HELP,
};

/* The state of the process. The loop's thread uses it; start_again, on any thread, uses only `argv`
 * and `is_stopping`. */
typedef struct program {
    ps_loop *loop;
    ps_coordinator *coordinator;
    ps_service service;
    ps_server *server;
    char ops_at[PS_ADDRESS_TEXT_BYTES]; /* address of --ops, complete; empty: --ops is not set */
    ps_ops *ops;                        /* serves --ops; NULL: nothing does */
    char web_at[PS_ADDRESS_TEXT_BYTES]; /* where the page is served; empty: nowhere */
    bool is_web_asked;                  /* --web is set */
    ps_web *web;                        /* NULL: no page */
    ps_joins *joins;                    /* NULL: nobody may join */
    int64_t checkpoint_us;
    ps_event stop;  /* posted by the first signal */
    ps_event saved; /* posted when all last checkpoints are stored or given up */
    ps_event down;  /* posted when `server` has stopped */
    ps_signals signals;
    ps_supervisor supervisor;
    ps_etcd *etcd;           /* NULL: the registry is jobs.db, which no other coordinator can use */
    char **argv;             /* the program's arguments, for start_again */
    atomic_bool is_stopping; /* the process ends: start_again returns */
} program;

static void on_signal(void *arg, int signo)
{
    program *p = arg;

    (void)signo;
    ps_loop_post(p->loop, &p->stop);
}

/* Replaces this process by a new one of the same program, which follows: what this process knows is
 * not what the new leader stores. Does nothing if the process ends anyway. Any thread. */
static void start_again(void *arg, const char *why)
{
    const program *p = arg;

    if (atomic_load(&p->is_stopping)) {
        return;
    }
    ps_log(PS_LOG_WARN, "leader", "leads no longer: %s; starts again, to follow", why);
    fflush(stdout);
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    execv(strchr(p->argv[0], '/') ? p->argv[0] : "/proc/self/exe", p->argv);
    ps_log(PS_LOG_ERROR, "leader", "cannot start again: %s", strerror(errno));
    _exit(EXIT_FAILURE);
}

static void stop_now(program *p)
{
    ps_coordinator_drain(p->coordinator);
    ps_server_stop(p->server, p->etcd ? grace_of_several_us : grace_us, &p->down);
}

static void on_stop(ps_event *event, bool ok)
{
    program *p = PS_CONTAINER_OF(event, program, stop);

    if (!ok) {
        return;
    }
    ps_supervisor_stopping();
    ps_log(PS_LOG_INFO, "main", "stopping; running jobs continue without the coordinator");
    atomic_store(&p->is_stopping, true);
    if (p->checkpoint_us > 0) {
        ps_coordinator_last_checkpoints(p->coordinator, p->checkpoint_us, &p->saved);
    } else {
        stop_now(p);
    }
}

static void on_saved(ps_event *event, bool ok)
{
    if (ok) {
        stop_now(PS_CONTAINER_OF(event, program, saved));
    }
}

static void on_down(ps_event *event, bool ok)
{
    program *p = PS_CONTAINER_OF(event, program, down);

    (void)ok;
    p->server = NULL;
    ps_joins_stop(p->joins);
    p->joins = NULL;
    ps_ops_stop(p->ops);
    p->ops = NULL;
    ps_web_stop(p->web);
    p->web = NULL;
    ps_coordinator_stop(p->coordinator);
    ps_loop_stop(p->loop);
}

static ps_status read_fault(const char *text, Psgd__V1__JobState *state)
{
    const ProtobufCEnumDescriptor *type = &psgd__v1__job_state__descriptor;
    char name[64];
    const ProtobufCEnumValue *value;

    *state = PSGD__V1__JOB_STATE__JOB_STATE_UNSPECIFIED;
    if (!text) {
        return ps_ok();
    }
    if (strncmp(text, "exit-at:", 8) != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "--fault %s: exit-at:STATE is allowed", text);
    }
    snprintf(name, sizeof name, "JOB_STATE_%.40s", text + 8);
    value = protobuf_c_enum_descriptor_get_value_by_name(type, name);
    if (!value || value->value == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "--fault: %s is no state of a job", text + 8);
    }
    *state = (Psgd__V1__JobState)value->value;
    return ps_ok();
}

/* Finds the address that nodes and users are told: --advertise; else the address to which the
 * server is bound, with the host's name if it is bound to all addresses. */
static ps_status find_address(const settings *s, const ps_address *bound, char *out, size_t cap)
{
    char text[PS_ADDRESS_TEXT_BYTES], host[PS_ADDRESS_HOST_BYTES];
    ps_address address = *bound;
    ps_status st = ps_ok();

    if (s->advertise && s->advertise[0] != '\0') {
        st = ps_address_parse(s->advertise, bound->host, bound->port, &address);
    } else if (ps_address_is_any(bound)) {
        if (gethostname(host, sizeof host) != 0) {
            return ps_fail(PS_FAILED_PRECONDITION, "this host has no name: set --advertise");
        }
        host[sizeof host - 1] = '\0';
        st = ps_address_parse(host, "", bound->port, &address);
    }
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "--advertise");
    }
    ps_address_format(&address, text);
    if (strlen(text) >= cap) {
        return ps_fail(PS_INVALID_ARGUMENT, "address %s is too long", PS_SHORT(text, 60));
    }
    snprintf(out, cap, "%.*s", (int)cap - 1, text);
    return ps_ok();
}

/* Serves /metrics and the other paths of ops.h if --ops is set. */
static ps_status serve_ops(program *p)
{
    ps_ops_source source = ps_coordinator_ops(p->coordinator);

    return p->ops_at[0] != '\0'
               ? ps_ops_start(p->loop, p->ops_at, "psgd-coordinator", &source, &p->ops)
               : ps_ok();
}

/* Serves the web page, unless --web turns it off. If it cannot be served and the user has not set
 * --web, only logs that: a second coordinator on a host finds the default port taken. */
static ps_status serve_page(program *p, const ps_address *bound)
{
    ps_address self = *bound;
    char target[PS_ADDRESS_TEXT_BYTES];
    ps_status st;

    if (p->web_at[0] == '\0') {
        return ps_ok();
    }
    if (ps_address_is_any(&self)) {
        snprintf(self.host, sizeof self.host, "%s", strchr(self.host, ':') ? "::1" : "127.0.0.1");
    }
    ps_address_format(&self, target);
    st = ps_web_start(p->web_at, target, ps_loop_tls(p->loop), &p->service, &p->web);
    if (!ps_is_ok(&st) && !p->is_web_asked) {
        ps_log(PS_LOG_INFO, "web", "no page: %s", st.text);
        return ps_ok();
    }
    return st;
}

/* Begins to answer requests of nodes to join, if --pki names an authority. */
static ps_status let_join(program *p, const settings *s, const ps_address *bound)
{
    char listen[PS_ADDRESS_TEXT_BYTES];
    ps_address address = *bound;
    ps_status st = ps_ok();

    if (!s->pki || s->pki[0] == '\0') {
        return ps_ok();
    }
    address.port = PS_JOIN_PORT;
    if (s->join_listen && s->join_listen[0] != '\0') {
        st = ps_address_parse(s->join_listen, bound->host, PS_JOIN_PORT, &address);
    }
    if (ps_is_ok(&st)) {
        ps_address_format(&address, listen);
        st = ps_joins_start(p->coordinator, listen, s->tls_dir, &p->joins);
    }
    return st;
}

static ps_status serve(program *p, const settings *s, const char *at)
{
    ps_address bound;
    char listen[PS_ADDRESS_TEXT_BYTES], address[160];
    ps_status st = ps_address_parse(at, "127.0.0.1", DEFAULT_PORT, &bound);

    if (!ps_is_ok(&st)) {
        return st;
    }
    snprintf(listen, sizeof listen, "%s", at);
    p->service = ps_coordinator_service(p->coordinator);
    p->service.admit = p->etcd ? ps_coordinator_admits : NULL;
    st = ps_serve(p->loop, &p->service, 1, listen, &p->server);
    if (!ps_is_ok(&st)) {
        return st;
    }
    bound.port = (uint16_t)ps_server_port(p->server);
    ps_address_format(&bound, listen);
    st = find_address(s, &bound, address, sizeof address);
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = let_join(p, s, &bound);
    if (!ps_is_ok(&st)) {
        return st;
    }
    printf("psgd-coordinator %s listening on %s\n", PS_VERSION, listen);
    fflush(stdout);
    if (ps_protection_of(p->loop, listen) == PS_PROTECTION_INSECURE) {
        ps_log(PS_LOG_WARN, "main",
               "listening on %s: the link is not protected, anybody who reaches it can use it",
               listen);
    }
    st = serve_ops(p);
    if (ps_is_ok(&st)) {
        st = serve_page(p, &bound);
    }
    return ps_is_ok(&st) ? ps_coordinator_open(p->coordinator, address) : st;
}

/* The default of --data-dir up to version 0.1.0, relative to the working directory. */
static const char former_data_dir[] = "psgd-data/coordinator";

/* Finds the data directory: --data-dir; else the former default, if it has a jobs.db; else
 * psgd/psgd-coordinator in XDG_STATE_HOME or in ~/.local/state. */
static ps_status find_data_dir(const settings *s, char *out, size_t cap)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;

    if (s->data_dir && s->data_dir[0] != '\0') {
        n = snprintf(out, cap, "%s", s->data_dir);
    } else if (access("psgd-data/coordinator/jobs.db", F_OK) == 0) {
        ps_log(PS_LOG_INFO, "main",
               "keeps jobs in %s, because it has jobs; --data-dir names another folder",
               former_data_dir);
        n = snprintf(out, cap, "%s", former_data_dir);
    } else if (state && state[0] == '/') {
        n = snprintf(out, cap, "%s/psgd/psgd-coordinator", state);
    } else if (home && home[0] == '/') {
        n = snprintf(out, cap, "%s/.local/state/psgd/psgd-coordinator", home);
    } else {
        return ps_fail(PS_FAILED_PRECONDITION, "no home directory: set --data-dir");
    }
    return n > 0 && (size_t)n < cap ? ps_ok()
                                    : ps_fail(PS_INVALID_ARGUMENT, "--data-dir is too long");
}

/* Makes the copy of jobs.db for which --backup asks, and prints what it is. */
static ps_status back_up(const char *data_dir, const char *to)
{
    ps_stamp stamp;
    ps_status st = ps_database_backup(data_dir, to, &stamp);

    if (ps_is_ok(&st)) {
        printf("%s: registry %s, made %s, %llu changes\n", to, stamp.id, stamp.created,
               (unsigned long long)stamp.changes);
    }
    return ps_wrap(st, "--backup");
}

/* Returns --max-memory in bytes; if it is 0 or less, half of the memory that the process may
 * have. */
static uint64_t memory_bytes(int64_t mib)
{
    return mib > 0 ? (uint64_t)mib << 20 : ps_memory_limit() / 2;
}

/* Prepares calls of etcd if --registry names it. Sets nothing for sqlite:. Fails for other values,
 * and for etcd if --listen has port 0. */
static ps_status open_etcd(program *p, const settings *s, const char *listen)
{
    ps_tls_files_conf files = {.ca = s->etcd_ca, .cert = s->etcd_cert, .key = s->etcd_key};
    ps_address address;
    ps_status st;

    if (strcmp(s->registry, "sqlite:") == 0) {
        return ps_ok();
    }
    if (!ps_etcd_is_url(s->registry)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "--registry %s: sqlite:, etcd://HOST:PORT,... or etcds://HOST:PORT,... is "
                       "allowed",
                       PS_SHORT(s->registry, 50));
    }
    st = ps_address_parse(listen, "127.0.0.1", DEFAULT_PORT, &address);
    if (ps_is_ok(&st) && address.port == 0) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--listen: with etcd, a coordinator needs a port that "
                                          "stays, because the others tell its address");
    }
    return ps_is_ok(&st) ? ps_etcd_create(s->registry, &files, &p->etcd) : st;
}

/* Fills in which trackers may be called, and with which logins, from the settings and the
 * environment. */
static ps_status find_trackers(const settings *s, const char *listen, ps_trackers_conf *out)
{
    ps_address address;
    ps_status st = ps_address_parse(listen, "127.0.0.1", DEFAULT_PORT, &address);

    *out =
        (ps_trackers_conf){.allowed = s->tracker_allow,
                           .listen_is_loopback = ps_is_ok(&st) && ps_address_is_loopback(&address),
                           .is_insecure = s->insecure,
                           .logins = s->tracker_logins,
                           .token = getenv("MLFLOW_TRACKING_TOKEN"),
                           .user = getenv("MLFLOW_TRACKING_USERNAME"),
                           .password = getenv("MLFLOW_TRACKING_PASSWORD"),
                           .ca = getenv("MLFLOW_TRACKING_SERVER_CERT_PATH")};
    return st;
}

/* Runs the coordinator until it is told to stop. `argv` are the program's arguments. */
static ps_status run(const settings *s, const char *data_dir, char **argv)
{
    const char *temp_dir = getenv("TMPDIR");
    ps_coordinator_conf conf = {.data_dir = data_dir,
                                .checkpoint_path = s->checkpoint_path,
                                .data_path = s->data_path,
                                .code = s->code,
                                .quotas = s->quotas,
                                .pki = s->pki,
                                .cert_life_s = s->cert_life_us / 1000000,
                                .heartbeat_us = s->heartbeat_us,
                                .lease_us = s->lease_us,
                                .leader_lease_us = s->leader_lease_us,
                                .grow_us = s->grow_us,
                                .temp_dir = temp_dir && temp_dir[0] == '/' ? temp_dir : "/tmp",
                                .max_memory_bytes = memory_bytes(s->max_memory_mib),
                                .min_free_bytes = (uint64_t)s->min_free_mib << 20};
    program p = {.checkpoint_us = s->checkpoint_us,
                 .stop.fire = on_stop,
                 .saved.fire = on_saved,
                 .down.fire = on_down,
                 .argv = argv};
    char kernels[PS_NN_KERNELS_BYTES], listen[PS_ADDRESS_TEXT_BYTES];
    ps_protect_conf protect = {.program = "psgd-coordinator",
                               .listen = listen,
                               .tls_dir = s->tls_dir,
                               .tokens = s->tokens,
                               .is_insecure = s->insecure,
                               .kind = PS_PRINCIPAL_COORDINATOR};
    ps_tls *tls = NULL;
    ps_trackers_conf trackers;
    ps_status st = read_fault(s->fault, &conf.exit_at);

    ps_packed_set_limit((uint64_t)s->max_unpacked_mib << 20, "--max-unpacked");
    /* ps_nn_kernels initialises OpenBLAS, so call it before threads start. GetServerInfo reports
     * the kernels too. */
    ps_log(PS_LOG_INFO, "main", "kernels: %s", ps_nn_kernels(kernels));
    if (ps_is_ok(&st)) {
        st = ps_address_complete("--listen", s->listen, "127.0.0.1", DEFAULT_PORT, listen);
    }
    if (ps_is_ok(&st)) {
        st = ps_protect_check(&protect);
    }
    if (ps_is_ok(&st) && s->ops && s->ops[0] != '\0') {
        st = ps_ops_check(s->ops, &protect, p.ops_at);
    }
    if (ps_is_ok(&st)) {
        p.is_web_asked = s->web && s->web[0] != '\0';
        st = ps_web_check(s->web, &protect, p.web_at);
    }
    if (ps_is_ok(&st)) {
        st = find_trackers(s, listen, &trackers);
    }
    if (ps_is_ok(&st) && s->leader_lease_us % 1000000 != 0) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "--leader-lease: \"%lldms\": whole seconds from 2s to 1m are allowed",
                     (long long)(s->leader_lease_us / 1000));
    }
    if (ps_is_ok(&st) && s->lease_us < PS_LEASE_BEATS * s->heartbeat_us) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "--lease %lldms: is less than three times --heartbeat %lldms, so that a late "
                     "heartbeat would cost a node",
                     (long long)(s->lease_us / 1000), (long long)(s->heartbeat_us / 1000));
    }
    if (ps_is_ok(&st) && s->quotas && s->quotas[0] != '\0' && (!s->tls_dir || !s->tls_dir[0])) {
        st = ps_fail(PS_INVALID_ARGUMENT,
                     "--quotas needs --tls-dir: in plaintext nobody knows who submits");
    }
    if (ps_is_ok(&st) && s->pki && s->pki[0] != '\0' && (!s->tls_dir || !s->tls_dir[0])) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--pki needs --tls-dir: without TLS there are no "
                                          "certificates that nodes could get");
    }
    if (ps_is_ok(&st)) {
        st = ps_loop_create(&p.loop);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_protect_loop(p.loop, &protect, &tls);
    if (ps_is_ok(&st)) {
        st = open_etcd(&p, s, listen);
    }
    if (ps_is_ok(&st)) {
        conf.etcd = p.etcd;
        conf.trackers = &trackers;
        conf.lost = start_again;
        conf.lost_arg = &p;
        conf.links = (Psgd__V1__LinkProtection)ps_protection_of(p.loop, listen);
        st = ps_coordinator_create(p.loop, &conf, &p.coordinator);
    }
    if (ps_is_ok(&st)) {
        st = serve(&p, s, listen);
    }
    if (ps_is_ok(&st)) {
        st = ps_signals_start(&p.signals, on_signal, &p);
    }
    if (ps_is_ok(&st)) {
        ps_supervisor_ready(&p.supervisor, p.loop);
        ps_loop_run(p.loop);
        ps_signals_stop(&p.signals);
    } else if (p.server) {
        ps_coordinator_drain(p.coordinator);
        ps_server_stop(p.server, 0, &p.down);
        ps_loop_run(p.loop);
    } else if (p.coordinator) {
        ps_coordinator_stop(p.coordinator);
    }
    atomic_store(&p.is_stopping, true);
    ps_coordinator_destroy(p.coordinator);
    ps_etcd_destroy(p.etcd);
    ps_loop_destroy(p.loop);
    ps_tls_release(tls);
    return st;
}

/* Runs --recover. Fails if a folder could not be read, or has files that differ from the
 * registry. */
static ps_status recover(const char *data_dir)
{
    ps_recovery n;
    ps_status st = ps_recover(data_dir, stdout, &n);

    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "--recover");
    }
    printf("%zu folders: %zu in the registry already, %zu again, %zu left as they are\n",
           n.known + n.recovered + n.left, n.known, n.recovered, n.left);
    if (n.left > 0 || n.differing > 0) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "--recover: %zu folders could not be read, %zu have files that differ",
                       n.left, n.differing);
    }
    return st;
}

/* Runs --backup, --recover or the coordinator, as the settings say. */
static ps_status act(const settings *s, char **argv)
{
    char data_dir[800];
    ps_status st = find_data_dir(s, data_dir, sizeof data_dir);

    if (ps_is_ok(&st) && s->backup && s->recover) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--backup and --recover exclude each other");
    }
    if (ps_is_ok(&st) && (s->backup || s->recover) && strcmp(s->registry, "sqlite:") != 0) {
        st = ps_fail(PS_INVALID_ARGUMENT, "--backup and --recover are for sqlite:; etcd is backed "
                                          "up by etcdctl snapshot save");
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = s->backup    ? back_up(data_dir, s->backup)
         : s->recover ? recover(data_dir)
                      : run(s, data_dir, argv);
    if (st.code == PS_DATA_LOSS) {
        ps_log(
            PS_LOG_ERROR, "main",
            "%s/jobs.db cannot be used. Nothing was removed. Restore a backup of it; or move it, "
            "jobs.db-wal and jobs.db-shm away and run psgd-coordinator --recover, which reads "
            "jobs from their files",
            data_dir);
    }
    return st;
}

static void start_log(const settings *s)
{
    ps_log_level level = PS_LOG_INFO;
    ps_log_format format = PS_LOG_TEXT;

    ps_log_level_find(s->log_level, &level); /* the option table allows valid levels only */
    ps_log_format_find(s->log_format, &format);
    ps_log_init("psgd-coordinator", level, format);
}

int main(int argc, char **argv)
{
    settings s = {0};
    void *const bases[] = {&s};
    ps_config *config = NULL;
    ps_strbuf text = {0};
    char kernels[PS_NN_KERNELS_BYTES];
    ps_status st;
    int code = EXIT_SUCCESS;

    ps_signals_block();
    ps_rpc_init_process();
    ps_files_private();
    st = ps_config_load(&command, argc, argv, bases, &config);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "psgd-coordinator: %s\n", st.text);
        return EXIT_USAGE;
    }
    if (config->wants_help || config->wants_version) {
        if (config->wants_help) {
            ps_config_help(&command, &text);
        } else {
            ps_config_version(&command, ps_nn_kernels(kernels), &text);
        }
        fputs(ps_strbuf_text(&text), stdout);
        ps_strbuf_fini(&text);
    } else {
        start_log(&s);
        st = ps_cpu_init();
        if (ps_is_ok(&st)) {
            st = act(&s, argv);
        }
        if (!ps_is_ok(&st)) {
            ps_log(PS_LOG_ERROR, "main", "%s", st.text);
            code = st.code == PS_INVALID_ARGUMENT ? EXIT_USAGE : EXIT_FAILURE;
        }
    }
    ps_config_destroy(config);
    return code;
}
