/* SPDX-License-Identifier: Apache-2.0 */
/* test_library_loop.c - a program's side of its own loop, psgd_join to psgd_leave, against a worker
 * that this program plays itself: PSGD_WORKER names it, and `play` is what it does then. */
#include "clients/lib/psgd.h"
#include "common/base/loop_protocol.h"

#include "tests/support/cmocka_all.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CONTROL = 3,
    VARIABLES = 2,
    FIRST = 6,
    SECOND = 2,
    FLOATS = FIRST + SECOND,
    STEPS = 50,
    PATIENCE_MS = 60000
};

/* --- the worker ----------------------------------------------------------------------- */

static void send_with(int fd, const ps_loop_message *m, const int *fds)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)m, .iov_len = sizeof *m};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {.room = {0}};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (fds != NULL) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.room;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(&control.head), fds, 2 * sizeof(int));
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)sizeof *m) {
        _exit(10);
    }
}

typedef struct rank {
    int fd;
    ps_loop_memory *memory;
    float *weights, *gradients;
} rank;

/* Begins an attempt with the memory that `what` says is damaged. */
static rank begin(const char *what)
{
    size_t bytes = sizeof(ps_loop_memory) + VARIABLES * sizeof(ps_loop_variable);
    size_t at = (bytes + 63) / 64 * 64, all = at + 2 * 64;
    ps_loop_message m = {.kind = PS_LOOP_BEGIN, .value = all};
    int memory = memfd_create("test", MFD_CLOEXEC), ends[2], fds[2];
    ps_loop_variable *vars;
    rank r;

    if (memory < 0 || ftruncate(memory, (off_t)all) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) {
        _exit(11);
    }
    r.memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    r.fd = ends[0];
    r.weights = (float *)(void *)((char *)r.memory + at);
    r.gradients = r.weights + 16;
    *r.memory = (ps_loop_memory){.magic = PS_LOOP_MAGIC,
                                 .variable_count = VARIABLES,
                                 .workers = 1,
                                 .block_size = 4,
                                 .steps_of_epoch = 5,
                                 .total_steps = STEPS,
                                 .param_count = FLOATS,
                                 .weights_at = at,
                                 .gradients_at = at + 64,
                                 .metric_count = 2,
                                 .metrics = {"accuracy", "grad_norm"},
                                 .job_id = "job-1"};
    vars = (ps_loop_variable *)(void *)(r.memory + 1);
    vars[0] = (ps_loop_variable){.name = "w", .rank = 2, .dim = {2, 3}, .size = FIRST};
    vars[1] = (ps_loop_variable){.name = "b", .rank = 1, .dim = {2}, .at = FIRST, .size = SECOND};
    if (strcmp(what, "magic") == 0) {
        r.memory->magic++;
    } else if (strcmp(what, "variables") == 0) {
        r.memory->variable_count = PS_LOOP_VARIABLES_MAX;
    } else if (strcmp(what, "floats") == 0) {
        r.memory->param_count = SIZE_MAX / 4;
    } else if (strcmp(what, "weights") == 0) {
        r.memory->weights_at = all - 4;
    } else if (strcmp(what, "odd") == 0) {
        r.memory->gradients_at++;
    } else if (strcmp(what, "epoch") == 0) {
        r.memory->steps_of_epoch = 0;
    } else if (strcmp(what, "name") == 0) {
        memset(vars[1].name, 'a', sizeof vars[1].name);
    } else if (strcmp(what, "dims") == 0) {
        vars[1].rank = PS_LOOP_DIMS + 1;
    } else if (strcmp(what, "size") == 0) {
        vars[1].size++;
    } else if (strcmp(what, "metrics") == 0) {
        r.memory->metric_count = PS_LOOP_METRICS_MAX + 1;
    } else if (strcmp(what, "metric") == 0) {
        memset(r.memory->metrics[1], 'a', sizeof r.memory->metrics[1]);
    } else if (strcmp(what, "state") == 0) {
        r.memory->state_at = all - 8;
        r.memory->state_bytes = 16;
    } else if (strcmp(what, "named") == 0) { /* more in use than there is */
        r.memory->state_at = at;
        r.memory->state_bytes = 16;
        memset(r.weights, 0xff, 16);
    } else if (strcmp(what, "bytes") == 0) {
        m.value = sizeof(ps_loop_memory) - 1;
    }
    fds[0] = memory;
    fds[1] = ends[1];
    send_with(CONTROL, &m, fds);
    close(memory);
    close(ends[1]);
    return r;
}

