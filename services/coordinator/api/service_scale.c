/* SPDX-License-Identifier: Apache-2.0 */
/* service_scale.c - ScaleJob. */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/domain/scheduler.h"
#include "services/coordinator/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Milliseconds that a call waits for the checkpoint: if it does not say, and the most that it may
 * say. */
enum { WAIT_MS = 60000, WAIT_MS_MAX = 3600000 };

/* A call of ScaleJob that waits for the checkpoint at which the workers stay. */
typedef struct scaling {
    ps_held held;
    ps_live *live;
    ps_checkpoint_wait wait;
    uint32_t processes, pservers;
    char who[PS_PRINCIPAL_TEXT_BYTES];
} scaling;

static void answer(ps_call *call, Psgd__V1__Job *job)
{
    Psgd__V1__ScaleJobResponse reply = PSGD__V1__SCALE_JOB_RESPONSE__INIT;

    reply.job = job;
    ps_call_reply(call, &reply.base);
}

static void set_numbers(Psgd__V1__Job *job, uint32_t processes, uint32_t pservers)
{
    job->scaled_processes = processes;
    job->scaled_pservers = pservers;
}

/* Handles the end of the wait for the checkpoint. If the checkpoint is stored, ends the attempt,
 * for one with the wanted numbers, even if the client has gone. Otherwise refuses the call, and the
 * job keeps its numbers. */
static void checkpointed(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step)
{
    scaling *s = PS_CONTAINER_OF(wait, scaling, wait);
    char text[PS_PRINCIPAL_TEXT_BYTES + 100];

    if (ps_is_ok(result)) {
        snprintf(text, sizeof text, "scaled by %s to %u worker process%s and %u server%s", s->who,
                 s->processes, s->processes == 1 ? "" : "es", s->pservers,
                 s->pservers == 1 ? "" : "s");
        set_numbers(s->live->record.job, s->processes, s->pservers);
        ps_attempt_move(wait->a, "SCALED", text, step);
    }
    if (s->held.call && ps_is_ok(result)) {
        answer(s->held.call, s->live->record.job);
    } else if (s->held.call) {
        ps_refuse(s->held.call, result->code, "NO_CHECKPOINT", s->held.job_id,
                  "%s; the job goes on with its processes as before", result->text);
    }
    free(s);
}

/* Returns whether the wanted number of nodes is from 1 to `most`. If not, refuses the call. */
static bool is_allowed(ps_call *call, const char *job_id, const char *field, uint32_t n,
                       uint32_t most, const char *why)
{
    if (n >= 1 && n <= most) {
        return true;
    }
    ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_SCALE", job_id, "%s is %u; 1 to %u are allowed%s",
              field, n, most, why);
    return false;
}

static uint32_t named(const Psgd__V1__JobSpec *spec, Psgd__V1__NodeRole role)
{
    uint32_t n = 0;

    for (size_t i = 0; i < spec->n_nodes; i++) {
        n += spec->nodes[i]->role == role;
    }
    return n;
}

/* Writes the wanted numbers of processes and servers to *s, for a number that is not given (0) the
 * one that the job has now. If a number is wrong, or none is given, refuses the call and returns
 * false. */
static bool check(ps_call *call, const Psgd__V1__Job *job, const Psgd__V1__ScaleJobRequest *q,
                  scaling *s)
{
    Psgd__V1__JobSpec now;
    bool has_names = job->spec->n_nodes > 0;
    uint32_t workers = job->spec->workers, pservers = PS_PSERVERS_MAX;

    ps_job_spec_now(job, &now);
    s->processes = q->worker_processes > 0 ? q->worker_processes : ps_schedule_processes(&now);
    s->pservers = q->pservers > 0 ? q->pservers : now.pservers;
    if (has_names) {
        workers = named(job->spec, PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER);
        workers = workers < job->spec->workers ? workers : job->spec->workers;
        pservers = named(job->spec, PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER);
    }
    if (q->worker_processes == 0 && q->pservers == 0) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_SCALE", job->id,
                  "worker_processes and pservers are both 0; give at least one of them");
        return false;
    }
    if (q->checkpoint_ms > WAIT_MS_MAX) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_SCALE", job->id,
                  "checkpoint_ms is %u; 1 to %d are allowed, 0 stands for %d", q->checkpoint_ms,
                  WAIT_MS_MAX, WAIT_MS);
        return false;
    }
    if (now.pservers == 0 && q->pservers > 0) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_SCALE", job->id,
                  "pservers is %u; the workers of this job exchange among themselves (%s): it has "
                  "no servers",
                  q->pservers, job->spec->exchange->name);
        return false;
    }
    return is_allowed(call, job->id, "worker_processes", s->processes, workers,
                      has_names ? ": as many workers as the job names"
                                : ", because the job has so many ranks (workers)") &&
           (now.pservers == 0 || is_allowed(call, job->id, "pservers", s->pservers, pservers,
                                            has_names ? ": as many servers as the job names" : ""));
}

