/* SPDX-License-Identifier: Apache-2.0 */
/* keeper.c - see keeper.h. One thread polls all descriptors and never waits for one reader alone.
 * So it notices that the launcher is silent even if the link to it hangs. */
#include "clients/psgd/keeper.h"

#include "clients/psgd/child.h"
#include "clients/psgd/line_pipe.h"

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/older.h"
#include "common/base/plain_name.h"
#include "common/base/xalloc.h"
#include "common/pki/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SERVICES_MAX = 512,
    ARGS_MAX = 64,
    NAME_MAX_BYTES = 40,
    /* Bytes. While so many wait for the launcher, output of services does not wake poll, and no
     * sign of life is added. drain stops when a service's buffer has so many. */
    OUT_MAX = 256 << 10,
    FDS_OF_SERVICE = 3,
    FDS_OWN = 3,
    LIVE_US = 1000000, /* microseconds between two signs of life */
    GRACE_US = 3000000 /* microseconds after begin_end; services that run longer are killed */
};

typedef struct service {
    char name[NAME_MAX_BYTES];
    char tls_dir[PS_PATH_MAX];
    /* fingerprint of the root certificate from which the service's own must come; NULL: no TLS */
    char *fingerprint;
    char **argv; /* ends with NULL */
    ps_child child;
    ps_strbuf out, log;
    bool is_coordinator;
} service;

typedef struct keeper {
    char folder[PS_PATH_MAX];
    char programs[PS_PATH_MAX]; /* the folder of the services' programs */
    service *services;
    size_t n;
    ps_strbuf in, out;
    int64_t silence_us, heard_us, said_us;
    int64_t ending_us; /* ps_clock_us of the first order or signal to end; 0: there was none */
    bool is_killing;   /* give_up has killed the services */
    bool is_over;
} keeper;

static const char *const decided[] = {
    "PSGD_CONFIG",   "PSGD_LISTEN",   "PSGD_ADVERTISE",   "PSGD_COORDINATOR",     "PSGD_TLS_DIR",
    "PSGD_JOIN",     "PSGD_DATA_DIR", "PSGD_NODE_ID",     "PSGD_INSECURE",        "PSGD_OPS",
    "PSGD_REGISTRY", "PSGD_TOKENS",   "PSGD_QUOTAS",      "PSGD_COORDINATOR_PKI", "PSGD_TOKEN_FILE",
    "PSGD_FORMAT",   "PSGD_TIMEOUT",  "PSGD_JOIN_LISTEN",
};

void ps_keeper_clean_environment(void)
{
    for (size_t i = 0; i < sizeof decided / sizeof decided[0]; i++) {
        unsetenv(decided[i]);
    }
    for (const ps_older *o = ps_older_names; o->flag != NULL || o->variable != NULL; o++) {
        if (o->variable != NULL) {
            /* psgd launch has acted on these variables; the services must not do so again */
            unsetenv(o->variable);
        }
    }
}

static void say(keeper *k, const char *what, const char *name, const char *member, const char *text,
                size_t n)
{
    /* Not jansson: logs may have bytes that are not UTF-8. */
    ps_strbuf_puts(&k->out, "{\"say\":");
    ps_strbuf_json_string(&k->out, what, strlen(what));
    ps_strbuf_puts(&k->out, ",\"name\":");
    ps_strbuf_json_string(&k->out, name, strlen(name));
    ps_strbuf_putc(&k->out, ',');
    ps_strbuf_json_string(&k->out, member, strlen(member));
    ps_strbuf_putc(&k->out, ':');
    ps_strbuf_json_string(&k->out, text, n);
    ps_strbuf_puts(&k->out, "}\n");
}

static void say_ended(keeper *k, const service *s, const char *text)
{
    say(k, "ended", s->name, "text", text, strlen(text));
}

/* --- services ----------------------------------------------------------------- */

