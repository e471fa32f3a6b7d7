/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c - see listen.h. */
#include "common/rpc/listen.h"

#include "common/base/address.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* Listens at `at` and closes the socket at once. Returns 0 or the errno of the call that failed. */
static int try_to_listen(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, err = 0;

    if (fd < 0) {
        return errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        err = errno;
    }
    close(fd);
    return err;
}

ps_status ps_listen_failure(const char *address)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    ps_address a;
    ps_status st = ps_address_parse(address, "127.0.0.1", 0, &a);
    char port[8];
    int err;

    if (!ps_is_ok(&st)) {
        st.code = PS_UNAVAILABLE;
        return ps_wrap(st, "cannot listen on %s", address);
    }
    snprintf(port, sizeof port, "%u", (unsigned)a.port);
    err = getaddrinfo(a.host, port, &hints, &found);
    if (err != 0) {
        return ps_fail(PS_UNAVAILABLE, "cannot listen on %s: %s", address, gai_strerror(err));
    }
    err = try_to_listen(found);
    freeaddrinfo(found);
    if (err == 0) { /* the address has become free since gRPC failed */
        return ps_fail(PS_UNAVAILABLE, "cannot listen on %s", address);
    }
    st = ps_fail_errno(err, "cannot listen on %s", address);
    st.code = PS_UNAVAILABLE;
    return st;
}
