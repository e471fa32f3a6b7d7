/* SPDX-License-Identifier: Apache-2.0 */
/* accept.c - see accept.h. */
#include "common/rpc/accept.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/guard.h"

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
    LOG_US = 10 * 1000000, /* least time between two lines of the log about refusals */
    FAILURES_MAX = 64,     /* most failures of single connections (is_of_one) that one call of
                            * accept4 skips */
    TAKEN_MAX = 16,        /* after so many accepted connections without EAGAIN in between, a
                            * listener rests */
    REFUSED_MAX = 64,      /* after so many refused connections in one call of accept4, a listener
                            * rests */
    TURN_US = 5000         /* time for which a listener rests, so that other work of its thread gets
                            * a turn */
};

/* State for all listeners: the limit of descriptors (RLIMIT_NOFILE) is one for the process. */
static struct {
    /* connections with this or a higher descriptor are refused; 0: not set, none is refused */
    atomic_int first_refused;
    atomic_uint_fast64_t accepted, refused;
    pthread_mutex_t mutex; /* guards spare and logged_us */
    /* a descriptor that is closed when no other is free, so that a connection can be accepted and
     * refused; -1: not open */
    int spare;
    int64_t logged_us;
    atomic_int left[PS_ACCEPT_LEFT_MAX]; /* 1 + a listener of ps_accept_leave; 0: free */
} room = {.mutex = PTHREAD_MUTEX_INITIALIZER, .spare = -1};

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void ps_accept_init(void)
{
    struct rlimit limit;
    rlim_t reserve = PS_ACCEPT_RESERVE;
    int bound = PS_GUARD_DESCRIPTORS;

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
    if (limit.rlim_cur - reserve < PS_GUARD_DESCRIPTORS) {
        bound = (int)(limit.rlim_cur - reserve);
    }
    atomic_store(&room.first_refused, bound);
    room.spare = open_spare();
    ps_guard_start((uint32_t)bound / 2);
}

void ps_accept_leave(int listener)
{
    for (int i = 0; i < PS_ACCEPT_LEFT_MAX; i++) {
        int none = 0;

        if (atomic_compare_exchange_strong(&room.left[i], &none, listener + 1)) {
            return;
        }
    }
}

void ps_accept_resume(int listener)
{
    for (int i = 0; i < PS_ACCEPT_LEFT_MAX; i++) {
        int left = listener + 1;

        atomic_compare_exchange_strong(&room.left[i], &left, 0);
    }
}

static bool is_left(int listener)
{
    for (int i = 0; i < PS_ACCEPT_LEFT_MAX; i++) {
        if (atomic_load(&room.left[i]) == listener + 1) {
            return true;
        }
    }
    return false;
}

uint64_t ps_accept_count(void)
{
    return atomic_load(&room.accepted);
}

bool ps_accept_is_crowded(void)
{
    return ps_guard_open() >= (uint32_t)atomic_load(&room.first_refused) / 2;
}

uint64_t ps_accept_refused(void)
{
    return atomic_load(&room.refused);
}

/* Counts a refused connection and writes a line about refusals to the log, once in LOG_US at most.
 * `from` is NULL if the client's address is not known. */
static void note_refused(const struct sockaddr *from, ps_admission why)
{
    uint64_t refused = atomic_fetch_add(&room.refused, 1) + 1;
    int64_t now_us = ps_clock_us();
    char text[PS_GUARD_ADDRESS_BYTES] = "?";
    bool is_due;

    pthread_mutex_lock(&room.mutex);
    is_due = room.logged_us == 0 || now_us - room.logged_us >= LOG_US;
    if (is_due) {
        room.logged_us = now_us;
    }
    pthread_mutex_unlock(&room.mutex);
    if (!is_due) {
        return;
    }
    if (from != NULL) {
        ps_guard_address(from, text);
    }
    if (why == PS_TOO_FAST) {
        ps_log(PS_LOG_WARN, "rpc",
               "too many connections: %" PRIu64
               " refused so far, the last from %s; one address may "
               "open %d at once and then %d a second",
               refused, text, PS_REMOTE_BURST, PS_REMOTE_PER_SECOND);
        return;
    }
    ps_log(PS_LOG_WARN, "rpc",
           "too many connections: %" PRIu64 " refused so far, the last from %s; at most %d "
           "descriptors are for them, half of that for one address; a higher limit (ulimit -n) "
           "allows more",
           refused, text, atomic_load(&room.first_refused));
}