/* Counts the nodes of the attempt that are not lost. */
static ps_idle count_members(const ps_live *live)
{
    ps_idle n = {0};

    for (size_t i = 0; i < ps_attempt_count(live->attempt); i++) {
        const ps_member *m = ps_attempt_member(live->attempt, i);

        *(m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? &n.workers : &n.pservers) +=
            !m->is_lost;
    }
    return n;
}

/* Returns whether there are nodes for the wanted numbers: the nodes that the job has and idle ones
 * are enough, or the job names its nodes. If not, refuses the call. */
static bool has_nodes(ps_coordinator *c, ps_call *call, const ps_live *live, const scaling *s)
{
    ps_idle there, here = count_members(live);

    if (live->record.job->spec->n_nodes > 0) {
        return true; /* the job waits for the nodes that it names */
    }
    ps_schedule_count(&c->nodes, ps_coordinator_now_us(c), &there);
    there.workers += here.workers;
    there.pservers += here.pservers;
    if (s->processes <= there.workers && s->pservers <= there.pservers) {
        return true;
    }
    ps_refuse(call, PS_FAILED_PRECONDITION, "NODES_MISSING", live->record.job->id,
              "%u workers and %u servers are wanted; the job has, or could have, %u and %u: start "
              "more, or wait until they are idle",
              s->processes, s->pservers, there.workers, there.pservers);
    return false;
}

/* Scales a job that trains: asks for a checkpoint at which the workers stay. */
static void begin(ps_coordinator *c, ps_call *call, ps_live *live,
                  const Psgd__V1__ScaleJobRequest *q, const scaling *numbers)
{
    uint32_t ms = q->checkpoint_ms > 0 ? q->checkpoint_ms : WAIT_MS;
    scaling *s = ps_xcalloc(1, sizeof *s);

    *s = *numbers;
    ps_hold(&s->held, c, call, live->record.job->id);
    s->live = live;
    s->wait.told = checkpointed;
    s->wait.stays = true;
    ps_access_owner(ps_call_caller(call), s->who);
    if (s->who[0] == '\0') {
        snprintf(s->who, sizeof s->who, "a client");
    }
    ps_attempt_await_checkpoint(live->attempt, (int64_t)ms * 1000, &s->wait);
}

void ps_serve_scale_job(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    const Psgd__V1__ScaleJobRequest *q = (const void *)request;
    ps_coordinator *c = service;
    ps_live *live = ps_jobs_find(&c->jobs, q->job_id);
    scaling s = {0};

    (void)payload;
    ps_call_about(call, q->job_id);
    if (!live) {
        ps_answer_over(c, call, q->job_id);
        return;
    }
    if (!ps_may_access(call, live->record.job, PS_ACCESS_CHANGE) ||
        !check(call, live->record.job, q, &s)) {
        return;
    }
    if (live->attempt) {
        ps_idle here = count_members(live);

        if (here.workers == s.processes && here.pservers == s.pservers) {
            set_numbers(live->record.job, s.processes, s.pservers);
            answer(call, live->record.job); /* the attempt has these numbers already */
        } else if (has_nodes(c, call, live, &s)) {
            begin(c, call, live, q, &s);
        }
        return;
    }
    set_numbers(live->record.job, s.processes, s.pservers);
    ps_live_publish(live, PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE);
    answer(call, live->record.job);
    ps_coordinator_schedule(c);
}
