/* SPDX-License-Identifier: Apache-2.0 */
/* launch_run.c - see launch_run.h.
 *
 * One thread polls the keepers, a signalfd and the commands that run: psgd nodes, submit, watch,
 * cancel and download, as a person would type them. `stage` says what the launch waits for.
 */
#include "clients/psgd/launch_run.h"

#include "clients/psgd/cli.h"
#include "clients/psgd/launch_tls.h"

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    COMMAND_ARGS_MAX = 160,
    COMMAND_OUT_MAX = 4 << 20, /* with so many bytes of output a command is not read on */
    RESTARTS_MAX = 3,          /* most restarts of each service */
    LAST_BYTES = 200,
    JOB_ID_BYTES = 256,
    LISTEN_US = 60000000,   /* time until the coordinator listens; then, until all nodes listen */
    REGISTER_US = 30000000, /* time until all nodes are registered */
    AGAIN_US = 100000,      /* between the end of `psgd nodes` and its next start */
    CANCEL_US = 10000000,   /* time until a cancelled job has ended; then the launch ends */
    DOWNLOAD_US = 600000000,
    LEAVE_US = 30000000, /* time to download the files of a job that did not end well */
    END_US = 8000000,    /* time until the keepers have ended; then their inputs are closed */
    /* time until keepers have ended after their inputs were closed; then they are killed */
    KILL_US = 3000000
};

typedef enum stage { HOSTS, COORDINATOR, NODES, REGISTER, SUBMIT, WATCH, DOWNLOAD, END } stage;

/* A service of the plan, as it runs. */
typedef struct running {
    const ps_launch_place *place;
    char name[PS_LAUNCH_NAME_BYTES];
    char listen[PS_ADDRESS_TEXT_BYTES]; /* where it listens; "": it does not listen yet */
    char last[LAST_BYTES];              /* the last line of its log since its start; "": none */
    unsigned restarts;
    int log; /* descriptor of the file for its log; -1: none is open */
} running;

typedef struct launch {
    const ps_launch_conf *conf;
    ps_launch_host *hosts; /* (plan->n_hosts) [0]: this host */
    running *services;     /* (plan->n_places) [0]: the coordinator */
    stage stage;
    int64_t deadline_us; /* ps_clock_us after which the stage has taken too long; 0: no limit */
    bool has_tls;
    ps_launch_tls tls;
    char here[PS_ADDRESS_HOST_BYTES]; /* address of this host for the nodes; "" until it is known */
    char coordinator[PS_ADDRESS_TEXT_BYTES];
    char job[JOB_ID_BYTES];
    ps_child command, cancel;
    ps_strbuf said;    /* what `command` has printed, if it was started with is_kept */
    int64_t again_us;  /* ps_clock_us at which REGISTER runs `psgd nodes` again; 0: not planned */
    bool is_cancelled; /* `psgd cancel` was started for the job */
    bool was_interrupted;
    int code; /* the program's exit code */
} launch;

PS_PRINTF(2, 3) static void tell(const launch *l, const char *fmt, ...)
{
    va_list ap;

    if (!l->conf->is_quiet) {
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        fflush(stdout);
    }
}

static void enter(launch *l, stage next, int64_t within_us)
{
    l->stage = next;
    l->deadline_us = within_us > 0 ? ps_clock_us() + within_us : 0;
}

/* --- the end ---------------------------------------------------------------------- */

/* Enters END, unless it is the stage already. The exit code is `code`, unless one other than
 * PS_EXIT_OK was set before. Keepers shut services down in DOWNLOAD, and kill them in other stages.
 */
static void end(launch *l, int code)
{
    bool is_over = l->stage == DOWNLOAD;

    if (l->stage == END) {
        return;
    }
    l->code = l->code != PS_EXIT_OK ? l->code : code;
    ps_child_fini(&l->command);
    ps_child_fini(&l->cancel);
    for (size_t i = 0; i < l->conf->plan->n_hosts; i++) {
        ps_launch_host_say(&l->hosts[i], json_pack("{s:s}", "do", is_over ? "end" : "kill"));
    }
    enter(l, END, END_US);
}

