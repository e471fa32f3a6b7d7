/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - lines on stderr and in a sink; signals. */
#include "common/base/log.h"

#include "common/base/signals.h"
#include "tests/support/cmocka_all.h"

#include <jansson.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct seen {
    char last[8192];
    ps_log_level level;
    size_t n;
} seen;

static void remember(void *arg, ps_log_level level, const char *line)
{
    seen *s = arg;

    snprintf(s->last, sizeof s->last, "%s", line);
    s->level = level;
    s->n++;
}

static json_t *last_as_json(const seen *s)
{
    json_error_t why;
    json_t *line = json_loads(s->last, 0, &why);

    if (line == NULL) {
        fail_msg("%s: %s", why.text, s->last);
    }
    return line;
}

static const char *member(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));

    assert_non_null(text);
    return text;
}

static int end_log(void **state)
{
    (void)state;
    ps_log_set_sink(NULL, NULL);
    ps_log_init("psgd", PS_LOG_INFO, PS_LOG_TEXT);
    return 0;
}

static void the_newest_lines_are_kept_whole(void **state)
{
    enum { KEPT = 300 };
    char out[2 * KEPT];
    size_t n;

    (void)state;
    assert_int_equal(ps_log_recent(out, sizeof out), 0); /* nothing is kept yet */
    ps_log_keep(KEPT);
    ps_log(PS_LOG_INFO, "room", "first");
    n = ps_log_recent(out, sizeof out);
    assert_memory_equal(out + n - 6, "first\n", 6);
    for (int i = 0; i < 100; i++) {
        ps_log(PS_LOG_INFO, "room", "line %d", i);
    }
    n = ps_log_recent(out, sizeof out);
    assert_true(n > KEPT / 2 && n <= KEPT);
    out[n] = '\0';
    assert_null(strstr(out, "first"));
    assert_memory_equal(out + 12, " info  room: line ", 18); /* the first of them is whole */
    assert_memory_equal(out + n - 8, "line 99\n", 8);
    n = ps_log_recent(out, 100);
    assert_true(n > 0 && n <= 100);
    assert_memory_equal(out + 12, " info  room: line ", 18);
    assert_int_equal(ps_log_recent(out, 5), 0); /* not a whole line */
}

static void a_text_line_has_time_level_room_message_and_fields(void **state)
{
    seen s = {.n = 0};

    (void)state;
    ps_log_init("test", PS_LOG_INFO, PS_LOG_TEXT);
    ps_log_set_sink(remember, &s);
    ps_log_with(PS_LOG_WARN, "agent",
                PS_LOG_FIELDS(PS_LOG_STR("job", "j-7"), PS_LOG_STR("who", "a b"),
                              PS_LOG_STR("none", ""), PS_LOG_NUM("clock", -3)),
                "prepared %d", 12);
    assert_int_equal(s.level, PS_LOG_WARN);
    assert_string_equal(s.last + 12,
                        " warn  agent: prepared 12 job=j-7 who=\"a b\" none=\"\" clock=-3");
    assert_true(s.last[2] == ':' && s.last[5] == ':' && s.last[8] == '.');
}

static void a_json_line_parses_and_has_every_member(void **state)
{
    seen s = {.n = 0};
    json_t *line;

    (void)state;
    ps_log_init("psgd-test", PS_LOG_DEBUG, PS_LOG_JSON);
    ps_log_set_sink(remember, &s);
    ps_log_with(PS_LOG_DEBUG, "room",
                PS_LOG_FIELDS(PS_LOG_STR("job", "7"), PS_LOG_NUM("clock", 1234567890123)), "hello");
    line = last_as_json(&s);
    assert_string_equal(member(line, "service"), "psgd-test");
    assert_string_equal(member(line, "level"), "debug");
    assert_string_equal(member(line, "room"), "room");
    assert_string_equal(member(line, "msg"), "hello");
    assert_string_equal(member(line, "job"), "7");
    assert_true(json_integer_value(json_object_get(line, "clock")) == 1234567890123);
    assert_int_equal(strlen(member(line, "time")), strlen("2026-01-02T11:25:30.123456Z"));
    assert_int_equal(member(line, "time")[26], 'Z');
    json_decref(line);
}

