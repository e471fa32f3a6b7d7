/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_rank.c - the file of a rank with bytes that are others, under checksums that are right: the
 * rank refuses it and says why, or holds what the file says, so that it is saved to the same bytes.
 * The first byte of the input chooses a job; each three bytes behind it are a place in the file and
 * what stands there. */
#include "tests/fuzz/state_fuzz.h"
#include "tests/support/train_world.h"

#include "common/base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { JOBS = 7, PARKED = 5, CLOCK = 1, CLOCK_AT = 48 /* in a file */, WRITTEN_US = 10000000 };

/* It goes on from a checkpoint of itself, so the file's reports are read too. */
#define SHORT                                                                                      \
    ", \"epochs\": 1, \"block_size\": 100, \"model\": {\"widths\": [2]}, \"eval_every_steps\": 1," \
    " \"init_from\": \"checkpoint:job-1@1\""

/* Each keeps something else at the worker. Those from PARKED on are parked, not saved at a clock.
 */
static const char *const choices[JOBS] = {
    SHORT,
    SHORT ", \"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": 1, "
          "\"momentum\": 0.5}}}",
    SHORT ", \"codec\": {\"up\": {\"name\": \"int8\", \"params\": {\"difference\": 1, "
          "\"lazy\": 0.5}}}",
    SHORT ", \"optimizer\": {\"side\": \"WORKER\", \"rule\": {\"name\": \"momentum\"}}",
    SHORT ", \"optimizer\": {}, \"update\": {\"name\": \"dqlosp\"}",
    SHORT ", \"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": 1}}}",
    SHORT ", \"optimizer\": {}, \"update\": {\"name\": \"losp\", \"params\": {\"steps\": 2}}",
};

typedef struct rank_job {
    train_world w;
    ps_buf *file; /* of rank 0 at CLOCK, or where it was parked; NULL: there is no job yet */
    bool is_parked;
    uint64_t first; /* the clock of the servers that it is loaded with, if it was parked */
} rank_job;

static rank_job jobs[JOBS];

static void must_be_ok(ps_status st)
{
    if (!ps_is_ok(&st)) {
        (void)fprintf(stderr, "%s\n", st.text);
        abort();
    }
}

static void ask(void *arg)
{
    rank_job *job = arg;

    (void)ps_gate_cut_at(ps_exchange_gate(job->w.workers[0].exchange), CLOCK, false);
}

static void keep(void *arg, uint64_t clock, ps_snapshot state, ps_snapshot weights)
{
    rank_job *job = arg;
    size_t len;
    void *bytes;

    (void)clock;
    must_be_ok(ps_snapshot_wait(&state, WRITTEN_US));
    len = (size_t)ps_snapshot_size(&state);
    bytes = mmap(NULL, len, PROT_READ, MAP_PRIVATE, state.fd, 0);
    if (bytes == MAP_FAILED) {
        abort();
    }
    must_be_ok(ps_state_write_buf(&job->file, bytes, len));
    (void)munmap(bytes, len);
    ps_snapshot_drop(&state);
    ps_snapshot_drop(&weights);
}

static ps_trainer *create(rank_job *job, bool saves)
{
    trainee *t = &job->w.workers[0];
    ps_trainer *trainer = NULL;

    must_be_ok(ps_trainer_create(&(ps_trainer_conf){.job_id = t->session.job_id,
                                                    .folder = t->session.folder,
                                                    .plan = t->session.plan,
                                                    .data = t->session.data,
                                                    .weights = t->session.weights,
                                                    .beginning = saves ? ask : NULL,
                                                    .saved = saves ? keep : NULL,
                                                    .arg = job,
                                                    .first_clock = job->first},
                                 &trainer));
    return trainer;
}

static void end_jobs(void)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        if (jobs[i].file != NULL) {
            tw_end(&jobs[i].w);
            ps_buf_unref(jobs[i].file);
        }
    }
    (void)tw_drop_glyphs(NULL);
}

/* On the loop of workers. */
static void park(void *arg)
{
    rank_job *job = arg;
    trainee *t = &job->w.workers[0];

    if (!job->is_parked && ps_gate_park(ps_exchange_gate(t->exchange))) {
        job->is_parked = true;
        must_be_ok(ps_trainer_save_parked(t->trainer, t->exchange, ps_state_write_buf, &job->file));
        memcpy(&job->first, job->file->data + CLOCK_AT, sizeof job->first);
        job->first -= job->first > 0; /* a contribution is sent again */
        ps_gate_stop(ps_exchange_gate(t->exchange));
    }
}