static int system_accept(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    return (int)syscall(SYS_accept4, fd, address, len, flags);
}

/* Accepts and closes the next waiting connection when no descriptor is free: the spare one is
 * closed to make room. Returns false if the spare one is not open or no connection could be
 * accepted. */
static bool refuse_without_room(int fd)
{
    int refused = -1;

    pthread_mutex_lock(&room.mutex);
    if (room.spare >= 0) {
        close(room.spare);
        refused = system_accept(fd, NULL, NULL, SOCK_CLOEXEC);
        if (refused >= 0) {
            close(refused);
            atomic_fetch_add(&room.accepted, ps_accept_is_crowded() ? 1 : 0);
        }
    }
    room.spare = open_spare();
    pthread_mutex_unlock(&room.mutex);
    if (refused >= 0) {
        note_refused(NULL, PS_TOO_MANY);
    }
    return refused >= 0;
}

/* Returns whether accept failed with `err` for a reason of that one connection, so that the next
 * waiting connection may be tried at once. */
static bool is_of_one(int err)
{
    switch (err) {
    case ECONNABORTED: /* the client closed it already */
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ENONET:
    case EPERM: /* a firewall refused it */
    case EPROTO:
        return true;
    default:
        return false;
    }
}

/* Returns whether the listener `fd` shall rest after so many connections in a row, so that other
 * work of the thread gets its turn. If so, the guard makes gRPC poll the listener again after
 * TURN_US. Returns false, too, if the guard does not know who polls the listener. */
static bool is_long_row(int fd, unsigned taken, unsigned refused)
{
    return (taken >= TAKEN_MAX || refused >= REFUSED_MAX) && ps_guard_look_again(fd, TURN_US);
}

/* Replaces libc's accept4, so that gRPC accepts connections through it. gRPC would stop listening
 * after some errors that pass, such as a lack of descriptors. On these accept4 fails with EAGAIN
 * here, as if no connection were waiting, and gRPC polls the listener again. Refused connections
 * are closed here. Listeners of ps_accept_leave get the system's accept4. */
int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict len, int flags)
{
    static atomic_uint taken; /* connections since the last EAGAIN, of all listeners together */
    socklen_t room_for_address = len != NULL ? *len : 0;
    unsigned failures = 0, refused = 0;

    if (is_left(fd)) {
        return system_accept(fd, address.__sockaddr__, len, flags);
    }
    for (;;) {
        int bound = atomic_load(&room.first_refused), found;
        ps_admission answer = PS_TOO_MANY;

        if (is_long_row(fd, atomic_load(&taken), refused)) {
            atomic_store(&taken, 0);
            errno = EAGAIN;
            return -1;
        }
        found = system_accept(fd, address.__sockaddr__, len, flags);
        if (found >= 0 && (bound == 0 || found < bound)) {
            atomic_fetch_add(&room.accepted, 1);
            answer = ps_guard_admit(fd, found, len != NULL ? address.__sockaddr__ : NULL,
                                    len != NULL ? *len : 0);
        } else if (found >= 0) {
            atomic_fetch_add(&room.accepted, ps_accept_is_crowded() ? 1 : 0);
        }
        if (found >= 0 && answer == PS_ADMITTED) {
            atomic_fetch_add(&taken, 1);
            return found;
        }
        if (found >= 0) {
            close(found);
            note_refused(len != NULL ? address.__sockaddr__ : NULL, answer);
            refused++;
        }
        if (len != NULL) {
            *len = room_for_address;
        }
        if (found >= 0 || (is_of_one(errno) && failures++ < FAILURES_MAX)) {
            continue;
        } else if ((errno == EMFILE || errno == ENFILE) && refuse_without_room(fd)) {
            refused++;
            continue;
        } else {
            bool passes = is_of_one(errno) || errno == EMFILE || errno == ENFILE ||
                          errno == ENOBUFS || errno == ENOMEM;

            atomic_store(&taken, 0);
            errno = passes ? EAGAIN : errno;
            return -1;
        }
    }
}
