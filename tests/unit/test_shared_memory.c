/* SPDX-License-Identifier: Apache-2.0 */
/* test_shared_memory.c - payloads through shared memory arrive whole and in order; what is no
 * memory of ours is not opened, and what is no payload is not taken. */
#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/rpc/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FILE_BYTES = PS_SHARED_MEMORY_BYTES + 4096,
    PUT_AT = 64, /* where the file has its two counts */
    TAKEN_AT = 128,
    NOBODY = 65534,
    ALL_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL
};

/* Both ends of a memory, each with a mapping of its own. */
typedef struct ends {
    ps_shared_memory *put, *take;
} ends;

static uint8_t payload[PS_PAYLOAD_MAX], scratch[PS_PAYLOAD_MAX];

static ends both_ends(void)
{
    ps_memory_offer offer;
    ends e;
    ps_status st = ps_shared_memory_create(&e.put);

    assert_string_equal(st.text, "");
    offer = ps_shared_memory_offer(e.put);
    st = ps_shared_memory_open(&offer, &e.take);
    assert_string_equal(st.text, "");
    return e;
}

static void drop(ends *e)
{
    ps_shared_memory_destroy(e->put);
    ps_shared_memory_destroy(e->take);
}

/* Fills `bytes` bytes with what only payload `number` has. */
static void fill(uint8_t *to, size_t bytes, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
    }
}

static size_t length_of(uint64_t number)
{
    return PS_SHARED_MEMORY_LEAST +
           (size_t)(ps_draw_unit(11, number) * (PS_PAYLOAD_MAX - PS_SHARED_MEMORY_LEAST));
}

static bool put(ps_shared_memory *m, uint64_t number, size_t bytes, ps_memory_place *place)
{
    size_t half = bytes / 2;
    ps_piece pieces[2] = {{.data = payload, .len = half},
                          {.data = payload + half, .len = bytes - half}};

    fill(payload, bytes, number);
    return ps_shared_memory_put(m, pieces, 2, place);
}

/* Takes payload `number` and returns whether it is whole. */
static bool take(ps_shared_memory *m, uint64_t number, const ps_memory_place *place)
{
    static uint8_t expected[PS_PAYLOAD_MAX];
    ps_status st = ps_shared_memory_take(m, place);
    size_t half = place->bytes / 2;
    bool is_whole;

    if (!ps_is_ok(&st)) {
        return false;
    }
    fill(expected, place->bytes, number);
    is_whole = memcmp(ps_shared_memory_view(m, 0, half, scratch), expected, half) == 0 &&
               memcmp(ps_shared_memory_view(m, half, place->bytes - half, scratch), expected + half,
                      place->bytes - half) == 0;
    ps_shared_memory_done(m);
    return is_whole;
}

/* --- what is put and taken ----------------------------------------------------- */

static void payloads_arrive_in_order_over_many_rounds_of_the_ring(void **state)
{
    enum { COUNT = 200, AHEAD = 13 };
    ps_memory_place places[COUNT];
    ends e = both_ends();
    uint64_t taken = 0;

    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        if (i - taken == AHEAD) { /* with so many of 1 MiB at most there is always room */
            assert_true(take(e.take, taken, &places[taken]));
            taken++;
        }
        assert_true(put(e.put, i, length_of(i), &places[i]));
    }
    for (; taken < COUNT; taken++) {
        assert_true(take(e.take, taken, &places[taken]));
    }
    assert_true(places[COUNT - 1].position > 3 * (uint64_t)PS_SHARED_MEMORY_BYTES);
    drop(&e);
}

static void a_full_memory_refuses_and_has_room_again_when_something_was_taken(void **state)
{
    enum { MOST = PS_SHARED_MEMORY_BYTES / PS_PAYLOAD_MAX };
    ps_memory_place places[MOST + 1];
    ends e = both_ends();

    (void)state;
    for (uint64_t i = 0; i < MOST; i++) {
        assert_true(put(e.put, i, PS_PAYLOAD_MAX, &places[i]));
    }
    assert_false(put(e.put, MOST, PS_SHARED_MEMORY_LEAST, &places[MOST]));
    assert_true(take(e.take, 0, &places[0]));
    assert_true(put(e.put, MOST, PS_PAYLOAD_MAX, &places[MOST]));
    assert_false(put(e.put, MOST + 1, PS_SHARED_MEMORY_LEAST, &places[0]));
    for (uint64_t i = 1; i <= MOST; i++) {
        assert_true(take(e.take, i, &places[i]));
    }
    drop(&e);
}