static bool start_command(launch *l, ps_child *child, bool is_kept, const char *const *args);

/* Sets the exit code, and cancels the job, whose files are downloaded when it has ended. Ends the
 * launch at once in a stage other than WATCH, or if the job was cancelled or this host's keeper is
 * gone. */
static void give_up(launch *l, int code)
{
    l->code = code;
    if (l->stage != WATCH || l->is_cancelled || l->hosts[0].is_gone) {
        end(l, code);
        return;
    }
    l->is_cancelled = true;
    l->deadline_us = ps_clock_us() + CANCEL_US;
    start_command(l, &l->cancel, true, (const char *const[]){"cancel", l->job, NULL});
}

PS_PRINTF(2, 3) static void fail(launch *l, const char *fmt, ...)
{
    va_list ap;

    if (l->stage == END) {
        return;
    }
    fflush(stdout);
    fputs("psgd launch: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    give_up(l, PS_EXIT_SERVER);
}

/* --- commands ----------------------------------------------------------------------- */

/* Starts psgd with the arguments that every command gets and then `args`. If `is_kept`, its output
 * is JSON, to be read by this program; else it goes to this program's output. If psgd cannot be
 * started, ends the launch and returns false. */
static bool start_command(launch *l, ps_child *child, bool is_kept, const char *const *args)
{
    const char *argv[COMMAND_ARGS_MAX + 1];
    const ps_child_conf conf = {.argv = argv, .has_out = is_kept, .dies_with_parent = true};
    size_t n = 0;
    ps_status st;

    argv[n++] = l->conf->self;
    argv[n++] = "--coordinator";
    argv[n++] = l->coordinator;
    argv[n++] = "--format";
    argv[n++] = is_kept ? "json" : l->conf->format;
    if (l->has_tls) {
        argv[n++] = "--tls-dir";
        argv[n++] = l->tls.own;
    }
    while (*args != NULL && n < COMMAND_ARGS_MAX) {
        argv[n++] = *args++;
    }
    argv[n] = NULL;
    ps_strbuf_clear(&l->said);
    st = ps_child_start(&conf, child);
    if (!ps_is_ok(&st)) {
        end(l, PS_EXIT_BUG);
        fprintf(stderr, "psgd launch: %s\n", st.text);
        return false;
    }
    return true;
}

static void watch(launch *l)
{
    enter(l, WATCH, 0);
    start_command(l, &l->command, false, (const char *const[]){"watch", "--no-next", l->job, NULL});
}

static void submit(launch *l)
{
    enter(l, SUBMIT, 0);
    start_command(l, &l->command, true, l->conf->submit);
}

static void download(launch *l, int64_t within_us)
{
    const char *folder = l->conf->output != NULL ? l->conf->output : l->job;

    enter(l, DOWNLOAD, within_us);
    start_command(l, &l->command, true,
                  (const char *const[]){"download", "--output", folder, l->job, NULL});
}

/* Returns whether the list `nodes` (of psgd nodes) has each node of the plan as alive. If not,
 * *missing is the first node that it does not have so. */
static bool has_all_nodes(const launch *l, const json_t *nodes, const running **missing)
{
    *missing = NULL;
    for (size_t i = 1; i < l->conf->plan->n_places; i++) {
        bool is_there = false;

        for (size_t j = 0; j < json_array_size(nodes); j++) {
            const json_t *node = json_array_get(nodes, j);

            is_there =
                is_there || (json_is_true(json_object_get(node, "alive")) &&
                             strcmp(ps_lines_text(node, "node_id"), l->services[i].name) == 0);
        }
        if (!is_there) {
            *missing = &l->services[i];
            return false;
        }
    }
    return true;
}

static void on_nodes(launch *l, int code)
{
    json_t *nodes = code == PS_EXIT_OK ? json_loads(ps_strbuf_text(&l->said), 0, NULL) : NULL;
    const running *missing;

    if (code == PS_EXIT_OK && has_all_nodes(l, nodes, &missing)) {
        submit(l);
    } else if (code == PS_EXIT_OK && ps_clock_us() > l->deadline_us) {
        fail(l,
             "%s on host %s has not registered within %d s: can that host reach the "
             "coordinator at %s? See the end of its log: %s",
             missing->name, l->hosts[missing->place->host].name, REGISTER_US / 1000000,
             l->coordinator, missing->last);
    } else if (code == PS_EXIT_OK) {
        l->again_us = ps_clock_us() + AGAIN_US;
    } else {
        end(l, code);
    }
    json_decref(nodes);
}

static void on_submitted(launch *l, int code)
{
    json_t *job = code == PS_EXIT_OK ? json_loads(ps_strbuf_text(&l->said), 0, NULL) : NULL;

    snprintf(l->job, sizeof l->job, "%s", ps_lines_text(job, "id"));
    json_decref(job);
    if (l->job[0] != '\0') {
        tell(l, "job       %s\n", l->job);
        watch(l);
    } else {
        end(l, code != PS_EXIT_OK ? code : PS_EXIT_BUG);
    }
}

static void on_downloaded(launch *l, int code)
{
    json_t *files = code == PS_EXIT_OK ? json_loads(ps_strbuf_text(&l->said), 0, NULL) : NULL;

    if (code == PS_EXIT_OK) {
        tell(l, "files     %zu in %s\n", json_array_size(files),
             l->conf->output != NULL ? l->conf->output : l->job);
    }
    json_decref(files);
    end(l, code);
}

/* Goes on with the launch when the command of its stage has ended with `status`. */
static void on_command(launch *l, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : PS_EXIT_BUG;

    ps_child_fini(&l->command);
    if (l->stage == REGISTER) {
        on_nodes(l, code);
    } else if (l->stage == SUBMIT) {
        on_submitted(l, code);
    } else if (l->stage == WATCH) {
        l->code = l->code != PS_EXIT_OK ? l->code : code;
        download(l, l->code == PS_EXIT_OK ? DOWNLOAD_US : LEAVE_US);
    } else if (l->stage == DOWNLOAD) {
        on_downloaded(l, code);
    }
}

/* --- services ------------------------------------------------------------------------- */

/* Sends the keeper of the service's host the order to start the service. */
static void start_service(launch *l, running *s)
{
    const ps_launch_place *place = s->place;
    ps_launch_host *host = &l->hosts[place->host];
    bool is_coordinator = place->role == PS_LAUNCH_COORDINATOR;
    bool is_wide = l->conf->plan->n_hosts > 1;
    char listen[PS_ADDRESS_TEXT_BYTES], principal[PS_LAUNCH_NAME_BYTES + 16];
    ps_address at = {.port = place->port};
    json_t *args = json_array();

    snprintf(at.host, sizeof at.host, "%s", host->is_remote ? host->at : l->here);
    at.is_v6 = strchr(at.host, ':') != NULL;
    if (s->listen[0] != '\0' && is_coordinator) {
        /* start it again at the same address, which nodes and commands know */
        snprintf(listen, sizeof listen, "%s", s->listen);
    } else {
        ps_address_format(&at, listen);
    }
    json_array_append_new(args, json_string("--listen"));
    json_array_append_new(args, json_string(listen));
    if (is_coordinator) {
        json_array_append_new(args, json_string("--web"));
        json_array_append_new(args, json_string("off"));
        if (l->conf->data_path != NULL) {
            json_array_append_new(args, json_string("--data-path"));
            json_array_append_new(args, json_string(l->conf->data_path));
        }
    } else {
        json_array_append_new(args, json_string("--coordinator"));
        json_array_append_new(args, json_string(l->coordinator));
    }
    if (!is_coordinator && !l->has_tls) {
        json_array_append_new(args, json_string("--node-id"));
        json_array_append_new(args, json_string(s->name));
    }
    if (is_wide && !l->has_tls) {
        json_array_append_new(args, json_string("--insecure"));
    }
    snprintf(principal, sizeof principal, "%s/%s", is_coordinator ? "coordinator" : "node",
             s->name);
    s->last[0] = '\0';
    if (!is_coordinator) {
        s->listen[0] = '\0';
    }
    ps_launch_host_say(host, json_pack("{s:s, s:s, s:s, s:o, s:s, s:s}", "do", "start", "name",
                                       s->name, "program", ps_launch_program(place->role), "args",
                                       args, "principal", principal, "fingerprint",
                                       l->has_tls ? l->tls.fingerprint : ""));
}

static void start_nodes(launch *l)
{
    enter(l, NODES, LISTEN_US);
    for (size_t i = 1; i < l->conf->plan->n_places; i++) {
        start_service(l, &l->services[i]);
    }
}

static void look_at_nodes(launch *l)
{
    l->again_us = 0;
    start_command(l, &l->command, true, (const char *const[]){"nodes", NULL});
}

/* Notes the address at which a service listens. In COORDINATOR starts the nodes then; in NODES goes
 * on to REGISTER once all services listen. */
static void on_listening(launch *l, running *s, const char *address)
{
    snprintf(s->listen, sizeof s->listen, "%s", address);
    if (l->stage == COORDINATOR) {
        snprintf(l->coordinator, sizeof l->coordinator, "%s", address);
        start_nodes(l);
        return;
    }
    for (size_t i = 0; i < l->conf->plan->n_places; i++) {
        if (l->services[i].listen[0] == '\0') {
            return;
        }
    }
    if (l->stage == NODES) {
        enter(l, REGISTER, REGISTER_US);
        look_at_nodes(l);
    }
}

/* Handles the end of a service, which should not end by itself before END or a cancel. Starts a
 * service that has listened at some time again, at most RESTARTS_MAX times each. Otherwise the
 * launch fails. */
static void on_ended(launch *l, running *s, const char *how)
{
    const char *host = l->hosts[s->place->host].name;

    if (l->stage == END || l->is_cancelled) {
        return;
    }
    if (s->listen[0] == '\0' && s->restarts == 0) {
        fail(l, "%s on host %s has ended before it listened, with %s. %s%s", s->name, host, how,
             s->last[0] != '\0' ? "It says: " : "", s->last);
    } else if (s->restarts == RESTARTS_MAX) {
        fail(l, "%s on host %s has ended with %s, for the %dth time. See its log. %s%s", s->name,
             host, how, RESTARTS_MAX + 1, s->last[0] != '\0' ? "It says: " : "", s->last);
    } else {
        s->restarts++;
        fflush(stdout);
        fprintf(stderr, "psgd launch: %s on host %s has ended with %s; it is started again\n",
                s->name, host, how);
        start_service(l, s);
    }
}

static void on_log(running *s, const json_t *text)
{
    const char *bytes = json_string_value(text);
    size_t n = json_string_length(text), end = n;
    const char *start;

    if (n == 0) {
        return;
    }
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(s->log, bytes + done, n - done);

        if (wrote <= 0) {
            break; /* lose the text: a full disk on this host must not end the job */
        }
        done += (size_t)wrote;
    }
    while (end > 0 && bytes[end - 1] == '\n') {
        end--;
    }
    start = end > 0 ? memrchr(bytes, '\n', end) : NULL;
    start = start != NULL ? start + 1 : bytes;
    snprintf(s->last, sizeof s->last, "%.*s", (int)(bytes + end - start), start);
}

