/* SPDX-License-Identifier: Apache-2.0 */
/* job_board.c - see job_board.h. */
#include "services/coordinator/domain/job_board.h"

#include <assert.h>

void ps_jobs_observe(ps_job_board *board, ps_job_observer_fn *on_changed, void *arg)
{
    assert(board->observer_count < PS_JOB_OBSERVERS_MAX);
    board->observers[board->observer_count].on_changed = on_changed;
    board->observers[board->observer_count++].arg = arg;
}

void ps_jobs_publish(const ps_job_board *board, ps_live *job, ps_job_news what)
{
    for (size_t i = 0; i < board->observer_count; i++) {
        board->observers[i].on_changed(board->observers[i].arg, job, what);
    }
}
