/* SPDX-License-Identifier: Apache-2.0 */
/* launch_host.c - see launch_host.h. */
#include "clients/psgd/launch_host.h"

#include "common/base/clock.h"
#include "common/base/shorten.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    COMMAND_BYTES = 700,
    ERR_MAX = 8 << 10, /* most bytes of stderr that are kept, from its end */
    ARGS_MAX = 32,
    EXIT_NO_PROGRAM = 127, /* the shell's exit code if there is no psgd on the other host */
    START_US = 20000000,   /* a host that is silent for longer, and sent no "hello", is lost */
    LIVE_US = 1000000,     /* microseconds between two signs of life to a keeper by ssh */
    SILENCE_US = 10000000  /* another host that is silent for longer, after "hello", is lost */
};

/* Time without a message from the launcher after which a keeper on another host ends itself. It is
 * longer than SILENCE_US: the launcher first reports that the host is lost. */
#define KEEPER_SILENCE "15s"

/* Parts of messages of ssh, with what they mean and what to do; each %s stands for the host. */
static const struct {
    const char *says, *means;
} troubles[] = {
    {"REMOTE HOST IDENTIFICATION HAS CHANGED",
     "host %s has another key than the one that is known: somebody else may answer in its place. "
     "If it was installed again, remove the old key (ssh-keygen -R %s) and log in once by ssh"},
    {"Host key verification failed",
     "the key of host %s is not known here: log in once (ssh %s), and compare its fingerprint"},
    {"No matching host key", "host %s offers no key that ssh takes: see ssh -v %s"},
    {"Permission denied",
     "host %s lets nobody in without a password: put a key there (ssh-copy-id %s)"},
    {"Could not resolve hostname", "host %s is not known: correct its name, or ask for %s in DNS"},
    {"No route to host", "host %s cannot be reached: is it up? Try ssh %s"},
    {"Connection refused", "host %s has no sshd that answers: start it, and try ssh %s"},
    {"timed out", "host %s does not answer: is it up? Try ssh %s"},
    {"not responding", "host %s does not answer any more: is it up? Try ssh %s"},
};

static ps_status check_path(const char *path)
{
    size_t n = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._+-");

    return path[0] != '\0' && path[0] != '-' && path[n] == '\0' && n < COMMAND_BYTES - 100
               ? ps_ok()
               : ps_fail(PS_INVALID_ARGUMENT,
                         "--psgd \"%s\": a path of A-Z a-z 0-9 / . _ + - is allowed, because a "
                         "shell reads it",
                         PS_SHORT(path, 80));
}

ps_status ps_launch_host_start(ps_launch_host *host, const char *name, bool is_remote,
                               const char *self, const ps_launch_ssh *ssh)
{
    const char *argv[ARGS_MAX];
    char command[COMMAND_BYTES];
    size_t n = 0;
    const ps_child_conf conf = {.argv = argv, .has_in = true, .has_out = true, .has_err = true};
    ps_status st = ps_ok();

    *host = (ps_launch_host){.name = name, .is_remote = is_remote, .heard_us = ps_clock_us()};
    if (!is_remote) {
        argv[n++] = self;
        argv[n++] = "launch";
        argv[n++] = "--keep-host=0s";
        argv[n] = NULL;
        return ps_child_start(&conf, &host->child);
    }
    st = check_path(ssh->psgd);
    if (!ps_is_ok(&st)) {
        return st;
    }
    snprintf(command, sizeof command, "exec %s launch --keep-host=" KEEPER_SILENCE, ssh->psgd);
    argv[n++] = "ssh";
    if (ssh->config != NULL) {
        argv[n++] = "-F";
        argv[n++] = ssh->config;
    }
    argv[n++] = "-T";
    argv[n++] = "-oBatchMode=yes";
    argv[n++] = "-oConnectTimeout=10";
    argv[n++] = "-oServerAliveInterval=3";
    argv[n++] = "-oServerAliveCountMax=3";
    argv[n++] = "-oControlPath=none"; /* a shared connection would outlive this one */
    argv[n++] = "-oClearAllForwardings=yes";
    argv[n++] = "--";
    argv[n++] = name;
    argv[n++] = command;
    argv[n] = NULL;
    return ps_child_start(&conf, &host->child);
}