static void on_request(launch *l, ps_launch_host *host, const running *s, const char *pem)
{
    bool is_coordinator = s->place->role == PS_LAUNCH_COORDINATOR;
    char principal[PS_LAUNCH_NAME_BYTES + 16];
    ps_strbuf answer = {0};
    ps_status st;

    snprintf(principal, sizeof principal, "%s/%s", is_coordinator ? "coordinator" : "node",
             s->name);
    st = ps_launch_tls_answer(&l->tls, principal, pem, &answer);
    if (ps_is_ok(&st)) {
        ps_launch_host_say(host, json_pack("{s:s, s:s, s:s}", "do", "install", "name", s->name,
                                           "pem", ps_strbuf_text(&answer)));
    } else {
        fail(l, "a certificate for %s on host %s: %s", s->name, host->name, st.text);
    }
    ps_strbuf_fini(&answer);
}

/* Handles a message of a keeper about one of its services. */
static void hear(void *arg, ps_launch_host *host, const json_t *document)
{
    static const char listening[] = " listening on ";
    const char *what = ps_lines_text(document, "say"), *name = ps_lines_text(document, "name");
    const char *text = ps_lines_text(document, "text"), *at;
    launch *l = arg;

    for (size_t i = 0; i < l->conf->plan->n_places; i++) {
        running *s = &l->services[i];

        if (strcmp(s->name, name) != 0 || &l->hosts[s->place->host] != host) {
            continue; /* a host speaks for its own services only */
        }
        if (strcmp(what, "log") == 0) {
            on_log(s, json_object_get(document, "text"));
        } else if (strcmp(what, "ended") == 0) {
            on_ended(l, s, text);
        } else if (strcmp(what, "request") == 0 && l->has_tls) {
            on_request(l, host, s, ps_lines_text(document, "pem"));
        } else if (strcmp(what, "line") == 0 && (at = strstr(text, listening)) != NULL) {
            on_listening(l, s, at + sizeof listening - 1);
        }
        return;
    }
}