static void service_fini(service *s)
{
    ps_child_fini(&s->child);
    for (char **at = s->argv; at != NULL && *at != NULL; at++) {
        free(*at);
    }
    free(s->argv);
    free(s->fingerprint);
    ps_strbuf_fini(&s->out);
    ps_strbuf_fini(&s->log);
}

static service *find(keeper *k, const char *name)
{
    for (size_t i = 0; i < k->n; i++) {
        if (strcmp(k->services[i].name, name) == 0) {
            return &k->services[i];
        }
    }
    return NULL;
}

static void run_service(keeper *k, service *s)
{
    const ps_child_conf conf = {.argv = (const char *const *)s->argv,
                                .has_out = true,
                                .has_err = true,
                                .dies_with_parent = true};
    ps_status st = ps_child_start(&conf, &s->child);

    if (!ps_is_ok(&st)) {
        say_ended(k, s, st.text);
    }
}

/* Makes a private key for a service and sends the launcher the request for its certificate. */
static ps_status ask_for_certificate(keeper *k, service *s, const char *principal)
{
    ps_subject subject = {0};
    ps_credentials_paths paths;
    ps_request request;
    char *pem = NULL;
    size_t n = 0;
    ps_status st = ps_principal_parse(principal, &subject.who);

    if (ps_is_ok(&st)) {
        st = ps_credentials_request(s->tls_dir, &subject, &request);
    }
    if (ps_is_ok(&st)) {
        st = ps_credentials_find(s->tls_dir, &paths);
    }
    if (ps_is_ok(&st)) {
        st = ps_file_read(paths.request, PS_PKI_FILE_MAX, &pem, &n);
    }
    if (ps_is_ok(&st)) {
        say(k, "request", s->name, "pem", pem, n);
    }
    free(pem);
    return st;
}

static bool is_program(const char *name)
{
    return strcmp(name, "psgd-coordinator") == 0 || strcmp(name, "psgd-worker") == 0 ||
           strcmp(name, "psgd-pserver") == 0;
}

/* Fills the arguments of a service: those of the launcher's order, and the folders, which only the
 * keeper knows. */
static ps_status fill_arguments(keeper *k, service *s, const json_t *order)
{
    const json_t *args = json_object_get(order, "args");
    const char *program = ps_lines_text(order, "program");
    size_t n = json_array_size(args), used = 0;
    char path[PS_PATH_MAX];
    ps_status st = ps_ok();

    if (!is_program(program) || n > ARGS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "program \"%s\" with %zu arguments: one of psgd with "
                       "at most %d is allowed",
                       PS_SHORT(program, 40), n, ARGS_MAX);
    }
    s->argv = ps_xcalloc(n + 6, sizeof *s->argv);
    s->is_coordinator = strcmp(program, "psgd-coordinator") == 0;
    st = ps_path_join(path, sizeof path, k->programs, program);
    s->argv[used++] = ps_xstrdup(path);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(args, i));

        s->argv[used++] = ps_xstrdup(text != NULL ? text : "");
    }
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, k->folder, s->name);
    }
    s->argv[used++] = ps_xstrdup("--data-dir");
    s->argv[used++] = ps_xstrdup(path);
    if (ps_is_ok(&st) && s->fingerprint != NULL) {
        int bytes = snprintf(s->tls_dir, sizeof s->tls_dir, "%s-tls", path);

        if (bytes < 0 || (size_t)bytes >= sizeof s->tls_dir) {
            return ps_fail(PS_OUT_OF_RANGE, "%s: too long", PS_PATH_SHOWN(path));
        }
        s->argv[used++] = ps_xstrdup("--tls-dir");
        s->argv[used++] = ps_xstrdup(s->tls_dir);
    }
    return st;
}

/* Starts the service of an order. If the service was started before, kills what still runs of it
 * and starts it again. For a service with TLS without a valid certificate, requests one; `install`
 * then starts the service. */
