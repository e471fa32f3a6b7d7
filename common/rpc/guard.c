/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c - see guard.h. */
#include "common/rpc/guard.h"

#include "common/base/clock.h"
#include "common/base/free_memory.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/rpc/bar.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PAUSE_LEAST_US = 1000,
    LOG_US = 10 * 1000000, /* least time between two lines of the log about closed connections */
    /* RETURN_US after the last time that a connection was closed for a flood, or that one ended
     * which had been paused or had sent MUCH_BYTES, freed memory is returned to the system. For
     * RETURNING_US more the threads return what they free. */
    RETURN_US = 5 * 1000000,
    RETURNING_US = 2 * 1000000,
    MUCH_BYTES = 8 << 20, /* a connection that sent so many bytes may leave as much free memory */
    HELD_MAX = 128,       /* most connections that are held, which means kept open after they
                           * exceeded a bound */
    /* time for which a connection is held; a client that waits for its end sends nothing then */
    HELD_US = 1000000,
    HELD_BYTES = 4096, /* receive buffer of a held connection, so that the kernel keeps little of
                        * what it brings */
    TABLE_SLOTS = 1024
};

typedef struct connection {
    pthread_mutex_t mutex; /* guards the members below, up to `has_frames` */
    ps_flood flood;
    int64_t resume_us;     /* recvmsg reads nothing before this time; 0: no pause */
    atomic_bool is_closed; /* the connection has exceeded a bound: gRPC reads no more of it */
    bool was_paused;
    uint64_t received; /* bytes that recvmsg has read */
    bool has_gone;     /* gRPC has read the end of the connection, or an error that ends it */
    bool has_frames;   /* frames of the connection were counted */
    uint64_t id;       /* constant; no other connection of the process has it */
    ps_remote *remote; /* constant; NULL: the address is not counted */
    /* the client wasted too many calls; the connection is suspect from then on */
    atomic_bool has_wasted;
    char from[PS_GUARD_ADDRESS_BYTES]; /* the client's address, such as "127.0.0.1:40312" */
    struct connection *next; /* next in the same list of the table; guarded by guard.mutex */
} connection;

/* State of a descriptor; slots are indexed by its number. */
typedef struct slot {
    _Atomic(connection *) connection; /* NULL: not a connection that was admitted here */
    /* The members below are guarded by guard.mutex. */
    struct epoll_event event; /* the event for which gRPC waits by `epoll` */
    int epoll;                /* the epoll descriptor by which gRPC waits for this descriptor; 0: it
                               * does not wait */
    bool is_due;              /* is in the list guard.due; at due_us gRPC polls it again */
    int64_t due_us;
    struct slot *next;
} slot;

/* State for all servers: descriptors belong to the process. */
static struct {
    atomic_bool is_on, has_tls;
    uint32_t most;
    atomic_uint_fast64_t closed;
    atomic_uint open;      /* connections that are in a slot, or held */
    pthread_mutex_t mutex; /* guards the members below, and the slots */
    pthread_cond_t changed;
    ps_remotes remotes;
    slot *due;
    /* return_us, keep_us: when return_memory next returns memory, and when it next has memory kept;
     * logged_us: time of the last line of the log; 0: none */
    int64_t return_us, keep_us, logged_us;
    ps_bar bar;
    uint64_t last_id;               /* the newest id of a connection */
    connection *table[TABLE_SLOTS]; /* heads of lists of connections, by a hash of the client's
                                     * address (list_of) */
    size_t held_count;
    struct {
        int fd;
        ps_remote *remote;
        int64_t until_us;
    } held[HELD_MAX];
} guard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static slot slots[PS_GUARD_DESCRIPTORS];

/* What this thread has read most recently from a connection under TLS. */
static _Thread_local struct {
    char from[PS_GUARD_ADDRESS_BYTES]; /* what ps_guard_reading returns */
    ps_guard_ref ref;                  /* the connection of the last read that brought bytes */
    const uint8_t *bytes;              /* the first byte of that read; NULL: nothing was read */
} reading;

/* The functions that this file's functions of the same names replace, and call: libc's, or those of
 * a sanitizer, which has to see the calls. Set before is_on. */