/* A rank that was parked, as a file. It is tried anew if it has ended before. */
static void make_parked(rank_job *job, const char *choice)
{
    while (job->file == NULL) {
        tw_begin(&job->w, 1, 1, choice);
        tw_start(&job->w);
        while (!job->is_parked && ps_trainer_get_progress(job->w.workers[0].trainer).step <
                                      job->w.job.plan->total_steps) {
            side_run(&job->w.working, park, job);
        }
        tw_join(&job->w);
        if (job->file == NULL) {
            tw_end(&job->w);
        }
    }
}

/* A rank that trained to CLOCK, or was parked, as a file. */
static rank_job *job_of(uint32_t which)
{
    rank_job *job = &jobs[which];

    ps_log_set_level(PS_LOG_ERROR);
    if (tw_glyphs == NULL && (tw_draw_glyphs(NULL) != 0 || atexit(end_jobs) != 0)) {
        abort();
    }
    if (job->file == NULL && which >= PARKED) {
        make_parked(job, choices[which]);
    }
    if (job->file == NULL) {
        tw_begin(&job->w, 1, 1, choices[which]);
        ps_trainer_destroy(job->w.workers[0].trainer);
        job->w.workers[0].trainer = create(job, true);
        tw_start(&job->w);
        tw_join(&job->w);
        must_be_ok(job->w.workers[0].result);
        if (job->file == NULL) {
            abort();
        }
    }
    return job;
}

/* A fresh rank, and a file that it reads on the loop's thread. */
typedef struct loading {
    rank_job *job;
    ps_trainer *trainer;
    const uint8_t *bytes;
    ps_exchange *exchange;
    ps_event *closed;
    ps_status st;
    ps_buf *again; /* the file that it then writes */
} loading;

static void load(void *arg)
{
    loading *l = arg;
    ps_exchange *exchange = ps_rank_connect(l->job->w.working.loop, &l->job->w.workers[0].session,
                                            1, ps_trainer_grad(l->trainer), false);

    l->st = ps_trainer_load(l->trainer, exchange, l->bytes, l->job->file->len);
    if (ps_is_ok(&l->st) && l->job->is_parked) {
        must_be_ok(ps_trainer_save_parked(l->trainer, exchange, ps_state_write_buf, &l->again));
    } else if (ps_is_ok(&l->st)) {
        must_be_ok(ps_trainer_save(l->trainer, exchange, ps_state_write_buf, &l->again));
    }
    l->exchange = exchange;
    ps_wire_client_stop(exchange, l->closed);
}

/* What was saved again ends before the reports, which have not been opened. */
static void must_be_the_same(const loading *l)
{
    size_t len = l->again->len - PS_STATE_SECTION_BYTES;

    if (l->job->is_parked) { /* older contributions are left out */
        return;
    }
    if (len > l->job->file->len || memcmp(l->again->data, l->bytes, len) != 0) {
        (void)fprintf(stderr, "a rank that was read is saved as something else\n");
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rank_job *job = job_of(size == 0 ? 0 : data[0] % JOBS);
    loading l = {.job = job, .trainer = create(job, false)};
    uint8_t *bytes = malloc(job->file->len);
    flag closed;

    if (bytes == NULL) {
        abort();
    }
    memcpy(bytes, job->file->data, job->file->len);
    if (size > 0) {
        state_fuzz_change(bytes, job->file->len, data + 1, size - 1);
    }
    flag_init(&closed);
    l.bytes = bytes;
    l.closed = &closed.event;
    side_run(&job->w.working, load, &l);
    flag_wait(&closed);
    ps_wire_client_destroy(l.exchange);
    if (ps_is_ok(&l.st)) {
        must_be_the_same(&l);
    } else if (size < 4 || l.st.text[0] == '\0') { /* the file as it was saved is never refused */
        (void)fprintf(stderr, "refused: %s\n", l.st.text);
        abort();
    }
    ps_trainer_destroy(l.trainer);
    flag_fini(&closed);
    ps_buf_unref(l.again);
    free(bytes);
    return 0;
}
