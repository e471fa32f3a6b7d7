/* SPDX-License-Identifier: Apache-2.0 */
/* job_queue.c - see job_queue.h. */
#include "services/coordinator/job_queue.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"
#include "services/coordinator/coordinator.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/domain/recoveries.h"
#include "services/coordinator/domain/scheduler.h"
#include "services/coordinator/driver.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    /* most jobs with named nodes that one pass over the queue tries. Jobs that is_worth_it accepts
     * for another reason do not count. */
    TRIES_MAX = 200
};

/* least time between two changes of a job's message about what it lacks */
static const int64_t tell_us = 1000000;

/* The state of one pass over the queue. */
typedef struct look {
    ps_coordinator *c;
    int64_t now_us;
    ps_status room;
    ps_idle idle;
    const char **held; /* what held_addresses returned; NULL: not called yet */
    size_t position;   /* position of the present job in the queue, from 1 on */
    unsigned tries;
    uint64_t last_tried; /* record.number of the last job that `tries` counts */
} look;

/* Returns pairs of the address of a node that a job holds, registered or not, and the id of the
 * job. Ends the list with NULL. The caller frees the list. */
static const char **held_addresses(const ps_coordinator *c)
{
    size_t count = 0, at = 0;
    const char **held;

    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        count += ps_attempt_count(job->attempt);
    }
    held = ps_xcalloc(2 * count + 1, sizeof *held);
    for (const ps_live *job = c->jobs.active; job; job = job->active_next) {
        for (size_t i = 0; i < ps_attempt_count(job->attempt); i++) {
            held[at++] = ps_attempt_member(job->attempt, i)->address;
            held[at++] = job->record.job->id;
        }
    }
    return held;
}

/* Counts the idle nodes and drops the list of held addresses. Call it at the beginning of a pass,
 * and after a job has taken nodes. */
static void count_again(look *l)
{
    ps_schedule_count(&l->c->nodes, l->now_us, &l->idle);
    free(l->held);
    l->held = NULL;
}

static bool may_be_told(const look *l, const ps_live *job)
{
    return l->position <= PS_QUEUE_FRONT && job->writes == 0 &&
           (job->told_us == 0 || l->now_us - job->told_us >= tell_us);
}

/* Returns the bytes of the coordinator's memory that the job's package takes. For a job of an
 * earlier process this makes the plan, once. */
static uint64_t memory_of(ps_live *job)
{
    if (job->memory_bytes == 0) {
        ps_plan *plan = NULL;
        ps_status st = ps_plan_create(job->record.job->spec, NULL, NULL, &plan);

        /* any number but 0 will do without a valid plan: the job is refused when it starts */
        job->memory_bytes = ps_is_ok(&st) ? (uint64_t)plan->layout.param_count * sizeof(float) : 1;
        ps_plan_destroy(plan);
    }
    return job->memory_bytes;
}

/* Returns whether conf.max_memory_bytes (0: no limit) has no room for a package of `bytes` beside
 * the packages that are held. A package larger than the whole limit has room when no other one is
 * held. */
static bool lacks_memory(const ps_coordinator *c, uint64_t bytes)
{
    uint64_t max = c->conf.max_memory_bytes;

    return max > 0 && c->memory_taken > 0 && bytes + c->memory_taken > max;
}

/* Returns whether there is memory for a package of `bytes` (lacks_memory). If not, writes a message
 * that says what is missing. */
static bool has_memory(const ps_coordinator *c, uint64_t bytes, char *message, size_t cap)
{
    uint64_t max = c->conf.max_memory_bytes;

    if (!lacks_memory(c, bytes)) {
        return true;
    }
    snprintf(message, cap,
             "its parameters take %llu bytes of the coordinator's memory until all nodes have "
             "them; other jobs have %llu of %llu (--max-memory)",
             (unsigned long long)bytes, (unsigned long long)c->memory_taken,
             (unsigned long long)max);
    return false;
}

/* Chooses the nodes of the job (ps_schedule_job). If there are too few, returns false and writes
 * which are missing. */
static bool has_nodes(look *l, const ps_want *want, ps_member *members, size_t *count,
                      char *message, size_t cap)
{
    l->held = l->held ? l->held : held_addresses(l->c);
    return ps_schedule_job(&l->c->nodes, want, l->held, l->now_us, members, count, message, cap);
}

static ps_member *members_for(const Psgd__V1__JobSpec *spec)
{
    return ps_xcalloc((size_t)ps_schedule_processes(spec) + spec->pservers, sizeof(ps_member));
}

static void refusal_stored(void *arg, const ps_status *result)
{
    ps_live *job = arg;

    if (ps_is_ok(result)) {
        ps_jobs_settle(ps_jobs_of(job), job);
        return;
    }
    google__protobuf__timestamp__free_unpacked(job->record.job->end_time, NULL);
    job->record.job->end_time = NULL; /* the next pass tries again to fail the job */
}

