/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child.h. */
#include "clients/psgd/child.h"

#include "common/base/shorten.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_NO_PROGRAM = 127, PIPES = 3 };

/* The pipes to a child. ends[fd] is the pipe for the child's descriptor fd, 0 to 2: [fd][0] is its
 * reading end, [fd][1] its writing end. -1: not open. */
typedef struct pipes {
    int ends[PIPES][2];
    int report[2]; /* the child writes errno here if it cannot execute the program */
} pipes;

static void close_one(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void close_all(pipes *p)
{
    for (size_t i = 0; i < PIPES; i++) {
        close_one(&p->ends[i][0]);
        close_one(&p->ends[i][1]);
    }
    close_one(&p->report[0]);
    close_one(&p->report[1]);
}

static ps_status open_all(const bool wanted[PIPES], pipes *p)
{
    bool good = true;

    memset(p, -1, sizeof *p);
    for (size_t i = 0; i < PIPES; i++) {
        good = good && (!wanted[i] || pipe2(p->ends[i], O_CLOEXEC) == 0);
    }
    if (!good || pipe2(p->report, O_CLOEXEC) != 0) {
        ps_status st = ps_fail_errno(errno, "pipe");

        close_all(p);
        return st;
    }
    return ps_ok();
}

/* Turns the forked process into the program of `conf`. Calls async-signal-safe functions only,
 * because other threads of the parent may have held any lock at the fork. */
static void become(const ps_child_conf *conf, const pipes *p, pid_t parent)
{
    sigset_t none;
    int err;

    setpgid(0, 0);
    if (conf->dies_with_parent && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        _exit(EXIT_NO_PROGRAM);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    for (int fd = 0; fd < PIPES; fd++) {
        int from = p->ends[fd][fd == 0 ? 0 : 1];

        if (from >= 0) {
            dup2(from, fd);
        } else if (fd == 0 && (from = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
            dup2(from, fd);
        }
    }
    execvp(conf->argv[0], (char *const *)conf->argv);
    err = errno;
    (void)!write(p->report[1], &err, sizeof err);
    _exit(EXIT_NO_PROGRAM);
}

static int take_end(pipes *p, int pipe, int end)
{
    int fd = p->ends[pipe][end];

    p->ends[pipe][end] = -1;
    if (fd >= 0) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
    }
    return fd;
}

ps_status ps_child_start(const ps_child_conf *conf, ps_child *out)
{
    const bool wanted[PIPES] = {conf->has_in, conf->has_out, conf->has_err};
    pid_t parent = getpid(), pid;
    int err = 0;
    pipes p;
    ps_status st = open_all(wanted, &p);

    if (!ps_is_ok(&st)) {
        return st;
    }
    fflush(NULL);
    /* Not fork(): its handlers, such as that of OpenBLAS, would end threads of the parent. */
    pid = _Fork();
    if (pid == 0) {
        become(conf, &p, parent);
    }
    if (pid < 0) {
        st = ps_fail_errno(errno, "fork");
        close_all(&p);
        return st;
    }
    /* parent and child both do this, so that the group exists, whichever runs first */
    setpgid(pid, pid);
    close_one(&p.report[1]);
    if (read(p.report[0], &err, sizeof err) == sizeof err) {
        waitpid(pid, NULL, 0);
        close_all(&p);
        return ps_fail_errno(err, "%s", PS_SHORT(conf->argv[0], 100));
    }
    *out = (ps_child){.pid = pid, .fd = pidfd_open(pid, 0)};
    out->in = take_end(&p, 0, 1);
    out->out = take_end(&p, 1, 0);
    out->err = take_end(&p, 2, 0);
    close_all(&p);
    if (out->fd < 0) {
        st = ps_fail_errno(errno, "pidfd_open");
        ps_child_fini(out);
    }
    return st;
}

void ps_child_signal(const ps_child *child, int signo)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, signo);
    }
}

bool ps_child_ended(ps_child *child, int *status)
{
    if (child->pid > 0 && waitpid(child->pid, status, WNOHANG) == child->pid) {
        (void)kill(-child->pid, SIGKILL); /* kills processes that the child has left in its group */
        child->pid = 0;
        close_one(&child->fd);
        return true;
    }
    return false;
}

void ps_child_close_in(ps_child *child)
{
    if (child->in > 0) {
        close_one(&child->in);
    }
}

void ps_child_fini(ps_child *child)
{
    if (child->pid > 0) {
        ps_child_signal(child, SIGKILL);
        waitpid(child->pid, NULL, 0);
        child->pid = 0;
    }
    /* 0, as in a zeroed child, means none: descriptor 0 is this program's input. */
    for (size_t i = 0; i < 4; i++) {
        int *fd = i == 0 ? &child->fd : i == 1 ? &child->in : i == 2 ? &child->out : &child->err;

        if (*fd > 0) {
            close_one(fd);
        }
    }
}

const char *ps_child_end_text(int status, char text[PS_CHILD_END_BYTES])
{
    if (WIFSIGNALED(status)) {
        snprintf(text, PS_CHILD_END_BYTES, "signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(text, PS_CHILD_END_BYTES, "exit code %d", WEXITSTATUS(status));
    }
    return text;
}
