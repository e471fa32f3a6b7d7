/* SPDX-License-Identifier: Apache-2.0 */
/* service_list.c - ListJobs: merges the registry's jobs with those that are not over, as far as the
 * caller may see them. */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "services/coordinator/api/service.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PAGE_BYTES_MAX = 2 << 20, /* most bytes of a page: below the limit of every gRPC client */
    UNSEEN_MAX = 2000         /* after so many jobs that the caller may not see, the page ends */
};

typedef struct listing {
    ps_task task;
    ps_held held;
    uint64_t before; /* only jobs with smaller numbers; 0: all */
    uint32_t states; /* wanted states as bits */
    size_t size;     /* most jobs of the page */
    ps_principal caller;

    /* Until the task is done, only the task uses the members below. */
    ps_record *records; /* (count), newest first */
    size_t count, room, bytes, unseen;
    uint64_t end;  /* number of the last job that was read */
    bool has_more; /* the registry may have more wanted jobs, with smaller numbers than `end` */
    ps_status status;
} listing;

/* The page that is answered: jobs of listing.records, from the registry, and jobs that are not
 * over. */
typedef struct page {
    Psgd__V1__Job **jobs; /* (size) */
    size_t count, bytes;
    /* The next page has the jobs with smaller numbers than this: the smallest one on this page or,
     * if all that was read is on it, listing.end. */
    uint64_t last;
    bool has_more;
} page;

static size_t bytes_of(const Psgd__V1__Job *job)
{
    return psgd__v1__job__get_packed_size(job) + 16;
}

static bool take_record(void *arg, ps_record *record)
{
    listing *l = arg;

    if (!ps_access_has(&l->caller, record->job->owner, PS_ACCESS_SEE)) {
        l->end = record->number;
        ps_record_fini(record);
        l->has_more = ++l->unseen == UNSEEN_MAX;
        return !l->has_more;
    }
    l->bytes += bytes_of(record->job);
    if (l->count == l->size || (l->count > 0 && l->bytes > PAGE_BYTES_MAX)) {
        ps_record_fini(record);
        l->has_more = true;
        return false;
    }
    if (l->count == l->room) {
        l->room = l->room > 0 ? 2 * l->room : 16;
        l->records = ps_xrealloc(l->records, l->room * sizeof *l->records);
    }
    l->records[l->count++] = *record;
    l->end = record->number;
    return true;
}

static void read_page(ps_task *task)
{
    listing *l = PS_CONTAINER_OF(task, listing, task);

    l->status = ps_registry_each(l->held.c->reader, l->before, l->states, take_record, l);
}

/* Returns the first job that belongs to the list, of those that are not over from `at` on to older
 * ones; NULL: none does. */
static const ps_live *next_live(const listing *l, const ps_live *at)
{
    while (at && ((l->before > 0 && at->record.number >= l->before) ||
                  !(l->states >> (unsigned)at->record.job->state & 1) ||
                  !ps_access_has(&l->caller, at->record.job->owner, PS_ACCESS_SEE))) {
        at = at->prev;
    }
    return at;
}

/* Returns the index of the first record from `at` on whose job is over, as a job that is not over
 * is shown from c->jobs; count: there is none. */
static size_t next_record(const listing *l, size_t at)
{
    while (at < l->count && ps_jobs_find(&l->held.c->jobs, l->records[at].job->id)) {
        at++;
    }
    return at;
}

/* Appends a job. Returns false if the page is full. */
static bool append(page *p, const listing *l, Psgd__V1__Job *job, uint64_t number)
{
    p->bytes += bytes_of(job);
    if (p->count == l->size || (p->count > 0 && p->bytes > PAGE_BYTES_MAX)) {
        p->has_more = true;
        return false;
    }
    p->jobs[p->count++] = job;
    p->last = number;
    return true;
}

/* Merges records and jobs that are not over, newest first. A job that is both is shown as it is
 * now. */
static void fill(const listing *l, page *p)
{
    /* Jobs with smaller numbers than this one were not read; 0: all were. */
    uint64_t end = l->has_more ? l->end : 0;
    const ps_live *live = next_live(l, l->held.c->jobs.last);
    size_t i = next_record(l, 0);
    bool has_room = true;

    while (has_room && (i < l->count || (live && live->record.number >= end))) {
        if (i == l->count || (live && live->record.number > l->records[i].number)) {
            has_room = append(p, l, live->record.job, live->record.number);
            live = next_live(l, live->prev);
        } else {
            has_room = append(p, l, l->records[i].job, l->records[i].number);
            i = next_record(l, i + 1);
        }
    }
    if (has_room && l->has_more) {
        p->has_more = true;
        p->last = end;
    }
}

static void answer(const listing *l)
{
    Psgd__V1__ListJobsResponse reply = PSGD__V1__LIST_JOBS_RESPONSE__INIT;
    page p = {.jobs = ps_xcalloc(l->size, sizeof *p.jobs)};
    char position[32], token[PS_PAGE_TOKEN_MAX];

    fill(l, &p);
    reply.n_jobs = p.count;
    reply.jobs = p.jobs;
    if (p.has_more) {
        snprintf(position, sizeof position, "j%" PRIu64, p.last);
        ps_page_token_make(token, position);
        reply.next_page_token = token;
    }
    ps_call_reply(l->held.call, &reply.base);
    free(p.jobs);
}

static void page_read(ps_task *task)
{
    listing *l = PS_CONTAINER_OF(task, listing, task);

    if (l->held.call && ps_is_ok(&l->status)) {
        answer(l);
    } else if (l->held.call) {
        ps_refuse_status(l->held.call, &l->status, NULL);
    }
    for (size_t i = 0; i < l->count; i++) {
        ps_record_fini(&l->records[i]);
    }
    free(l->records);
    ps_shares_leave(&l->held.c->reading, l->held.share);
    free(l);
}

/* Reads the request. Returns false if the call was refused. */
static bool read_request(const Psgd__V1__ListJobsRequest *q, ps_call *call, listing *l)
{
    char position[32];

    if (!ps_page_size(call, q->page_size, &l->size)) {
        return false;
    }
    if (!ps_page_token_read(q->page_token, position, sizeof position) ||
        (position[0] && sscanf(position, "j%" SCNu64, &l->before) != 1)) {
        ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_PAGE_TOKEN", NULL,
                  "page_token is not one that ListJobs gave");
        return false;
    }
    for (size_t i = 0; i < q->n_states; i++) {
        if (q->states[i] < 1 || q->states[i] > PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED) {
            ps_refuse(call, PS_INVALID_ARGUMENT, "BAD_STATE", NULL, "states[%zu] is no state", i);
            return false;
        }
        l->states |= 1u << (unsigned)q->states[i];
    }
    l->states = l->states ? l->states : UINT32_MAX;
    return true;
}

void ps_serve_list_jobs(void *service, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    ps_coordinator *c = service;
    listing *l = ps_xcalloc(1, sizeof *l);

    (void)payload;
    if (!read_request((const void *)request, call, l) ||
        !ps_may_wait(c->reads, &c->reading, "registry", call, &l->held)) {
        free(l);
        return;
    }
    l->caller = *ps_call_caller(call);
    l->task.run = read_page;
    l->task.done = page_read;
    l->status = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    ps_hold_for_read(&l->held, c, call, "", &l->task);
}