static void start_service(keeper *k, const json_t *order)
{
    const char *name = ps_lines_text(order, "name"), *who = ps_lines_text(order, "principal");
    const char *fingerprint = ps_lines_text(order, "fingerprint");
    service *s = find(k, name);
    ps_certificate own;
    ps_status st;

    if (!ps_plain_name_is_valid(name, NAME_MAX_BYTES - 1) || (s == NULL && k->n == SERVICES_MAX)) {
        return; /* ignored: a launcher of this version sends no such name, and not so many */
    }
    if (s == NULL) {
        k->services = ps_xrealloc(k->services, (k->n + 1) * sizeof *k->services);
        s = &k->services[k->n++];
    } else {
        service_fini(s);
    }
    *s = (service){.fingerprint = fingerprint[0] != '\0' ? ps_xstrdup(fingerprint) : NULL};
    snprintf(s->name, sizeof s->name, "%s", name);
    st = fill_arguments(k, s, order);
    if (ps_is_ok(&st) && s->fingerprint != NULL) {
        st = ps_credentials_check(s->tls_dir, &own);
        if (!ps_is_ok(&st)) { /* the service has no valid certificate yet */
            st = ask_for_certificate(k, s, who);
            if (ps_is_ok(&st)) {
                return;
            }
        }
    }
    if (ps_is_ok(&st)) {
        run_service(k, s);
    } else {
        say_ended(k, s, st.text);
    }
}

static void install(keeper *k, const json_t *order)
{
    service *s = find(k, ps_lines_text(order, "name"));
    const char *pem = ps_lines_text(order, "pem");
    ps_certificate own;
    ps_status st;

    if (s == NULL || s->fingerprint == NULL || s->child.pid > 0) {
        return;
    }
    st = ps_credentials_install(s->tls_dir, "certificate", pem, strlen(pem), s->fingerprint, &own);
    if (ps_is_ok(&st)) {
        run_service(k, s);
    } else {
        say_ended(k, s, st.text);
    }
}

/* --- the end -------------------------------------------------------------------- */

static void signal_all(keeper *k, int signo)
{
    for (size_t i = 0; i < k->n; i++) {
        ps_child_signal(&k->services[i].child, signo);
    }
}

static bool has_running(const keeper *k, bool with_coordinator)
{
    for (size_t i = 0; i < k->n; i++) {
        const service *s = &k->services[i];

        if (s->child.pid > 0 && (with_coordinator || !s->is_coordinator)) {
            return true;
        }
    }
    return false;
}

static void begin_end(keeper *k, int64_t now_us)
{
    k->ending_us = k->ending_us > 0 ? k->ending_us : now_us;
    for (size_t i = 0; i < k->n; i++) {
        if (!k->services[i].is_coordinator) {
            ps_child_signal(&k->services[i].child, SIGTERM);
        }
    }
}

/* Kills all services that still run. They get no time to shut down, as nobody needs their results
 * any more. */
static void give_up(keeper *k)
{
    k->is_killing = true;
    signal_all(k, SIGKILL);
}

/* --- the loop ------------------------------------------------------------------- */

static void obey(keeper *k, const ps_strbuf *line, int64_t now_us)
{
    json_t *order = line->len > 0 ? json_loads(ps_strbuf_text(line), 0, NULL) : NULL;
    const char *what = ps_lines_text(order, "do");

    if (strcmp(what, "start") == 0 && k->ending_us == 0) {
        start_service(k, order);
    } else if (strcmp(what, "install") == 0 && k->ending_us == 0) {
        install(k, order);
    } else if (strcmp(what, "end") == 0) {
        begin_end(k, now_us);
    } else if (strcmp(what, "kill") == 0) {
        give_up(k);
    }
    json_decref(order);
}

/* Sends the launcher the whole lines of a service's log that have arrived. Sends an incomplete last
 * line, too, if `is_last`, or if more than OUT_MAX bytes have arrived. */
