/* SPDX-License-Identifier: Apache-2.0 */
/* driver_partitions.c - a job that computes: which partition each rank has, and which are done.
 *
 * The records of a partition are a file of the job's folder (common/script/result.h) from the
 * moment that it is done. So a partition counts once, whoever computes it and how often, and a
 * later attempt, or a coordinator that was started anew, goes on with the others.
 *
 * If the job has servers, these have the records, for the length of the attempt. The file then has
 * only the number of the attempt, as a record.
 */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/script/record.h"
#include "common/script/result.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AGAIN_MS = 100, PATH_BYTES = PS_FOLDER_MAX + PS_MERGE_NAME_BYTES + 2, MARK_MAX = 16 };

typedef enum stage { FREE, GIVEN, STORING, DONE } stage;

struct ps_partitions {
    uint32_t count, done;
    stage *at;        /* (count) of each partition */
    uint32_t *holder; /* (count) the rank that was given the partition; only if GIVEN */
    bool is_known;    /* the stored partitions have been found, and are DONE */
    bool is_looking;
};

static void path_of(char path[PATH_BYTES], const char *folder, uint32_t part)
{
    char name[PS_MERGE_NAME_BYTES];

    ps_part_name(name, part);
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
}

/* Writes the content of the file of a partition whose records servers have. Returns its bytes.
 */
static size_t mark(const ps_attempt *a, uint8_t out[MARK_MAX])
{
    const ps_scalar_value key = {.kind = PS_RECORD_INTEGER, .integer = a->number},
                          value = {.kind = PS_RECORD_TRUE};

    return (size_t)(ps_record_put(ps_record_put(out, &key), &value) - out);
}

void ps_partitions_create(ps_attempt *a)
{
    ps_partitions *p = ps_xcalloc(1, sizeof *p);

    p->count = a->plan->spec->compute->partitions;
    p->at = ps_xcalloc(p->count, sizeof *p->at);
    p->holder = ps_xcalloc(p->count, sizeof *p->holder);
    a->partitions = p;
}

void ps_partitions_destroy(ps_partitions *p)
{
    if (p) {
        free(p->at);
        free(p->holder);
        free(p);
    }
}

void ps_partitions_sum_up(const ps_attempt *a, Psgd__V1__Progress *sum)
{
    sum->step = a->partitions->done;
    sum->total_steps = a->partitions->count;
}

bool ps_partitions_are_done(const ps_attempt *a)
{
    return !a->partitions->is_known || a->partitions->done == a->partitions->count;
}

/* --- which are done already ----------------------------------------------------------- */

typedef struct looking {
    ps_task task;
    ps_attempt *a;
    uint32_t count;
    bool *is_there; /* (count) whether the file of the partition exists, with the mark */
    uint8_t mark[MARK_MAX];
    size_t mark_bytes; /* 0: the file may have any content */
    char folder[PS_FOLDER_MAX];
} looking;

static bool has_mark(const looking *l, const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, MARK_MAX, &bytes, &n);
    bool has = ps_is_ok(&st) && n == l->mark_bytes && memcmp(bytes, l->mark, n) == 0;

    free(bytes);
    return has;
}

static void look(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);
    char path[PATH_BYTES];

    for (uint32_t i = 0; i < l->count; i++) {
        path_of(path, l->folder, i);
        l->is_there[i] = access(path, F_OK) == 0 && (l->mark_bytes == 0 || has_mark(l, path));
    }
}

static void looked(ps_task *task)
{
    looking *l = PS_CONTAINER_OF(task, looking, task);
    ps_attempt *a = l->a;
    ps_partitions *p = a->partitions;

    p->is_known = task->was_run;
    for (uint32_t i = 0; i < p->count; i++) {
        p->at[i] = l->is_there[i] ? DONE : FREE;
        p->done += l->is_there[i];
    }
    if (a->job) {
        if (p->done > 0) {
            ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                        "goes on: %u of %u partitions are done", p->done, p->count);
        }
        ps_progress_servers(a, ps_clock_us());
    }
    free(l->is_there);
    free(l);
    ps_attempt_settle(a);
}

