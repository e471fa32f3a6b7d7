/* SPDX-License-Identifier: Apache-2.0 */
/* psgd.h - libpsgd: psgd for other programs: workers whose model the program computes, and codecs.
 *
 * Codecs, by the code that workers run:
 *
 *     psgd_codec *codec;
 *     if (psgd_codec_create("topk:fraction=0.01", &codec) != PSGD_OK) {
 *         fprintf(stderr, "%s\n", psgd_last_error());
 *     }
 *     size_t size = psgd_codec_bound(codec, n), len;
 *     uint8_t *bytes = malloc(size);
 *     psgd_codec_encode(codec, NULL, NULL, x, n, bytes, size, &len);
 *     psgd_codec_decode(codec, bytes, len, y, n, 0);
 *
 * An encoding is u64 n, the number of values, and then slices of 16,384 values, as a job cuts a
 * variable; the last one may be shorter. A slice is u32 h | h bytes, the message psgd.v1.Encoding |
 * its payload_bytes. Head and payload are the bytes that a worker pushes for slices 0, 1, ... of a
 * job. Numbers are little-endian.
 *
 * Errors: functions that can fail return PSGD_OK or a code, and psgd_last_error then has the text.
 * Content of arguments from elsewhere, such as bytes to decode, never ends the process.
 * Threads: any thread may call any function for codecs; a codec does not change after its creation.
 * Two calls that run at the same time must not share a state or an output. Memory: pointers are
 * borrowed until return, except codecs and workers, which the caller frees.
 */
#ifndef PSGD_H
#define PSGD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Codes of errors, with the numbers of gRPC. */
enum {
    PSGD_OK = 0,
    PSGD_INVALID_ARGUMENT = 3,   /* an argument is wrong; the text says what is allowed */
    PSGD_RESOURCE_EXHAUSTED = 8, /* there is no memory, or no room */
    PSGD_DATA_LOSS = 15          /* the bytes are damaged, or no encoding of n values */
};

/* Returns the version of the library, such as "0.1.0". Static text. */
const char *psgd_version(void);

/* Returns the text of this thread's last error, "" before the first one. Valid until the thread's
 * next error. */
const char *psgd_last_error(void);

/* Returns the name of codec `index`, or NULL after the last one. Static text. */
const char *psgd_codec_name(size_t index);

/* A codec with values for its numbers, such as topk with fraction 0.01. */
typedef struct psgd_codec psgd_codec;

/* Creates a codec from "NAME" or "NAME:NUMBER=VALUE,NUMBER=VALUE": a name and numbers that `psgd
 * info codecs` lists; a number that is left out has its default. The caller frees *out with
 * psgd_codec_destroy.
 *
 * PSGD_INVALID_ARGUMENT: the text names the name or the number, its value and what is allowed; or a
 * pointer is NULL. PSGD_RESOURCE_EXHAUSTED: there is no memory. */
int psgd_codec_create(const char *spec, psgd_codec **out);

/* Frees a codec. NULL is allowed. */
void psgd_codec_destroy(psgd_codec *codec);

/* Returns the most bytes that an encoding of n values takes. */
size_t psgd_codec_bound(const psgd_codec *codec, size_t n);

/* Returns how many floats of state the sender of n values keeps from one encoding to the next; 0 if
 * the codec keeps none. */
size_t psgd_codec_state_floats(const psgd_codec *codec, size_t n);

/* What the random draws of an encoding depend on, for example in rounding. Equal draws, values and
 * states give equal bytes on every processor. */
typedef struct psgd_draw {
    uint64_t seed;        /* seed of the job */
    uint64_t clock;       /* clock of the contribution; another one for each contribution */
    uint64_t contributor; /* who contributes, such as the rank of a worker */
} psgd_draw;

/* Encodes x (n) into `out` (size bytes, at least psgd_codec_bound) and sets *len to the bytes
 * written.
 *
 * draw   NULL: zeros.
 * state  (psgd_codec_state_floats) zeros before the first encoding, or NULL: nothing is kept.
 *        Error feedback, momentum and differences live there. With a state, call the function
 *        once per contribution: to send again, send the same bytes.
 *
 * Non-finite values become what docs/codecs.md says. On failure nothing is changed.
 *
 * PSGD_INVALID_ARGUMENT    a pointer is NULL
 * PSGD_RESOURCE_EXHAUSTED  size is less than the bound */
int psgd_codec_encode(const psgd_codec *codec, const psgd_draw *draw, float *state, const float *x,
                      size_t n, uint8_t *out, size_t size, size_t *len);

/* Decodes len bytes and sets y (n) to the values, or adds them to y if `add` is not 0. Encodings
 * with the number `difference` are changes: add each of them to the sum of those before it.
 * On failure y is unchanged.
 *
 * PSGD_INVALID_ARGUMENT  the bytes are of another codec, or a pointer is NULL
 * PSGD_DATA_LOSS         the bytes are damaged, or of another number of values */