static struct {
    ssize_t (*recvmsg)(int fd, struct msghdr *message, int flags);
    int (*epoll_ctl)(int epoll, int op, int fd, struct epoll_event *event);
    int (*close)(int fd);
    int (*shutdown)(int fd, int how);
} next;

/* Finds the next definition of a function by its name and stores it in *function. Returns whether
 * there is one. */
static bool find_next(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);

    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static slot *slot_of(int fd)
{
    return fd >= 0 && fd < PS_GUARD_DESCRIPTORS ? &slots[fd] : NULL;
}

uint32_t ps_guard_open(void)
{
    return atomic_load(&guard.open);
}

uint64_t ps_guard_closed(void)
{
    return atomic_load(&guard.closed);
}

void ps_guard_address(const struct sockaddr *address, char out[PS_GUARD_ADDRESS_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;

    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *a = (const void *)address;

        inet_ntop(AF_INET, &a->sin_addr, host, sizeof host);
        port = ntohs(a->sin_port);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *a = (const void *)address;
        bool is_v4 = IN6_IS_ADDR_V4MAPPED(&a->sin6_addr);

        inet_ntop(is_v4 ? AF_INET : AF_INET6, a->sin6_addr.s6_addr + (is_v4 ? 12 : 0), host,
                  sizeof host);
        port = ntohs(a->sin6_port);
    }
    snprintf(out, PS_GUARD_ADDRESS_BYTES, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
             port);
}

/* --- The thread ---------------------------------------------------------------- */

/* Makes gRPC poll again the descriptors in guard.due whose time has come. Returns the time of the
 * next one, or INT64_MAX. Called with guard.mutex. */
static int64_t look_again(int64_t now_us)
{
    int64_t next_us = INT64_MAX;

    for (slot **at = &guard.due; *at != NULL;) {
        slot *s = *at;

        if (s->due_us > now_us) {
            next_us = s->due_us < next_us ? s->due_us : next_us;
            at = &s->next;
            continue;
        }
        *at = s->next;
        s->is_due = false;
        /* Fails if the descriptor was closed meanwhile. If its number is in use again, the new
         * owner finds nothing to read. */
        epoll_ctl(s->epoll, EPOLL_CTL_MOD, (int)(s - slots), &s->event);
    }
    return next_us;
}

/* Closes the held connections whose time is over. Returns the time at which the next one is to be
 * closed, or INT64_MAX. Called with guard.mutex. */
static int64_t release_held(int64_t now_us)
{
    int64_t next_us = INT64_MAX;

    for (size_t i = 0; i < guard.held_count;) {
        if (guard.held[i].until_us > now_us) {
            next_us = guard.held[i].until_us < next_us ? guard.held[i].until_us : next_us;
            i++;
            continue;
        }
        next.close(guard.held[i].fd);
        atomic_fetch_sub(&guard.open, 1);
        ps_remote_leave(guard.held[i].remote);
        guard.held[i] = guard.held[--guard.held_count];
    }
    return next_us;
}

static int64_t earlier(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Has the threads return freed memory to the system from return_us on, and keep it again from
 * keep_us on. Returns the time at which to call it again; INT64_MAX: never. Called with
 * guard.mutex, which is unlocked while memory is returned. */
static int64_t return_memory(int64_t now_us)
{
    bool returns = guard.return_us != 0 && guard.return_us <= now_us;
    bool keeps = !returns && guard.keep_us != 0 && guard.keep_us <= now_us;

    if (returns) {
        guard.return_us = 0;
        guard.keep_us = now_us + RETURNING_US;
    } else if (keeps) {
        guard.keep_us = 0;
    }
    if (returns || keeps) {
        pthread_mutex_unlock(&guard.mutex);
        (returns ? ps_free_memory_return : ps_free_memory_keep)();
        pthread_mutex_lock(&guard.mutex);
        return now_us; /* the mutex was free meanwhile: the thread looks at all again at once */
    }
    return earlier(guard.return_us != 0 ? guard.return_us : INT64_MAX,
                   guard.keep_us != 0 ? guard.keep_us : INT64_MAX);
}

static void *run(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&guard.mutex);
    for (;;) {
        int64_t now_us = ps_clock_us();
        int64_t next_us = earlier(look_again(now_us), release_held(now_us));

        next_us = earlier(next_us, ps_bar_expire(&guard.bar, now_us));
        next_us = earlier(next_us, return_memory(now_us));
        if (next_us == INT64_MAX) {
            pthread_cond_wait(&guard.changed, &guard.mutex);
        } else {
            struct timespec until = {next_us / 1000000, next_us % 1000000 * 1000};

            pthread_cond_timedwait(&guard.changed, &guard.mutex, &until);
        }
    }
    return NULL;
}

