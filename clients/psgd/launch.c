/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - psgd launch [FILE] [flags]: a whole job in one command, services included. */
#include "clients/psgd/cli.h"
#include "clients/psgd/keeper.h"
#include "clients/psgd/launch_run.h"
#include "clients/psgd/spec_options.h"

#include "common/base/files.h"
#include "common/base/older.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/job/spec.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUBMIT_ARGS_MAX = 128 };

/* A coordinator that has just been started may have to read a large data set before it answers. */
static const char submit_timeout[] = "--timeout=600s";

typedef struct launching {
    ps_spec_flags flags;
    const char *hosts, *hostfile, *servers, *endpoints, *output, *log_dir, *data_path, *psgd,
        *ssh_config, *address;
    bool is_insecure;
    int64_t keep_host_us;
    ps_launch_plan plan;
    uint64_t workers_min;
    char self[PS_PATH_MAX], n_servers[24], n_workers[24];
    const char *submit[SUBMIT_ARGS_MAX + 1];
    char *owned[SUBMIT_ARGS_MAX];
    size_t n_submit, n_owned;
} launching;

static const ps_option options[] = {
    PS_OPTION_STRING(launching, hosts, .name = "hosts", .metavar = "HOST,...",
                     .help = "hosts to start services on by ssh, in turn; localhost is this one; "
                             "default: all on this one"),
    PS_OPTION_STRING(launching, hostfile, .name = "hostfile", .metavar = "FILE",
                     .help = "file of hosts, a line each: HOST or HOST slots=N"),
    PS_OPTION_STRING(launching, servers, .name = "servers", .metavar = "HOST[:PORT],...",
                     .help = "where each server runs, instead of --hosts in turn"),
    PS_OPTION_STRING(launching, endpoints, .name = "worker-endpoints", .metavar = "HOST[:PORT],...",
                     .help = "where each worker runs, instead of --hosts in turn"),
    PS_OPTION_STRING(launching, output, .name = "output", .letter = 'o', .metavar = "DIR",
                     .help = "folder for the job's files (default: the job's id)"),
    PS_OPTION_STRING(launching, log_dir, .name = "log-dir", .value = "log", .metavar = "DIR",
                     .help = "folder for the logs: workerlog.N, serverlog.N, coordinatorlog"),
    PS_OPTION_STRING(launching, data_path, .name = "data-path", .env = "PSGD_DATA",
                     .metavar = "DIR",
                     .help = "folder of the data sets on this host; the others are sent them"),
    PS_OPTION_STRING(launching, address, .name = "address", .metavar = "HOST",
                     .help = "address of this host for the others (default: as their sshd sees "
                             "it)"),
    PS_OPTION_BOOL(launching, is_insecure, .name = "insecure",
                   .help = "no TLS between hosts, on a network where everybody is trusted; "
                           "default: an authority for this launch alone"),
    PS_OPTION_STRING(launching, psgd, .name = "psgd", .metavar = "PATH",
                     .help = "path of psgd on the other hosts, its services beside it (default: "
                             "as on this host)"),
    PS_OPTION_STRING(launching, ssh_config, .name = "ssh-config", .metavar = "FILE",
                     .help = "configuration of ssh (default: the user's)"),
    /* not for users: the launcher starts itself with this flag as the keeper of a host */
    PS_OPTION_DURATION(launching, keep_host_us, .name = "keep-host", .value = "0s", .min = 0,
                       .max = 3600e6),
    PS_SPEC_OPTIONS(launching, flags),
    PS_LOSS_OPTIONS(launching, flags, PS_SHOWN),
    PS_OPTION_END,
};

/* --- what psgd submit is told ------------------------------------------------------------ */

static bool add(launching *l, const char *text)
{
    if (l->n_submit == SUBMIT_ARGS_MAX) {
        return false;
    }
    l->submit[l->n_submit++] = text;
    return true;
}

static bool add_flag(launching *l, const char *name, const char *value)
{
    ps_strbuf text = {0};

    if (l->n_owned == SUBMIT_ARGS_MAX) {
        return false;
    }
    ps_strbuf_printf(&text, value != NULL ? "--%s=%s" : "--%s", name, value);
    l->owned[l->n_owned] = ps_strbuf_take(&text);
    return add(l, l->owned[l->n_owned++]);
}

