/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_impl.h - what trainer.c and trainer_files.c share; for them only. */
#ifndef PS_COMMON_TRAIN_TRAINER_IMPL_H
#define PS_COMMON_TRAIN_TRAINER_IMPL_H

#include "common/train/trainer.h"

#include "common/artifact/events.h"
#include "common/artifact/report.h"

#include <pthread.h>

struct ps_trainer {
    ps_trainer_conf conf;
    const ps_plan *plan;
    ps_exchange *exchange;
    ps_gate *gate;
    void (*done)(void *arg);
    void *done_arg;
    pthread_t thread;
    bool started;
    ps_status result;

    ps_model *model;
    float *weights;     /* (param_count) */
    ps_buf *grad;       /* param_count floats */
    float *optim_state; /* (slots, param_count), when the optimizer is here */
    float *x;           /* (batch, features) */
    float *targets;     /* (batch, target_width) */
    uint32_t *order;    /* (train_count) */
    size_t batch;       /* rows of x */

    ps_report *train_report, *eval_report;
    ps_events *events; /* the same for viewers of curves */
    int64_t began_us, last_row_us;
    uint64_t clock;
    bool sends; /* the block in hand completes a contribution */

    pthread_mutex_t mutex; /* guards progress */
    ps_trainer_progress progress;
};

/* The files of a worker in the job's folder. Trainer's thread. */
PS_MUST_USE ps_status ps_trainer_open_reports(ps_trainer *t);
PS_MUST_USE ps_status ps_trainer_close_reports(ps_trainer *t); /* those that are open */
void ps_trainer_put_train(ps_trainer *t, const ps_train_row *row);
void ps_trainer_put_eval(ps_trainer *t, const ps_eval_row *row);
PS_MUST_USE ps_status ps_trainer_write_model(ps_trainer *t);

#endif