void ps_guard_start(uint32_t most)
{
    pthread_condattr_t monotonic;
    pthread_t thread;

    if (atomic_load(&guard.is_on)) {
        return; /* started by an earlier service of this process */
    }
    guard.most = most;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&guard.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!find_next("recvmsg", &next.recvmsg) || !find_next("epoll_ctl", &next.epoll_ctl) ||
        !find_next("close", &next.close) || !find_next("shutdown", &next.shutdown) ||
        pthread_create(&thread, NULL, run, NULL) != 0) {
        ps_log(PS_LOG_WARN, "rpc", "connections are not guarded: no thread could be started");
        return;
    }
    pthread_detach(thread);
    atomic_store(&guard.is_on, true);
}

void ps_guard_leave_frames_to_tls(void)
{
    atomic_store(&guard.has_tls, true);
}

bool ps_guard_has_tls(void)
{
    return atomic_load(&guard.has_tls);
}

const char *ps_guard_reading(void)
{
    return reading.from;
}

/* Puts a descriptor on the list guard.due, so that gRPC polls it again at due_us, or earlier if
 * that was arranged before. Returns false if gRPC does not wait for it. Called with guard.mutex. */
static bool make_due(slot *s, int64_t due_us)
{
    if (s->epoll == 0) {
        return false;
    }
    if (!s->is_due) {
        s->is_due = true;
        s->next = guard.due;
        guard.due = s;
    } else if (s->due_us <= due_us) {
        return true;
    }
    s->due_us = due_us;
    pthread_cond_signal(&guard.changed);
    return true;
}

bool ps_guard_look_again(int fd, int64_t delay_us)
{
    slot *s = slot_of(fd);
    bool done;

    if (s == NULL || !atomic_load(&guard.is_on)) {
        return false;
    }
    pthread_mutex_lock(&guard.mutex);
    done = make_due(s, ps_clock_us() + delay_us);
    pthread_mutex_unlock(&guard.mutex);
    return done;
}

/* Replaces libc's epoll_ctl. When gRPC begins to wait for `fd` (EPOLL_CTL_ADD), records the epoll
 * descriptor and the event, so that the guard can make gRPC poll `fd` again. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    slot *s = slot_of(fd);

    if (!atomic_load(&guard.is_on)) {
        return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
    }
    if (op == EPOLL_CTL_ADD && s != NULL && event != NULL) {
        pthread_mutex_lock(&guard.mutex);
        s->epoll = epoll;
        s->event = *event;
        pthread_mutex_unlock(&guard.mutex);
    }
    return next.epoll_ctl(epoll, op, fd, event);
}

/* --- Connections ----------------------------------------------------------------- */

static connection **list_of(const char *from)
{
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (; *from != '\0'; from++) {
        hash = (hash ^ (uint8_t)*from) * 16777619U;
    }
    return &guard.table[hash % TABLE_SLOTS];
}

/* Has the kernel drop further connections of an address that connects too fast, for a second
 * (bar.h). Called with guard.mutex. */
static void bar(int listener, const struct sockaddr *from, int64_t now_us)
{
    uint8_t key[PS_BAR_KEY_BYTES];

    if (ps_remotes_key(from, key)) {
        ps_bar_add(&guard.bar, listener, key, now_us); /* if it fails: refused one by one */
        pthread_cond_signal(&guard.changed);
    }
}

