/* SPDX-License-Identifier: Apache-2.0 */
/* library_loop.c - the functions of psgd.h for a worker whose model the program computes: the other
 * end of common/base/loop_protocol.h. */
#include "clients/lib/psgd.h"

#include "clients/lib/last_error.h"
#include "common/base/clock.h"
#include "common/base/loop_protocol.h"
#include "common/base/named_bytes.h"
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OPTIONS_MAX = 64,
    TITLE_MAX_BYTES = 64,
    LEAVE_MS = 20000,
    LEAVE_LOOK_MS = 20,
    WAIT_MS = 1000,
    CHILD_FD = 3
};

extern char **environ;

/* A rank that this worker carries, with the memory that the program and psgd-worker share for
 * it. */
typedef struct rank_memory {
    uint32_t rank;
    int fd;       /* the rank's socket to psgd-worker; -1: closed, as its attempt is over */
    bool is_last; /* the memory has the weights after the last step, as of `clock` */
    uint64_t clock;
    void *at; /* the shared memory, of `bytes` bytes */
    size_t bytes;
    const ps_loop_memory *head;
    const ps_loop_variable *vars; /* (head->variable_count) in the shared memory, as `head` is */
} rank_memory;

struct psgd_worker {
    pid_t owner, child; /* owner: the process that has joined; child: its psgd-worker */
    int fd;             /* control socket to psgd-worker */
    rank_memory ranks[PS_LOOP_RANKS_MAX];
    uint32_t rank_count, turn; /* turn: index in `ranks` of the socket that look reads first */
    rank_memory *now;          /* the rank of the step in hand; NULL: there is none */
    rank_memory *last;         /* the rank whose weights came with PSGD_DONE; NULL: none */
    bool is_over;              /* the last psgd_next gave PSGD_DONE or PSGD_OVER */
    bool has_loss;
    bool *is_ready; /* (variable_count) psgd_ready was called for the variable in this step */
    uint32_t left;
    char text[PS_LOOP_TEXT];
    char job_id[96];
};

static int fail(ps_code code, const char *text)
{
    ps_status st = ps_fail(code, "%s", text);

    return library_tell(&st);
}

static int check_owner(const psgd_worker *w)
{
    return w == NULL ? fail(PS_INVALID_ARGUMENT, "the worker is NULL")
           : w->owner != getpid()
               ? fail(PS_FAILED_PRECONDITION,
                      "this process is a child of the one that has joined; only that may call it")
               : PSGD_OK;
}

/* --- the process ------------------------------------------------------------------ */

/* Starts psgd-worker with the socket `theirs` as its descriptor CHILD_FD. */
static ps_status spawn(const char *title, const char *const *options, int theirs, pid_t *child)
{
    const char *program = getenv("PSGD_WORKER");
    char *argv[OPTIONS_MAX + 8], fd[24];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    size_t n = 0;
    int error;

    program = program != NULL && program[0] != '\0' ? program : "psgd-worker";
    snprintf(fd, sizeof fd, "--loop-fd=%d", CHILD_FD);
    argv[n++] = (char *)(uintptr_t)program;
    argv[n++] = (char *)(uintptr_t) "--loop";
    argv[n++] = (char *)(uintptr_t)title;
    argv[n++] = fd;
    argv[n++] = (char *)(uintptr_t) "--listen=127.0.0.1:0";
    argv[n++] = (char *)(uintptr_t) "--log-level=warn";
    /* a program that leaves computes no more steps, so psgd-worker need not wait for any */
    argv[n++] = (char *)(uintptr_t) "--grace=0";
    for (size_t i = 0; options != NULL && options[i] != NULL; i++) {
        if (i == OPTIONS_MAX) {
            return ps_fail(PS_INVALID_ARGUMENT, "more than %d options", OPTIONS_MAX);
        }
        argv[n++] = (char *)(uintptr_t)options[i];
    }
    argv[n] = NULL;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, theirs, CHILD_FD);
    /* Close the program's own files in psgd-worker, which would else keep pipes and ports open. */
    (void)posix_spawn_file_actions_addclosefrom_np(&actions, CHILD_FD + 1);
    sigemptyset(&none);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    /* A process group of its own: Ctrl-C at a terminal reaches only the program, which can then
     * call psgd_leave. */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    error = posix_spawnp(child, program, &actions, &attributes, argv, environ);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&actions);
    return error == 0 ? ps_ok()
                      : ps_fail(PS_UNAVAILABLE,
                                "%s: %s; put psgd-worker on the PATH, or set PSGD_WORKER to its "
                                "path",
                                program, strerror(error));
}