/* Waits until the program leaves. */
_Noreturn static void wait_for_leave(void)
{
    ps_loop_message m;

    for (;;) {
        ssize_t n = recv(CONTROL, &m, sizeof m, 0);

        if (n <= 0 || m.kind == PS_LOOP_LEAVE) {
            _exit(n <= 0 ? 15 : 0);
        }
    }
}

/* Asks for a step, and receives its answer; returns the sum of the gradients. */
static float ask(rank *r, uint64_t clock)
{
    ps_loop_message m = {.kind = PS_LOOP_STEP, .value = clock};
    uint32_t left = VARIABLES;
    double reported = -1;
    float sum = 0;

    for (int i = 0; i < FLOATS; i++) {
        r->weights[i] = (float)clock + (float)i;
    }
    send_with(r->fd, &m, NULL);
    while (left > 0) {
        struct pollfd p[] = {{.fd = r->fd, .events = POLLIN}, {.fd = CONTROL, .events = POLLIN}};

        (void)poll(p, 2, PATIENCE_MS);
        if (p[1].revents != 0) {
            wait_for_leave();
        }
        if (recv(r->fd, &m, sizeof m, 0) != (ssize_t)sizeof m || m.value != clock) {
            _exit(12);
        }
        left -= m.kind == PS_LOOP_READY ? m.count : 0;
        reported = m.kind == PS_LOOP_METRIC && m.first == 1 ? m.number : reported;
    }
    if (fabs(reported - (double)clock) > 0) {
        _exit(17);
    }
    for (int i = 0; i < FLOATS; i++) {
        sum += r->gradients[i];
    }
    return sum;
}

static void play_steps(void)
{
    rank r = begin("");
    ps_loop_message m = {.kind = PS_LOOP_LAST, .value = STEPS};

    for (uint64_t clock = 0; clock < STEPS; clock++) {
        if (fabsf(ask(&r, clock) - 2 * (FLOATS * (float)clock + 28)) > 0.1f) {
            _exit(13);
        }
    }
    r.weights[0] = -1;
    send_with(r.fd, &m, NULL);
    close(r.fd);
    m = (ps_loop_message){.kind = PS_LOOP_DONE};
    send_with(CONTROL, &m, NULL);
}

/* Ends an attempt in the middle of a step, and begins another one, in which it has all steps. */
static void play_over(void)
{
    rank r = begin("");
    ps_loop_message m = {.kind = PS_LOOP_STEP};

    send_with(r.fd, &m, NULL);
    if (recv(r.fd, &m, sizeof m, 0) != (ssize_t)sizeof m || m.kind != PS_LOOP_LOSS) {
        _exit(14);
    }
    close(r.fd);
    m = (ps_loop_message){.kind = PS_LOOP_OVER};
    memset(m.text, 'x', sizeof m.text); /* no end */
    send_with(CONTROL, &m, NULL);
    play_steps();
}

static void play(const char *what)
{
    for (int fd = CONTROL + 1; fd < 64; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            _exit(16); /* a file of the program's */
        }
    }
    if (strcmp(what, "steps") == 0) {
        play_steps();
    } else if (strcmp(what, "over") == 0) {
        play_over();
    } else if (strcmp(what, "short") == 0) {
        (void)send(CONTROL, "x", 1, 0);
    } else if (strcmp(what, "end") == 0) {
        _exit(0);
    } else if (strcmp(what, "nothing") != 0) {
        (void)begin(what);
    }
    wait_for_leave();
}

/* --- the program ---------------------------------------------------------------------- */

static psgd_worker *join(const char *title)
{
    psgd_worker *w = NULL;

    assert_int_equal(psgd_join(title, NULL, &w), PSGD_OK);
    return w;
}

/* Answers a step: gradients are twice the weights, the last variable first. */
static void answer(psgd_worker *w, const psgd_step *step)
{
    static const char *const reported[] = {"accuracy", "grad_norm", NULL};
    static const char *const twice[] = {"grad_norm", "grad_norm"};
    static const char *const foreign[] = {"grad_norm", "loss"};

    assert_int_equal(psgd_report(w, "grad_norm", -1), PSGD_OK);
    assert_int_equal(psgd_loss(w, 0.5), PSGD_OK);
    assert_int_equal(psgd_report_all(w, 2, reported, (const double[]){1, (double)step->clock}),
                     PSGD_OK);
    assert_int_equal(psgd_report_all(w, 0, NULL, NULL), PSGD_OK);
    /* of what has one mistake nothing is reported */
    assert_int_equal(psgd_report_all(w, 2, foreign, (const double[]){-1, -1}), PSGD_NOT_FOUND);
    assert_int_equal(psgd_report_all(w, 2, reported + 1, (const double[]){-1, -1}),
                     PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_report_all(w, 2, twice, (const double[]){-1, (double)INFINITY}),
                     PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_report_all(w, 1, reported, NULL), PSGD_INVALID_ARGUMENT);
    for (size_t i = 0; i < step->param_count; i++) {
        step->gradients[i] = 2 * step->weights[i];
    }
    assert_int_equal(psgd_ready(w, 1, 1), PSGD_OK);
    assert_int_equal(psgd_ready(w, 0, 1), PSGD_OK);
}