/* --- hosts ------------------------------------------------------------------------------ */

/* Starts the coordinator, and before it makes the authority of a launch with TLS. The keepers of
 * all hosts have sent "hello". */
static void on_hosts(launch *l)
{
    ps_status st =
        ps_launch_host_find_here(l->hosts, l->conf->plan->n_hosts, l->conf->address, l->here);

    l->has_tls = l->conf->plan->n_hosts > 1 && !l->conf->is_insecure;
    if (ps_is_ok(&st) && l->has_tls) {
        st = ps_launch_tls_make(l->hosts[0].folder, &l->tls);
    }
    if (!ps_is_ok(&st)) {
        fail(l, "%s", st.text);
        return;
    }
    enter(l, COORDINATOR, LISTEN_US);
    start_service(l, &l->services[0]);
}

/* Returns whether the job can go on without `host`, which is gone: the stage is WATCH, `host` had
 * only workers, and the workers of the other hosts are enough for workers_min, which is not 0. */
static bool can_go_on(const launch *l, const ps_launch_host *host)
{
    uint64_t left = 0;

    for (size_t i = 0; i < l->conf->plan->n_places; i++) {
        const ps_launch_place *place = l->services[i].place;
        const ps_launch_host *at = &l->hosts[place->host];

        if (at == host && place->role != PS_LAUNCH_WORKER) {
            return false;
        }
        left += place->role == PS_LAUNCH_WORKER && !at->is_gone;
    }
    return l->stage == WATCH && l->conf->workers_min > 0 && left >= l->conf->workers_min;
}

