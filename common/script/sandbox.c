/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - see sandbox.h. */
#include "common/script/sandbox.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/script/same_cpu.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    START_US = 10 * 1000 * 1000,
    LOOK_NS = 20 * 1000 * 1000, /* interval at which a caller checks that the process still runs */
    GRACE_US = 20 * 1000        /* time after the process's own timer until this side ends it */
};

struct ps_sandbox {
    ps_sandbox_memory *shared;
    ps_sandbox_budget budget;
    pid_t pid;
    ps_same_cpu near;
    int64_t used_us; /* at least the processor time of all calls */
    bool is_over;
    int status; /* how the process ended, from waitpid; 0: it has not, or waitpid could not say it
                 */
    atomic_bool is_stopped;
};

ps_sandbox_budget ps_sandbox_budget_default(void)
{
    return (ps_sandbox_budget){
        .instructions = 20 * 1000 * 1000, .memory = 64u << 20, .time_us = 5 * 1000 * 1000};
}

ps_sandbox_budget ps_sandbox_budget_trial(void)
{
    ps_sandbox_budget budget = ps_sandbox_budget_default();

    budget.time_us = 500 * 1000;
    budget.is_background = true;
    return budget;
}

/* Writes the path of the program psgd-sandbox: PSGD_SANDBOX, else beside the running program. */
static ps_status find_program(char path[PATH_MAX])
{
    const char *given = getenv("PSGD_SANDBOX");
    ssize_t n;
    char *slash;

    if (given != NULL && given[0] != '\0') {
        snprintf(path, PATH_MAX, "%s", given);
        return ps_ok();
    }
    n = readlink("/proc/self/exe", path, PATH_MAX - sizeof "psgd-sandbox");
    slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;
    if (slash == NULL) {
        return ps_fail(PS_UNAVAILABLE,
                       "the folder of this program cannot be read (/proc/self/exe)");
    }
    strcpy(slash + 1, "psgd-sandbox"); /* the room was kept */
    return ps_ok();
}

/* Returns memory to share, and its descriptor. Nobody can change its size, so reading it raises no
 * SIGBUS whatever the other side does. */