static void take_steps(psgd_worker *w)
{
    psgd_variable var;
    psgd_step step;

    for (uint64_t clock = 0; clock < STEPS; clock++) {
        assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
        assert_int_equal(step.kind, PSGD_STEP);
        assert_int_equal(step.clock, clock);
        assert_string_equal(step.job_id, "job-1");
        assert_int_equal(psgd_variable_at(w, 1, &var), PSGD_OK);
        assert_string_equal(var.name, "b");
        assert_int_equal(var.at, FIRST);
        assert_int_equal(psgd_variable_at(w, VARIABLES, &var), PSGD_INVALID_ARGUMENT);
        answer(w, &step);
    }
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    assert_int_equal(step.kind, PSGD_DONE);
    assert_int_equal(step.clock, STEPS);
    assert_true(step.weights[0] < 0 && step.gradients == NULL);
    assert_int_equal(psgd_variable_at(w, 0, &var), PSGD_OK);
    assert_int_equal(psgd_next(w, 0, &step), PSGD_DEADLINE_EXCEEDED);
    assert_int_equal(psgd_variable_at(w, 0, &var), PSGD_FAILED_PRECONDITION);
}

static void a_job_has_all_its_steps_and_leaves_its_weights(void **state)
{
    psgd_worker *w = join("steps");

    (void)state;
    take_steps(w);
    psgd_leave(w);
}

static void an_attempt_that_ends_in_a_step_is_told_and_another_one_follows(void **state)
{
    psgd_worker *w = join("over");
    psgd_step step;

    (void)state;
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    assert_int_equal(psgd_loss(w, 1), PSGD_OK);
    for (int code = PSGD_OK; code != PSGD_ABORTED;) { /* until the end of the socket is seen */
        code = psgd_ready(w, 0, 0) == PSGD_OK ? psgd_loss(w, 1) : PSGD_OK;
        if (code == PSGD_FAILED_PRECONDITION) {
            (void)poll(NULL, 0, 20);
            code = psgd_ready(w, 0, VARIABLES);
        }
    }
    assert_int_equal(psgd_report(w, "accuracy", 1), PSGD_ABORTED);
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    assert_int_equal(step.kind, PSGD_OVER);
    assert_int_equal(strlen(step.text), PS_LOOP_TEXT - 1);
    take_steps(w);
    psgd_leave(w);
}

static void what_is_no_rank_is_refused(void **state)
{
    static const char *const damages[] = {"magic", "variables", "floats", "weights", "odd",
                                          "epoch", "name",      "dims",   "size",    "bytes",
                                          "short", "state",     "named",  "metrics", "metric"};
    psgd_step step;

    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        psgd_worker *w = join(damages[i]);
        int code = psgd_next(w, PATIENCE_MS, &step);

        assert_true(code == PSGD_UNAVAILABLE || code == PSGD_DATA_LOSS);
        assert_string_not_equal(psgd_last_error(), "");
        psgd_leave(w);
    }
}

