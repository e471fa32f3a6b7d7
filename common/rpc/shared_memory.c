/* SPDX-License-Identifier: Apache-2.0 */
/* shared_memory.c - see shared_memory.h.
 *
 * Positions only grow; position p is byte p modulo PS_SHARED_MEMORY_BYTES of the ring. A payload
 * is one run of bytes: one that would cross the end of the ring begins at its start. So does one
 * that is put into an empty ring, which keeps the pages in use few and in the processor's cache.
 */
#include "common/rpc/shared_memory.h"

#include "common/base/nonfinite.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    RING = PS_SHARED_MEMORY_BYTES,
    HEAD_BYTES = 4096,
    FILE_BYTES = HEAD_BYTES + RING,
    LINE = 64,        /* bytes of a line of the processor's cache */
    BACKED = 1 << 20, /* bytes of the ring that get pages at a time */
    /* bytes that are copied, and then checked while they are in the cache, at a time */
    BLOCK = 16 << 10,
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    PROC_PATH_BYTES = 64
};
_Static_assert(RING % BACKED == 0 && (int)PS_PAYLOAD_MAX <= RING, "a payload fits");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "processes share counts without a lock");

/* The first page of the memory. Each count has a line of the cache for itself. */
typedef struct head {
    uint8_t token[PS_SHARED_MEMORY_TOKEN];
    _Alignas(LINE) atomic_uint_fast64_t put; /* position behind the last payload that was put */
    /* position behind the last payload that was taken and given back */
    _Alignas(LINE) atomic_uint_fast64_t taken;
} head;
_Static_assert(sizeof(head) <= HEAD_BYTES, "it is one page");

struct ps_shared_memory {
    int fd;
    head *head; /* the mapping, of FILE_BYTES */
    uint8_t *ring;
    uint8_t token[PS_SHARED_MEMORY_TOKEN];
    /* This end's own copy of positions, because the other end can change the counts of `head`. */
    /* position behind the last payload that this end has put, or has taken and given back */
    uint64_t at;
    uint64_t seen; /* only at the end that puts: head->taken when it was last read */
    /* only at the end that puts: all bytes before this position are free, even if head->taken is
     * lower */
    uint64_t free;
    size_t backed; /* only at the end that puts: bytes of the ring that have pages */
    /* only at the end that puts: head->taken was impossible, so nothing is put any more */
    bool is_bad;
    ps_memory_place place; /* only at the end that takes: the payload in hand; bytes 0: none */
};

/* Returns the position at which the payload after this one begins: behind its bytes, at the next
 * line of the cache. */
static uint64_t behind(uint64_t position, size_t bytes)
{
    return (position + bytes + LINE - 1) / LINE * LINE;
}

/* --- begin and end ------------------------------------------------------------ */

static ps_status refuse(const char *what)
{
    return ps_fail(PS_PERMISSION_DENIED, "the shared memory that was offered %s", what);
}

static ps_status lack(const char *what)
{
    return ps_fail(PS_UNAVAILABLE, "%s: %s", what, strerror(errno));
}

/* Maps the memory of m->fd. */
static ps_status map(ps_shared_memory *m)
{
    void *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);

    if (at == MAP_FAILED) {
        return lack("mmap of shared memory");
    }
    m->head = at;
    m->ring = (uint8_t *)at + HEAD_BYTES;
    /* A copy of the process that writes a snapshot (snapshot.h) does not use the memory. */
    (void)madvise(at, FILE_BYTES, MADV_DONTFORK);
    /* Large pages save page faults, where the system has them for shared memory. */
    (void)madvise(at, FILE_BYTES, MADV_HUGEPAGE);
    return ps_ok();
}

static ps_shared_memory *make(void)
{
    ps_shared_memory *m = ps_xcalloc(1, sizeof *m);

    m->fd = -1;
    return m;
}