static ps_sandbox_memory *share(int *fd)
{
    void *p = MAP_FAILED;

    *fd = memfd_create("psgd-sandbox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd >= 0 && ftruncate(*fd, sizeof(ps_sandbox_memory)) == 0 &&
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
        p = mmap(NULL, sizeof(ps_sandbox_memory), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    }
    if (p == MAP_FAILED) {
        if (*fd >= 0) {
            close(*fd);
        }
        return NULL;
    }
    return p;
}

/* Starts the program with the shared memory as its only further descriptor, and without environment
 * but for the choice of the processor's code. One in the background takes a session of its own. */
static int spawn(const char *path, int fd, bool is_background, pid_t *pid)
{
    const char *cpu = getenv("PSGD_CPU");
    char choice[64];
    char *const arguments[] = {(char *)(uintptr_t)path, NULL};
    char *const environment[] = {choice, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int error;

    snprintf(choice, sizeof choice, "PSGD_CPU=%s", cpu != NULL ? cpu : "");
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&files, fd, PS_SANDBOX_FD);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0); /* keeps signals of the terminal from the sandbox */
    /* the leader of a group could not begin a session */
    posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  (is_background ? 0 : POSIX_SPAWN_SETPGROUP)));
    error = posix_spawn(pid, path, &files, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Sets s->is_over and s->status if the process has ended. Never blocks. */
static void look(ps_sandbox *s)
{
    pid_t pid = s->is_over ? 0 : waitpid(s->pid, &s->status, WNOHANG);

    /* ECHILD: this process ignores SIGCHLD, so the kernel has removed its ended child */
    s->is_over = s->is_over || pid == s->pid || (pid < 0 && errno == ECHILD);
}

static void end_process(ps_sandbox *s)
{
    if (!s->is_over) {
        kill(s->pid, SIGKILL);
        while (waitpid(s->pid, &s->status, 0) < 0 && errno == EINTR) {
        }
        s->is_over = true;
    }
}

static uint32_t turn_of(const ps_sandbox *s)
{
    return atomic_load_explicit(&s->shared->turn, memory_order_acquire);
}

/* Blocks until the sandbox has answered, its process has ended, ps_sandbox_stop was called, or
 * `deadline_us` is reached. Returns whether the sandbox has answered. A sandbox that an attacker
 * controls may wake this thread and change the turn as often as it likes, so the deadline is
 * checked each time. */
static bool wait_done(ps_sandbox *s, int64_t deadline_us)
{
    for (uint32_t turn; (turn = turn_of(s)) != PS_SANDBOX_DONE;) {
        int64_t left_us = deadline_us - ps_clock_us();
        struct timespec look_at = {.tv_nsec = left_us * 1000 < LOOK_NS ? left_us * 1000 : LOOK_NS};

        if (left_us <= 0) {
            look(s);
            return false;
        }
        if (syscall(SYS_futex, &s->shared->turn, FUTEX_WAIT, turn, &look_at, NULL, 0) != 0 &&
            errno == ETIMEDOUT) {
            ps_same_cpu_loosen(&s->near);
            look(s);
        }
        if (s->is_over || atomic_load(&s->is_stopped)) {
            return turn_of(s) == PS_SANDBOX_DONE;
        }
    }
    return true;
}

/* Returns a time of which calls take at least their processor time: of a sandbox in the background
 * the processor time itself, because it waits for others. */
static int64_t taken_us(const ps_sandbox *s)
{
    struct timespec t;
    clockid_t clock;

    if (s->budget.is_background && clock_getcpuclockid(s->pid, &clock) == 0 &&
        clock_gettime(clock, &t) == 0) {
        return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
    }
    return s->budget.is_background ? 0 : ps_clock_us();
}

/* Returns why a call was not answered, after the process is over. */
static ps_status ended(const ps_sandbox *s, bool was_late)
{
    if (was_late || (WIFSIGNALED(s->status) &&
                     (WTERMSIG(s->status) == SIGALRM || WTERMSIG(s->status) == SIGPROF))) {
        double seconds = (double)s->budget.time_us / 1e6;

        return s->budget.is_background
                   ? ps_fail(PS_RESOURCE_EXHAUSTED,
                             "takes longer than the %.3g s of its budget, or did not get as much "
                             "of a processor within %.3g s",
                             seconds, seconds * PS_SANDBOX_PATIENCE)
                   : ps_fail(PS_RESOURCE_EXHAUSTED, "takes longer than the %.3g s of its budget",
                             seconds);
    }
    if (WIFSIGNALED(s->status) && WTERMSIG(s->status) == SIGSYS) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "was ended at a system call that the sandbox does not allow");
    }
    if (WIFSIGNALED(s->status)) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the sandbox was ended by signal %d",
                       WTERMSIG(s->status));
    }
    return ps_fail(PS_RESOURCE_EXHAUSTED, "the sandbox ended with status %d",
                   WEXITSTATUS(s->status));
}

/* Returns the text that the sandbox left, as a status. Only printable characters are taken. */
static ps_status failure(const ps_sandbox *s, ps_code code)
{
    char text[PS_SANDBOX_ERROR];

    memcpy(text, s->shared->error, sizeof text);
    text[sizeof text - 1] = '\0';
    for (char *at = text; *at != '\0'; at++) {
        *at = isprint((unsigned char)*at) ? *at : ' ';
    }
    return ps_fail(code, "%s", text);
}

