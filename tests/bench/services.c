/* SPDX-License-Identifier: Apache-2.0 */
/* services.c - see services.h. posix_spawn: a fork would copy gRPC's threads half. */
#include "tests/bench/services.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 24, START_MS = 20000 };

extern char **environ;

static void die(const char *program, const char *what)
{
    fprintf(stderr, "%s: %s\n", program, what);
    exit(1);
}

/* The folder that holds the services. */
static void find_bin(char *path, size_t cap)
{
    const char *given = getenv("PSGD_BIN");
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (given != NULL) {
        snprintf(path, cap, "%s", given);
        return;
    }
    self[n < 0 ? 0 : n] = '\0';
    for (int i = 0; i < 2; i++) { /* the program and its folder */
        char *slash = strrchr(self, '/');

        if (slash != NULL) {
            *slash = '\0';
        }
    }
    snprintf(path, cap, "%s/bin", self);
}

/* Waits for "... listening on HOST:PORT". */
static void read_address(bench_service *s)
{
    static const char before[] = "listening on ";
    struct pollfd at = {.fd = s->out, .events = POLLIN};
    char line[512];
    size_t n = 0;
    char *found;

    while (n < sizeof line - 1 && memchr(line, '\n', n) == NULL) {
        ssize_t got;

        if (poll(&at, 1, START_MS) <= 0) {
            die(s->program, "does not say where it listens");
        }
        got = read(s->out, line + n, sizeof line - 1 - n);
        if (got <= 0) {
            die(s->program, "ended at once; see its log");
        }
        n += (size_t)got;
    }
    line[n] = '\0';
    found = strstr(line, before);
    if (found == NULL || sscanf(found + sizeof before - 1, "%159s", s->address) != 1) {
        die(s->program, line);
    }
}

void bench_service_start(bench_service *s, const char *program, const char *folder,
                         const char *const *args)
{
    char bin[PATH_MAX + 8], path[PATH_MAX + 64], data[PATH_MAX], log[PATH_MAX];
    const char *argv[ARGS_MAX] = {path, "--listen", "127.0.0.1:0", "--data-dir", data};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    int out[2], n = 5;

    find_bin(bin, sizeof bin);
    snprintf(path, sizeof path, "%s/%s", bin, program);
    snprintf(data, sizeof data, "%s/%s", folder, program);
    snprintf(log, sizeof log, "%s/%s.log", folder, program);
    while (*args != NULL && n < ARGS_MAX - 1) {
        argv[n++] = *args++;
    }
    s->program = program;
    if (pipe2(out, O_CLOEXEC) != 0) {
        die(program, "no pipe");
    }
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log, O_WRONLY | O_CREAT | O_APPEND,
                                     0600);
    if (posix_spawn(&s->pid, path, &actions, &attr, (char *const *)(size_t)argv, environ) != 0) {
        die(path, "cannot be started");
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    close(out[1]);
    s->out = out[0];
    read_address(s);
}

void bench_service_kill(bench_service *s)
{
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
        close(s->out);
        s->pid = 0;
    }
}