int psgd_join(const char *title, const char *const *options, psgd_worker **out)
{
    int ends[2] = {-1, -1};
    psgd_worker *w;
    ps_status st = ps_ok();

    if (title == NULL || out == NULL) {
        return fail(PS_INVALID_ARGUMENT, "psgd_join: an argument is NULL");
    }
    if (!ps_plain_name_is_valid(title, TITLE_MAX_BYTES) || title[0] == '.') {
        return fail(PS_INVALID_ARGUMENT,
                    "title: 1 to 64 of A-Z a-z 0-9 . _ - are allowed, no dot in front");
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return fail(PS_RESOURCE_EXHAUSTED, "no descriptors for a socket");
    }
    /* Move psgd-worker's end above CHILD_FD. spawn opens /dev/null as descriptors 0 and 1 before it
     * copies the end to CHILD_FD, and a copy of CHILD_FD to itself could stay closed on exec. */
    if (ends[1] <= CHILD_FD) {
        int moved = fcntl(ends[1], F_DUPFD_CLOEXEC, CHILD_FD + 1);

        close(ends[1]);
        ends[1] = moved;
    }
    w = calloc(1, sizeof *w);
    if (w == NULL || ends[1] < 0) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a worker");
    } else {
        w->owner = getpid();
        w->fd = ends[0];
        st = spawn(title, options, ends[1], &w->child);
    }
    if (ends[1] >= 0) {
        close(ends[1]);
    }
    if (!ps_is_ok(&st)) {
        close(ends[0]);
        free(w);
        return library_tell(&st);
    }
    *out = w;
    return PSGD_OK;
}

/* --- memory ------------------------------------------------------------------------ */

static void drop_rank(psgd_worker *w, rank_memory *r)
{
    if (w->now == r) {
        w->now = NULL;
    }
    if (r->fd >= 0) {
        close(r->fd);
    }
    (void)munmap(r->at, r->bytes);
    w->rank_count--;
    if (r != &w->ranks[w->rank_count]) {
        *r = w->ranks[w->rank_count];
        w->now = w->now == &w->ranks[w->rank_count] ? r : w->now;
    }
}

/* Drops the ranks whose sockets are closed. Ranks with the weights after the last step are dropped
 * only if `is_over`; before, the program may still get these weights with PSGD_DONE. */
static void sweep(psgd_worker *w, bool is_over)
{
    for (uint32_t i = w->rank_count; i > 0; i--) {
        if (w->ranks[i - 1].fd < 0 && (is_over || !w->ranks[i - 1].is_last)) {
            drop_rank(w, &w->ranks[i - 1]);
        }
    }
}

/* Returns whether the memory of a rank is laid out as loop_protocol.h says. psgd-worker has written
 * it, so it is checked like any other input. */
static bool is_whole(const rank_memory *r)
{
    const ps_loop_memory *head = r->head;
    size_t floats = head->param_count, bytes = floats * sizeof(float);
    ps_status st;

    if (head->magic != PS_LOOP_MAGIC || head->variable_count > PS_LOOP_VARIABLES_MAX ||
        floats > r->bytes / sizeof(float) || head->weights_at % sizeof(float) != 0 ||
        head->gradients_at % sizeof(float) != 0 || head->weights_at > r->bytes - bytes ||
        head->gradients_at > r->bytes - bytes || head->steps_of_epoch == 0 ||
        r->bytes < sizeof *head + head->variable_count * sizeof *r->vars ||
        head->state_bytes > r->bytes || head->state_at > r->bytes - head->state_bytes ||
        head->metric_count > PS_LOOP_METRICS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < head->metric_count; i++) {
        if (memchr(head->metrics[i], '\0', sizeof head->metrics[i]) == NULL) {
            return false;
        }
    }
    if (head->state_bytes > 0) {
        st = ps_named_check((const uint8_t *)r->at + head->state_at, head->state_bytes);
        if (!ps_is_ok(&st)) {
            return false;
        }
    }
    for (uint32_t v = 0; v < head->variable_count; v++) {
        const ps_loop_variable *var = &r->vars[v];

        if (memchr(var->name, '\0', sizeof var->name) == NULL || var->rank > PS_LOOP_DIMS ||
            var->at > floats || var->size > floats - var->at) {
            return false;
        }
    }
    return true;
}

