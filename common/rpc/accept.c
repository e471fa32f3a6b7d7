/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c - see accept.h. */
#include "common/rpc/accept.h"

#include "common/base/clock.h"
#include "common/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LOG_US = 10 * 1000000, /* refusals are logged no oftener */
    FAILURES_MAX = 64      /* connections that fail one after the other */
};

/* What the process has; there is one bound of descriptors, so there is one of these. */
static struct {
    atomic_int first_refused; /* connections with this descriptor or a higher one; 0: not set */
    atomic_uint_fast64_t refused;
    pthread_mutex_t mutex; /* guards the members below */
    int spare;             /* given up to refuse a connection when there is no other; -1: gone */
    int64_t logged_us;
} room = {.mutex = PTHREAD_MUTEX_INITIALIZER, .spare = -1};

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void ps_accept_init(void)
{
    struct rlimit limit;
    rlim_t reserve = PS_ACCEPT_RESERVE;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit higher = {limit.rlim_max, limit.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &higher) == 0) {
            limit = higher;
        }
    }
    if (reserve > limit.rlim_cur / 4) {
        reserve = limit.rlim_cur / 4;
    }
    if (limit.rlim_cur - reserve < INT32_MAX) {
        atomic_store(&room.first_refused, (int)(limit.rlim_cur - reserve));
    }
    room.spare = open_spare();
}

uint64_t ps_accept_refused(void)
{
    return atomic_load(&room.refused);
}

/* Counts a connection that was closed, and says so from time to time. */
static void note_refused(void)
{
    uint64_t refused = atomic_fetch_add(&room.refused, 1) + 1;
    int64_t now_us = ps_clock_us();
    bool is_due;

    pthread_mutex_lock(&room.mutex);
    is_due = room.logged_us == 0 || now_us - room.logged_us >= LOG_US;
    if (is_due) {
        room.logged_us = now_us;
    }
    pthread_mutex_unlock(&room.mutex);
    if (is_due) {
        ps_log(PS_LOG_WARN, "rpc",
               "too many connections: %" PRIu64 " refused so far; at most %d descriptors are for "
               "them, a higher limit (ulimit -n) allows more",
               refused, atomic_load(&room.first_refused));
    }
}

static int system_accept(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    return (int)syscall(SYS_accept4, fd, address, len, flags);
}

/* Closes the next connection that waits, by means of the spare descriptor. Returns false if that is
 * not possible now. */
static bool refuse_without_room(int fd)
{
    int refused = -1;

    pthread_mutex_lock(&room.mutex);
    if (room.spare >= 0) {
        close(room.spare);
        refused = system_accept(fd, NULL, NULL, SOCK_CLOEXEC);
        if (refused >= 0) {
            close(refused);
        }
    }
    room.spare = open_spare();
    pthread_mutex_unlock(&room.mutex);
    if (refused >= 0) {
        note_refused();
    }
    return refused >= 0;
}

/* Returns whether accept has failed because of the connection that it was about: others may wait.
 */
static bool is_of_one(int err)
{
    switch (err) {
    case ECONNABORTED: /* the client has gone already */
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case EPERM: /* a firewall */
    case EPROTO:
        return true;
    default:
        return false;
    }
}

/* Takes the place of libc's. Where gRPC would stop listening for a reason that passes, it fails
 * with EAGAIN, as if nobody waited: the listener is looked at again when the next connection comes.
 */
int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict len, int flags)
{
    socklen_t room_for_address = len != NULL ? *len : 0;
    unsigned failures = 0;

    for (;;) {
        int bound = atomic_load(&room.first_refused);
        int found = system_accept(fd, address.__sockaddr__, len, flags);

        if (found >= 0 && (bound == 0 || found < bound)) {
            return found;
        }
        if (len != NULL) {
            *len = room_for_address;
        }
        if (found >= 0) {
            close(found);
            note_refused();
        } else if (is_of_one(errno) && failures++ < FAILURES_MAX) {
            continue;
        } else if ((errno == EMFILE || errno == ENFILE) && refuse_without_room(fd)) {
            continue;
        } else {
            bool passes = is_of_one(errno) || errno == EMFILE || errno == ENFILE ||
                          errno == ENOBUFS || errno == ENOMEM;

            errno = passes ? EAGAIN : errno;
            return -1;
        }
    }
}