/* Makes the file of a memory and seals it. */
static ps_status make_file(ps_shared_memory *m)
{
    struct rlimit most;

    /* The kernel ends a process by SIGXFSZ that makes a file longer than this limit. */
    if (getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur < FILE_BYTES) {
        return ps_fail(PS_UNAVAILABLE, "RLIMIT_FSIZE is less than %d bytes of shared memory",
                       (int)FILE_BYTES);
    }
    if (getrandom(m->token, sizeof m->token, 0) != (ssize_t)sizeof m->token) {
        return lack("getrandom");
    }
    m->fd = memfd_create("psgd-payloads", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (m->fd < 0) {
        return lack("memfd_create");
    }
    if (ftruncate(m->fd, FILE_BYTES) != 0 || fallocate(m->fd, 0, 0, HEAD_BYTES) != 0 ||
        fcntl(m->fd, F_ADD_SEALS, SEALS) != 0) {
        return lack("shared memory");
    }
    return ps_ok();
}

ps_status ps_shared_memory_create(ps_shared_memory **out)
{
    ps_shared_memory *m = make();
    ps_status st = make_file(m);

    if (ps_is_ok(&st)) {
        st = map(m);
    }
    if (!ps_is_ok(&st)) {
        ps_shared_memory_destroy(m);
        return st;
    }
    memcpy(m->head->token, m->token, sizeof m->token);
    *out = m;
    return ps_ok();
}

ps_memory_offer ps_shared_memory_offer(const ps_shared_memory *m)
{
    ps_memory_offer offer = {.process = (uint32_t)getpid(), .descriptor = (uint32_t)m->fd};

    memcpy(offer.token, m->token, sizeof offer.token);
    return offer;
}

/* Checks that the process with this id has the same network namespace as this process. */
static ps_status check_network(uint32_t process)
{
    char path[PROC_PATH_BYTES];
    struct stat own, its;

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/ns/net", process);
    if (stat("/proc/self/ns/net", &own) != 0 || stat(path, &its) != 0) {
        return lack(path);
    }
    if (own.st_dev != its.st_dev || own.st_ino != its.st_ino) {
        return refuse("is of a process in another network");
    }
    return ps_ok();
}

/* Checks that `path`, a descriptor, stands for a file in memory of the right size that this
 * process's user owns. The descriptor may have been opened with O_PATH. */
static ps_status check_file(int path)
{
    struct stat its;
    struct statfs system;

    if (fstat(path, &its) != 0 || fstatfs(path, &system) != 0) {
        return lack("shared memory");
    }
    if (!S_ISREG(its.st_mode) || system.f_type != TMPFS_MAGIC || its.st_size != FILE_BYTES) {
        return refuse("is none, or has another size");
    }
    if (its.st_uid != geteuid()) {
        return refuse("is of another user");
    }
    return ps_ok();
}

/* Opens the file of an offer and checks it. Opens it with O_PATH first, because really opening a
 * device or a FIFO has effects. The caller closes *fd, if it is not negative, also after a
 * failure. */
static ps_status open_file(const ps_memory_offer *offer, int *fd)
{
    char path[PROC_PATH_BYTES];
    int seals, path_fd;
    ps_status st = ps_ok();

    snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd/%" PRIu32, offer->process, offer->descriptor);
    path_fd = open(path, O_PATH | O_CLOEXEC);
    if (path_fd < 0) {
        return lack(path);
    }
    st = check_file(path_fd);
    if (ps_is_ok(&st)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", path_fd);
        /* O_NONBLOCK: open() must not wait for a process that has a lease on the file */
        *fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        st = *fd < 0 ? lack(path) : ps_ok();
    }
    close(path_fd);
    if (!ps_is_ok(&st)) {
        return st;
    }
    seals = fcntl(*fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) {
        return refuse("can change its size");
    }
    return check_file(*fd); /* again: the size may have changed before it was sealed */
}

ps_status ps_shared_memory_open(const ps_memory_offer *offer, ps_shared_memory **out)
{
    ps_shared_memory *m = make();
    ps_status st = check_network(offer->process);

    if (ps_is_ok(&st)) {
        st = open_file(offer, &m->fd);
    }
    if (ps_is_ok(&st)) {
        st = map(m);
    }
    if (ps_is_ok(&st) && memcmp(m->head->token, offer->token, sizeof offer->token) != 0) {
        st = refuse("has another token");
    }
    if (!ps_is_ok(&st)) {
        ps_shared_memory_destroy(m);
        return st;
    }
    *out = m;
    return ps_ok();
}

void ps_shared_memory_destroy(ps_shared_memory *m)
{
    if (m == NULL) {
        return;
    }
    if (m->head != NULL) {
        (void)munmap(m->head, FILE_BYTES);
    }
    if (m->fd >= 0) {
        close(m->fd);
    }
    free(m);
}

/* --- the end that puts ------------------------------------------------------- */

/* Has the system allocate pages for the first `bytes` bytes of the ring. Returns false if it has
 * none left. Without that the system would then end the process (SIGBUS) when it writes there. */
static bool back(ps_shared_memory *m, size_t bytes)
{
    size_t wanted = (bytes + BACKED - 1) / BACKED * BACKED;

    if (wanted > m->backed) {
        if (fallocate(m->fd, 0, (off_t)(HEAD_BYTES + m->backed), (off_t)(wanted - m->backed)) !=
            0) {
            return false;
        }
        m->backed = wanted;
    }
    return true;
}

/* Reads up to which position the other end has taken payloads, into m->seen. Returns false, now and
 * later, if that position is impossible. */
static bool look(ps_shared_memory *m)
{
    uint64_t taken = atomic_load_explicit(&m->head->taken, memory_order_acquire);

    m->is_bad |= taken < m->seen || taken > m->at;
    m->seen = taken;
    return !m->is_bad;
}

/* Finds room for a payload, and sets *position to where it begins, counted in bytes from the ring's
 * beginning over all rounds. The room is not taken yet. Returns false if there is none. */
static bool find_room(ps_shared_memory *m, size_t bytes, uint64_t *position)
{
    uint64_t at = m->at, offset = at % RING;
    bool is_empty = m->seen == at;

    if (offset > 0 && (is_empty || bytes > RING - offset)) {
        at += RING - offset;
    }
    /* If the ring is empty, the bytes that `at` skips are free at once, although head->taken is
     * still before them. */
    m->free = is_empty ? at : m->seen > m->free ? m->seen : m->free;
    *position = at;
    return behind(at, bytes) - m->free <= RING;
}

bool ps_shared_memory_put(ps_shared_memory *m, const ps_piece *pieces, size_t piece_count,
                          ps_memory_place *place)
{
    uint64_t position;
    size_t bytes = 0;
    uint8_t *to;

    for (size_t i = 0; i < piece_count; i++) {
        bytes += pieces[i].len;
    }
    if (m->is_bad || bytes < PS_SHARED_MEMORY_LEAST || bytes > PS_PAYLOAD_MAX || !look(m) ||
        !find_room(m, bytes, &position) || !back(m, position % RING + bytes)) {
        return false;
    }
    to = m->ring + position % RING;
    for (size_t i = 0; i < piece_count; i++) {
        memcpy(to, pieces[i].data, pieces[i].len);
        to += pieces[i].len;
    }
    *place = (ps_memory_place){.position = position, .bytes = (uint32_t)bytes};
    m->at = behind(position, bytes);
    atomic_store_explicit(&m->head->put, m->at, memory_order_release);
    return true;
}

/* --- the end that takes ------------------------------------------------------ */

ps_status ps_shared_memory_take(ps_shared_memory *m, const ps_memory_place *place)
{
    uint64_t put = atomic_load_explicit(&m->head->put, memory_order_acquire);
    uint64_t offset = place->position % RING;

    if (place->bytes == 0 || place->bytes > PS_PAYLOAD_MAX || place->position < m->at ||
        place->position > put || place->bytes > put - place->position ||
        place->bytes > RING - offset) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "place: %" PRIu32 " bytes at %" PRIu64
                       " are not in the shared memory, or were taken before",
                       place->bytes, place->position);
    }
    m->place = *place;
    return ps_ok();
}