/* Adds a rank: maps its memory and takes over its socket `fd`, which is closed on failure. The
 * caller closes `memory_fd` in any case. */
static ps_status take_rank(psgd_worker *w, const ps_loop_message *m, int memory_fd, int fd)
{
    rank_memory r = {.rank = m->rank, .fd = fd, .bytes = m->value};

    sweep(w, true); /* frees final weights of an earlier job of which no PS_LOOP_DONE has come */
    if (w->rank_count == PS_LOOP_RANKS_MAX || r.bytes < sizeof *r.head) {
        close(fd);
        return ps_fail(PS_DATA_LOSS, "psgd-worker has sent what is no rank of a job");
    }
    r.at = mmap(NULL, r.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (r.at == MAP_FAILED) {
        close(fd);
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no room to map %zu bytes", r.bytes);
    }
    r.head = r.at;
    r.vars = (const ps_loop_variable *)(const void *)(r.head + 1);
    if (!is_whole(&r)) {
        close(fd);
        (void)munmap(r.at, r.bytes);
        return ps_fail(PS_UNAVAILABLE, "psgd-worker and libpsgd are of versions that do not fit");
    }
    w->ranks[w->rank_count++] = r;
    return ps_ok();
}

/* --- messages ---------------------------------------------------------------------- */

/* Receives a message and sets fds to the two descriptors that came with it, or to -1 if none came.
 * Never waits. Returns what recv would return. */
static ssize_t receive(int fd, ps_loop_message *m, int fds[2])
{
    struct iovec part = {.iov_base = m, .iov_len = sizeof *m};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *at = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    fds[0] = fds[1] = -1;
    if (at != NULL && at->cmsg_type == SCM_RIGHTS && at->cmsg_len == CMSG_LEN(2 * sizeof(int))) {
        memcpy(fds, CMSG_DATA(at), 2 * sizeof(int));
    }
    return n;
}

static void fill(psgd_worker *w, const rank_memory *r, psgd_step *out)
{
    const ps_loop_memory *head = r->head;

    memcpy(w->job_id, head->job_id, sizeof w->job_id);
    w->job_id[sizeof w->job_id - 1] = '\0';
    *out = (psgd_step){
        .kind = r->is_last ? PSGD_DONE : PSGD_STEP,
        .rank = head->rank,
        .workers = head->workers,
        .clock = r->clock,
        .total_steps = head->total_steps,
        .steps_of_epoch = head->steps_of_epoch,
        .block_size = head->block_size,
        .variable_count = head->variable_count,
        .param_count = head->param_count,
        .weights = (const float *)(const void *)((const uint8_t *)r->at + head->weights_at),
        .gradients = r->is_last ? NULL : (float *)(void *)((uint8_t *)r->at + head->gradients_at),
        .job_id = w->job_id,
        .text = "",
    };
}

/* Fills *out for the end of an attempt: PSGD_DONE after PS_LOOP_DONE, else PSGD_OVER. With
 * PSGD_DONE *out also has the weights after the last step, if a rank here has them. */
static void end_attempt(psgd_worker *w, const ps_loop_message *m, psgd_step *out)
{
    for (uint32_t i = 0; i < w->rank_count && m->kind == PS_LOOP_DONE && w->last == NULL; i++) {
        if (w->ranks[i].is_last) {
            w->last = &w->ranks[i];
            fill(w, w->last, out);
        }
    }
    out->kind = m->kind == PS_LOOP_DONE ? PSGD_DONE : PSGD_OVER;
    memcpy(w->text, m->text, sizeof w->text);
    w->text[sizeof w->text - 1] = '\0';
    out->text = w->text;
    out->job_id = w->job_id;
    w->is_over = true;
}

/* Reads a message from the control socket, if there is one: adds a rank, or sets out->kind if the
 * attempt has ended. Fails if psgd-worker has ended, or the rank cannot be added. */
static ps_status read_control(psgd_worker *w, psgd_step *out)
{
    ps_loop_message m;
    ps_status st = ps_ok();
    int fds[2];
    ssize_t n = receive(w->fd, &m, fds);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return ps_ok();
    }
    /* psgd-worker has ended. Descriptors come only with whole messages, so none is open here. */
    if (n != (ssize_t)sizeof m) {
        return ps_fail(PS_UNAVAILABLE, "psgd-worker has ended; its log, on stderr, says why");
    }
    if (m.kind == PS_LOOP_BEGIN && fds[0] >= 0) {
        st = take_rank(w, &m, fds[0], fds[1]);
        close(fds[0]);
        fds[0] = fds[1] = -1;
    } else if (m.kind == PS_LOOP_DONE || m.kind == PS_LOOP_OVER) {
        end_attempt(w, &m, out);
    }
    for (size_t i = 0; i < 2; i++) { /* no other message should have descriptors: close them */
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    return st;
}

/* Reads a message from a rank's socket, if there is one. PS_LOOP_STEP: fills *out with the step.
 * PS_LOOP_LAST: notes that the rank has the weights after the last step. At the end of the stream,
 * or after anything else, closes the socket. */
static ps_status read_rank(psgd_worker *w, rank_memory *r, psgd_step *out)
{
    ps_loop_message m;
    ssize_t n = recv(r->fd, &m, sizeof m, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return ps_ok();
    }
    if (n != (ssize_t)sizeof m || (m.kind != PS_LOOP_STEP && m.kind != PS_LOOP_LAST)) {
        close(r->fd);
        r->fd = -1;
        return ps_ok();
    }
    r->clock = m.value;
    r->is_last = m.kind == PS_LOOP_LAST;
    if (r->is_last) {
        return ps_ok();
    }
    free(w->is_ready);
    w->is_ready = calloc(r->head->variable_count + 1u, sizeof *w->is_ready);
    if (w->is_ready == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for a step");
    }
    w->now = r;
    w->has_loss = false;
    w->left = r->head->variable_count;
    fill(w, r, out);
    return ps_ok();
}

/* Waits once, at most wait_ms, until a socket can be read. Reads one message of each socket that
 * can be read, the ranks' sockets first and the control socket last, until one sets out->kind. */
static ps_status look(psgd_worker *w, int wait_ms, psgd_step *out)
{
    struct pollfd p[PS_LOOP_RANKS_MAX + 1];
    uint32_t count = w->rank_count;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < count; i++) {
        p[i] = (struct pollfd){.fd = w->ranks[i].fd, .events = POLLIN};
    }
    p[count] = (struct pollfd){.fd = w->fd, .events = POLLIN};
    if (poll(p, count + 1, wait_ms) <= 0) {
        return ps_ok();
    }
    for (uint32_t i = 0; i < count && out->kind == 0 && ps_is_ok(&st); i++) {
        uint32_t at = (w->turn + i) % count;

        if (p[at].revents != 0) {
            st = read_rank(w, &w->ranks[at], out);
            w->turn = out->kind != 0 ? (at + 1) % count : w->turn;
        }
    }
    if (ps_is_ok(&st) && out->kind == 0 && p[count].revents != 0) {
        st = read_control(w, out);
    }
    if (out->kind == 0) {
        sweep(w, false);
    }
    return st;
}