ps_admission ps_guard_admit(int listener, int fd, const struct sockaddr *from, socklen_t len)
{
    slot *s = slot_of(fd);
    int64_t now_us = ps_clock_us();
    ps_remote *remote = NULL;
    ps_admission answer;
    connection *c, **list;
    int64_t wait_us = 0;
    bool is_suspect;

    if (!atomic_load(&guard.is_on)) {
        return PS_ADMITTED;
    }
    if (s == NULL) {
        return PS_TOO_MANY;
    }
    if (from == NULL || len < sizeof *from) {
        return PS_ADMITTED;
    }
    pthread_mutex_lock(&guard.mutex);
    answer = ps_remotes_enter(&guard.remotes, from, guard.most, now_us, &remote);
    is_suspect = remote != NULL && ps_remote_is_suspect(remote, now_us);
    if (is_suspect) {
        wait_us = ps_remote_call(remote, 0, now_us);
    } else if (answer == PS_TOO_FAST) {
        bar(listener, from, now_us);
    }
    s->epoll = 0;
    pthread_mutex_unlock(&guard.mutex);
    if (answer != PS_ADMITTED) {
        return answer;
    }
    c = ps_xcalloc(1, sizeof *c);
    pthread_mutex_init(&c->mutex, NULL);
    ps_flood_init(&c->flood, is_suspect, now_us);
    c->remote = remote;
    c->resume_us = wait_us > 0 ? now_us + wait_us : 0;
    ps_guard_address(from, c->from);
    list = list_of(c->from);
    pthread_mutex_lock(&guard.mutex);
    c->next = *list;
    *list = c;
    c->id = ++guard.last_id;
    atomic_fetch_add(&guard.open, 1);
    pthread_mutex_unlock(&guard.mutex);
    atomic_store(&s->connection, c);
    return PS_ADMITTED;
}

/* Keeps `fd`, which gRPC closes, open for HELD_US, because its connection has exceeded a bound: so
 * its client learns of the end later. Returns false if it is to be closed at once, because HELD_MAX
 * are held, or an eighth of guard.most. Called with guard.mutex. */
static bool hold(int fd, slot *s, ps_remote *remote)
{
    int bytes = HELD_BYTES;

    if (guard.held_count == HELD_MAX || guard.held_count >= guard.most / 8) {
        return false;
    }
    if (s->epoll != 0) {
        next.epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL); /* gRPC gets no more events */
        s->epoll = 0;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    guard.held[guard.held_count].fd = fd;
    guard.held[guard.held_count].remote = remote;
    guard.held[guard.held_count++].until_us = ps_clock_us() + HELD_US;
    pthread_cond_signal(&guard.changed);
    return true;
}

/* Forgets a connection that gRPC closes. Charges its address if neither the client has ended it nor
 * a bound was exceeded, as then gRPC had to end it; under TLS only if frames were counted. Returns
 * whether the descriptor stays open for now (hold). */
static bool forget(int fd, slot *s, connection *c)
{
    connection **at = list_of(c->from);
    bool is_held;

    pthread_mutex_lock(&c->mutex); /* waits until no thread counts what it has read from c */
    pthread_mutex_unlock(&c->mutex);
    pthread_mutex_lock(&guard.mutex);
    while (*at != c) {
        at = &(*at)->next;
    }
    *at = c->next;
    if (c->was_paused || c->received >= MUCH_BYTES) {
        /* the connection may have left much free memory */
        guard.return_us = ps_clock_us() + RETURN_US;
        pthread_cond_signal(&guard.changed);
    }
    if (!c->has_gone && !c->is_closed && c->remote != NULL &&
        (c->has_frames || !atomic_load(&guard.has_tls))) {
        ps_remote_charge(c->remote);
    }
    is_held = c->is_closed && hold(fd, s, c->remote);
    if (!is_held) {
        ps_remote_leave(c->remote);
        atomic_fetch_sub(&guard.open, 1);
    }
    pthread_mutex_unlock(&guard.mutex);
    pthread_mutex_destroy(&c->mutex);
    free(c);
    return is_held;
}

/* Replaces libc's close: forgets the connection of `fd`, if it is one that was admitted. Leaves
 * `fd` open for HELD_US if the connection has exceeded a bound. */
int close(int fd)
{
    slot *s = slot_of(fd);
    connection *c = s != NULL ? atomic_exchange(&s->connection, NULL) : NULL;

    if (c != NULL && forget(fd, s, c)) {
        return 0;
    }
    return atomic_load(&guard.is_on) ? next.close(fd) : (int)syscall(SYS_close, fd);
}

/* Replaces libc's shutdown. It does nothing to a connection that exceeded a bound: gRPC shuts a
 * connection down before it closes it, which would tell the client. */