static void an_empty_memory_uses_its_first_pages_again_and_has_room_for_all(void **state)
{
    enum { MOST = PS_SHARED_MEMORY_BYTES / PS_PAYLOAD_MAX };
    ps_memory_place place, places[MOST];
    ends e = both_ends();

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(put(e.put, i, PS_PAYLOAD_MAX, &place));
        assert_int_equal(place.position % PS_SHARED_MEMORY_BYTES, 0);
        assert_true(take(e.take, i, &place));
    }
    for (uint64_t i = 0; i < MOST; i++) {
        assert_true(put(e.put, i, PS_PAYLOAD_MAX, &places[i]));
    }
    assert_false(put(e.put, MOST, PS_PAYLOAD_MAX, &place));
    for (uint64_t i = 0; i < MOST; i++) {
        assert_true(take(e.take, i, &places[i]));
    }
    drop(&e);
}

static void short_and_too_long_payloads_are_not_put(void **state)
{
    static const uint8_t bytes[PS_PAYLOAD_MAX + 1];
    ps_piece piece = {.data = bytes, .len = PS_SHARED_MEMORY_LEAST - 1};
    ps_memory_place place;
    ends e = both_ends();

    (void)state;
    assert_false(ps_shared_memory_put(e.put, &piece, 1, &place));
    assert_false(ps_shared_memory_put(e.put, NULL, 0, &place));
    piece.len = sizeof bytes;
    assert_false(ps_shared_memory_put(e.put, &piece, 1, &place));
    piece.len = PS_SHARED_MEMORY_LEAST;
    assert_true(ps_shared_memory_put(e.put, &piece, 1, &place));
    drop(&e);
}

static void values_that_are_not_finite_are_seen_wherever_they_are(void **state)
{
    enum { VALUES = 10000 };
    static float values[VALUES], copies[VALUES];
    ps_piece piece = {.data = values, .len = sizeof values};
    ps_memory_place place;
    ends e = both_ends();
    bool are_finite;

    (void)state;
    for (size_t bad = 0; bad <= VALUES; bad += 1000) { /* VALUES: none */
        ps_status st;

        for (size_t i = 0; i < VALUES; i++) {
            values[i] = i == bad ? INFINITY : (float)i;
        }
        assert_true(ps_shared_memory_put(e.put, &piece, 1, &place));
        st = ps_shared_memory_take(e.take, &place);
        assert_string_equal(st.text, "");
        assert_ptr_equal(
            ps_shared_memory_view_floats(e.take, 0, sizeof values, copies, &are_finite), copies);
        assert_int_equal(are_finite, bad == VALUES);
        assert_memory_equal(copies, values, sizeof values);
        ps_shared_memory_done(e.take);
    }
    drop(&e);
}

/* --- two threads, two processes ------------------------------------------------ */

typedef struct sender {
    ps_shared_memory *memory;
    int pipe; /* brings places to the other end */
    uint64_t count;
} sender;

/* Puts payloads and says where, as a message of a stream would; one without room is put again. */
static void *send_all(void *arg)
{
    const sender *s = arg;
    ps_memory_place place;

    for (uint64_t i = 0; i < s->count; i++) {
        while (!put(s->memory, i, length_of(i), &place)) {
            (void)sched_yield();
        }
        if (write(s->pipe, &place, sizeof place) != (ssize_t)sizeof place) {
            abort();
        }
    }
    return NULL;
}

static bool take_all(ps_shared_memory *m, int pipe, uint64_t count)
{
    ps_memory_place place;

    for (uint64_t i = 0; i < count; i++) {
        if (read(pipe, &place, sizeof place) != (ssize_t)sizeof place || !take(m, i, &place)) {
            return false;
        }
    }
    return true;
}

static void two_threads_put_and_take_at_the_same_time(void **state)
{
    ends e = both_ends();
    pthread_t thread;
    int pipes[2];
    sender s;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    s = (sender){.memory = e.put, .pipe = pipes[1], .count = 100};
    assert_int_equal(pthread_create(&thread, NULL, send_all, &s), 0);
    assert_true(take_all(e.take, pipes[0], s.count));
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(pipes[0]);
    close(pipes[1]);
    drop(&e);
}

/* Runs fn(arg) in a child and returns its exit code; -1: it was killed. */
static int in_a_child(int (*fn)(void *arg), void *arg)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        _exit(fn(arg));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