int psgd_next(psgd_worker *w, int timeout_ms, psgd_step *out)
{
    int64_t until_us = ps_clock_us() + (int64_t)timeout_ms * 1000;
    ps_status st = ps_ok();
    int code = check_owner(w);

    if (code != PSGD_OK || out == NULL) {
        return code != PSGD_OK ? code : fail(PS_INVALID_ARGUMENT, "psgd_next: out is NULL");
    }
    if (w->now != NULL && w->left > 0 && w->now->fd >= 0) {
        return fail(PS_FAILED_PRECONDITION,
                    "the gradients of the step in hand are not ready: say that they are");
    }
    w->now = w->last = NULL;
    *out = (psgd_step){.kind = 0, .text = "", .job_id = w->job_id};
    sweep(w, w->is_over);
    w->is_over = false;
    do { /* at least once: a message that has arrived is read, however short the time-out is */
        int64_t left_us = until_us - ps_clock_us();
        int wait_ms = timeout_ms < 0 || left_us > (int64_t)WAIT_MS * 1000 ? WAIT_MS
                      : left_us > 0 ? (int)(left_us / 1000) + 1
                                    : 0;

        st = look(w, wait_ms, out);
    } while (ps_is_ok(&st) && out->kind == 0 && (timeout_ms < 0 || ps_clock_us() < until_us));
    return ps_is_ok(&st) && out->kind == 0 ? fail(PS_DEADLINE_EXCEEDED, "no step has come in time")
                                           : library_tell(&st);
}