int psgd_codec_decode(const psgd_codec *codec, const uint8_t *in, size_t len, float *y, size_t n,
                      int add);

/* ---- A worker whose model this program computes ----
 *
 *     psgd_worker *w;
 *     psgd_step step;
 *     psgd_join("mnist", NULL, &w);
 *     while (psgd_next(w, 60000, &step) == PSGD_OK && step.kind == PSGD_STEP) {
 *         // step.weights, step.clock, step.rank -> loss, step.gradients
 *         psgd_loss(w, loss);
 *         psgd_ready(w, 0, step.variable_count);
 *     }
 *     psgd_leave(w);
 *
 * The job has the title given and a model of `foreign` variables; docs/own-loop.md. The library
 * starts a psgd-worker, which has all connections, and shares memory with it: weights and
 * gradients are not copied by the program. If this process dies, its worker dies too, and the job
 * goes on without it as without any worker.
 *
 * Threads: one thread at a time calls functions of a worker. A child of fork() may not call them.
 */

enum {
    PSGD_DEADLINE_EXCEEDED = 4,   /* timeout_ms have passed; call again */
    PSGD_NOT_FOUND = 5,           /* nothing has this name, or nothing is kept under it */
    PSGD_FAILED_PRECONDITION = 9, /* the call is not allowed now; the text says why */
    /* the attempt has ended while the program computed: call psgd_next */
    PSGD_ABORTED = 10,
    PSGD_UNAVAILABLE = 14 /* psgd-worker cannot be started, or has ended */
};

typedef struct psgd_worker psgd_worker;

enum {
    PSGD_STEP = 1, /* there is a step: compute its gradients */
    /* the job has done all its steps. `weights` is the model, or NULL if this process does not have
     * it. The next call of psgd_next waits for another job */
    PSGD_DONE = 2,
    /* the attempt has ended before its last step. The job goes on with another attempt, has failed
     * or was cancelled: the job's state says which. `text` may say why */
    PSGD_OVER = 3
};

/* A variable of the model. */
typedef struct psgd_variable {
    const char *name;
    uint32_t rank;   /* number of dimensions */
    uint32_t dim[4]; /* lengths of the dimensions, outermost first */
    size_t at, size; /* its floats are [at, at + size) of weights and of gradients */
} psgd_variable;

/* What psgd_next returns: a step to compute, or the end of a job or attempt (`kind`). */
typedef struct psgd_step {
    int kind;
    /* the rank to compute for, and how many ranks the job has. A process may have several ranks;
     * each step is for one of them */
    uint32_t rank, workers;
    /* number of steps of the job before this one. After the loss of a process a step may come
     * again, so choose the samples of a step by clock and rank alone */
    uint64_t clock;
    uint64_t total_steps;    /* number of steps of the job */
    uint32_t steps_of_epoch; /* number of steps of an epoch of the job */
    uint32_t block_size;     /* number of samples of this rank in a step */
    uint32_t variable_count;
    size_t param_count;
    const float *weights; /* (param_count): weights of this clock, valid until the next psgd_next */
    float *gradients;     /* (param_count): to be filled; valid until the next psgd_next */
    const char *job_id, *text;
} psgd_step;

/* Starts a worker for jobs of this title. `options` are options of psgd-worker, such as
 * "--coordinator=host:port", and end with NULL; NULL: none. The worker is the program that the
 * environment's PSGD_WORKER names, else psgd-worker on the PATH. Its log goes to stderr.
 *
 * PSGD_INVALID_ARGUMENT  the title is not 1 to 64 of A-Z a-z 0-9 . _ -, or begins with a dot; there
 *                        are more than 64 options; or a pointer is NULL
 * PSGD_UNAVAILABLE       the program cannot be started */
int psgd_join(const char *title, const char *const *options, psgd_worker **out);

/* Waits for the next step, or the end of a job or attempt, at most timeout_ms (-1: for ever), and
 * fills *out. All variables of the step in hand, which is the last one that was returned, must have
 * been made ready first (psgd_ready), unless a call has said PSGD_ABORTED.
 *
 * PSGD_DEADLINE_EXCEEDED    nothing has come
 * PSGD_FAILED_PRECONDITION  variables of the step in hand are not ready
 * PSGD_UNAVAILABLE          the worker has ended: its log says why */
int psgd_next(psgd_worker *worker, int timeout_ms, psgd_step *out);

/* Describes variable `index` of the step in hand, or after PSGD_DONE of the model in that answer.
 * The name is valid until the next psgd_next. PSGD_INVALID_ARGUMENT: there is no such variable.
 * PSGD_FAILED_PRECONDITION: there is no step in hand and no model. */
int psgd_variable_at(const psgd_worker *worker, uint32_t index, psgd_variable *out);