static void find_done(ps_attempt *a)
{
    looking *l;

    if (a->partitions->is_looking) {
        return;
    }
    l = ps_xcalloc(1, sizeof *l);
    l->a = a;
    l->count = a->partitions->count;
    l->is_there = ps_xcalloc(l->count, sizeof *l->is_there);
    l->mark_bytes = a->placement.server_count > 0 ? mark(a, l->mark) : 0;
    memcpy(l->folder, a->folder, sizeof l->folder);
    l->task = (ps_task){.run = look, .done = looked};
    a->partitions->is_looking = true;
    a->pending++;
    ps_tasks_submit(a->c->tasks, NULL, &l->task);
}

/* --- answers -------------------------------------------------------------------------- */

/* Returns a partition for the rank: the one that it was given already, else the first that is FREE,
 * else the first that a lost rank was given. Returns `count` if there is none. */
static uint32_t choose(const ps_attempt *a, uint32_t rank)
{
    const ps_partitions *p = a->partitions;
    uint32_t unheld = p->count, lost = p->count;

    for (uint32_t i = p->count; i-- > 0;) {
        if (p->at[i] == GIVEN && p->holder[i] == rank) {
            return i; /* the rank asks again, as the answer that gave it the partition was lost */
        }
        unheld = p->at[i] == FREE ? i : unheld;
        lost = p->at[i] == GIVEN && ps_rank_is_lost(a, p->holder[i]) ? i : lost;
    }
    return unheld < p->count ? unheld : lost;
}

/* Returns whether all servers have reduced what they have. Until then workers stay: the attempt
 * ends when they have ended. */
static bool have_servers_reduced(const ps_attempt *a)
{
    bool have_all = true;

    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *m = &a->commit.members[i];

        have_all = have_all &&
                   (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER || m->step == PS_MEMBER_OVER);
    }
    return have_all;
}

static void answer(ps_attempt *a, uint32_t rank, ps_call *call)
{
    Psgd__V1__TakePartitionResponse reply = PSGD__V1__TAKE_PARTITION_RESPONSE__INIT;
    ps_partitions *p = a->partitions;
    uint32_t part = p->is_known ? choose(a, rank) : p->count;

    if (part < p->count) {
        p->at[part] = GIVEN;
        p->holder[part] = rank;
        reply.partition = part + 1;
    } else if (p->is_known && p->done == p->count && have_servers_reduced(a)) {
        reply.is_over = true;
    } else {
        reply.again_ms = AGAIN_MS;
    }
    ps_call_reply(call, &reply.base);
}

/* --- records -------------------------------------------------------------------------- */

typedef struct storing {
    ps_task task;
    ps_attempt *a;
    ps_call *call; /* the call to be answered; NULL: it has ended */
    uint32_t part, rank;
    uint8_t *records;
    size_t bytes;
    char folder[PS_FOLDER_MAX];
    ps_status status;
} storing;

static void store(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    char path[PATH_BYTES];

    path_of(path, s->folder, s->part);
    s->status = ps_records_are_sorted(s->records, s->bytes)
                    ? ps_file_write(path, s->records, s->bytes)
                    : ps_fail(PS_INVALID_ARGUMENT, "records: %zu bytes that are no sorted records",
                              s->bytes);
}

static void stored(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    ps_attempt *a = s->a;
    ps_partitions *p = a->partitions;
    bool is_stored = ps_is_ok(&s->status);

    p->at[s->part] = is_stored ? DONE : FREE;
    p->done += is_stored;
    if (a->job && is_stored) {
        ps_progress_servers(a, ps_clock_us());
    }
    if (s->call && !a->job) {
        ps_call_fail(s->call, ps_fail(PS_UNAVAILABLE, "the attempt is over"));
    } else if (s->call && is_stored) {
        answer(a, s->rank, s->call);
    } else if (s->call) {
        ps_call_fail(s->call, ps_wrap(s->status, "partition %u", s->part + 1));
    }
    free(s->records);
    free(s);
    ps_attempt_settle(a);
}