static void look_at_hosts(launch *l, int64_t now_us)
{
    size_t n_up = 0;

    for (size_t i = 0; i < l->conf->plan->n_hosts; i++) {
        ps_launch_host *host = &l->hosts[i];
        bool was_gone = host->is_gone;

        ps_launch_host_look(host, now_us, hear, l);
        n_up += host->is_up && !host->is_gone;
        if (host->is_gone && !was_gone && l->stage != END && !l->is_cancelled) {
            if (can_go_on(l, host)) {
                fflush(stdout);
                fprintf(stderr, "psgd launch: %s; the job goes on without it\n", host->reason);
            } else {
                fail(l, "%s", host->reason);
            }
        }
    }
    if (l->stage == HOSTS && n_up == l->conf->plan->n_hosts) {
        on_hosts(l);
    }
}

/* --- the loop ------------------------------------------------------------------------------ */

static void look_at_commands(launch *l)
{
    int status = 0;
    bool has_ended = ps_child_ended(&l->command, &status);

    while (l->command.out > 0 && l->said.len < COMMAND_OUT_MAX) {
        size_t before = l->said.len;

        if (!ps_lines_read(l->command.out, &l->said)) {
            close(l->command.out);
            l->command.out = -1;
        } else if (l->said.len == before) {
            break;
        }
    }
    if (has_ended) {
        on_command(l, status);
    }
    if (ps_child_ended(&l->cancel, &status)) {
        ps_child_fini(&l->cancel);
    }
}

