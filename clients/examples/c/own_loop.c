/* SPDX-License-Identifier: Apache-2.0 */
/* own_loop.c - a worker whose model this program computes: linear regression with eight weights.
 *
 *     cc -o own_loop own_loop.c $(pkg-config --cflags --libs psgd)
 *     ./own_loop line --coordinator=127.0.0.1:15386
 *
 * for a job such as
 *
 *     {"title": "line", "workers": 1, "block_size": 16, "epochs": 2,
 *      "data": {"params": {"samples": 1600}},
 *      "model": {"foreign": [{"name": "w", "shape": [8]}, {"name": "b", "shape": [1]}]},
 *      "optimizer": {"rule": {"name": "sgd", "params": {"lr": 0.05}}}}
 *
 * Exit code: 0 after one job has all its steps, or 1 after a failure.
 */
#include <psgd.h>

#include <stdio.h>

enum { WIDTH = 8, WAIT_MS = 60000 };

/* Returns a number in [-1, 1) that depends on its arguments only. */
static float draw(uint64_t clock, uint32_t rank, uint32_t sample, uint32_t feature)
{
    uint64_t x = ((clock * 257 + rank) * 65537 + sample) * 31 + feature;

    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)(x >> 40) / 8388608.0f - 1.0f;
}

/* Returns the mean loss of the samples of a step. Writes its gradient to step->gradients. */
static double compute(const psgd_step *step, const psgd_variable *w, const psgd_variable *b)
{
    const float *weights = step->weights + w->at;
    float *gradient = step->gradients + w->at, x[WIDTH];
    double loss = 0;

    for (uint32_t i = 0; i < WIDTH; i++) {
        gradient[i] = 0;
    }
    step->gradients[b->at] = 0;
    for (uint32_t n = 0; n < step->block_size; n++) {
        float error = step->weights[b->at] - 3.0f;

        for (uint32_t i = 0; i < WIDTH; i++) {
            x[i] = draw(step->clock, step->rank, n, i);
            error += (weights[i] - (float)i) * x[i];
        }
        for (uint32_t i = 0; i < WIDTH; i++) {
            gradient[i] += error * x[i] / (float)step->block_size;
        }
        step->gradients[b->at] += error / (float)step->block_size;
        loss += (double)(error * error) / 2 / step->block_size;
    }
    return loss;
}

static int train(psgd_worker *worker)
{
    psgd_step step;
    psgd_variable w, b;
    double loss = 0;
    int code;

    while ((code = psgd_next(worker, WAIT_MS, &step)) == PSGD_OK && step.kind != PSGD_DONE) {
        if (step.kind == PSGD_OVER) { /* wait for the job's next attempt, or for another job */
            continue;
        }
        code = psgd_variable_at(worker, 0, &w);
        code = code == PSGD_OK ? psgd_variable_at(worker, 1, &b) : code;
        if (code != PSGD_OK || w.size != WIDTH || b.size != 1) {
            fprintf(stderr, "the job's model is another one\n");
            return 1;
        }
        loss = compute(&step, &w, &b);
        code = psgd_loss(worker, loss);
        code = code == PSGD_OK ? psgd_ready(worker, 0, step.variable_count) : code;
        if (code != PSGD_OK && code != PSGD_ABORTED) {
            break;
        }
    }
    if (code != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
        return 1;
    }
    printf("job %s is done; the last loss was %g\n", step.job_id, loss);
    return 0;
}

int main(int argc, char **argv)
{
    psgd_worker *worker;
    int code;

    if (argc < 2) {
        fprintf(stderr, "usage: own_loop TITLE [options of psgd-worker]\n");
        return 1;
    }
    if (psgd_join(argv[1], (const char *const *)argv + 2, &worker) != PSGD_OK) {
        fprintf(stderr, "%s\n", psgd_last_error());
        return 1;
    }
    code = train(worker);
    psgd_leave(worker);
    return code;
}