static void hostile_text_stays_one_line(void **state)
{
    static const char text[] = "a\nb\r\"c\" \\ \x1b[31m \xff \xc3\xa9 \xc2\x9b";
    seen s = {.n = 0};
    json_t *line;

    (void)state;
    ps_log_init("test", PS_LOG_INFO, PS_LOG_TEXT);
    ps_log_set_sink(remember, &s);
    ps_log(PS_LOG_INFO, "r", "%s", text);
    assert_string_equal(s.last + 12, " info  r: a\\nb\\x0d\"c\" \\ \\x1b[31m "
                                     "\xef\xbf\xbd \xc3\xa9 \\u009b");
    ps_log_init("test", PS_LOG_INFO, PS_LOG_JSON);
    ps_log(PS_LOG_INFO, "r", "%s", text);
    assert_null(strchr(s.last, '\n'));
    line = last_as_json(&s);
    assert_string_equal(member(line, "msg"),
                        "a\nb\r\"c\" \\ \x1b[31m \xef\xbf\xbd \xc3\xa9 \xc2\x9b");
    json_decref(line);
}

static void a_long_message_is_cut(void **state)
{
    char text[5000];
    seen s = {.n = 0};
    json_t *line;

    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ps_log_init("test", PS_LOG_INFO, PS_LOG_JSON);
    ps_log_set_sink(remember, &s);
    ps_log(PS_LOG_INFO, "r", "%s", text);
    line = last_as_json(&s);
    assert_int_equal(strlen(member(line, "msg")), 2047);
    assert_string_equal(member(line, "msg") + 2043, "x...");
    json_decref(line);
}

static void levels_above_the_set_one_are_silent(void **state)
{
    seen s = {.n = 0};

    (void)state;
    ps_log_init("test", PS_LOG_WARN, PS_LOG_TEXT);
    ps_log_set_sink(remember, &s);
    ps_log(PS_LOG_INFO, "r", "no");
    assert_int_equal(s.n, 0);
    assert_false(ps_log_is_on(PS_LOG_INFO));
    ps_log(PS_LOG_ERROR, "r", "yes");
    assert_int_equal(s.n, 1);
    ps_log_set_level(PS_LOG_DEBUG);
    ps_log(PS_LOG_DEBUG, "r", "yes");
    assert_int_equal(s.n, 2);
}

static void names_of_levels_and_formats_are_found(void **state)
{
    ps_log_level level = PS_LOG_ERROR;
    ps_log_format format = PS_LOG_TEXT;

    (void)state;
    assert_true(ps_log_level_find("debug", &level));
    assert_int_equal(level, PS_LOG_DEBUG);
    assert_false(ps_log_level_find("verbose", &level));
    assert_true(ps_log_format_find("json", &format));
    assert_int_equal(format, PS_LOG_JSON);
    assert_false(ps_log_format_find("", &format));
}

static void stderr_gets_the_line_of_the_sink_and_a_newline(void **state)
{
    int pipes[2], held = dup(STDERR_FILENO);
    char got[512];
    ssize_t n;
    seen s = {.n = 0};

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    ps_log_init("test", PS_LOG_INFO, PS_LOG_TEXT);
    ps_log_set_sink(remember, &s);
    dup2(pipes[1], STDERR_FILENO);
    ps_log(PS_LOG_INFO, "r", "to both");
    dup2(held, STDERR_FILENO);
    n = read(pipes[0], got, sizeof got - 1);
    assert_true(n > 1);
    assert_int_equal(got[n - 1], '\n');
    got[n - 1] = '\0';
    assert_string_equal(got, s.last);
    close(pipes[0]);
    close(pipes[1]);
    close(held);
}

static void a_quiet_log_goes_to_the_sink_alone(void **state)
{
    int pipes[2], held = dup(STDERR_FILENO);
    char got[512] = "";
    seen s = {.n = 0};

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    ps_log_init("test", PS_LOG_INFO, PS_LOG_TEXT);
    ps_log_set_quiet(true);
    ps_log_set_sink(remember, &s);
    dup2(pipes[1], STDERR_FILENO);
    ps_log(PS_LOG_INFO, "r", "to the sink");
    ps_log_set_sink(NULL, NULL);
    ps_log(PS_LOG_INFO, "r", "to nobody else than stderr");
    dup2(held, STDERR_FILENO);
    ps_log_set_quiet(false);
    assert_true(read(pipes[0], got, sizeof got - 1) > 1);
    assert_int_equal(s.n, 1);
    assert_null(strstr(got, "to the sink"));
    assert_non_null(strstr(got, "to nobody else"));
    close(pipes[0]);
    close(pipes[1]);
    close(held);
}

