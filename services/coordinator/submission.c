/* SPDX-License-Identifier: Apache-2.0 */
/* submission.c - see submission.h. */
#include "services/coordinator/submission.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/linked.h"
#include "common/base/log.h"
#include "common/base/sha256.h"
#include "common/base/xalloc.h"
#include "services/coordinator/domain/access.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/job_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hash_spec(const Psgd__V1__JobSpec *spec, char hex[PS_CONTENT_HASH_BYTES])
{
    size_t n = psgd__v1__job_spec__get_packed_size(spec);
    uint8_t *bytes = ps_xmalloc(n + 1);

    psgd__v1__job_spec__pack(spec, bytes);
    ps_sha256_of(bytes, n, hex);
    free(bytes);
}

/* Returns the request id as the registry stores it: with the owner before it, so that it never
 * finds a job of another owner. "" stays "". The caller frees it. */
static char *scope_request(const char *owner, const char *request_id)
{
    size_t n = strlen(owner) + strlen(request_id) + 2;
    char *text = ps_xmalloc(n);

    snprintf(text, n, "%s%s%s", request_id[0] != '\0' ? owner : "",
             request_id[0] != '\0' && owner[0] != '\0' ? " " : "", request_id);
    return text;
}

/* A submitted job that is being stored. */
struct ps_submission {
    ps_change change;
    ps_coordinator *c;
    ps_record record;
    char *request_id;
    const char *shown_id; /* the request id as the client gave it, the end of request_id */
    char content[PS_CONTENT_HASH_BYTES];
    int64_t wall_us;
    uint64_t memory_bytes; /* bytes of the coordinator's memory that its package takes */
    ps_status place;       /* argument of ps_submit: a failure refuses the job, unless is_known */
    bool is_known;         /* an earlier call with the same request id made the job */
    char job_id[PS_COORDINATOR_ID_MAX];
    ps_submitted_fn *then;
    void *arg;
    ps_submission *prev, *next; /* neighbours in the coordinator's list `submissions` */
};

/* Writes the id of the job that an earlier call with the same request id made to s->job_id. Fails
 * with NOT_FOUND if there is no such job or no request id, with ALREADY_EXISTS if the job's
 * specification is another. */
static ps_status find_request(ps_submission *s, ps_registry *r)
{
    char known[PS_CONTENT_HASH_BYTES];
    ps_status st = ps_fail(PS_NOT_FOUND, "no request");

    if (s->request_id[0] != '\0') {
        st = ps_registry_find_request(r, s->request_id, s->job_id, sizeof s->job_id, known);
    }
    s->is_known = ps_is_ok(&st);
    if (ps_is_ok(&st) && strcmp(known, s->content) != 0) {
        st = ps_fail(PS_ALREADY_EXISTS, "request_id %s made job %s, which is another", s->shown_id,
                     s->job_id);
    }
    return st;
}

static ps_status add_job(ps_change *change, ps_registry *r)
{
    ps_submission *s = PS_CONTAINER_OF(change, ps_submission, change);
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    Google__Protobuf__Timestamp time = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    ps_status st = find_request(s, r);

    if (st.code != PS_NOT_FOUND) {
        return st;
    }
    if (!ps_is_ok(&s->place)) {
        return s->place;
    }
    s->record.sequence = 1;
    st = ps_registry_add(r, &s->record, s->record.job->spec->title, s->request_id, s->content);
    if (!ps_is_ok(&st)) {
        return st;
    }
    time.seconds = s->wall_us / 1000000;
    time.nanos = (int32_t)(s->wall_us % 1000000) * 1000;
    event.sequence = s->record.sequence;
    event.time = &time;
    event.job = s->record.job;
    event.kind = PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE;
    return ps_registry_save(r, &s->record, &event);
}

static void added(ps_change *change)
{
    ps_submission *s = PS_CONTAINER_OF(change, ps_submission, change);
    ps_coordinator *c = s->c;
    ps_live *live;

    c->submitted--;
    PS_UNLINK(c->submissions, s);
    if (ps_is_ok(&change->status) && !s->is_known) {
        snprintf(s->job_id, sizeof s->job_id, "%s", s->record.job->id);
        live = ps_live_create(&s->record);
        live->memory_bytes = s->memory_bytes;
        s->record.job = NULL;
        ps_jobs_append(&c->jobs, live);
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", s->job_id)), "QUEUED");
        ps_jobs_publish(&c->jobs.board, live, PS_JOB_QUEUED);
    }
    s->then(s->arg, &change->status, s->job_id);
    ps_record_fini(&s->record);
    free(s->request_id);
    free(s);
}

static void count_job(const Psgd__V1__Job *job, const char *owner, ps_amounts *used)
{
    if (strcmp(job->owner, owner) != 0) {
        return;
    }
    used->of[PS_QUOTA_JOBS]++;
    used->of[PS_QUOTA_WORKERS] += job->spec->workers;
    used->of[PS_QUOTA_PARAMETERS] += job->parameters;
    for (size_t i = 0; i < job->n_artifacts; i++) {
        used->of[PS_QUOTA_ARTIFACT_BYTES] += job->artifacts[i]->size;
    }
}

void ps_submit_count(const ps_coordinator *c, const ps_principal *owner, ps_amounts *used)
{
    char text[PS_PRINCIPAL_TEXT_BYTES];

    ps_access_owner(owner, text);
    for (const ps_submission *s = c->submissions; s; s = s->next) {
        count_job(s->record.job, text, used);
    }
    for (const ps_live *live = c->jobs.first; live; live = live->next) {
        count_job(live->record.job, text, used);
    }
}

void ps_submit_job(ps_coordinator *c, const ps_submit *submit)
{
    char owner[PS_PRINCIPAL_TEXT_BYTES];
    ps_submission *s;
    ps_status st;

    st = ps_room_check(&c->room);
    if (ps_is_ok(&st) && c->jobs.count + c->submitted >= PS_LIVE_JOBS_MAX) {
        st = ps_fail(PS_RESOURCE_EXHAUSTED, "%d jobs are waiting or running", PS_LIVE_JOBS_MAX);
    }
    if (!ps_is_ok(&st)) {
        submit->then(submit->arg, &st, "");
        return;
    }
    s = ps_xcalloc(1, sizeof *s);
    s->change.apply = add_job;
    s->change.done = added;
    s->change.kills = c->conf.exit_at == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    s->c = c;
    s->wall_us = ps_clock_wall_us();
    s->record.job = ps_job_create(submit->spec, s->wall_us);
    s->record.job->no_queue = submit->no_queue;
    s->record.job->parameters = submit->parameters;
    ps_text_set(&s->record.job->owner, ps_access_owner(submit->owner, owner));
    if (c->jobs.queued >= PS_QUEUE_FRONT &&
        /* the next pass over the queue starts or fails a job that may not wait */
        !submit->no_queue) {
        ps_text_set(&s->record.job->reason, "WAITING_FOR_NODES");
        ps_text_set(&s->record.job->message, PS_QUEUE_BEHIND);
    }
    s->request_id = scope_request(owner, submit->request_id);
    s->shown_id = s->request_id + strlen(s->request_id) - strlen(submit->request_id);
    s->memory_bytes = submit->memory_bytes;
    s->place = submit->place;
    s->then = submit->then;
    s->arg = submit->arg;
    hash_spec(submit->spec, s->content);
    c->submitted++;
    PS_LINK_FIRST(c->submissions, s);
    ps_writer_submit(c->writer, &s->change);
}
