/* SPDX-License-Identifier: Apache-2.0 */
/* local_socket.c - see local_socket.h. */
#include "common/rpc/local_socket.h"

#include "common/base/address.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char scheme[] = "unix-abstract:";

bool ps_local_target(const char *address, char out[PS_LOCAL_TARGET_BYTES])
{
    ps_address a;
    ps_status st = ps_address_parse(address, "127.0.0.1", 0, &a);
    struct in_addr number;
    char host[INET_ADDRSTRLEN];

    if (!ps_is_ok(&st) || a.port == 0 || !ps_address_is_loopback(&a) ||
        inet_pton(AF_INET, a.host, &number) != 1 ||
        inet_ntop(AF_INET, &number, host, sizeof host) == NULL) {
        return false;
    }
    snprintf(out, PS_LOCAL_TARGET_BYTES, "%spsgd-%s-%u", scheme, host, (unsigned)a.port);
    return true;
}

bool ps_local_is_served(const char *target)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX}; /* an abstract name begins with a zero byte */
    size_t len = strlen(target + sizeof scheme - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is;

    if (fd < 0) {
        return false;
    }
    memcpy(at.sun_path + 1, target + sizeof scheme - 1, len);
    is = connect(fd, (const struct sockaddr *)&at,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0 &&
         ps_local_is_of_user(fd);
    close(fd);
    return is;
}

bool ps_local_is_of_user(int fd)
{
    struct ucred other;
    socklen_t len = sizeof other;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &len) == 0 && other.uid == geteuid();
}
