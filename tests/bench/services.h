/* SPDX-License-Identifier: Apache-2.0 */
/* services.h - real services as child processes, for benchmarks.
 *
 * Programs come from the folder bin beside the folder of the running program,
 * or from PSGD_BIN. Any failure ends the program with a line on stderr.
 */
#ifndef PS_TESTS_BENCH_SERVICES_H
#define PS_TESTS_BENCH_SERVICES_H

#include <sys/types.h>

typedef struct bench_service {
    const char *program; /* "psgd-pserver"; kept */
    pid_t pid;
    int out;           /* its stdout, kept open */
    char address[160]; /* where it listens */
} bench_service;

/* Starts `program --listen 127.0.0.1:0 --data-dir folder/program args...` (args end with NULL;
 * stderr goes to folder/program.log) and waits until it says where it listens. */
void bench_service_start(bench_service *s, const char *program, const char *folder,
                         const char *const *args);

/* Ends it at once; one that was not started is allowed. */
void bench_service_kill(bench_service *s);

#endif