/* --- the step in hand ---------------------------------------------------------------- */

int psgd_variable_at(const psgd_worker *w, uint32_t index, psgd_variable *out)
{
    int code = check_owner(w);
    const rank_memory *r;
    const ps_loop_variable *var;

    if (code != PSGD_OK) {
        return code;
    }
    r = w->now != NULL ? w->now : w->last;
    if (r == NULL) {
        return fail(PS_FAILED_PRECONDITION, "there is no step in hand: ask for the next one");
    }
    if (out == NULL || index >= r->head->variable_count) {
        return fail(PS_INVALID_ARGUMENT, "psgd_variable_at: the model has no such variable");
    }
    var = &r->vars[index];
    *out = (psgd_variable){.name = var->name, .rank = var->rank, .at = var->at, .size = var->size};
    memcpy(out->dim, var->dim, sizeof out->dim);
    return PSGD_OK;
}

/* Sends psgd-worker the message `m` about the step in hand. Fails with PSGD_ABORTED if the rank's
 * socket is closed. */
static int say(psgd_worker *w, ps_loop_message *m)
{
    m->rank = w->now->rank;
    m->value = w->now->clock;
    while (w->now->fd >= 0) {
        ssize_t n = send(w->now->fd, m, sizeof *m, MSG_NOSIGNAL);

        if (n == (ssize_t)sizeof *m) {
            return PSGD_OK;
        }
        if (n < 0 && errno != EINTR) {
            close(w->now->fd);
            w->now->fd = -1;
        }
    }
    w->left = 0;
    return fail(PS_ABORTED, "the attempt has ended: ask for the next step");
}

int psgd_loss(psgd_worker *w, double loss)
{
    ps_loop_message m = {.kind = PS_LOOP_LOSS, .number = loss};
    int code = check_owner(w);

    if (code != PSGD_OK) {
        return code;
    }
    if (w->now == NULL || w->has_loss) {
        return fail(PS_FAILED_PRECONDITION, w->now == NULL
                                                ? "there is no step in hand: ask for the next one"
                                                : "the loss of this step was said");
    }
    w->has_loss = true;
    return say(w, &m);
}

/* Tells the caller that the job has no metric of this name, and which it has. */
static int no_metric(const ps_loop_memory *head, const char *name)
{
    ps_strbuf names = {0};
    ps_status st;

    for (uint32_t i = 0; i < head->metric_count; i++) {
        ps_strbuf_printf(&names, "%s%s", i == 0 ? "" : ", ", head->metrics[i]);
    }
    st = ps_fail(PS_NOT_FOUND, "the job's program_metrics have no \"%s\"; they are: %s",
                 PS_SHORT(name, 60),
                 head->metric_count == 0 ? "none" : PS_SHORT(ps_strbuf_text(&names), 400));
    ps_strbuf_fini(&names);
    return library_tell(&st);
}