void ps_launch_host_say(ps_launch_host *host, json_t *document)
{
    if (host->is_gone) {
        json_decref(document);
        return;
    }
    ps_lines_put(&host->out, document);
}

void ps_launch_host_poll(const ps_launch_host *host, struct pollfd *fds)
{
    const ps_child *c = &host->child;
    int each[PS_LAUNCH_HOST_FDS] = {host->out.len > 0 ? c->in : -1, c->out, c->err, c->fd};

    for (size_t i = 0; i < PS_LAUNCH_HOST_FDS; i++) {
        fds[i] =
            (struct pollfd){.fd = each[i] > 0 ? each[i] : -1, .events = i == 0 ? POLLOUT : POLLIN};
    }
}

/* Writes the last line that the host's child has written to stderr to `text`, and returns it. */
static const char *last_line(const ps_launch_host *host, char *text, size_t cap)
{
    const char *all = ps_strbuf_text(&host->err), *start;
    size_t n = host->err.len;

    while (n > 0 && (all[n - 1] == '\n' || all[n - 1] == '\r')) {
        n--;
    }
    start = n > 0 ? memrchr(all, '\n', n) : NULL;
    start = start != NULL ? start + 1 : all;
    snprintf(text, cap, "%.*s", (int)(all + n - start), start);
    return text;
}

/* Sets host->reason, why the link has ended, from what ssh (on this host: the keeper) has written
 * to stderr, and from its exit status. */
static void set_reason(ps_launch_host *host, int status)
{
    const char *said = ps_strbuf_text(&host->err);
    char end[PS_CHILD_END_BYTES], line[200];

    last_line(host, line, sizeof line);
    for (size_t i = 0; host->is_remote && i < sizeof troubles / sizeof troubles[0]; i++) {
        if (strstr(said, troubles[i].says) != NULL) {
            const char *means = troubles[i].means, *first = strstr(means, "%s");
            const char *second = strstr(first + 2, "%s");

            snprintf(host->reason, sizeof host->reason, "%.*s%s%.*s%s%s (ssh: %s)",
                     (int)(first - means), means, PS_SHORT(host->name, 60),
                     (int)(second - first - 2), first + 2, PS_SHORT(host->name, 60), second + 2,
                     line);
            return;
        }
    }
    if (host->is_remote && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_PROGRAM) {
        snprintf(host->reason, sizeof host->reason,
                 "host %s has no psgd there: install psgd " PS_VERSION " on it, or say where it "
                 "is by --psgd PATH (%s)",
                 PS_SHORT(host->name, 60), line);
        return;
    }
    snprintf(host->reason, sizeof host->reason, "host %s is lost: %s%s%s%s",
             PS_SHORT(host->name, 60),
             host->is_remote ? "ssh ended with " : "its keeper ended with ",
             ps_child_end_text(status, end), line[0] != '\0' ? ": " : "", line);
}

/* Ends the link to a host's keeper, and marks the host as gone. Kills ssh, or the keeper on this
 * host, if it still runs. */
static void part(ps_launch_host *host)
{
    host->is_gone = true;
    ps_child_fini(&host->child);
    ps_strbuf_clear(&host->out);
}

static void lose(ps_launch_host *host, const char *why)
{
    part(host);
    snprintf(host->reason, sizeof host->reason, "%s", why);
}

static void take_hello(ps_launch_host *host, const json_t *hello)
{
    char why[PS_LAUNCH_REASON_BYTES];

    snprintf(host->folder, sizeof host->folder, "%s", ps_lines_text(hello, "folder"));
    snprintf(host->from, sizeof host->from, "%s", ps_lines_text(hello, "from"));
    snprintf(host->at, sizeof host->at, "%s", ps_lines_text(hello, "at"));
    host->is_up = true;
    if (strcmp(ps_lines_text(hello, "version"), PS_VERSION) != 0) {
        snprintf(why, sizeof why,
                 "host %s has psgd %s, and this one has " PS_VERSION ": install the same version "
                 "on both, or say by --psgd PATH where it is",
                 PS_SHORT(host->name, 60), PS_SHORT(ps_lines_text(hello, "version"), 40));
        lose(host, why);
    }
}