/* Fails a job that waits in the queue. */
static void fail(ps_live *job, const char *reason, const char *message)
{
    ps_time_set(&job->record.job->end_time, ps_clock_wall_us());
    ps_live_store(job, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, 0, reason, message, refusal_stored,
                  job);
}

/* Fails a job that has waited for nodes after a loss for longer than recovery.wait_seconds. */
static void give_up(ps_live *job, double waited_s, const char *lacks)
{
    const Psgd__V1__Job *msg = job->record.job;
    const Psgd__V1__Recovery *last = msg->recoveries[msg->n_recoveries - 1];
    char message[2 * PS_COMMIT_MESSAGE_MAX];

    snprintf(message, sizeof message,
             "%.300s; no other attempt could begin within %.1f s (recovery.wait_seconds): %.250s",
             last->message, waited_s, lacks);
    fail(job, last->reason, message);
}

/* Returns how many seconds the job may wait for nodes after a loss: recovery.wait_seconds, or the
 * default if the job is of an older program and has no `recovery`. */
static double wait_s(const ps_live *job)
{
    const Psgd__V1__RecoverySpec *recovery = job->record.job->spec->recovery;

    return recovery != NULL ? recovery->wait_seconds : PS_RECOVERY_WAIT_S;
}

/* Returns how long the job may still wait for nodes after a loss, in seconds. Begins to count at
 * the first call; after a restart of the coordinator anew. */
static double patience_s(const look *l, ps_live *job)
{
    if (job->lost_us == 0) {
        job->lost_us = l->now_us;
    }
    return wait_s(job) - (double)(l->now_us - job->lost_us) * 1e-6;
}

/* Starts the job if there are nodes, memory and room on the disk for it. If not, fails it if it has
 * waited too long after a loss, which has no limit with workers_min; or if it may not wait and is
 * not recovering. Otherwise publishes what the job waits for, if may_be_told. */
static void try_start(look *l, ps_live *job)
{
    ps_coordinator *c = l->c;
    Psgd__V1__JobSpec spec;
    const ps_want want = {.spec = &spec, .is_after_loss = ps_recovery_is_open(job->record.job)};
    size_t count = 0;
    ps_member *members;
    const char *reason = "WAITING_FOR_NODES";
    char message[PS_COMMIT_MESSAGE_MAX], suspects[200];
    bool fits;

    ps_job_spec_now(job->record.job, &spec);
    members = members_for(&spec);
    fits = has_nodes(l, &want, members, &count, message, sizeof message);
    if (!ps_is_ok(&l->room)) {
        snprintf(message, sizeof message, "%s", l->room.text);
        reason = "WAITING_FOR_ROOM";
        fits = false;
    } else if (fits && !has_memory(c, memory_of(job), message, sizeof message)) {
        reason = "WAITING_FOR_MEMORY";
        fits = false;
    }
    if (fits) {
        ps_attempt_start(c, job, members, count);
        count_again(l);
    } else if (want.is_after_loss && spec.workers_min == 0 && patience_s(l, job) <= 0) {
        give_up(job, wait_s(job), message);
    } else if (job->record.job->no_queue && !want.is_after_loss) {
        fail(job, "WOULD_WAIT", message); /* its submission does not allow the job to wait */
    } else if (may_be_told(l, job)) {
        job->told_us = l->now_us;
        ps_schedule_suspects(&c->nodes, suspects, sizeof suspects);
        ps_live_set_waiting(job, reason, message, suspects);
    }
    free(members);
}

/* Returns whether to call try_start for the job: it can possibly start now, or its message about
 * what it lacks is due, or it may have to fail for lack of nodes. */
static bool is_worth_it(look *l, const ps_live *job)
{
    Psgd__V1__JobSpec spec;

    if (may_be_told(l, job) || job->record.job->no_queue || ps_recovery_is_open(job->record.job)) {
        return true;
    }
    if (!ps_is_ok(&l->room) || lacks_memory(l->c, job->memory_bytes)) {
        return false;
    }
    ps_job_spec_now(job->record.job, &spec);
    if (spec.n_nodes == 0) {
        return ps_schedule_may_fit(&l->idle, &spec);
    }
    /* At most TRIES_MAX jobs with named nodes are tried in a pass. They take turns: the next pass
     * continues after the last of them. */
    if (l->tries == TRIES_MAX || job->record.number <= l->c->named_tried) {
        return false;
    }
    l->tries++;
    l->last_tried = job->record.number;
    return true;
}

/* Shows in the newest jobs, from the last one back, that other jobs are before them. Stops at the
 * first job that shows a reason for its wait already, has an attempt or is being stored. */