static const uint8_t *bytes_at(const ps_shared_memory *m, size_t at, size_t len)
{
    if (at > m->place.bytes || len > m->place.bytes - at) {
        abort(); /* the caller has not checked the length; the view would read other memory */
    }
    return m->ring + m->place.position % RING + at;
}

const uint8_t *ps_shared_memory_view(const ps_shared_memory *m, size_t at, size_t len,
                                     void *scratch)
{
    return len == 0 ? scratch : memcpy(scratch, bytes_at(m, at, len), len);
}

const uint8_t *ps_shared_memory_view_floats(const ps_shared_memory *m, size_t at, size_t len,
                                            void *scratch, bool *are_finite)
{
    const uint8_t *from = bytes_at(m, at, len);
    uint8_t *to = scratch;

    *are_finite = len % sizeof(float) == 0;
    for (size_t done = 0; done < len; done += BLOCK) {
        size_t n = len - done < BLOCK ? len - done : BLOCK, floats = n / sizeof(float);

        memcpy(to + done, from + done, n);
        /* Checks the copy, which the other end cannot change any more. */
        *are_finite &= ps_first_nonfinite(to + done, floats) == floats;
    }
    return scratch;
}

void ps_shared_memory_done(ps_shared_memory *m)
{
    if (m->place.bytes > 0) {
        m->at = behind(m->place.position, m->place.bytes);
        m->place.bytes = 0;
        atomic_store_explicit(&m->head->taken, m->at, memory_order_release);
    }
}