static void hear_all(ps_launch_host *host, ps_launch_hear_fn *hear, void *arg)
{
    ps_strbuf line = {0};

    while (!host->is_gone && ps_lines_take(&host->in, false, &line)) {
        /* A line that is not JSON is ignored: a login script may have printed it. */
        json_t *document = line.len > 0 ? json_loads(ps_strbuf_text(&line), 0, NULL) : NULL;

        if (strcmp(ps_lines_text(document, "say"), "hello") == 0) {
            take_hello(host, document);
        } else if (document != NULL && host->is_up) {
            hear(arg, host, document);
        }
        json_decref(document);
    }
    ps_strbuf_fini(&line);
}

/* Reads the child's stderr and keeps its last ERR_MAX bytes. */
static void read_err(ps_launch_host *host)
{
    if (host->child.err > 0 && !ps_lines_read(host->child.err, &host->err)) {
        close(host->child.err);
        host->child.err = -1;
    }
    if (host->err.len > ERR_MAX) {
        memmove(host->err.data, host->err.data + host->err.len - ERR_MAX, ERR_MAX);
        ps_strbuf_truncate(&host->err, ERR_MAX);
    }
}

void ps_launch_host_look(ps_launch_host *host, int64_t now_us, ps_launch_hear_fn *hear, void *arg)
{
    char why[PS_LAUNCH_REASON_BYTES];
    size_t before = host->in.len;
    int status = 0;
    bool has_ended;

    if (host->is_gone) {
        return;
    }
    /* Ask before the reads. If the child could write and end between the reads and this, its last
     * lines would be lost. */
    has_ended = ps_child_ended(&host->child, &status);
    read_err(host);
    if (host->child.out > 0 && !ps_lines_read(host->child.out, &host->in)) {
        close(host->child.out);
        host->child.out = -1;
    }
    if (host->in.len > before) {
        host->heard_us = now_us;
    }
    hear_all(host, hear, arg);
    if (has_ended && !host->is_gone) {
        set_reason(host, status);
        part(host);
        return;
    }
    if (host->is_remote && now_us - host->said_us >= LIVE_US && host->out.len == 0) {
        host->said_us = now_us;
        ps_strbuf_putc(&host->out, '\n');
    }
    if (host->out.len > 0 && host->child.in > 0 && !ps_lines_write(host->child.in, &host->out)) {
        ps_strbuf_clear(&host->out); /* the child reads no more; ps_child_ended soon tells why */
        ps_child_close_in(&host->child);
    }
    if (!host->is_gone && !host->is_up && now_us - host->heard_us > START_US) {
        snprintf(why, sizeof why, "host %s has not answered for %d s: does 'ssh %s true' work?",
                 PS_SHORT(host->name, 60), START_US / 1000000, PS_SHORT(host->name, 60));
        lose(host, why);
    }
    if (!host->is_gone && host->is_up && host->is_remote && now_us - host->heard_us > SILENCE_US) {
        snprintf(why, sizeof why,
                 "host %s is lost: it has said nothing for %d s. Is it up? Its processes end by "
                 "themselves after " KEEPER_SILENCE,
                 PS_SHORT(host->name, 60), SILENCE_US / 1000000);
        lose(host, why);
    }
}

void ps_launch_host_fini(ps_launch_host *host)
{
    ps_child_fini(&host->child);
    ps_strbuf_fini(&host->in);
    ps_strbuf_fini(&host->out);
    ps_strbuf_fini(&host->err);
}

ps_status ps_launch_host_find_here(const ps_launch_host *hosts, size_t count, const char *address,
                                   char here[PS_ADDRESS_HOST_BYTES])
{
    const char *from = NULL;

    if (count == 1) {
        snprintf(here, PS_ADDRESS_HOST_BYTES, "127.0.0.1");
        return ps_ok();
    }
    for (size_t i = 1; i < count && address == NULL; i++) {
        const ps_launch_host *host = &hosts[i];

        if (host->from[0] == '\0' || host->at[0] == '\0') {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "host %s: its sshd does not say the addresses of the connection; say "
                           "--address HOST, at which the others reach this host",
                           PS_SHORT(host->name, 40));
        }
        if (from != NULL && strcmp(from, host->from) != 0) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "hosts see this one at %s and at %s; say --address HOST, at which all "
                           "reach it",
                           PS_SHORT(from, 40), PS_SHORT(host->from, 40));
        }
        from = host->from;
    }
    snprintf(here, PS_ADDRESS_HOST_BYTES, "%s", address != NULL ? address : from);
    return ps_ok();
}
