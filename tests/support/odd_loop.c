/* SPDX-License-Identifier: Apache-2.0 */
/* odd_loop.c - ADDRESS WHAT: a program that computes a job's model by libpsgd, and does what a
 * program should not.
 *
 * WHAT: good; fork, in each of the first steps, and the child calls the library; idle, joins and
 * never asks for a step; nan, in the gradients of step 6; exit, without psgd_leave in step 6. It
 * prints "joined". Exit code: 0 after a job, 1 if the library says what it should not. */
#include "clients/lib/psgd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ODD_CLOCK = 5, WAIT_MS = 60000, EXITS = 3 };

/* Returns whether the library refuses calls of a forked child. */
static int child_is_refused(psgd_worker *worker)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        psgd_step step;

        _exit(psgd_next(worker, 0, &step) != PSGD_OK && psgd_loss(worker, 0.0) != PSGD_OK &&
                      strstr(psgd_last_error(), "child") != NULL
                  ? 0
                  : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* Computes half of the squared distance of the weights to 1, and its gradient. */
static double compute(const psgd_step *step, float odd)
{
    double loss = 0.0;

    for (size_t i = 0; i < step->param_count; i++) {
        float error = step->weights[i] - 1.0f;

        step->gradients[i] = error + odd;
        loss += (double)(error * error) / 2;
    }
    return loss;
}

static int train(psgd_worker *worker, const char *what)
{
    psgd_step step;
    int code;

    while ((code = psgd_next(worker, WAIT_MS, &step)) == PSGD_OK && step.kind != PSGD_DONE) {
        int is_odd = step.kind == PSGD_STEP && step.clock == ODD_CLOCK;
        double loss;

        if (step.kind == PSGD_OVER) {
            continue;
        }
        if (is_odd && strcmp(what, "exit") == 0) {
            exit(EXITS);
        }
        if (strcmp(what, "fork") == 0 && step.clock < ODD_CLOCK && !child_is_refused(worker)) {
            fprintf(stderr, "a child may call the library\n");
            return 1;
        }
        loss = compute(&step, is_odd && strcmp(what, "nan") == 0 ? NAN : 0.0f);
        code = psgd_loss(worker, loss);
        code = code == PSGD_OK ? psgd_ready(worker, 0, step.variable_count) : code;
        if (code != PSGD_OK && code != PSGD_ABORTED) {
            break;
        }
    }
    if (code != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
    }
    return code != PSGD_OK;
}

int main(int argc, char **argv)
{
    char coordinator[300];
    const char *options[] = {coordinator, NULL};
    psgd_worker *worker;
    int code;

    if (argc != 3) {
        fprintf(stderr, "usage: odd_loop ADDRESS good|fork|idle|nan|exit\n");
        return 2;
    }
    snprintf(coordinator, sizeof coordinator, "--coordinator=%s", argv[1]);
    if (psgd_join("odd", options, &worker) != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
        return 1;
    }
    printf("joined\n");
    fflush(stdout);
    if (strcmp(argv[2], "idle") == 0) {
        pause();
    }
    code = train(worker, argv[2]);
    psgd_leave(worker);
    return code;
}