/* Reports the mean loss of the samples of the step in hand. Call it once a step, before the first
 * variable is ready. A loss that is not finite ends the attempt as diverged.
 * PSGD_FAILED_PRECONDITION: there is no step in hand, or its loss was reported. PSGD_ABORTED: the
 * attempt has ended. */
int psgd_loss(psgd_worker *worker, double loss);

/* Reports a metric of the step, by a name of the job's program_metrics, before the first variable
 * is ready. A second report by the same name replaces the first. A step need not have any.
 *
 * PSGD_NOT_FOUND            the job's program_metrics have no such name; the text says which they
 *                           have
 * PSGD_INVALID_ARGUMENT     the value is not finite, or name is NULL
 * PSGD_FAILED_PRECONDITION  there is no step in hand, or a variable is ready
 * PSGD_ABORTED              the attempt has ended */
int psgd_report(psgd_worker *worker, const char *name, double value);

/* Reports `count` metrics as psgd_report does, in order: all of them, or on failure none.
 *
 * PSGD_ABORTED  the attempt has ended. Some of the metrics may have been reported, but for a step
 *               that is lost */
int psgd_report_all(psgd_worker *worker, size_t count, const char *const *names,
                    const double *values);

/* Says that the gradients of the mean loss for the variables [first, first + count) are final. Call
 * it once for each variable of a step, in any order. The worker sends these gradients while the
 * program computes those of other variables.
 *
 * PSGD_FAILED_PRECONDITION  no loss was reported, there is no step, or a variable was ready before
 * PSGD_INVALID_ARGUMENT     there are no such variables
 * PSGD_ABORTED              the attempt has ended
 */
int psgd_ready(psgd_worker *worker, uint32_t first, uint32_t count);

/* ---- State of the program ----
 *
 * What a program needs, beside weights and clock, to go on after a loss as if nothing had been
 * lost: its random numbers, an optimizer of its own, its place in the data. The state is kept for
 * each rank, as bytes by name, in memory that is shared with the worker. A checkpoint of the job at
 * a clock has the state as it was saved before the last psgd_ready of the step before. When a job
 * goes on from a checkpoint, after a loss or because it was resumed, and also in another process
 * that takes the rank over, the state is that of the checkpoint; without a checkpoint there is
 * none. In each step: load, compute, save. A program may skip the load only if its step before was
 * of the same job and rank, and psgd_next returned neither PSGD_OVER nor PSGD_DONE in between.
 *
 * The job says how much state there may be: program_state_mib, 0 to 4096. */

/* Returns how many bytes the state of a rank may take: of the rank of the step in hand, or after
 * PSGD_DONE of the rank in that answer. A name with its bytes takes 16 bytes, the bytes, and those
 * of the name with the NUL. 0: the job keeps no state, or there is no such rank. */
size_t psgd_state_room(const psgd_worker *worker);

/* Keeps a copy of `len` bytes under this name for the rank of the step in hand; replaces bytes of
 * the same name. At most 256 names. `bytes` NULL with len 0: removes the name. On failure nothing
 * is changed.
 *
 * PSGD_INVALID_ARGUMENT     the name is not 1 to 64 of A-Z a-z 0-9 . _ -, or a pointer is NULL
 * PSGD_RESOURCE_EXHAUSTED   there is no room; the text says how much is left
 * PSGD_FAILED_PRECONDITION  there is no step in hand, all its variables are ready, or the job keeps
 *                           no state of programs
 * PSGD_ABORTED              the attempt has ended
 */
int psgd_state_save(psgd_worker *worker, const char *name, const void *bytes, size_t len);

/* Copies the bytes that are kept under this name, for the rank of the step in hand, or after
 * PSGD_DONE for the rank in that answer, to `out` (size bytes) and sets *len to their number.
 *
 * PSGD_NOT_FOUND            nothing is kept under the name; *len is 0
 * PSGD_RESOURCE_EXHAUSTED   more than `size` bytes are kept: *len says how many; `out` is as before
 * PSGD_FAILED_PRECONDITION  there is no step in hand
 * PSGD_INVALID_ARGUMENT     a pointer is NULL
 */
int psgd_state_load(const psgd_worker *worker, const char *name, void *out, size_t size,
                    size_t *len);

/* Returns the name with number `index`, from 0, under which something is kept for the rank that
 * psgd_state_load reads; NULL after the last one. Valid until the next psgd_state_save or
 * psgd_next. */
const char *psgd_state_name(const psgd_worker *worker, size_t index);

/* Ends the worker in order and frees it. A job goes on without it, as when psgd-worker is told to
 * stop. Waits until the worker process has ended; kills it if it has not after 20 s. NULL is
 * allowed. */
void psgd_leave(psgd_worker *worker);

#ifdef __cplusplus
}
#endif

#endif