typedef struct other_process {
    ps_memory_offer offer;
    int pipe;
    uint64_t count;
} other_process;

static int open_and_take(void *arg)
{
    const other_process *o = arg;
    ps_shared_memory *m;
    ps_status st = ps_shared_memory_open(&o->offer, &m);

    return ps_is_ok(&st) && take_all(m, o->pipe, o->count) ? 0 : 1;
}

static void another_process_takes_what_this_one_puts(void **state)
{
    ps_shared_memory *m;
    ps_status st = ps_shared_memory_create(&m);
    pthread_t thread;
    int pipes[2];
    sender s;
    other_process o;

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(pipe(pipes), 0);
    o = (other_process){.offer = ps_shared_memory_offer(m), .pipe = pipes[0], .count = 50};
    s = (sender){.memory = m, .pipe = pipes[1], .count = o.count};
    assert_int_equal(pthread_create(&thread, NULL, send_all, &s), 0);
    assert_int_equal(in_a_child(open_and_take, &o), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close(pipes[0]);
    close(pipes[1]);
    ps_shared_memory_destroy(m);
}

static int die_with_a_payload(void *arg)
{
    const other_process *o = arg;
    ps_memory_place place;
    ps_shared_memory *m;
    ps_status st = ps_shared_memory_open(&o->offer, &m);

    if (!ps_is_ok(&st) || read(o->pipe, &place, sizeof place) != (ssize_t)sizeof place) {
        return 1;
    }
    st = ps_shared_memory_take(m, &place);
    if (ps_is_ok(&st)) {
        (void)raise(SIGKILL);
    }
    return 1;
}

static void a_killed_process_leaves_nothing_and_the_other_one_goes_on(void **state)
{
    ps_memory_place place;
    ps_shared_memory *m;
    ps_status st = ps_shared_memory_create(&m);
    struct stat file;
    other_process o;
    int pipes[2];

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(pipe(pipes), 0);
    assert_true(put(m, 0, PS_PAYLOAD_MAX, &place));
    assert_int_equal(write(pipes[1], &place, sizeof place), sizeof place);
    o = (other_process){.offer = ps_shared_memory_offer(m), .pipe = pipes[0]};
    assert_int_equal(in_a_child(die_with_a_payload, &o), -1);
    /* no name in any file system: the kernel frees it with the last descriptor and mapping */
    assert_int_equal(fstat((int)o.offer.descriptor, &file), 0);
    assert_int_equal(file.st_nlink, 0);
    assert_true(put(m, 1, PS_PAYLOAD_MAX, &place)); /* there is room besides what nobody takes */
    ps_shared_memory_destroy(m);
    close(pipes[0]);
    close(pipes[1]);
}

/* --- what is not opened --------------------------------------------------------- */

static void must_not_open(const ps_memory_offer *offer, ps_code code, const char *why)
{
    ps_shared_memory *m = NULL;
    ps_status st = ps_shared_memory_open(offer, &m);

    assert_int_equal(st.code, code);
    assert_non_null(strstr(st.text, why));
    assert_null(m);
}

static void an_offer_with_another_token_process_or_descriptor_is_refused(void **state)
{
    ps_shared_memory *m;
    ps_status st = ps_shared_memory_create(&m);
    ps_memory_offer offer;

    (void)state;
    assert_string_equal(st.text, "");
    offer = ps_shared_memory_offer(m);
    offer.token[PS_SHARED_MEMORY_TOKEN - 1] ^= 1;
    must_not_open(&offer, PS_PERMISSION_DENIED, "another token");
    offer = ps_shared_memory_offer(m);
    offer.process = 0;
    must_not_open(&offer, PS_UNAVAILABLE, "/proc/0/");
    offer.process = UINT32_MAX;
    must_not_open(&offer, PS_UNAVAILABLE, "/proc/4294967295/");
    offer = ps_shared_memory_offer(m);
    offer.descriptor = UINT32_MAX;
    must_not_open(&offer, PS_UNAVAILABLE, "/fd/4294967295");
    ps_shared_memory_destroy(m);
}

/* Offers a descriptor of this process, and closes it. */
static void must_not_open_fd(int fd, const char *why)
{
    ps_memory_offer offer = {.process = (uint32_t)getpid(), .descriptor = (uint32_t)fd};

    assert_true(fd >= 0);
    must_not_open(&offer, PS_PERMISSION_DENIED, why);
    close(fd);
}

/* Makes a memfd of so many bytes with these seals, and a token of zeros. */
static int file_of(off_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void what_is_no_sealed_memory_of_the_right_size_is_refused(void **state)
{
    char path[] = "/tmp/psgd-test-memory-XXXXXX";
    int fd, ends_of_pipe[2];
    ps_memory_offer offer = {.process = (uint32_t)getpid()};
    ps_shared_memory *m;
    ps_status st;

    (void)state;
    must_not_open_fd(file_of(FILE_BYTES, F_SEAL_GROW), "can change its size");
    must_not_open_fd(file_of(FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW), "can change its size");
    must_not_open_fd(file_of(FILE_BYTES - 1, ALL_SEALS), "another size");
    must_not_open_fd(file_of(FILE_BYTES + 4096, ALL_SEALS), "another size");
    must_not_open_fd(memfd_create("test", MFD_CLOEXEC), "another size");
    must_not_open_fd(open("/dev/null", O_RDWR | O_CLOEXEC), "is none");
    must_not_open_fd(open("/", O_RDONLY | O_CLOEXEC), "is none");
    assert_int_equal(pipe(ends_of_pipe), 0);
    close(ends_of_pipe[1]);
    must_not_open_fd(ends_of_pipe[0], "is none"); /* opened for reading it would wait */
    fd = mkstemp(path);
    assert_true(fd >= 0 && unlink(path) == 0 && ftruncate(fd, FILE_BYTES) == 0);
    offer.descriptor = (uint32_t)fd;
    st = ps_shared_memory_open(&offer, &m); /* on a tmpfs it is the seals that it lacks */
    assert_int_equal(st.code, PS_PERMISSION_DENIED);
    close(fd);
    /* such a memory is taken, so that the refusals above are for what they say */
    offer.descriptor = (uint32_t)file_of(FILE_BYTES, ALL_SEALS);
    st = ps_shared_memory_open(&offer, &m);
    assert_string_equal(st.text, "");
    ps_shared_memory_destroy(m);
    close((int)offer.descriptor);
}

static void memory_of_another_user_is_refused(void **state)
{
    ps_memory_offer offer;
    ps_shared_memory *m;
    ps_status st;

    (void)state;
    if (geteuid() != 0) {
        skip(); /* only root could be offered one that it may open */
    }
    assert_int_equal(seteuid(NOBODY), 0);
    st = ps_shared_memory_create(&m);
    assert_int_equal(seteuid(0), 0);
    assert_string_equal(st.text, "");
    offer = ps_shared_memory_offer(m);
    must_not_open(&offer, PS_PERMISSION_DENIED, "another user");
    ps_shared_memory_destroy(m);
}

static int open_from_another_network(void *arg)
{
    ps_shared_memory *m;
    ps_status st;

    if (unshare(CLONE_NEWNET) != 0) {
        return 77;
    }
    st = ps_shared_memory_open(arg, &m);
    return st.code == PS_PERMISSION_DENIED && strstr(st.text, "another network") != NULL ? 0 : 1;
}

static void memory_of_another_network_is_refused(void **state)
{
    ps_shared_memory *m;
    ps_status st = ps_shared_memory_create(&m);
    ps_memory_offer offer;
    int code;

    (void)state;
    assert_string_equal(st.text, "");
    offer = ps_shared_memory_offer(m);
    code = in_a_child(open_from_another_network, &offer);
    ps_shared_memory_destroy(m);
    if (code == 77) {
        skip(); /* this user may not make networks */
    }
    assert_int_equal(code, 0);
}

static int create_within_a_limit(void *arg)
{
    struct rlimit limit = {.rlim_cur = FILE_BYTES - 1, .rlim_max = FILE_BYTES - 1};
    ps_shared_memory *m;
    ps_status st;

    (void)arg;
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 2;
    }
    st = ps_shared_memory_create(&m);
    return st.code == PS_UNAVAILABLE && strstr(st.text, "RLIMIT_FSIZE") != NULL ? 0 : 1;
}

static void a_process_with_a_limit_of_files_has_none_and_lives(void **state)
{
    (void)state;
    assert_int_equal(in_a_child(create_within_a_limit, NULL), 0);
}

/* --- an end that writes nonsense ------------------------------------------------- */

static void must_not_take(ps_shared_memory *m, uint64_t position, uint32_t bytes)
{
    ps_memory_place place = {.position = position, .bytes = bytes};
    ps_status st = ps_shared_memory_take(m, &place);

    assert_int_equal(st.code, PS_INVALID_ARGUMENT);
}

/* Returns the first page of a memory. */
static uint8_t *page_of(const ps_shared_memory *m)
{
    ps_memory_offer offer = ps_shared_memory_offer(m);
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, (int)offer.descriptor, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static void places_out_of_bounds_are_refused(void **state)
{
    const uint64_t ring = PS_SHARED_MEMORY_BYTES;
    uint64_t everything = UINT64_MAX;
    ps_memory_place places[3];
    ends e = both_ends();
    uint8_t *page = page_of(e.put);

    (void)state;
    must_not_take(e.take, 0, 1); /* nothing was put */
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(put(e.put, i, 8192, &places[i]));
    }
    must_not_take(e.take, 0, 0);
    must_not_take(e.take, 0, 3 * 8192 + 1);
    must_not_take(e.take, 3 * 8192, 1);
    must_not_take(e.take, 2 * 8192, 8193);
    must_not_take(e.take, UINT64_MAX, 1);
    must_not_take(e.take, UINT64_MAX - 1, UINT32_MAX);
    assert_true(take(e.take, 1, &places[1]));
    must_not_take(e.take, 0, 8192); /* it is behind that */
    must_not_take(e.take, places[1].position, 8192);
    /* as if the whole ring had been put many times over */
    memcpy(page + PUT_AT, &everything, sizeof everything);
    must_not_take(e.take, 2 * ring - 4096, 4097);
    must_not_take(e.take, ring, PS_PAYLOAD_MAX + 1);
    must_not_take(e.take, UINT64_MAX - 100, 200);
    assert_int_equal(munmap(page, 4096), 0);
    drop(&e);
}

static void an_end_that_has_taken_what_was_not_put_gets_nothing_more(void **state)
{
    static const uint64_t nonsense[] = {8193, UINT64_MAX, 1ull << 40};
    ps_memory_place place;
    uint64_t taken;

    (void)state;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        ends e = both_ends();
        uint8_t *page = page_of(e.put);

        assert_true(put(e.put, 0, 8192, &place));
        memcpy(page + TAKEN_AT, &nonsense[i], sizeof nonsense[i]);
        assert_false(put(e.put, 1, 8192, &place));
        taken = 0;
        memcpy(page + TAKEN_AT, &taken, sizeof taken);
        assert_false(put(e.put, 1, 8192, &place)); /* for good */
        assert_int_equal(munmap(page, 4096), 0);
        drop(&e);
    }
}