int shutdown(int fd, int how)
{
    slot *s = slot_of(fd);
    connection *c = s != NULL ? atomic_load(&s->connection) : NULL;

    if (c != NULL && atomic_load(&c->is_closed)) {
        return 0;
    }
    return atomic_load(&guard.is_on) ? next.shutdown(fd, how) : (int)syscall(SYS_shutdown, fd, how);
}

void ps_guard_waste(const char *peer)
{
    const char *text = strchr(peer, ':'); /* the address follows "ipv4:" or "ipv6:" */
    connection *c;

    if (text == NULL || !atomic_load(&guard.is_on)) {
        return;
    }
    pthread_mutex_lock(&guard.mutex);
    for (c = *list_of(text + 1); c != NULL && strcmp(c->from, text + 1) != 0; c = c->next) {
    }
    if (c != NULL && c->remote != NULL && ps_remote_waste(c->remote, ps_clock_us())) {
        atomic_store(&c->has_wasted, true);
    }
    pthread_mutex_unlock(&guard.mutex);
}

/* Counts a connection that is closed because it exceeded the bound `kind`. That is an offence of
 * the client's address, except for PS_FLOOD_NOT_HTTP2. Has memory returned later. Writes a line
 * about floods to the log, once in LOG_US at most. */
static void note_closed(connection *c, ps_flood_kind kind, int64_t now_us)
{
    uint64_t closed = atomic_fetch_add(&guard.closed, 1) + 1;
    bool is_due;

    pthread_mutex_lock(&guard.mutex);
    is_due = guard.logged_us == 0 || now_us - guard.logged_us >= LOG_US;
    if (is_due) {
        guard.logged_us = now_us;
    }
    guard.return_us = now_us + RETURN_US;
    if (c->remote != NULL && kind != PS_FLOOD_NOT_HTTP2) {
        c->remote->offended_us = now_us;
    }
    pthread_cond_signal(&guard.changed);
    pthread_mutex_unlock(&guard.mutex);
    if (is_due) {
        ps_log(PS_LOG_WARN, "rpc",
               "a connection from %s is closed: it %s; %" PRIu64 " closed so far", c->from,
               ps_flood_bounds[kind].text, closed);
    }
}

/* Counts the frames in n received bytes; fill() was called before. Returns false if they exceed a
 * bound, so the connection shall end. Called with the mutex of the connection. */
static bool count_frames(connection *c, ps_flood *flood, const uint8_t *bytes, size_t n,
                         int64_t now_us)
{
    ps_flood_kind kind = PS_FLOOD_KINDS;

    c->has_frames = true;
    if (ps_flood_read(flood, bytes, n, &kind) == PS_FLOOD_CLOSE) {
        c->is_closed = true;
        note_closed(c, kind, now_us);
        return false;
    }
    return true;
}

static uint32_t neighbours_of(const connection *c)
{
    return c->remote != NULL ? atomic_load(&c->remote->connections) : 1;
}

/* Adds to the buckets in `flood` the tokens of the time since the last call, and marks `flood` as
 * suspect if the connection is. Called with the mutex of the connection. */
static void fill(connection *c, ps_flood *flood, int64_t now_us)
{
    flood->is_suspect = flood->is_suspect || c->flood.is_suspect || atomic_load(&c->has_wasted);
    ps_flood_fill(flood, neighbours_of(c), now_us);
}

/* Has gRPC read no more of a connection for a while if one of its buckets owes tokens or, for a
 * suspect one, the bucket of calls of its address. `calls` is flood->calls before the frames were
 * counted. Called with the mutex of the connection. */
static void pause_if_due(connection *c, const ps_flood *flood, uint32_t calls, int64_t now_us)
{
    int64_t wait_us = ps_flood_wait_us(flood, neighbours_of(c));

    if (flood->is_suspect && flood->calls != calls && c->remote != NULL) {
        int64_t for_all_us;

        pthread_mutex_lock(&guard.mutex);
        for_all_us = ps_remote_call(c->remote, flood->calls - calls, now_us);
        pthread_mutex_unlock(&guard.mutex);
        wait_us = for_all_us > wait_us ? for_all_us : wait_us;
    }
    if (wait_us > 0) {
        c->was_paused = true;
        c->resume_us = now_us + (wait_us > PAUSE_LEAST_US ? wait_us : PAUSE_LEAST_US);
    }
}