static void pass_log(keeper *k, service *s, bool is_last)
{
    const char *end = s->log.len > 0 ? memrchr(s->log.data, '\n', s->log.len) : NULL;
    size_t n = is_last || s->log.len > OUT_MAX ? s->log.len
               : end != NULL                   ? (size_t)(end - s->log.data) + 1
                                               : 0;

    if (n > 0) {
        say(k, "log", s->name, "text", s->log.data, n);
        memmove(s->log.data, s->log.data + n, s->log.len - n);
        ps_strbuf_truncate(&s->log, s->log.len - n);
    }
}

static void pass_lines(keeper *k, service *s, bool is_last)
{
    ps_strbuf line = {0};

    while (ps_lines_take(&s->out, is_last, &line)) {
        say(k, "line", s->name, "text", ps_strbuf_text(&line), line.len);
    }
    ps_strbuf_fini(&line);
}

/* Reads what a service has written, until a read would block or the buffer has OUT_MAX bytes.
 * Closes the descriptor at the end of the output. */
static void drain(int *fd, ps_strbuf *buffer)
{
    size_t before;

    do {
        before = buffer->len;
        if (!ps_lines_read(*fd, buffer)) {
            close(*fd);
            *fd = -1;
        }
    } while (*fd > 0 && buffer->len > before && buffer->len < OUT_MAX);
}

static void look_at(keeper *k, service *s)
{
    char text[PS_CHILD_END_BYTES];
    int status = 0;
    bool has_ended = ps_child_ended(&s->child, &status);

    if (s->child.out > 0) {
        drain(&s->child.out, &s->out);
    }
    if (s->child.err > 0) {
        drain(&s->child.err, &s->log);
    }
    pass_lines(k, s, has_ended);
    pass_log(k, s, has_ended);
    if (has_ended) {
        ps_child_fini(&s->child);
        say_ended(k, s, ps_child_end_text(status, text));
    }
}

/* Sends a sign of life if one is due. Kills the services if the launcher is silent for more than
 * silence_us, unless that is 0. After an order to end, kills all services that still run GRACE_US
 * later, and the coordinator as soon as no node runs any more. Sets is_over: whether, after an
 * order to end or a kill, no service runs any more. */
static void look_at_time(keeper *k, int64_t now_us)
{
    if (now_us - k->said_us >= LIVE_US) {
        k->said_us = now_us;
        if (k->out.len < OUT_MAX) {
            ps_strbuf_putc(&k->out, '\n');
        }
    }
    if (k->silence_us > 0 && now_us - k->heard_us > k->silence_us) {
        give_up(k);
    }
    if (k->ending_us > 0 && now_us - k->ending_us > GRACE_US) {
        give_up(k);
    }
    /* No node runs any more: kill the coordinator, whose folder with the jobs is removed anyway. */
    if (k->ending_us > 0 && !has_running(k, false)) {
        give_up(k);
    }
    k->is_over = (k->is_killing || k->ending_us > 0) && !has_running(k, true);
}

static void add_fd(struct pollfd *fds, nfds_t *n, int fd, short events)
{
    fds[*n] = (struct pollfd){.fd = fd > 0 ? fd : -1, .events = events};
    ++*n;
}

static void turn(keeper *k, int signals, struct pollfd *fds)
{
    short logs = k->out.len < OUT_MAX ? POLLIN : 0;
    nfds_t n = 0;
    ps_strbuf line = {0};
    int64_t now_us;

    /* descriptor 0 is this program's own input, so add_fd, for which 0 means none, cannot be
     * used */
    fds[n++] = (struct pollfd){.fd = k->is_killing ? -1 : STDIN_FILENO, .events = POLLIN};
    add_fd(fds, &n, k->out.len > 0 ? STDOUT_FILENO : -1, POLLOUT);
    add_fd(fds, &n, signals, POLLIN);
    for (size_t i = 0; i < k->n; i++) {
        const ps_child *c = &k->services[i].child;

        add_fd(fds, &n, c->fd, POLLIN);
        add_fd(fds, &n, logs ? c->out : -1, logs);
        add_fd(fds, &n, logs ? c->err : -1, logs);
    }
    (void)poll(fds, n, (int)(LIVE_US / 2000));
    now_us = ps_clock_us();
    if (fds[0].revents != 0) {
        k->heard_us = now_us;
        if (!ps_lines_read(STDIN_FILENO, &k->in)) {
            give_up(k);
        }
        while (ps_lines_take(&k->in, false, &line)) {
            obey(k, &line, now_us);
        }
    }
    if (fds[2].revents != 0) {
        struct signalfd_siginfo info;

        (void)!read(signals, &info, sizeof info);
        begin_end(k, now_us);
    }
    for (size_t i = 0; i < k->n; i++) {
        look_at(k, &k->services[i]);
    }
    look_at_time(k, now_us);
    if (k->out.len > 0 && !ps_lines_write(STDOUT_FILENO, &k->out)) {
        ps_strbuf_clear(&k->out);
        give_up(k);
    }
    ps_strbuf_fini(&line);
}