/* Returns the index of a metric of the step in hand's job; metric_count: the job has none of this
 * name. */
static uint32_t metric_of(const psgd_worker *w, const char *name)
{
    const ps_loop_memory *head = w->now->head;
    uint32_t index = 0;

    while (index < head->metric_count && strcmp(head->metrics[index], name) != 0) {
        index++;
    }
    return index;
}

/* Checks that a metric may be reported of the step in hand, and tells the caller why not. */
static int check_metric(const psgd_worker *w, const char *name, double value)
{
    const ps_loop_memory *head = w->now->head;
    ps_status st = ps_ok();

    if (name == NULL) {
        return fail(PS_INVALID_ARGUMENT, "psgd_report: the name is NULL");
    }
    if (w->now->fd >= 0 && w->left < head->variable_count) {
        st = ps_fail(PS_FAILED_PRECONDITION,
                     "the metric \"%s\": variables of this step are ready; report it before the "
                     "first one is",
                     PS_SHORT(name, 60));
    } else if (metric_of(w, name) == head->metric_count) {
        return no_metric(head, name);
    } else if (!isfinite(value)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "the metric \"%s\" is %g; a finite number is allowed",
                     name, value);
    }
    return library_tell(&st);
}

int psgd_report_all(psgd_worker *w, size_t count, const char *const *names, const double *values)
{
    int code = check_owner(w);

    if (code == PSGD_OK && count > 0 && (names == NULL || values == NULL)) {
        code = fail(PS_INVALID_ARGUMENT, "psgd_report_all: an argument is NULL");
    }
    if (code == PSGD_OK && w->now == NULL) {
        code = fail(PS_FAILED_PRECONDITION, "there is no step in hand: ask for the next one");
    }
    for (size_t i = 0; i < count && code == PSGD_OK; i++) {
        code = check_metric(w, names[i], values[i]);
    }
    for (size_t i = 0; i < count && code == PSGD_OK; i++) {
        ps_loop_message m = {
            .kind = PS_LOOP_METRIC, .first = metric_of(w, names[i]), .number = values[i]};

        code = say(w, &m);
    }
    return code;
}

int psgd_report(psgd_worker *w, const char *name, double value)
{
    return psgd_report_all(w, 1, &name, &value);
}

int psgd_ready(psgd_worker *w, uint32_t first, uint32_t count)
{
    ps_loop_message m = {.kind = PS_LOOP_READY, .first = first, .count = count};
    int code = check_owner(w);

    if (code != PSGD_OK) {
        return code;
    }
    if (w->now == NULL || !w->has_loss) {
        return fail(PS_FAILED_PRECONDITION, w->now == NULL
                                                ? "there is no step in hand: ask for the next one"
                                                : "say the loss of this step first");
    }
    if (first > w->now->head->variable_count || count > w->now->head->variable_count - first) {
        return fail(PS_INVALID_ARGUMENT, "psgd_ready: the model has no such variables");
    }
    for (uint32_t v = first; v < first + count; v++) {
        if (w->is_ready[v]) {
            return fail(PS_FAILED_PRECONDITION, "a variable is ready already in this step");
        }
    }
    for (uint32_t v = first; v < first + count; v++) {
        w->is_ready[v] = true;
    }
    w->left -= count;
    return count == 0 ? PSGD_OK : say(w, &m);
}

/* --- what the program keeps ------------------------------------------------------------ */

/* Returns the memory in which the program's state is kept (named_bytes.h), and sets *size to its
 * bytes. It is that of the rank of the step in hand, or of the rank whose weights came with
 * PSGD_DONE. NULL, with size 0: there is no such rank, or the job keeps no state. */
static uint8_t *block_of(const psgd_worker *w, size_t *size)
{
    const rank_memory *r = w->now != NULL ? w->now : w->last;

    *size = r != NULL ? r->head->state_bytes : 0;
    return *size > 0 ? (uint8_t *)r->at + r->head->state_at : NULL;
}

