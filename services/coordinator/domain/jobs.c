/* SPDX-License-Identifier: Apache-2.0 */
/* jobs.c - see jobs.h. */
#include "services/coordinator/domain/jobs.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "services/coordinator/domain/job_message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 14 }; /* of the hash table; more than PS_LIVE_JOBS_MAX jobs */

void ps_jobs_init(ps_jobs *jobs, int64_t (*clock)(void))
{
    *jobs = (ps_jobs){.board.clock = clock};
    jobs->by_id = ps_xcalloc(BUCKETS, sizeof(ps_live *));
}

void ps_jobs_fini(ps_jobs *jobs)
{
    while (jobs->first) {
        ps_live *job = jobs->first;

        ps_jobs_remove(jobs, job);
        ps_live_destroy(job);
    }
    free(jobs->by_id);
    jobs->by_id = NULL;
}

/* Returns the bucket of an id, by its FNV-1a hash. */
static ps_live **bucket_of(const ps_jobs *jobs, const char *id)
{
    uint32_t hash = 2166136261u;

    for (; *id; id++) {
        hash = (hash ^ (unsigned char)*id) * 16777619u;
    }
    return &jobs->by_id[(hash ^ hash >> 16) & (BUCKETS - 1)];
}

static void enter(ps_jobs *jobs, ps_live *job)
{
    ps_live **bucket = bucket_of(jobs, job->record.job->id);

    job->board = &jobs->board;
    job->same_bucket = *bucket;
    *bucket = job;
    jobs->count++;
    jobs->queued++;
    jobs->named += job->record.job->spec->n_nodes > 0;
    jobs->hurried += job->record.job->no_queue != 0;
}

void ps_jobs_append(ps_jobs *jobs, ps_live *job)
{
    job->prev = jobs->last;
    job->next = NULL;
    *(jobs->last ? &jobs->last->next : &jobs->first) = job;
    jobs->last = job;
    enter(jobs, job);
}

void ps_jobs_prepend(ps_jobs *jobs, ps_live *job)
{
    job->next = jobs->first;
    job->prev = NULL;
    *(jobs->first ? &jobs->first->prev : &jobs->last) = job;
    jobs->first = job;
    enter(jobs, job);
}

void ps_jobs_remove(ps_jobs *jobs, ps_live *job)
{
    ps_live **at = bucket_of(jobs, job->record.job->id);

    ps_jobs_deactivate(jobs, job);
    *(job->prev ? &job->prev->next : &jobs->first) = job->next;
    *(job->next ? &job->next->prev : &jobs->last) = job->prev;
    while (*at != job) {
        at = &(*at)->same_bucket;
    }
    *at = job->same_bucket;
    jobs->count--;
    jobs->queued--;
    jobs->named -= job->record.job->spec->n_nodes > 0;
    jobs->hurried -= job->record.job->no_queue != 0;
    jobs->board.unsaved -= job->is_unsaved;
    job->is_unsaved = false;
}

ps_live *ps_jobs_find(const ps_jobs *jobs, const char *job_id)
{
    ps_live *at = *bucket_of(jobs, job_id);

    while (at && strcmp(at->record.job->id, job_id) != 0) {
        at = at->same_bucket;
    }
    return at;
}

ps_jobs *ps_jobs_of(const ps_live *job)
{
    return PS_CONTAINER_OF(job->board, ps_jobs, board);
}

void ps_jobs_activate(ps_jobs *jobs, ps_live *job)
{
    assert(!job->is_active);
    job->is_active = true;
    job->active_prev = NULL;
    job->active_next = jobs->active;
    if (jobs->active) {
        jobs->active->active_prev = job;
    }
    jobs->active = job;
    jobs->queued--;
}

void ps_jobs_deactivate(ps_jobs *jobs, ps_live *job)
{
    if (!job->is_active) {
        return;
    }
    job->is_active = false;
    *(job->active_prev ? &job->active_prev->active_next : &jobs->active) = job->active_next;
    if (job->active_next) {
        job->active_next->active_prev = job->active_prev;
    }
    jobs->queued++;
}

void ps_jobs_settle(ps_jobs *jobs, ps_live *job)
{
    if (!ps_state_is_final(job->record.job->state)) {
        ps_jobs_publish(&jobs->board, job, PS_JOB_QUEUED);
        return;
    }
    ps_jobs_remove(jobs, job);
    ps_jobs_publish(&jobs->board, job, PS_JOB_OVER);
    ps_live_destroy(job);
}
