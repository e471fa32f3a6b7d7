/* SPDX-License-Identifier: Apache-2.0 */
/* train_world.h - real trainers with real exchanges and servers, in one process. */
#ifndef PS_TESTS_SUPPORT_TRAIN_WORLD_H
#define PS_TESTS_SUPPORT_TRAIN_WORLD_H

#include "common/train/trainer.h"
#include "common/wire/wire_client.h"
#include "services/worker/rank.h"
#include "tests/support/dataplane.h"
#include "tests/support/temp_dir.h"

enum { TW_WORKERS_MAX = 4, TW_SERVERS_MAX = 3, TW_TRAIN = 2000, TW_TEST = 500 /* samples */ };

typedef struct trainee {
    ps_session session;
    ps_loop *loop;
    ps_trainer *trainer;
    ps_exchange *exchange;
    flag done, closed;
    ps_status result;
    ps_trainer_progress progress;
    ps_exchange_stats stats;
    /* state of a saved rank, from which this one goes on; NULL: none. The caller owns it */
    const uint8_t *state;
    size_t state_bytes;
    /* (optional) called by tw_join when the trainer has ended, while its exchange still exists */
    void (*ended)(void *arg, uint32_t rank);
    void *ended_arg;
} trainee;

typedef struct train_world {
    ps_dataset *data;
    temp_dir folder;
    dp_job job;
    side serving, working;
    dp_server servers[TW_SERVERS_MAX];
    trainee workers[TW_WORKERS_MAX];
    uint32_t worker_count, server_count;
} train_world;

/* The data set of jobs that name none. It is drawn once, by tw_draw_glyphs as the setup of a group
 * of tests, and freed by tw_drop_glyphs as its teardown. */
extern ps_dataset *tw_glyphs;
extern ps_dataset *tw_other; /* data set for jobs whose `choices` name `data` */
/* is_far: makes the trainer treat the training samples as if they lay in a file, so that it reads
 * ahead; false: as they are, in memory. */
void tw_put_far(ps_dataset *data, bool is_far);
int tw_draw_glyphs(void **state);
int tw_drop_glyphs(void **state);

/* Starts servers and creates trainers without starting them. `choices` are further members of the
 * JobSpec in JSON, each with a comma before it. Unless they say otherwise, the job has 3 epochs,
 * blocks of 20 samples, a small mlp and adam. */
void tw_begin(train_world *w, uint32_t workers, uint32_t servers, const char *choices);
/* Does what tw_begin does; server i has threads[i] threads. */
void tw_begin_threads(train_world *w, uint32_t workers, uint32_t servers, const uint32_t *threads,
                      const char *choices);
void tw_start(train_world *w);
void tw_join(train_world *w); /* fills result, progress and stats */
void tw_end(train_world *w);

void tw_must_be_done(const train_world *w); /* a cmocka assertion: all results are OK */

/* Returns the servers' weights, which the caller frees. */
float *tw_served(train_world *w);

/* Returns what the job has computed, which the caller frees, and its number of bytes in *n: the
 * servers' weights and, of sparse tables that grow, the rows of all ids and their number. */
float *tw_left(train_world *w, size_t *n);

/* Trains a job from beginning to end. Returns what tw_left returns. */
float *tw_train_once(uint32_t workers, uint32_t servers, const char *choices, size_t *n);
/* Trains two jobs, with `one` and `other` as choices, and asserts that what they have computed has
 * the same bits. */
void tw_must_train_alike(const char *one, uint32_t one_servers, const char *other,
                         uint32_t other_servers, uint32_t workers);

#endif
