/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot.c - a snapshot has what was in memory when it was begun, whatever the process does
 * afterwards; what goes wrong with it is an error. */
#include "tests/support/cmocka_all.h"

#include "common/base/clock.h"
#include "common/base/snapshot.h"
#include "common/base/state.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { VALUES = 1 << 20 };
static const int64_t patience_us = 60000000;

static uint32_t values[VALUES];

static void fill(uint32_t with)
{
    for (uint32_t i = 0; i < VALUES; i++) {
        values[i] = with + i;
    }
}

/* In sections, which take memory. */
static ps_status write_values(void *arg, int fd)
{
    ps_state_out out;

    (void)arg;
    ps_state_out_init(&out, "PSGDTEST", 1, ps_snapshot_write, &fd);
    ps_state_begin(&out, 1, 0);
    ps_state_put(&out, values, sizeof values);
    ps_state_finish(&out);
    return ps_state_out_end(&out);
}

static void check_values(const ps_snapshot *s, uint32_t with)
{
    size_t len = ps_snapshot_size(s);
    uint8_t *bytes = malloc(len);
    uint32_t kind, index;
    ps_state_in in;
    ps_status st;

    assert_int_equal(pread(s->fd, bytes, len, 0), len);
    st = ps_state_in_init(&in, "PSGDTEST", 1, bytes, len);
    assert_string_equal(st.text, "");
    st = ps_state_next(&in, true, &kind, &index);
    assert_string_equal(st.text, "");
    for (uint32_t i = 0; i < VALUES; i++) {
        assert_int_equal(ps_state_take_u32(&in), with + i);
    }
    free(bytes);
}

static atomic_bool stop;

/* Takes and returns memory all the time, as other threads of a service do. */
static void *use_memory(void *arg)
{
    while (!atomic_load(&stop)) {
        void *p = malloc(100 + (size_t)(ps_clock_us() % 5000));

        free(p);
    }
    return arg;
}

static void it_has_what_was_in_memory_when_it_was_begun(void **state)
{
    enum { ROUNDS = 8 };
    pthread_t other;
    ps_snapshot s[ROUNDS];

    (void)state;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&other, NULL, use_memory, NULL), 0);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        fill(i * 7919);
        s[i] = ps_snapshot_begin(write_values, NULL);
        fill(1);
    }
    for (uint32_t i = 0; i < ROUNDS; i++) {
        ps_status st = ps_snapshot_wait(&s[i], patience_us);

        assert_string_equal(st.text, "");
        check_values(&s[i], i * 7919);
        ps_snapshot_drop(&s[i]);
        assert_int_equal(s[i].fd, -1);
    }
    atomic_store(&stop, true);
    pthread_join(other, NULL);
}

static ps_status fail_to_write(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory");
}

static ps_status never_end(void *arg, int fd)
{
    (void)arg;
    (void)fd;
    for (;;) {
        pause();
    }
    return ps_ok();
}

static void what_goes_wrong_is_an_error(void **state)
{
    ps_snapshot s = ps_snapshot_begin(fail_to_write, NULL);

    (void)state;
    assert_int_equal(ps_snapshot_wait(&s, patience_us).code, PS_RESOURCE_EXHAUSTED);
    ps_snapshot_drop(&s);
    s = ps_snapshot_begin(never_end, NULL);
    assert_int_equal(ps_snapshot_wait(&s, 10000).code, PS_DEADLINE_EXCEEDED);
    assert_int_equal(kill(s.copy, SIGKILL), 0);
    assert_int_equal(ps_snapshot_wait(&s, patience_us).code, PS_INTERNAL);
    ps_snapshot_drop(&s);
    s = ps_snapshot_begin(never_end, NULL);
    ps_snapshot_drop(&s); /* ends it */
    assert_int_equal(s.copy, 0);
}

static ps_status write_second_half(void *arg, int fd)
{
    (void)fd;
    return ps_snapshot_put(*(const int *)arg, sizeof values / 2, values + VALUES / 2,
                           sizeof values / 2);
}

static void several_write_into_one_file(void **state)
{
    ps_snapshot file, s;
    uint32_t back[2];
    ps_status st = ps_snapshot_blank(sizeof values, &file);

    (void)state;
    assert_string_equal(st.text, "");
    fill(5);
    s = ps_snapshot_begin(write_second_half, &file.fd);
    fill(0);
    st = ps_snapshot_wait(&s, patience_us);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_snapshot_size(&s), 0);
    assert_int_equal(ps_snapshot_size(&file), sizeof values);
    assert_int_equal(pread(file.fd, back, sizeof back, sizeof values / 2 - 4), sizeof back);
    assert_int_equal(back[0], 0);
    assert_int_equal(back[1], 5 + VALUES / 2);
    ps_snapshot_drop(&s);
    ps_snapshot_drop(&file);
}

enum { WHOLE = 1000, HALF = WHOLE / 2 };

typedef struct halves {
    int own;  /* a file that is written besides that of the snapshot */
    int said; /* the end of a pipe; -1: none */
} halves;