static void on_late(launch *l)
{
    static const char *const what[] = {
        [HOSTS] = "hosts", [COORDINATOR] = "the coordinator", [NODES] = "all services"};

    if (l->stage == COORDINATOR || l->stage == NODES) {
        fail(l, "%s did not listen within %d s: see the logs in %s", what[l->stage],
             LISTEN_US / 1000000, l->conf->log_dir);
    } else if (l->stage == WATCH) { /* a cancelled job has not ended within CANCEL_US */
        end(l, l->code);
    } else if (l->stage == DOWNLOAD) {
        fail(l, "the files of the job did not come in time");
    }
}

static void look_at_time(launch *l, int64_t now_us)
{
    if (l->stage == REGISTER && l->again_us > 0 && now_us >= l->again_us) {
        look_at_nodes(l);
    }
    if (l->deadline_us > 0 && now_us > l->deadline_us && l->stage != REGISTER) {
        on_late(l);
    }
}

/* Handles SIGINT or SIGTERM. In WATCH it cancels a job that was not cancelled before, whose files
 * are still downloaded. Else it ends the launch at once; in END also the wait for the keepers. */
static void on_signal(launch *l, int signo)
{
    int code = signo == SIGINT ? PS_EXIT_INTERRUPTED : 128 + signo;

    if (l->stage == END || l->was_interrupted || l->stage != WATCH || l->is_cancelled) {
        bool is_again = l->stage == END;

        l->code = code;
        end(l, code);
        if (is_again) {
            l->deadline_us = 1; /* long ago: wait_for_keepers goes on to close their inputs */
        }
        return;
    }
    l->was_interrupted = true;
    fflush(stdout);
    fputs("psgd launch: the job is cancelled, and what it leaves is downloaded; once more ends at "
          "once\n",
          stderr);
    give_up(l, code);
}

static bool has_keepers(const launch *l)
{
    for (size_t i = 0; i < l->conf->plan->n_hosts; i++) {
        if (l->hosts[i].child.pid > 0) {
            return true;
        }
    }
    return false;
}

/* Waits until there is something of a keeper, a command or a signal, at most 500 ms, and handles it
 * and what is due by time. */
static void turn(launch *l, int signals, struct pollfd *fds)
{
    size_t n_hosts = l->conf->plan->n_hosts;
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = signals, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = l->command.fd > 0 ? l->command.fd : -1, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = l->command.out > 0 ? l->command.out : -1, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = l->cancel.fd > 0 ? l->cancel.fd : -1, .events = POLLIN};
    for (size_t i = 0; i < n_hosts; i++, n += PS_LAUNCH_HOST_FDS) {
        ps_launch_host_poll(&l->hosts[i], &fds[n]);
    }
    (void)poll(fds, n, l->again_us > 0 ? AGAIN_US / 1000 : 500);
    if (fds[0].revents != 0) {
        struct signalfd_siginfo info;

        if (read(signals, &info, sizeof info) == sizeof info) {
            on_signal(l, (int)info.ssi_signo);
        }
    }
    look_at_hosts(l, ps_clock_us());
    look_at_commands(l);
    look_at_time(l, ps_clock_us());
}

/* Waits until the keepers have ended, at most until deadline_us. Then closes the inputs of those
 * that still run, which makes them kill their services and end, and waits at most KILL_US more. The
 * caller kills the keepers that are left. */
static void wait_for_keepers(launch *l, int signals, struct pollfd *fds)
{
    while (has_keepers(l) && ps_clock_us() < l->deadline_us) {
        turn(l, signals, fds);
    }
    for (size_t i = 0; i < l->conf->plan->n_hosts; i++) {
        ps_child_close_in(&l->hosts[i].child);
    }
    l->deadline_us = ps_clock_us() + KILL_US;
    while (has_keepers(l) && ps_clock_us() < l->deadline_us) {
        for (size_t i = 0; i < l->conf->plan->n_hosts; i++) {
            int status;

            (void)ps_child_ended(&l->hosts[i].child, &status);
        }
        (void)poll(NULL, 0, 20);
    }
}

