/* SPDX-License-Identifier: Apache-2.0 */
/* test_joblog.c - the log of a job in memory and in its file, with real tasks and a real loop. */
#include "tests/support/cmocka_all.h"

#include "tests/support/side.h"
#include "tests/support/temp_dir.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/node/joblog.h"

#include <string.h>

typedef struct rig {
    side on;
    temp_dir dir;
    ps_tasks *tasks;
    ps_joblog *log;
    ps_joblog_flush flush;
    flag flushed, was_read;
    const char *path; /* of the file */
    /* of a read */
    uint64_t at;
    size_t got;
    char text[4096];
} rig;

static void has_read(void *arg)
{
    flag_raise(&((rig *)arg)->was_read);
}

static void begin(rig *r, const char *path)
{
    ps_joblog_conf conf = {.has_read = has_read, .arg = r};
    ps_status st;

    memset(r, 0, sizeof *r);
    r->dir = temp_dir_create();
    side_start(&r->on);
    flag_init(&r->flushed);
    flag_init(&r->was_read);
    st = ps_tasks_create(r->on.loop, 1, SIZE_MAX, &r->tasks);
    assert_true(ps_is_ok(&st));
    conf.tasks = r->tasks;
    r->path = path != NULL ? path : temp_dir_file(&r->dir, "log");
    st = ps_joblog_open(r->path, &conf, &r->log);
    assert_true(ps_is_ok(&st));
    ps_log_set_quiet(true);
}

static void close_log(void *arg)
{
    rig *r = arg;

    ps_joblog_close(r->log);
    ps_tasks_destroy(r->tasks);
}

static void end(rig *r)
{
    ps_log_set_quiet(false);
    side_run(&r->on, close_log, r);
    side_stop(&r->on);
    flag_fini(&r->flushed);
    flag_fini(&r->was_read);
    temp_dir_destroy(&r->dir);
}

static void flush_done(ps_task *task)
{
    flag_raise(&PS_CONTAINER_OF(task, rig, flush.task)->flushed);
}

static void start_flush(void *arg)
{
    rig *r = arg;

    r->flush.task.done = flush_done;
    ps_joblog_start_flush(r->log, &r->flush);
}

static void flush(rig *r)
{
    side_run(&r->on, start_flush, r);
    flag_wait(&r->flushed);
}

static void do_read(void *arg)
{
    rig *r = arg;

    r->got = ps_joblog_read(r->log, r->at, r->text, sizeof r->text - 1);
    r->text[r->got] = '\0';
}

static void read_at(rig *r, uint64_t at)
{
    r->at = at;
    side_run(&r->on, do_read, r);
}

static void it_has_what_was_logged_meanwhile(void **state)
{
    char *bytes;
    size_t n;
    uint64_t size;
    ps_status st;
    rig r;

    (void)state;
    ps_log(PS_LOG_INFO, "test", "before");
    begin(&r, NULL);
    ps_log(PS_LOG_INFO, "test", "one");
    ps_log(PS_LOG_INFO, "test", "two");
    size = ps_joblog_size(r.log);
    read_at(&r, 0);
    assert_int_equal(r.got, size);
    assert_null(strstr(r.text, "before"));
    assert_non_null(strstr(r.text, "one\n"));
    read_at(&r, size - 4);
    assert_string_equal(r.text, "two\n");
    read_at(&r, size + 1000);
    assert_int_equal(r.got, 0);
    flush(&r);
    assert_int_equal(r.flush.size, size);
    st = ps_file_read(r.path, 4096, &bytes, &n);
    assert_true(ps_is_ok(&st));
    assert_int_equal(n, size);
    assert_memory_equal(bytes + n - 4, "two\n", 4);
    free(bytes);
    end(&r);
    ps_log(PS_LOG_INFO, "test", "after"); /* goes to stderr only */
}

/* The end writes what no task has written yet. */
static void the_file_is_whole_when_the_log_is_closed(void **state)
{
    char *bytes, path[128];
    size_t n;
    ps_status st;
    temp_dir dir = temp_dir_create();
    rig r;

    (void)state;
    snprintf(path, sizeof path, "%s/log", dir.path);
    begin(&r, path);
    for (int i = 0; i < 1000; i++) {
        ps_log(PS_LOG_INFO, "test", "line %d", i);
    }
    end(&r);
    st = ps_file_read(path, 1 << 20, &bytes, &n);
    assert_true(ps_is_ok(&st));
    assert_true(n > 9 && memcmp(bytes + n - 9, "line 999\n", 9) == 0);
    free(bytes);
    temp_dir_destroy(&dir);
}

static void old_lines_come_back_from_the_file(void **state)
{
    uint64_t size;
    rig r;

    (void)state;
    begin(&r, NULL);
    ps_log(PS_LOG_INFO, "test", "the first line");
    do {
        ps_log(PS_LOG_INFO, "test", "a line that takes the place of the first one in memory");
        size = ps_joblog_size(r.log);
    } while (size < 3 * PS_JOBLOG_KEPT);
    flush(&r);
    read_at(&r, 0);
    assert_int_equal(r.got, 0); /* it is being read */
    flag_wait(&r.was_read);
    read_at(&r, 0);
    assert_int_equal(r.got, sizeof r.text - 1);
    assert_non_null(strstr(r.text, "the first line\n"));
    read_at(&r, size - 4); /* the newest need no file */
    assert_int_equal(r.got, 4);
    end(&r);
}

static void a_full_disk_costs_lines_but_no_memory(void **state)
{
    rig r;

    (void)state;
    begin(&r, "/dev/full");
    for (int i = 0; i < PS_JOBLOG_WAITING / 50; i++) {
        ps_log(PS_LOG_INFO, "test", "a line of the log that finds no room on its disk");
    }
    assert_true(ps_joblog_size(r.log) <= PS_JOBLOG_WAITING);
    assert_true(ps_joblog_size(r.log) > PS_JOBLOG_WAITING - 200);
    flush(&r);
    assert_int_equal(r.flush.size, 0);
    end(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_what_was_logged_meanwhile),
        cmocka_unit_test(the_file_is_whole_when_the_log_is_closed),
        cmocka_unit_test(old_lines_come_back_from_the_file),
        cmocka_unit_test(a_full_disk_costs_lines_but_no_memory),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