/* --- the beginning ---------------------------------------------------------------- */

static ps_status make_folder(keeper *k)
{
    const char *temp = getenv("TMPDIR");

    snprintf(k->folder, sizeof k->folder, "%.400s/psgd-launch-XXXXXX",
             temp != NULL && temp[0] == '/' ? temp : "/tmp");
    return mkdtemp(k->folder) != NULL ? ps_ok()
                                      : ps_fail_errno(errno, "folder %s", PS_PATH_SHOWN(k->folder));
}

static ps_status find_programs(keeper *k)
{
    ssize_t n = readlink("/proc/self/exe", k->programs, sizeof k->programs - 1);
    char *slash;

    if (n < 0) {
        return ps_fail_errno(errno, "/proc/self/exe");
    }
    k->programs[n] = '\0';
    slash = strrchr(k->programs, '/');
    if (slash == NULL || (size_t)n == sizeof k->programs - 1) {
        return ps_fail(PS_OUT_OF_RANGE, "the path of psgd is too long");
    }
    *slash = '\0';
    return ps_ok();
}

/* Sends the launcher the keeper's version and folder, and the addresses of both ends of the
 * connection if sshd has set them. */
static void greet(keeper *k)
{
    const char *ssh = getenv("SSH_CONNECTION");
    char from[64] = "", at[64] = "";

    if (ssh == NULL || sscanf(ssh, "%63s %*s %63s", from, at) != 2) {
        from[0] = at[0] = '\0';
    }
    ps_lines_put(&k->out, json_pack("{s:s, s:s, s:s, s:s, s:s}", "say", "hello", "version",
                                    PS_VERSION, "folder", k->folder, "from", from, "at", at));
}

int ps_keeper_run(int64_t silence_us)
{
    keeper k = {.silence_us = silence_us, .heard_us = ps_clock_us()};
    size_t fds_max = FDS_OWN + (size_t)SERVICES_MAX * FDS_OF_SERVICE;
    struct pollfd *fds = ps_xcalloc(fds_max, sizeof *fds);
    sigset_t set;
    int signals;
    ps_status st;

    ps_files_private();
    ps_keeper_clean_environment();
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    st = signals < 0 ? ps_fail_errno(errno, "signalfd") : find_programs(&k);
    if (ps_is_ok(&st)) {
        st = make_folder(&k);
    }
    if (ps_is_ok(&st)) {
        fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
        fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
        greet(&k);
        while (!k.is_over) {
            turn(&k, signals, fds);
        }
        while (k.out.len > 0 && !k.is_killing &&
               poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, 1000) == 1 &&
               ps_lines_write(STDOUT_FILENO, &k.out)) {
        }
        for (size_t i = 0; i < k.n; i++) {
            service_fini(&k.services[i]);
        }
        st = ps_dir_remove(k.folder);
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "psgd launch: %s\n", st.text);
    }
    close(signals);
    free(fds);
    free(k.services);
    ps_strbuf_fini(&k.in);
    ps_strbuf_fini(&k.out);
    return ps_is_ok(&st) ? 0 : 1;
}
