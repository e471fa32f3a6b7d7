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
    const uint8_t *state; /* of a rank that was saved, to go on from; NULL: none. The caller's */
    size_t state_bytes;
    void (*ended)(void *arg, uint32_t rank); /* (optional) tw_join, while the exchange is there */
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

/* Group setup and teardown: the data set is drawn once. */
extern ps_dataset *tw_glyphs;
extern ps_dataset *tw_other; /* of jobs whose choices name `data` */
/* As if training samples lay in a file, so that they are read ahead; or again as they are. */
void tw_put_far(ps_dataset *data, bool is_far);
int tw_draw_glyphs(void **state);
int tw_drop_glyphs(void **state);

/* Servers run, trainers are made. `choices` are further members of the JobSpec,
 * each with a comma before it; what they do not name is 3 epochs, blocks of 20, a small
 * mlp and adam. */
void tw_begin(train_world *w, uint32_t workers, uint32_t servers, const char *choices);
/* The same with servers of so many threads, (servers). */
void tw_begin_threads(train_world *w, uint32_t workers, uint32_t servers, const uint32_t *threads,
                      const char *choices);
void tw_start(train_world *w);
void tw_join(train_world *w); /* fills result, progress and stats */
void tw_end(train_world *w);

void tw_must_be_done(const train_world *w); /* a cmocka assertion: all results are OK */

/* The servers' weights, to be freed. */
float *tw_served(train_world *w);

/* Trains a job and returns the servers' weights, to be freed, and their bytes. */
float *tw_train_once(uint32_t workers, uint32_t servers, const char *choices, size_t *n);
/* Two jobs end in the same bits. */
void tw_must_train_alike(const char *one, uint32_t one_servers, const char *other,
                         uint32_t other_servers, uint32_t workers);

#endif