static void tell_newest(ps_coordinator *c)
{
    for (ps_live *job = c->jobs.last; job && !job->is_active && job->told_us == 0 &&
                                      job->record.job->reason[0] == '\0' && job->writes == 0;
         job = job->prev) {
        ps_live_set_waiting(job, "WAITING_FOR_NODES", PS_QUEUE_BEHIND, "");
    }
}

/* Returns the number of worker processes that the job wants beside those of its attempt; 0 if its
 * specification fixes the number of workers. */
static uint32_t wants_more(const ps_live *job)
{
    const Psgd__V1__JobSpec *spec = job->record.job->spec;
    Psgd__V1__JobSpec now;
    uint32_t has = 0, wants;

    if (spec->workers_min == 0 && spec->workers_max == 0) {
        return 0;
    }
    ps_job_spec_now(job->record.job, &now);
    wants = ps_schedule_processes(&now);
    for (size_t i = 0; i < ps_attempt_count(job->attempt); i++) {
        has += ps_attempt_member(job->attempt, i)->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    }
    return wants > has ? wants - has : 0;
}

/* Returns the number of servers that the job has lost and wants back, because with fewer servers
 * there may be no copies of its shards. 0 if it wants no copies or names its nodes. */
static uint32_t wants_servers(const ps_live *job)
{
    const Psgd__V1__JobSpec *spec = job->record.job->spec;
    Psgd__V1__JobSpec now;
    uint32_t has = 0;

    if (spec->recovery == NULL || spec->recovery->replicas < 2 || spec->n_nodes > 0) {
        return 0;
    }
    ps_job_spec_now(job->record.job, &now);
    for (size_t i = 0; i < ps_attempt_count(job->attempt); i++) {
        has += ps_attempt_member(job->attempt, i)->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
    }
    return now.pservers > has ? now.pservers - has : 0;
}

/* Has idle nodes join running jobs that want more nodes. Call it when no job is queued. */
static void grow(look *l)
{
    ps_live *next;

    for (ps_live *job = l->c->jobs.active; job; job = next) {
        uint32_t workers = wants_more(job), servers = wants_servers(job);

        next = job->active_next;
        workers = workers < l->idle.workers ? workers : l->idle.workers;
        servers = servers < l->idle.pservers ? servers : l->idle.pservers;
        if (workers + servers > 0 && ps_attempt_grow(job->attempt, workers, servers)) {
            l->idle.workers -= workers;
            l->idle.pservers -= servers;
        }
    }
}

void ps_queue_look(ps_coordinator *c)
{
    look l = {.c = c, .now_us = ps_coordinator_now_us(c), .room = ps_room_check(&c->room)};
    ps_live *job, *next;

    if (!c->is_open || c->is_stopping) {
        return;
    }
    count_again(&l);
    for (job = c->jobs.first; job; job = next) {
        next = job->next;
        if (job->is_active || job->decisions > 0) {
            continue;
        }
        l.position++;
        if (l.now_us < job->not_before_us) {
            continue;
        }
        if (l.position > PS_QUEUE_FRONT && l.idle.workers == 0 && c->jobs.named == 0 &&
            c->jobs.hurried == 0 && !ps_recovery_is_open(job->record.job)) {
            tell_newest(c);
            break;
        }
        if (is_worth_it(&l, job)) {
            try_start(&l, job);
        }
    }
    c->named_tried = l.tries == TRIES_MAX ? l.last_tried : 0;
    if (l.position == 0) {
        grow(&l);
    }
    free(l.held);
}

bool ps_queue_may_start(ps_coordinator *c, const Psgd__V1__JobSpec *spec, uint64_t memory_bytes,
                        char *message, size_t cap)
{
    look l = {.c = c, .now_us = ps_coordinator_now_us(c)};
    const ps_want want = {.spec = spec};
    ps_member *members = members_for(spec);
    size_t count;
    bool may = has_nodes(&l, &want, members, &count, message, cap) &&
               has_memory(c, memory_bytes, message, cap);

    free(l.held);
    free(members);
    return may;
}

/* Calls try_start for a job that has just left its nodes to go on with others, before jobs that
 * have waited for longer take these nodes. */
static void go_on(ps_coordinator *c, ps_live *job)
{
    look l = {.c = c, .now_us = ps_coordinator_now_us(c), .room = ps_room_check(&c->room)};

    if (c->is_open && !c->is_stopping && !job->is_active && job->decisions == 0) {
        count_again(&l);
        try_start(&l, job);
        free(l.held);
    }
}

void ps_queue_changed(void *arg, ps_live *job, ps_job_news what)
{
    if (what == PS_JOB_QUEUED && job->returns) {
        job->returns = false;
        go_on(arg, job);
    }
    if (what == PS_JOB_QUEUED || what == PS_JOB_OVER) {
        ps_coordinator_schedule(arg);
    }
}
