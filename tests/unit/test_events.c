/* SPDX-License-Identifier: Apache-2.0 */
/* test_events.c - event files to the byte, and on time; tests/interop reads them
 * with a reader of its own. */
#include "common/artifact/events.h"

#include "common/artifact/crc32c.h"

#include "tests/support/temp_dir.h"

#include <string.h>

static void expect_ok(ps_status st)
{
    assert_string_equal(st.text, "");
}

static void expect_size(const char *path, size_t size)
{
    char *bytes = NULL;
    size_t n = 0;

    expect_ok(ps_file_read(path, 1 << 20, &bytes, &n));
    assert_int_equal(n, size);
    free(bytes);
}

static void crc_32c_gives_the_values_of_its_standard(void **state)
{
    uint8_t bytes[32] = {0};

    (void)state;
    assert_int_equal(ps_crc32c("", 0), 0);
    assert_int_equal(ps_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(ps_crc32c(bytes, 32), 0x8a9136aa); /* RFC 3720, B.4 */
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(ps_crc32c(bytes, 32), 0x62a8ab43);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)i;
    }
    assert_int_equal(ps_crc32c(bytes, 32), 0x46dd794e);
}

static void a_record_is_framed_by_its_length_and_masked_checksums(void **state)
{
    /* Of TensorFlow's own writer: the length and its checksum are those of every
     * first record with this file version. */
    static const unsigned char first[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, PS_EVENTS_NAME);
    ps_events *events = NULL;
    char *bytes = NULL;
    size_t n = 0;

    (void)state;
    expect_ok(ps_file_write(path, "an older, longer file that was here before", 42));
    expect_ok(ps_events_open(path, 1700000000.25, &events));
    expect_ok(ps_events_close(events));
    expect_ok(ps_file_read(path, 4096, &bytes, &n));
    assert_int_equal(n, 8 + 4 + 24 + 4);
    assert_memory_equal(bytes, first, sizeof first);
    assert_memory_equal(bytes + 12 + 9,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    free(bytes);
    temp_dir_destroy(&dir);
}

static void a_step_and_a_value_of_0_are_written(void **state)
{
    static const unsigned char event[] = {
        0x09, 0,    0,    0,    0,   0,    0, 0, 0x40,    /* wall_time: 2.0 */
        0x10, 0,                                          /* step */
        0x2a, 0x0a,                                       /* summary */
        0x0a, 0x08, 0x0a, 0x01, 'a', 0x15, 0, 0, 0,    0, /* value: tag, simple_value */
    };
    const ps_scalar point = {"a", 0};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, PS_EVENTS_NAME);
    ps_events *events = NULL;
    char *bytes = NULL;
    size_t n = 0;

    (void)state;
    expect_ok(ps_events_open(path, 1, &events));
    ps_events_add(events, 2, 0, &point, 1);
    expect_ok(ps_events_close(events));
    expect_ok(ps_file_read(path, 4096, &bytes, &n));
    assert_int_equal(n, 40 + 12 + sizeof event + 4);
    assert_memory_equal(bytes + 40 + 12, event, sizeof event);
    free(bytes);
    temp_dir_destroy(&dir);
}

static void points_wait_for_a_second_at_most(void **state)
{
    const ps_scalar point = {"a", 1};
    const size_t record = 12 + (9 + 2 + 2 + 2 + 3 + 5) + 4;
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, PS_EVENTS_NAME);
    ps_events *events = NULL;

    (void)state;
    expect_ok(ps_events_open(path, 100, &events));
    expect_size(path, 40); /* at once */
    ps_events_add(events, 100.5, 1, &point, 1);
    expect_size(path, 40); /* kept */
    ps_events_add(events, 101, 2, &point, 1);
    expect_size(path, 40 + 2 * record);
    ps_events_add(events, 101.5, 3, &point, 1);
    expect_ok(ps_events_close(events));
    expect_size(path, 40 + 3 * record);
    temp_dir_destroy(&dir);
}

static void a_failed_write_is_told_at_close(void **state)
{
    const ps_scalar point = {"a", 1};
    ps_events *events = NULL;
    ps_status st = ps_events_open("/dev/full", 0, &events);

    (void)state;
    expect_ok(st);
    ps_events_add(events, 2, 1, &point, 1);
    st = ps_events_close(events);
    assert_non_null(strstr(st.text, "write /dev/full: "));
    st = ps_events_open("/proc/nowhere/all", 0, &events);
    assert_int_equal(st.code, PS_NOT_FOUND);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_32c_gives_the_values_of_its_standard),
        cmocka_unit_test(a_record_is_framed_by_its_length_and_masked_checksums),
        cmocka_unit_test(a_step_and_a_value_of_0_are_written),
        cmocka_unit_test(points_wait_for_a_second_at_most),
        cmocka_unit_test(a_failed_write_is_told_at_close),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