static void the_order_of_calls_is_checked(void **state)
{
    psgd_worker *w = join("steps");
    psgd_step step;

    (void)state;
    assert_int_equal(psgd_loss(w, 1), PSGD_FAILED_PRECONDITION);
    assert_int_equal(psgd_ready(w, 0, 1), PSGD_FAILED_PRECONDITION);
    assert_int_equal(psgd_next(w, PATIENCE_MS, NULL), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    assert_int_equal(psgd_ready(w, 0, 1), PSGD_FAILED_PRECONDITION);
    assert_int_equal(psgd_next(w, 0, &step), PSGD_FAILED_PRECONDITION);
    assert_int_equal(psgd_loss(w, 1), PSGD_OK);
    assert_int_equal(psgd_loss(w, 1), PSGD_FAILED_PRECONDITION);
    assert_int_equal(psgd_ready(w, 1, 2), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_ready(w, UINT32_MAX, 2), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_ready(w, 1, 1), PSGD_OK);
    assert_int_equal(psgd_ready(w, 0, 2), PSGD_FAILED_PRECONDITION);
    psgd_leave(w); /* in the middle of a step */
}

static void what_cannot_be_reported_is_refused(void **state)
{
    psgd_worker *w = join("steps");
    psgd_step step;

    (void)state;
    assert_int_equal(psgd_report(w, "accuracy", 1), PSGD_FAILED_PRECONDITION);
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    assert_int_equal(psgd_report(w, "loss", 1), PSGD_NOT_FOUND);
    assert_string_equal(
        psgd_last_error(),
        "the job's program_metrics have no \"loss\"; they are: accuracy, grad_norm");
    assert_int_equal(psgd_report(w, "", 1), PSGD_NOT_FOUND);
    assert_int_equal(psgd_report(w, "a\nb\033[1m", 1), PSGD_NOT_FOUND);
    assert_non_null(strstr(psgd_last_error(), "have no \"a?b?[1m\"; they"));
    assert_int_equal(psgd_report(w, NULL, 1), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_report(w, "accuracy", (double)NAN), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_report(w, "accuracy", (double)-INFINITY), PSGD_INVALID_ARGUMENT);
    assert_string_equal(psgd_last_error(),
                        "the metric \"accuracy\" is -inf; a finite number is allowed");
    assert_int_equal(psgd_loss(w, 1), PSGD_OK);
    assert_int_equal(psgd_ready(w, 1, 1), PSGD_OK);
    assert_int_equal(psgd_report(w, "accuracy", 1), PSGD_FAILED_PRECONDITION);
    assert_non_null(strstr(psgd_last_error(), "the metric \"accuracy\": variables of this step"));
    assert_int_equal(psgd_report(NULL, "accuracy", 1), PSGD_INVALID_ARGUMENT);
    psgd_leave(w);
}

static void a_worker_that_ends_or_is_missing_is_told(void **state)
{
    const char *own = getenv("PSGD_WORKER");
    char *kept = strdup(own);
    psgd_worker *w = join("end");
    psgd_step step;

    (void)state;
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_UNAVAILABLE);
    psgd_leave(w);
    setenv("PSGD_WORKER", "/nowhere/psgd-worker", 1);
    assert_int_equal(psgd_join("end", NULL, &w), PSGD_UNAVAILABLE);
    assert_non_null(strstr(psgd_last_error(), "/nowhere/psgd-worker"));
    setenv("PSGD_WORKER", kept, 1);
    free(kept);
    assert_int_equal(psgd_join("a b", NULL, &w), PSGD_INVALID_ARGUMENT);
    assert_int_equal(psgd_join(NULL, NULL, &w), PSGD_INVALID_ARGUMENT);
}

static void a_child_may_not_call_and_changes_nothing(void **state)
{
    psgd_worker *w = join("steps");
    psgd_step step;
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    child = fork();
    if (child == 0) {
        int code = psgd_loss(w, 1);

        psgd_leave(w);
        _exit(code == PSGD_FAILED_PRECONDITION ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    answer(w, &step);
    assert_int_equal(psgd_next(w, PATIENCE_MS, &step), PSGD_OK);
    assert_int_equal(step.clock, 1);
    psgd_leave(w);
}

/* Descriptors 0 to 2 may be closed in a program, as in a daemon. */
static void a_program_may_have_closed_its_standard_files(void **state)
{
    int kept = fcntl(0, F_DUPFD_CLOEXEC, 20);
    psgd_worker *w;

    (void)state;
    close(0);
    w = join("steps");
    take_steps(w);
    psgd_leave(w);
    dup2(kept, 0);
    close(kept);
}

static void *trains(void *arg)
{
    psgd_worker *w = join("steps");

    (void)arg;
    take_steps(w);
    psgd_leave(w);
    return NULL;
}

/* Different workers are independent of each other, so each thread may have one. */
static void threads_may_have_workers_of_their_own(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, trains, NULL), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_has_all_its_steps_and_leaves_its_weights),
        cmocka_unit_test(an_attempt_that_ends_in_a_step_is_told_and_another_one_follows),
        cmocka_unit_test(what_is_no_rank_is_refused),
        cmocka_unit_test(the_order_of_calls_is_checked),
        cmocka_unit_test(what_cannot_be_reported_is_refused),
        cmocka_unit_test(a_worker_that_ends_or_is_missing_is_told),
        cmocka_unit_test(a_child_may_not_call_and_changes_nothing),
        cmocka_unit_test(a_program_may_have_closed_its_standard_files),
        cmocka_unit_test(threads_may_have_workers_of_their_own),
    };
    char self[PATH_MAX] = "";

    if (argc > 2 && strcmp(argv[1], "--loop") == 0) {
        play(argv[2]);
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) {
        return 1;
    }
    setenv("PSGD_WORKER", self, 1);
    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
