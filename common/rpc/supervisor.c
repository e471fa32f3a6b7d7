/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor.c - see supervisor.h. */
#include "common/rpc/supervisor.h"

#include "common/base/container_of.h"
#include "common/base/log.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Sends `what` to the supervisor as one datagram, to the socket that NOTIFY_SOCKET names: a path,
 * or an abstract name if it begins with '@'. Does nothing if the variable is not set. Failures are
 * only logged. */
static void say(const char *what)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path == NULL ? 0 : strlen(path);
    int fd;

    if (n == 0) {
        return;
    }
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof to.sun_path) {
        ps_log(PS_LOG_WARN, "main",
               "NOTIFY_SOCKET: an absolute path, or @ and a name, of at most %zu bytes is allowed",
               sizeof to.sun_path - 1);
        return;
    }
    memcpy(to.sun_path, path, n);
    if (path[0] == '@') {
        to.sun_path[0] = '\0';
    }
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || sendto(fd, what, strlen(what), MSG_NOSIGNAL, (const struct sockaddr *)&to,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0) {
        ps_log(PS_LOG_WARN, "main", "cannot tell the supervisor (NOTIFY_SOCKET): %s",
               strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* Returns the time in microseconds after which the supervisor takes a silent process for dead
 * (WATCHDOG_USEC). Returns 0 if it never does, or WATCHDOG_PID names another process. */
static int64_t patience_us(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;
    long long us;

    if (text == NULL || (pid != NULL && strtoll(pid, NULL, 10) != (long long)getpid())) {
        return 0;
    }
    errno = 0;
    us = strtoll(text, &end, 10);
    return errno == 0 && *end == '\0' && us > 0 ? us : 0;
}

static void on_alive(ps_event *event, bool ok)
{
    ps_timer *timer = PS_CONTAINER_OF(event, ps_timer, event);
    ps_supervisor *s = PS_CONTAINER_OF(timer, ps_supervisor, alive);

    if (ok) {
        say("WATCHDOG=1");
        ps_loop_after(s->loop, &s->alive, s->period_us);
    }
}

void ps_supervisor_ready(ps_supervisor *s, ps_loop *loop)
{
    s->loop = loop;
    s->alive.event.fire = on_alive;
    s->period_us = patience_us() / 2;
    say("READY=1");
    if (s->period_us > 0) {
        ps_loop_after(loop, &s->alive, s->period_us);
    }
}

void ps_supervisor_stopping(void)
{
    say("STOPPING=1");
}