/* Adds an option, if it was given, to the arguments of psgd submit. Returns false if there are too
 * many. Ignores options with a number or a duration, of which none describes the job. */
static bool add_option(launching *l, const ps_option *option)
{
    const char *member = (const char *)l + option->offset;
    const char *text;
    ps_option_list list;
    bool is_set, fits = true;

    switch (option->kind) {
    case PS_KIND_STRING:
        memcpy(&text, member, sizeof text);
        return text == NULL || add_flag(l, option->name, text);
    case PS_KIND_BOOL:
        memcpy(&is_set, member, sizeof is_set);
        return !is_set || add_flag(l, option->name, NULL);
    case PS_KIND_LIST:
        memcpy(&list, member, sizeof list);
        for (size_t i = 0; i < list.n && fits; i++) {
            fits = add_flag(l, option->name, list.items[i]);
        }
        return fits;
    case PS_KIND_INT:
    case PS_KIND_DOUBLE:
    case PS_KIND_DURATION:
        break;
    }
    return true;
}

static ps_status make_submit(launching *l, const char *path)
{
    bool fits = add(l, submit_timeout) && add(l, "submit");

    for (const ps_option *o = options; o->name != NULL && fits; o++) {
        if (o->offset < offsetof(launching, flags) + sizeof l->flags) {
            fits = add_option(l, o);
        }
    }
    if (path != NULL) {
        fits = fits && add(l, "--") && add(l, path);
    }
    return fits ? ps_ok()
                : ps_fail(PS_INVALID_ARGUMENT,
                          "too many flags: %d are allowed; put them into "
                          "the job file",
                          SUBMIT_ARGS_MAX - 8);
}

/* --- before ---------------------------------------------------------------------------------- */

/* Returns whether `host` is this host's name or one of its addresses. */
static bool is_own(const char *host)
{
    struct ifaddrs *all = NULL;
    char text[PS_LAUNCH_HOST_BYTES] = "";
    bool found = gethostname(text, sizeof text - 1) == 0 && strcmp(text, host) == 0;

    if (getifaddrs(&all) != 0) {
        return found;
    }
    for (const struct ifaddrs *a = all; a != NULL && !found; a = a->ifa_next) {
        socklen_t bytes = a->ifa_addr == NULL                  ? 0
                          : a->ifa_addr->sa_family == AF_INET  ? sizeof(struct sockaddr_in)
                          : a->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                               : 0;

        found = bytes > 0 &&
                getnameinfo(a->ifa_addr, bytes, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0 &&
                strcmp(text, host) == 0;
    }
    freeifaddrs(all);
    return found;
}

/* Sets the numbers of servers and workers to the numbers of places that are named for them, unless
 * flags give the numbers. */
static void count_places(launching *l)
{
    if (l->servers != NULL && l->flags.pservers == NULL) {
        snprintf(l->n_servers, sizeof l->n_servers, "%llu",
                 (unsigned long long)ps_launch_list_length(l->servers));
        l->flags.pservers = l->n_servers;
    }
    if (l->endpoints != NULL && l->flags.workers == NULL && l->flags.node_count == NULL) {
        snprintf(l->n_workers, sizeof l->n_workers, "%llu",
                 (unsigned long long)ps_launch_list_length(l->endpoints));
        l->flags.workers = l->n_workers;
    }
}

/* Makes the plan of a launch from the numbers of processes in the job. */
static ps_status take_job(launching *l, Psgd__V1__JobSpec *spec)
{
    uint64_t workers;
    ps_launch_wish wish = {.hosts = l->hosts,
                           .hostfile = l->hostfile,
                           .is_own = is_own,
                           .server_places = l->servers,
                           .worker_places = l->endpoints};

    if (spec->n_nodes > 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "the job names nodes that run already; leave them out, or submit it by "
                       "psgd submit. Hosts to start services on are given by --hosts");
    }
    ps_spec_apply_preset(spec);
    workers = spec->worker_processes > 0 ? spec->worker_processes
              : spec->workers > 0        ? spec->workers
                                         : 1;
    /* not started by the launch: `programs` of the workers, which users' programs start */
    workers -= spec->programs < workers ? spec->programs : 0;
    wish.workers = spec->workers_max > workers ? spec->workers_max : workers;
    wish.pservers = !ps_spec_has_servers(spec) ? 0 : spec->pservers > 0 ? spec->pservers : 1;
    l->workers_min = spec->workers_min;
    return ps_launch_plan_make(&wish, &l->plan);
}