/* --- the beginning --------------------------------------------------------------------------- */

static ps_status open_logs(launch *l)
{
    const ps_launch_plan *plan = l->conf->plan;
    char name[PS_LAUNCH_NAME_BYTES], path[PS_PATH_MAX];
    ps_status st = ps_dir_make(l->conf->log_dir);

    for (size_t i = 0; i < plan->n_places; i++) {
        l->services[i] = (running){.place = &plan->places[i], .log = -1};
        ps_launch_name(&plan->places[i], l->services[i].name);
    }
    for (size_t i = 0; i < plan->n_places && ps_is_ok(&st); i++) {
        st = ps_path_join(path, sizeof path, l->conf->log_dir,
                          ps_launch_log(&plan->places[i], name));
        if (ps_is_ok(&st)) {
            l->services[i].log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
            st =
                l->services[i].log >= 0 ? ps_ok() : ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
        }
    }
    return ps_wrap(st, "--log-dir");
}

static ps_status start_keepers(launch *l)
{
    const ps_launch_plan *plan = l->conf->plan;
    ps_status st = ps_ok();

    for (size_t i = 0; i < plan->n_hosts && ps_is_ok(&st); i++) {
        st =
            ps_launch_host_start(&l->hosts[i], plan->hosts[i], i > 0, l->conf->self, &l->conf->ssh);
    }
    return st;
}

static void tell_plan(const launch *l)
{
    const ps_launch_plan *plan = l->conf->plan;
    size_t counts[3] = {0};
    bool is_here = false;

    for (size_t i = 0; i < plan->n_places; i++) {
        counts[plan->places[i].role]++;
    }
    tell(l, "launch    %zu worker%s and %zu server%s on ", counts[PS_LAUNCH_WORKER],
         counts[PS_LAUNCH_WORKER] == 1 ? "" : "s", counts[PS_LAUNCH_PSERVER],
         counts[PS_LAUNCH_PSERVER] == 1 ? "" : "s");
    for (size_t i = 1; i < plan->n_places; i++) {
        is_here = is_here || plan->places[i].host == 0;
    }
    for (size_t i = is_here ? 0 : 1; i < plan->n_hosts; i++) {
        tell(l, "%s%s", i == 0 ? "this host" : plan->hosts[i], i + 1 < plan->n_hosts ? ", " : "\n");
    }
    tell(l, "logs      %s/\n", l->conf->log_dir);
}

int ps_launch_run(const ps_launch_conf *conf)
{
    const ps_launch_plan *plan = conf->plan;
    launch l = {.conf = conf,
                .hosts = ps_xcalloc(plan->n_hosts, sizeof *l.hosts),
                .services = ps_xcalloc(plan->n_places, sizeof *l.services)};
    struct pollfd *fds = ps_xcalloc(4 + plan->n_hosts * PS_LAUNCH_HOST_FDS, sizeof *fds);
    sigset_t set;
    int signals;
    ps_status st;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    st = signals < 0 ? ps_fail_errno(errno, "signalfd") : open_logs(&l);
    if (ps_is_ok(&st)) {
        tell_plan(&l);
        st = start_keepers(&l);
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "psgd launch: %s\n", st.text);
        end(&l, PS_EXIT_ARGUMENTS);
    }
    while (l.stage != END) {
        turn(&l, signals, fds);
    }
    wait_for_keepers(&l, signals, fds);
    for (size_t i = 0; i < plan->n_hosts; i++) {
        ps_launch_host_fini(&l.hosts[i]);
    }
    for (size_t i = 0; i < plan->n_places; i++) {
        if (l.services[i].log >= 0) {
            close(l.services[i].log);
        }
    }
    ps_child_fini(&l.command);
    ps_child_fini(&l.cancel);
    ps_strbuf_fini(&l.said);
    close(signals);
    free(fds);
    free(l.services);
    free(l.hosts);
    return l.code;
}