static void log_again(void *arg, ps_log_level level, const char *line)
{
    remember(arg, level, line);
    ps_log(PS_LOG_INFO, "sink", "from inside");
}

static void a_sink_that_logs_does_not_come_back_to_itself(void **state)
{
    seen s = {.n = 0};

    (void)state;
    ps_log_init("test", PS_LOG_INFO, PS_LOG_TEXT);
    ps_log_set_sink(log_again, &s);
    ps_log(PS_LOG_INFO, "r", "once");
    assert_int_equal(s.n, 1);
}

static void *log_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++) {
        ps_log(PS_LOG_INFO, "r", "line %d", i);
    }
    return NULL;
}

static void threads_log_while_sinks_come_and_go(void **state)
{
    pthread_t threads[4];
    seen s = {.n = 0};
    size_t n;

    (void)state;
    ps_log_init("test", PS_LOG_INFO, PS_LOG_TEXT);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, NULL), 0);
    }
    for (int i = 0; i < 50; i++) {
        ps_log_set_sink(remember, &s);
        ps_log_set_sink(NULL, NULL);
    }
    n = s.n; /* nobody runs it any more */
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(s.n, n);
}

typedef struct bell {
    sem_t rung;
    int signo;
} bell;

static void ring(void *arg, int signo)
{
    bell *b = arg;

    b->signo = signo;
    sem_post(&b->rung);
}

static void the_first_signal_is_a_call(void **state)
{
    ps_signals signals;
    bell b;
    ps_status st;

    (void)state;
    assert_int_equal(sem_init(&b.rung, 0, 0), 0);
    ps_signals_block();
    st = ps_signals_start(&signals, ring, &b);
    assert_true(ps_is_ok(&st));
    kill(getpid(), SIGINT);
    while (sem_wait(&b.rung) != 0) {
    }
    assert_int_equal(b.signo, SIGINT);
    ps_signals_stop(&signals);
    sem_destroy(&b.rung);
}

/* The child does not come back: it dies by its second signal, or of the alarm. */
static void be_signalled_twice(void)
{
    ps_signals signals;
    bell b;
    ps_status st;

    alarm(20);
    sem_init(&b.rung, 0, 0);
    ps_signals_block();
    st = ps_signals_start(&signals, ring, &b);
    if (!ps_is_ok(&st)) {
        _exit(1);
    }
    kill(getpid(), SIGINT);
    while (sem_wait(&b.rung) != 0) {
    }
    kill(getpid(), SIGTERM);
    for (;;) {
        pause();
    }
}

static void the_second_signal_ends_the_process(void **state)
{
    pid_t child = fork();
    int how;

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        be_signalled_twice();
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 143);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_lines_are_kept_whole),
        cmocka_unit_test_teardown(a_text_line_has_time_level_room_message_and_fields, end_log),
        cmocka_unit_test_teardown(a_json_line_parses_and_has_every_member, end_log),
        cmocka_unit_test_teardown(hostile_text_stays_one_line, end_log),
        cmocka_unit_test_teardown(a_long_message_is_cut, end_log),
        cmocka_unit_test_teardown(levels_above_the_set_one_are_silent, end_log),
        cmocka_unit_test_teardown(names_of_levels_and_formats_are_found, end_log),
        cmocka_unit_test_teardown(stderr_gets_the_line_of_the_sink_and_a_newline, end_log),
        cmocka_unit_test_teardown(a_quiet_log_goes_to_the_sink_alone, end_log),
        cmocka_unit_test_teardown(a_sink_that_logs_does_not_come_back_to_itself, end_log),
        cmocka_unit_test_teardown(threads_log_while_sinks_come_and_go, end_log),
        cmocka_unit_test(the_first_signal_is_a_call),
        cmocka_unit_test(the_second_signal_ends_the_process),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL); /* e.g. 'test_log a_*' */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