static ps_status find_self(launching *l)
{
    ssize_t n = readlink("/proc/self/exe", l->self, sizeof l->self - 1);

    if (n < 0) {
        return ps_fail_errno(errno, "/proc/self/exe");
    }
    l->self[n] = '\0';
    return ps_ok();
}

static bool prepare(ps_cli *cli, void *arg)
{
    launching *l = arg;
    const char *path = cli->config->n_args > 0 ? cli->config->args[0] : NULL;
    Psgd__V1__JobSpec *spec = NULL;
    ps_error error;
    ps_status st;

    if (ps_config_source_of(cli->config, "keep-host") != PS_FROM_DEFAULT) {
        return true;
    }
    if (cli->is_coordinator_flag || cli->is_tls_flag) {
        fputs("psgd: launch starts a coordinator of its own, and makes its certificates: leave "
              "--coordinator, --tls-dir and --token-file out, or use psgd submit\n",
              stderr);
        return false;
    }
    if (path != NULL && strcmp(path, "-") == 0) {
        fputs("psgd: launch reads no job from standard input: give a file\n", stderr);
        return false;
    }
    if (path != NULL && strlen(path) > 3 && strcmp(path + strlen(path) - 3, ".py") == 0) {
        fprintf(stderr,
                "psgd: %s: psgd runs no programs of its users; describe the job in a file of YAML, "
                "or take a preset (psgd presets). docs/presets.md has what it is called here\n",
                path);
        return false;
    }
    count_places(l);
    st = ps_spec_build(path, &l->flags, &error, &spec);
    if (!ps_is_ok(&st)) {
        ps_spec_locate(path, &error);
        ps_cli_error(&error);
        return false;
    }
    st = take_job(l, spec);
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    if (ps_is_ok(&st)) {
        st = find_self(l);
    }
    if (ps_is_ok(&st)) {
        st = make_submit(l, path);
    }
    if (!ps_is_ok(&st)) {
        ps_cli_status(&st);
    }
    return ps_is_ok(&st);
}

/* --- the launch ------------------------------------------------------------------------------- */

static ps_exit launch(ps_cli *cli, void *arg)
{
    launching *l = arg;
    const ps_launch_conf conf = {
        .self = l->self,
        .plan = &l->plan,
        .ssh = {.config = l->ssh_config, .psgd = l->psgd != NULL ? l->psgd : l->self},
        .address = l->address,
        .data_path = l->data_path,
        .log_dir = l->log_dir,
        .output = l->output,
        .format = cli->general.format,
        .is_insecure = l->is_insecure,
        .is_quiet = cli->format != PS_FORMAT_TEXT,
        .workers_min = l->workers_min,
        .submit = l->submit,
    };

    if (ps_config_source_of(cli->config, "keep-host") != PS_FROM_DEFAULT) {
        return (ps_exit)ps_keeper_run(l->keep_host_us);
    }
    ps_keeper_clean_environment();
    return (ps_exit)ps_launch_run(&conf);
}

static void fini(void *arg)
{
    launching *l = arg;

    for (size_t i = 0; i < l->n_owned; i++) {
        free(l->owned[i]);
    }
}

const ps_subcommand ps_subcommand_launch = {
    .command = {.name = "psgd launch",
                .summary =
                    "Runs a whole job: starts a coordinator, servers and workers, on this host or "
                    "by ssh on others, submits the job, follows it, downloads its files and ends "
                    "all that it started. Ctrl-C cancels the job. Exits with 0 only if the job is "
                    "DONE.",
                .usage = "[options] [FILE]",
                .args_max = 1,
                .examples = "psgd launch --workers 4 --pservers 2 job.yaml\n"
                            "psgd launch --preset tutorial-glyphs -o results\n"
                            "psgd launch --workers 4 --pservers 2 --hosts node1,node2 job.yaml\n"},
    .options = options,
    .takes_job = true,
    .older = PS_OLDER_LAUNCH,
    .options_size = sizeof(launching),
    .prepare = prepare,
    .run = launch,
    .fini = fini,
};