static void call_gone(void *arg, ps_call *call)
{
    storing *s = arg;

    (void)call;
    s->call = NULL;
}

static void begin_storing(ps_attempt *a, const Psgd__V1__TakePartitionRequest *q, ps_call *call)
{
    storing *s = ps_xcalloc(1, sizeof *s);

    s->a = a;
    s->call = call;
    s->part = q->done - 1;
    s->rank = q->rank;
    s->bytes = q->records.len;
    s->records = ps_xmalloc(s->bytes + MARK_MAX);
    if (a->placement.server_count > 0) {
        s->bytes = mark(a, s->records);
    } else if (s->bytes > 0) {
        memcpy(s->records, q->records.data, s->bytes);
    }
    memcpy(s->folder, a->folder, sizeof s->folder);
    s->status = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");
    s->task = (ps_task){.run = store, .done = stored};
    a->partitions->at[s->part] = STORING;
    a->pending++;
    ps_call_on_gone(call, call_gone, s);
    ps_tasks_submit(a->c->tasks, NULL, &s->task);
}

/* --- questions ------------------------------------------------------------------------ */

/* Checks that the request is of a live process of a worker of this attempt and names one of its
 * ranks, and that the partition and the size of its records are within bounds; with servers no
 * records are allowed. */
static ps_status check_rank(const ps_attempt *a, const Psgd__V1__TakePartitionRequest *q)
{
    size_t i = ps_commit_find(&a->commit, q->node_id);
    const ps_member *m = i < a->commit.count ? &a->commit.members[i] : NULL;

    if (a->partitions && m && m->incarnation == 0) {
        return ps_fail(PS_UNAVAILABLE, "%s has sent no heartbeat to this coordinator yet", m->id);
    }
    if (!a->partitions || !m || m->is_lost || m->is_releasing || m->incarnation != q->incarnation ||
        m->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER || a->commit.stage != PS_STAGE_GOING) {
        return ps_fail(PS_ABORTED, "attempt %u does not have this node any more", q->attempt);
    }
    if (q->rank < m->rank || q->rank - m->rank >= m->rank_count) {
        return ps_fail(PS_INVALID_ARGUMENT, "rank: %u; those of the process are %u to %u", q->rank,
                       m->rank, m->rank + m->rank_count - 1);
    }
    if (q->done > a->partitions->count || q->records.len > PS_PART_RECORDS_MAX) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "done: %u of %u partitions, with %zu bytes of records; at most %d are allowed", q->done,
            a->partitions->count, q->records.len, PS_PART_RECORDS_MAX);
    }
    if (a->placement.server_count > 0 && q->records.len > 0) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "records: %zu bytes; in a job with servers none are allowed",
                       q->records.len);
    }
    return ps_ok();
}

void ps_attempt_take_partition(ps_attempt *a, const Psgd__V1__TakePartitionRequest *q,
                               ps_call *call)
{
    ps_status st = check_rank(a, q);

    if (!ps_is_ok(&st)) {
        ps_call_fail(call, st);
        return;
    }
    if (q->done > 0 && q->failure[0] != '\0') {
        st = ps_fail(PS_FAILED_PRECONDITION, "%s", PS_SHORT(q->failure, 400));
        ps_call_fail(call, ps_fail(PS_ABORTED, "the code has failed"));
        ps_commit_fail(&a->commit, "CODE_FAILED", &st, ps_coordinator_now_us(a->c));
        ps_attempt_pump(a);
        return;
    }
    if (!a->partitions->is_known) {
        find_done(a);
    }
    if (q->done > 0 && a->partitions->is_known &&
        (a->partitions->at[q->done - 1] == FREE || a->partitions->at[q->done - 1] == GIVEN)) {
        begin_storing(a, q, call);
    } else if (q->done > 0 && !a->partitions->is_known) {
        ps_call_fail(call, ps_fail(PS_UNAVAILABLE, "it is not known yet what is done"));
    } else {
        answer(a, q->rank, call);
    }
}