/* Counts the frames in n received bytes and pauses the connection if need be. Returns n, or 0 if
 * the connection shall end. Called with the mutex of the connection. */
static ssize_t look_at(connection *c, const struct msghdr *message, ssize_t n)
{
    int64_t now_us = ps_clock_us();
    size_t left = (size_t)n;
    uint32_t calls;

    fill(c, &c->flood, now_us);
    calls = c->flood.calls;
    for (size_t i = 0; left > 0; i++) {
        const struct iovec *part = &message->msg_iov[i];
        size_t len = part->iov_len < left ? part->iov_len : left;

        if (!count_frames(c, &c->flood, part->iov_base, len, now_us)) {
            return 0;
        }
        left -= len;
    }
    pause_if_due(c, &c->flood, calls, now_us);
    return n;
}

bool ps_guard_fed(const void *bytes, size_t n, ps_guard_ref *out)
{
    const uint8_t *first = bytes;

    if (reading.bytes == NULL || reading.bytes < first || reading.bytes >= first + n) {
        return false;
    }
    *out = reading.ref;
    return true;
}

bool ps_guard_take(const ps_guard_ref *ref, ps_flood *flood, const uint8_t *bytes, size_t n)
{
    slot *s = slot_of(ref->fd);
    connection *c = s != NULL ? atomic_load(&s->connection) : NULL;
    int64_t now_us = ps_clock_us();
    uint32_t calls;
    bool goes_on;

    if (c == NULL || c->id != ref->id) {
        return true; /* gRPC has closed the connection meanwhile */
    }
    pthread_mutex_lock(&c->mutex);
    goes_on = !c->is_closed;
    if (goes_on) {
        fill(c, flood, now_us);
        calls = flood->calls;
        goes_on = count_frames(c, flood, bytes, n, now_us);
        if (goes_on) {
            pause_if_due(c, flood, calls, now_us);
        } else {
            next.shutdown(ref->fd, SHUT_RD); /* gRPC reads an end; the client learns nothing */
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return goes_on;
}

/* Returns whether gRPC shall not read the connection yet. If so, gRPC polls it again when the pause
 * is over. */
static bool is_paused(connection *c, slot *s)
{
    bool done;

    if (c->resume_us == 0) {
        return false;
    }
    if (c->resume_us > ps_clock_us()) {
        pthread_mutex_lock(&guard.mutex);
        done = make_due(s, c->resume_us);
        pthread_mutex_unlock(&guard.mutex);
        if (done) {
            return true;
        }
    }
    c->resume_us = 0;
    return false;
}

/* Remembers what this thread has read of a connection under TLS, for ps_guard_fed. */
static void note_read(int fd, const connection *c, const struct msghdr *message, ssize_t n)
{
    memcpy(reading.from, c->from, sizeof reading.from);
    if (n > 0) {
        reading.ref = (ps_guard_ref){.fd = fd, .id = c->id};
        reading.bytes = message->msg_iov[0].iov_base;
    }
}

/* Replaces libc's recvmsg: counts what gRPC reads from a client's connection, and reads nothing
 * while the connection is paused. gRPC reads a connection by one thread at a time, and does not
 * close it during a read. */
ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    slot *s = slot_of(fd);
    connection *c = s != NULL ? atomic_load(&s->connection) : NULL;
    ssize_t n = 0;

    if (!atomic_load(&guard.is_on)) {
        return syscall(SYS_recvmsg, fd, message, flags);
    }
    if (c == NULL || flags != 0) {
        reading.from[0] = '\0';
        reading.bytes = NULL;
        return next.recvmsg(fd, message, flags);
    }
    pthread_mutex_lock(&c->mutex);
    if (is_paused(c, s)) {
        errno = EAGAIN;
        n = -1;
    } else if (!c->is_closed) {
        n = next.recvmsg(fd, message, flags);
        c->has_gone = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
        c->received += n > 0 ? (uint64_t)n : 0;
        if (atomic_load(&guard.has_tls)) {
            note_read(fd, c, message, n);
        } else if (n > 0) {
            n = look_at(c, message, n);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return n;
}