ps_status ps_sandbox_start(const ps_sandbox_budget *budget, ps_sandbox **out)
{
    ps_sandbox *s = ps_xcalloc(1, sizeof *s);
    char path[PATH_MAX];
    ps_status st = find_program(path);
    int fd = -1, error = 0;

    *out = NULL;
    s->budget = *budget;
    if (ps_is_ok(&st) && (s->shared = share(&fd)) == NULL) {
        st = ps_fail(PS_UNAVAILABLE, "memory for a sandbox: %s", strerror(errno));
    }
    if (ps_is_ok(&st)) {
        s->shared->protocol = PS_SANDBOX_PROTOCOL;
        s->shared->instructions = budget->instructions;
        s->shared->memory = budget->memory;
        s->shared->nanoseconds = budget->time_us * 1000;
        s->shared->service = (uint64_t)getpid();
        s->shared->is_background = budget->is_background;
        atomic_store(&s->shared->turn, PS_SANDBOX_STARTED);
        error = spawn(path, fd, budget->is_background, &s->pid);
        s->near.pid = s->pid;
        close(fd);
    }
    if (ps_is_ok(&st) && error != 0) {
        st = ps_fail(PS_UNAVAILABLE, "%s cannot be started: %s", path, strerror(error));
    }
    if (!ps_is_ok(&st)) {
        if (s->shared != NULL) {
            munmap(s->shared, sizeof *s->shared);
        }
        free(s);
        return st;
    }
    if (!wait_done(s, ps_clock_us() + START_US)) {
        st = s->is_over ? ps_wrap(ended(s, false), "%s did not start", path)
                        : ps_fail(PS_UNAVAILABLE, "%s did not start within %d s", path,
                                  START_US / 1000000);
        st.code = PS_UNAVAILABLE;
    } else if (s->shared->failed != 0) {
        st = failure(s, PS_UNAVAILABLE);
    }
    if (!ps_is_ok(&st)) {
        ps_sandbox_end(s);
        return st;
    }
    *out = s;
    return st;
}

void ps_sandbox_end(ps_sandbox *sandbox)
{
    if (sandbox != NULL) {
        end_process(sandbox);
        munmap(sandbox->shared, sizeof *sandbox->shared);
        free(sandbox);
    }
}

ps_sandbox_memory *ps_sandbox_shared(ps_sandbox *sandbox)
{
    return sandbox->shared;
}

ps_status ps_sandbox_call(ps_sandbox *sandbox, uint32_t repeats, uint32_t functions)
{
    ps_sandbox_memory *shared = sandbox->shared;
    int64_t most_us = (int64_t)sandbox->budget.time_us * (1 + (int64_t)repeats) * functions *
                      (sandbox->budget.is_background ? PS_SANDBOX_PATIENCE : 1);
    int64_t began_us = taken_us(sandbox), now_us = ps_clock_us();
    bool was_late, is_done;

    shared->called_us = now_us;
    shared->repeats = repeats; /* the sandbox may write it too, so no deadline follows from it */
    if (!sandbox->budget.is_background) {
        ps_same_cpu_begin(&sandbox->near);
    }
    atomic_store_explicit(&shared->turn, PS_SANDBOX_CALLED, memory_order_release);
    syscall(SYS_futex, &shared->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
    is_done = wait_done(sandbox, now_us + most_us + GRACE_US);
    ps_same_cpu_end(&sandbox->near);
    sandbox->used_us += taken_us(sandbox) - began_us;
    if (is_done) {
        return shared->failed != 0 ? failure(sandbox, PS_FAILED_PRECONDITION) : ps_ok();
    }
    was_late = !sandbox->is_over;
    end_process(sandbox);
    if (atomic_load(&sandbox->is_stopped)) {
        return ps_fail(PS_CANCELLED, "the call was stopped");
    }
    return ended(sandbox, was_late);
}

void ps_sandbox_stop(ps_sandbox *sandbox)
{
    atomic_store(&sandbox->is_stopped, true);
}

bool ps_sandbox_is_over(const ps_sandbox *sandbox)
{
    return sandbox->is_over;
}

bool ps_sandbox_is_old(const ps_sandbox *sandbox, uint32_t functions)
{
    const int64_t spare_us = 50 * INT64_C(1000000); /* processor time to start and to load code */
    int64_t most_us = PS_SANDBOX_CPU_S * INT64_C(1000000) - spare_us;

    return sandbox->used_us + functions * (int64_t)sandbox->budget.time_us > most_us;
}

int64_t ps_sandbox_used_us(const ps_sandbox *sandbox)
{
    return sandbox->used_us;
}

bool ps_sandbox_is_background(const ps_sandbox *sandbox)
{
    return sandbox->budget.is_background;
}

int ps_sandbox_pid(const ps_sandbox *sandbox)
{
    return sandbox->pid;
}