size_t psgd_state_room(const psgd_worker *w)
{
    size_t size = 0;

    return check_owner(w) == PSGD_OK && block_of(w, &size) != NULL ? size - PS_NAMED_BLOCK_BYTES
                                                                   : 0;
}

int psgd_state_save(psgd_worker *w, const char *name, const void *bytes, size_t len)
{
    int code = check_owner(w);
    uint8_t *block;
    size_t size;
    ps_status st;

    if (code != PSGD_OK) {
        return code;
    }
    if (name == NULL || (bytes == NULL && len > 0)) {
        return fail(PS_INVALID_ARGUMENT, "psgd_state_save: an argument is NULL");
    }
    if (w->now != NULL && w->now->fd < 0) {
        return fail(PS_ABORTED, "the attempt has ended: ask for the next step");
    }
    /* After the last psgd_ready of a step psgd-worker may read the state, for a checkpoint. */
    if (w->now == NULL || w->left == 0) {
        return fail(PS_FAILED_PRECONDITION, w->now == NULL
                                                ? "there is no step in hand: ask for the next one"
                                                : "all variables of this step are ready: save "
                                                  "state before the last one is");
    }
    block = block_of(w, &size);
    if (block == NULL) {
        return fail(PS_FAILED_PRECONDITION,
                    "the job keeps no state of programs: its program_state_mib is 0; 1 to 4096 "
                    "are allowed");
    }
    st = ps_named_put(block, size, name, bytes, len);
    return library_tell(&st);
}

int psgd_state_load(const psgd_worker *w, const char *name, void *out, size_t size, size_t *len)
{
    int code = check_owner(w);
    const uint8_t *block;
    ps_named found;
    size_t bytes;

    if (code != PSGD_OK) {
        return code;
    }
    if (name == NULL || len == NULL || (out == NULL && size > 0)) {
        return fail(PS_INVALID_ARGUMENT, "psgd_state_load: an argument is NULL");
    }
    if (w->now == NULL && w->last == NULL) {
        return fail(PS_FAILED_PRECONDITION, "there is no step in hand: ask for the next one");
    }
    *len = 0;
    block = block_of(w, &bytes);
    if (block == NULL || !ps_named_find(block, bytes, name, &found)) {
        ps_status st =
            ps_fail(PS_NOT_FOUND, "the rank keeps nothing by the name \"%s\"", PS_SHORT(name, 100));

        return library_tell(&st);
    }
    *len = found.len;
    if (found.len > size) {
        ps_status st = ps_fail(PS_RESOURCE_EXHAUSTED, "\"%s\" has %zu bytes; out has %zu", name,
                               found.len, size);

        return library_tell(&st);
    }
    if (found.len > 0) {
        memcpy(out, found.value, found.len);
    }
    return PSGD_OK;
}

const char *psgd_state_name(const psgd_worker *w, size_t index)
{
    const uint8_t *block;
    ps_named found;
    size_t size;

    if (check_owner(w) != PSGD_OK) {
        return NULL;
    }
    block = block_of(w, &size);
    return block != NULL && ps_named_at(block, size, index, &found) ? found.name : NULL;
}

void psgd_leave(psgd_worker *w)
{
    ps_loop_message m = {.kind = PS_LOOP_LEAVE};
    int64_t until_us = ps_clock_us() + (int64_t)LEAVE_MS * 1000;

    if (w == NULL) {
        return;
    }
    if (w->owner == getpid()) {
        (void)send(w->fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
        while (waitpid(w->child, NULL, WNOHANG) == 0) {
            if (ps_clock_us() > until_us) {
                (void)kill(w->child, SIGKILL);
                (void)waitpid(w->child, NULL, 0);
                break;
            }
            (void)poll(NULL, 0, LEAVE_LOOK_MS);
        }
    }
    /* Close the sockets only after psgd-worker has ended: it would take that for a crash of the
     * program. */
    while (w->rank_count > 0) {
        drop_rank(w, &w->ranks[w->rank_count - 1]);
    }
    close(w->fd);
    free(w->is_ready);
    free(w);
}
