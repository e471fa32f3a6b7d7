/* SPDX-License-Identifier: Apache-2.0 */
/* dial.c - see dial.h. */
#include "common/rpc/dial.h"

#include "common/base/address.h"
#include "common/base/clock.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Waits until a non-blocking connect of `fd` has ended, at most until `until_us`. Returns 0, the
 * connect's errno, or ETIMEDOUT. */
static int finish(int fd, int64_t until_us)
{
    struct pollfd pfd = {.fd = fd, .events = POLLOUT};
    int64_t left_us = until_us - ps_clock_us();
    int err = ETIMEDOUT;
    socklen_t size = sizeof err;

    if (left_us > 0 && poll(&pfd, 1, (int)(left_us / 1000) + 1) == 1) {
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size);
    }
    return err;
}

ps_status ps_dial_look_up(const char *address, int type, struct addrinfo **list)
{
    struct addrinfo hints = {.ai_socktype = type};
    ps_address a;
    char port[8];
    int code;
    ps_status st = ps_address_parse(address, "127.0.0.1", 0, &a);

    if (!ps_is_ok(&st)) {
        return st;
    }
    snprintf(port, sizeof port, "%u", (unsigned)a.port);
    code = getaddrinfo(a.host, port, &hints, list);
    return code == 0 ? ps_ok() : ps_fail(PS_UNAVAILABLE, "%s", gai_strerror(code));
}

ps_status ps_dial(const char *address, int64_t timeout_us, int *fd)
{
    struct addrinfo *list = NULL;
    int64_t until_us = ps_clock_us() + timeout_us;
    int err = ECONNREFUSED;
    ps_status st = ps_dial_look_up(address, SOCK_STREAM, &list);

    *fd = -1;
    if (!ps_is_ok(&st)) {
        return st;
    }
    for (struct addrinfo *at = list; at != NULL && *fd < 0; at = at->ai_next) {
        int s = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (s < 0) {
            err = errno;
            continue;
        }
        err = connect(s, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
        err = err == EINPROGRESS ? finish(s, until_us) : err;
        if (err == 0) {
            *fd = s;
        } else {
            close(s);
        }
    }
    freeaddrinfo(list);
    return err == 0 ? ps_ok()
                    : ps_fail(err == ECONNREFUSED ? PS_NOT_FOUND : PS_UNAVAILABLE, "%s",
                              strerror(err));
}

bool ps_dial_is_refused(const char *address, int64_t timeout_us)
{
    int fd;
    ps_status st = ps_dial(address, timeout_us, &fd);

    if (fd >= 0) {
        close(fd);
    }
    return st.code == PS_NOT_FOUND;
}