static void an_end_that_goes_back_gets_nothing_more(void **state)
{
    ps_memory_place places[2];
    ends e = both_ends();
    uint8_t *page = page_of(e.put);
    uint64_t taken = 0;

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        assert_true(put(e.put, i, 8192, &places[i]));
        assert_true(take(e.take, i, &places[i]));
    }
    assert_true(put(e.put, 2, 8192, &places[0]));
    memcpy(page + TAKEN_AT, &taken, sizeof taken);
    assert_false(put(e.put, 3, 8192, &places[0]));
    assert_int_equal(munmap(page, 4096), 0);
    drop(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(payloads_arrive_in_order_over_many_rounds_of_the_ring),
        cmocka_unit_test(a_full_memory_refuses_and_has_room_again_when_something_was_taken),
        cmocka_unit_test(an_empty_memory_uses_its_first_pages_again_and_has_room_for_all),
        cmocka_unit_test(short_and_too_long_payloads_are_not_put),
        cmocka_unit_test(values_that_are_not_finite_are_seen_wherever_they_are),
        cmocka_unit_test(two_threads_put_and_take_at_the_same_time),
        cmocka_unit_test(another_process_takes_what_this_one_puts),
        cmocka_unit_test(a_killed_process_leaves_nothing_and_the_other_one_goes_on),
        cmocka_unit_test(an_offer_with_another_token_process_or_descriptor_is_refused),
        cmocka_unit_test(what_is_no_sealed_memory_of_the_right_size_is_refused),
        cmocka_unit_test(memory_of_another_user_is_refused),
        cmocka_unit_test(memory_of_another_network_is_refused),
        cmocka_unit_test(a_process_with_a_limit_of_files_has_none_and_lives),
        cmocka_unit_test(places_out_of_bounds_are_refused),
        cmocka_unit_test(an_end_that_has_taken_what_was_not_put_gets_nothing_more),
        cmocka_unit_test(an_end_that_goes_back_gets_nothing_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