/* Appends half of its bytes to `own`, then the other half: in between, if there is a pipe, says
 * that it has, and goes on for ever. */
static ps_status write_halves(void *arg, int fd)
{
    static const uint8_t bytes[WHOLE] = {1, 2, 3};
    halves *h = arg;
    ps_status st = ps_snapshot_empty(h->own);

    st = ps_is_ok(&st) ? ps_snapshot_write(&h->own, bytes, HALF) : st;
    if (ps_is_ok(&st) && h->said >= 0) {
        return write(h->said, bytes, 1) == 1 ? never_end(arg, fd) : ps_fail(PS_INTERNAL, "-");
    }
    return ps_is_ok(&st) ? ps_snapshot_write(&h->own, bytes + HALF, WHOLE - HALF) : st;
}

/* Leaves no descriptor but one, which the file of a snapshot takes: there is no pidfd. */
static struct rlimit leave_one(int fd)
{
    int next = dup(fd);
    struct rlimit before, few;

    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){.rlim_cur = (rlim_t)next + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    return before;
}

static void what_a_killed_copy_has_written_does_not_stay(void **state)
{
    halves h;
    ps_snapshot file, s;
    struct rlimit before;
    ps_status st = ps_snapshot_blank(0, &file);
    int ends[2];
    uint8_t one, head[4];

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(pipe(ends), 0);
    h = (halves){.own = file.fd, .said = ends[1]};
    s = ps_snapshot_begin(write_halves, &h);
    assert_int_equal(read(ends[0], &one, 1), 1);
    ps_snapshot_drop(&s); /* ends it */
    assert_int_equal(ps_snapshot_size(&file), HALF);
    h.said = -1;
    before = leave_one(file.fd);
    s = ps_snapshot_begin(write_halves, &h);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(s.copy, 0); /* this process has written */
    st = ps_snapshot_wait(&s, 0);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_snapshot_size(&file), WHOLE);
    assert_int_equal(pread(file.fd, head, sizeof head, 0), sizeof head);
    assert_memory_equal(head, ((uint8_t[]){1, 2, 3, 0}), sizeof head);
    ps_snapshot_drop(&s);
    ps_snapshot_drop(&file);
    close(ends[0]);
    close(ends[1]);
}

enum { FILES = 8, AT = 5, COMMON = 1 << 20, OWN = 12 };

/* Writes `n` bytes of `with` to a file in memory. */
static ps_snapshot file_of(uint8_t with, size_t n)
{
    uint8_t *bytes = malloc(n);
    ps_snapshot file;
    ps_status st = ps_snapshot_blank(n, &file);

    assert_string_equal(st.text, "");
    memset(bytes, with, n);
    st = ps_snapshot_put(file.fd, 0, bytes, n);
    assert_string_equal(st.text, "");
    free(bytes);
    return file;
}

/* Returns the byte of file `i` at `at`, by any way of reading it. */
static uint8_t expected(size_t at, uint8_t i)
{
    return at < AT || at >= AT + COMMON ? i : 200;
}

static void files_with_a_part_in_common_have_it_in_memory_once(void **state)
{
    static const size_t pieces[] = {COMMON + OWN, 1, 3, 4096, COMMON};
    ps_snapshot common = file_of(200, COMMON), own[FILES];
    uint64_t memory = ps_snapshot_size(&common);
    uint8_t *bytes = malloc(COMMON + OWN);

    (void)state;
    for (uint8_t i = 0; i < FILES; i++) {
        ps_spliced file = {.common = common.fd, .at = AT, .common_size = COMMON};
        size_t piece = pieces[i % (sizeof pieces / sizeof pieces[0])], len = 0;
        ssize_t got = 1;

        own[i] = file_of(i, OWN);
        memory += ps_snapshot_size(&own[i]);
        file.own = own[i].fd;
        while (len < COMMON + OWN && got > 0) {
            size_t left = COMMON + OWN - len;

            got = ps_spliced_read(&file, bytes + len, left < piece ? left : piece, len);
            len += got > 0 ? (size_t)got : 0;
        }
        assert_int_equal(len, COMMON + OWN);
        for (size_t at = 0; at < len; at++) {
            if (bytes[at] != expected(at, i)) {
                fail_msg("file %u, byte %zu: %u", i, at, bytes[at]);
            }
        }
        assert_int_equal(ps_spliced_read(&file, bytes, 1, COMMON + OWN), 0);
        file.common = -1; /* it stands for itself */
        assert_int_equal(ps_spliced_read(&file, bytes, COMMON, AT + 1), OWN - AT - 1);
    }
    assert_int_equal(memory, COMMON + FILES * OWN);
    for (uint32_t i = 0; i < FILES; i++) {
        ps_snapshot_drop(&own[i]);
    }
    ps_snapshot_drop(&common);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_what_was_in_memory_when_it_was_begun),
        cmocka_unit_test(what_goes_wrong_is_an_error),
        cmocka_unit_test(several_write_into_one_file),
        cmocka_unit_test(what_a_killed_copy_has_written_does_not_stay),
        cmocka_unit_test(files_with_a_part_in_common_have_it_in_memory_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
