/* SPDX-License-Identifier: Apache-2.0 */
/* child.h - starts another program, with pipes to it, and learns how it ended.
 *
 * A child has a process group of its own, so Ctrl-C of a terminal does not reach it, and what it
 * starts can be ended with it. Main thread only, because a child may die with the thread that
 * started it.
 */
#ifndef PS_CLIENTS_PSGD_CHILD_H
#define PS_CLIENTS_PSGD_CHILD_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { PS_CHILD_END_BYTES = 80 };

typedef struct ps_child {
    pid_t pid;        /* id of the child's process; 0: there is no child */
    int fd;           /* readable when the child has ended (a pidfd); -1: none */
    int in, out, err; /* this side of its pipes, which do not block; -1: none */
} ps_child;

typedef struct ps_child_conf {
    const char *const *argv; /* ends with NULL; argv[0] is a path, or is found in PATH */
    /* make a pipe for the child's standard input, output or errors. Without one the child has
     * /dev/null as its input, and this program's stdout and stderr */
    bool has_in, has_out, has_err;
    bool dies_with_parent; /* the child is killed as soon as this program has ended */
} ps_child_conf;

/* Starts the program. Fails with the reason why it cannot be executed. The caller ends it by
 * ps_child_fini. */
PS_MUST_USE ps_status ps_child_start(const ps_child_conf *conf, ps_child *out);

/* Sends a signal to the child and all processes of its group. Does nothing after ps_child_ended has
 * returned true. */
void ps_child_signal(const ps_child *child, int signo);

/* Returns true once, when the child has ended: then kills what it has left in its group, and writes
 * *status as waitpid does. Never blocks. */
bool ps_child_ended(ps_child *child, int *status);

/* Closes the pipe to the child's input, if there is one: the child reads the end of its input. */
void ps_child_close_in(ps_child *child);

/* Kills the child with its group, waits for it, and closes all pipes. A zeroed child with
 * pid 0 is allowed. */
void ps_child_fini(ps_child *child);

/* Writes "exit code 1" or "signal 9 (Killed)" and returns `text`. */
const char *ps_child_end_text(int status, char text[PS_CHILD_END_BYTES]);

#endif
