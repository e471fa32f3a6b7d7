/* SPDX-License-Identifier: Apache-2.0 */
/* executors.c - see executors.h. A rank is in one of four states: a task starts its sandbox or
 * computes its partition; servers, if the job has some, take the records; it waits for the
 * coordinator's answer or for the time to ask again; or it has ended.
 */
#include "services/worker/executors.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/computation.h"
#include "common/rpc/tasks.h"
#include "services/worker/delivery.h"

#include <inttypes.h>
#include <stdlib.h>

/* The pause after a question that failed, how long an answer may take, and the longest pause that
 * the coordinator can ask for. */
enum { PAUSE_US = 300 * 1000, ANSWER_US = 30 * 1000 * 1000, AGAIN_MS_MAX = 10 * 1000 };

typedef struct executing {
    ps_executors *all;
    uint32_t rank;
    ps_executor *executor; /* while is_starting only the task uses it */
    bool is_starting;      /* the task starts the sandbox */
    ps_unary *call;        /* NULL: none is in progress */
    ps_timer again;
    ps_task task;
    ps_partition part; /* being computed, or computed and not taken yet; number 0: none */
    uint8_t *records;  /* (PS_PART_RECORDS_MAX) records of `part`, of which `bytes` are used */
    size_t bytes;
    ps_delivery *delivery; /* sends the records to servers; NULL: the coordinator takes them */
    ps_status status;      /* result of the last task */
    uint64_t done;         /* partitions that the coordinator has taken */
    bool has_ended;
    Psgd__V1__WorkerProgress progress;
} executing;

struct ps_executors {
    ps_executors_conf conf;
    ps_tasks *tasks;
    ps_delivery_routes *routes; /* to the servers; NULL: the job has none */
    uint32_t count;
    executing *ranks;                /* (count) */
    Psgd__V1__WorkerProgress **list; /* (count) lent */
    uint32_t running;
    bool has_sandbox; /* one of the ranks could start its sandbox */
    bool is_stopped;
    ps_status result;
    ps_event over;
};

static void ask(executing *x);

/* Notes that a rank has ended. A failure stops the other ranks. After the last rank, `over` tells
 * the owner (conf.ended). */
static void end(executing *x, ps_status st)
{
    ps_executors *all = x->all;

    x->has_ended = true;
    if (!ps_is_ok(&st) && ps_is_ok(&all->result) && !all->is_stopped) {
        all->result = st;
        ps_executors_stop(all);
    }
    if (--all->running == 0) {
        ps_loop_post(all->conf.loop, &all->over); /* posted, as the owner may be in a call */
    }
}

static void on_over(ps_event *self, bool ok)
{
    ps_executors *all = PS_CONTAINER_OF(self, ps_executors, over);

    (void)ok;
    all->conf.ended(all->conf.arg, &all->result);
}

/* ---- Tasks ---- */

/* Starts the sandbox, which takes a moment. */
static void start(ps_task *task)
{
    executing *x = PS_CONTAINER_OF(task, executing, task);
    const ps_plan *plan = x->all->conf.session->plan;
    const ps_sandbox_budget budget = ps_compute_budget(plan);

    x->status = ps_executor_start(plan->compute, &budget, &x->executor);
}

static void started(ps_task *task)
{
    executing *x = PS_CONTAINER_OF(task, executing, task);

    x->is_starting = false;
    x->all->has_sandbox = x->all->has_sandbox || ps_is_ok(&x->status);
    if (!x->all->is_stopped && x->status.code == PS_RESOURCE_EXHAUSTED &&
        (x->all->running > 1 || x->all->has_sandbox)) {
        ps_log(PS_LOG_WARN, "executors", "the other ranks here compute for rank %" PRIu32 ": %s",
               x->rank, x->status.text);
        end(x, ps_ok());
    } else if (x->all->is_stopped || !ps_is_ok(&x->status)) {
        end(x, x->status);
    } else {
        ask(x);
    }
}

static void compute(ps_task *task)
{
    executing *x = PS_CONTAINER_OF(task, executing, task);

    x->status = ps_executor_map(x->executor, &x->part, x->all->conf.session->plan->compute_params.v,
                                x->records, &x->bytes);
    if (ps_is_ok(&x->status) && x->delivery != NULL) {
        ps_delivery_split(x->delivery, x->records, x->bytes);
        x->bytes = 0; /* the coordinator gets none */
    }
}

static void computed(ps_task *task)
{
    executing *x = PS_CONTAINER_OF(task, executing, task);

    if (x->all->is_stopped) {
        end(x, ps_ok());
    } else if (x->status.code == PS_RESOURCE_EXHAUSTED) {
        end(x, x->status); /* no sandbox could be started, so the code is not to blame */
    } else if (ps_is_ok(&x->status) && x->delivery != NULL) {
        ps_delivery_start(x->delivery, x->part.number);
    } else {
        ask(x);
    }
}

static void delivered(void *arg, const ps_status *result)
{
    executing *x = arg;

    if (x->all->is_stopped) {
        end(x, ps_ok());
    } else if (ps_is_ok(result)) {
        ask(x);
    } else {
        end(x, *result);
    }
}

static void begin(executing *x, uint32_t partition)
{
    const ps_session *session = x->all->conf.session;

    ps_compute_part(session->plan, session->data, partition - 1, &x->part);
    x->task = (ps_task){.run = compute, .done = computed};
    x->status = ps_fail(PS_CANCELLED, "the worker is stopping");
    ps_tasks_submit(x->all->tasks, NULL, &x->task);
}

/* ---- Questions ---- */

static void ask_again(executing *x, int64_t pause_us)
{
    ps_loop_after(x->all->conf.loop, &x->again, pause_us);
}

static void on_again(ps_event *self, bool ok)
{
    executing *x = PS_CONTAINER_OF(self, executing, again.event);

    if (ok) {
        ask(x);
    }
}

/* Returns whether a failed question is asked again: the coordinator may be away or without room. */
static bool may_pass(ps_code code)
{
    return code == PS_UNAVAILABLE || code == PS_DEADLINE_EXCEEDED ||
           code == PS_RESOURCE_EXHAUSTED || code == PS_NOT_FOUND;
}

static void answered(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__TakePartitionResponse *r = (const void *)reply;
    executing *x = arg;

    x->call = NULL;
    if (x->all->is_stopped) {
        end(x, ps_ok());
        return;
    }
    if (!ps_is_ok(&error->status)) {
        if (may_pass(error->status.code)) {
            ask_again(x, PAUSE_US);
        } else {
            end(x, ps_wrap(error->status, "TakePartition"));
        }
        return;
    }
    if (x->part.number > 0) {
        x->part.number = 0;
        x->done++;
        ps_node_hurry(x->all->conf.node);
    }
    if (r->is_over) {
        end(x, ps_ok());
    } else if (r->partition == 0) {
        ask_again(x, (int64_t)(r->again_ms < AGAIN_MS_MAX ? r->again_ms : AGAIN_MS_MAX) * 1000 + 1);
    } else if (r->partition > x->all->conf.session->plan->spec->compute->partitions) {
        end(x, ps_fail(PS_INTERNAL, "the coordinator gives partition %u of %u", r->partition,
                       x->all->conf.session->plan->spec->compute->partitions));
    } else {
        begin(x, r->partition);
    }
}

/* Sends the records of the partition that was computed, or why it failed, if there is one, and asks
 * for another partition. */
static void ask(executing *x)
{
    const ps_executors *all = x->all;
    Psgd__V1__TakePartitionRequest q = PSGD__V1__TAKE_PARTITION_REQUEST__INIT;

    q.job_id = (char *)(uintptr_t)all->conf.session->job_id;
    q.attempt = all->conf.session->attempt;
    q.rank = x->rank;
    q.done = x->part.number;
    if (x->part.number > 0 && ps_is_ok(&x->status)) {
        q.records = (ProtobufCBinaryData){.data = x->records, .len = x->bytes};
    } else if (x->part.number > 0) {
        q.failure = x->status.text;
    }
    x->call = ps_node_take_partition(all->conf.node, &q, ANSWER_US, answered, x);
}

/* ---- All ranks ---- */

ps_status ps_executors_create(const ps_executors_conf *conf, ps_executors **out)
{
    ps_executors *all = ps_xcalloc(1, sizeof *all);
    ps_status st;

    all->conf = *conf;
    all->count = conf->session->rank_count;
    all->ranks = ps_xcalloc(all->count, sizeof *all->ranks);
    all->list = ps_xcalloc(all->count, sizeof(Psgd__V1__WorkerProgress *));
    all->over.fire = on_over;
    all->result = ps_ok();
    if (conf->session->placement.server_count > 0) {
        all->routes =
            ps_delivery_routes_create(conf->loop, conf->session, ps_node_incarnation(conf->node));
    }
    st = ps_tasks_create(conf->loop, all->count, all->count, &all->tasks);
    for (uint32_t i = 0; i < all->count && ps_is_ok(&st); i++) {
        executing *x = &all->ranks[i];

        x->all = all;
        x->rank = conf->session->ranks[i];
        x->records = ps_xmalloc(PS_PART_RECORDS_MAX);
        x->again.event.fire = on_again;
        if (all->routes != NULL) {
            x->delivery = ps_delivery_create(all->routes, x->rank, delivered, x);
        }
    }
    if (!ps_is_ok(&st)) {
        ps_executors_destroy(all);
        return st;
    }
    *out = all;
    return st;
}

void ps_executors_destroy(ps_executors *all)
{
    if (all == NULL) {
        return;
    }
    ps_tasks_destroy(all->tasks);
    for (uint32_t i = 0; i < all->count; i++) {
        ps_executor_end(all->ranks[i].executor);
        ps_delivery_destroy(all->ranks[i].delivery);
        free(all->ranks[i].records);
    }
    ps_delivery_routes_destroy(all->routes);
    free(all->ranks);
    free(all->list);
    free(all);
}

void ps_executors_start(ps_executors *all)
{
    all->running = all->count;
    for (uint32_t i = 0; i < all->count; i++) {
        executing *x = &all->ranks[i];

        x->is_starting = true;
        x->task = (ps_task){.run = start, .done = started};
        x->status = ps_fail(PS_CANCELLED, "the worker is stopping");
        ps_tasks_submit(all->tasks, NULL, &x->task);
    }
}

void ps_executors_stop(ps_executors *all)
{
    if (all->is_stopped) {
        return;
    }
    all->is_stopped = true;
    for (uint32_t i = 0; i < all->count; i++) {
        executing *x = &all->ranks[i];

        if (x->has_ended || x->is_starting) {
            continue; /* a rank that is starting ends in `started` */
        }
        ps_executor_stop(x->executor);
        if (ps_delivery_stop(x->delivery)) {
            continue; /* ends in `delivered` */
        }
        if (x->call != NULL) {
            ps_unary_cancel(x->call);
        } else if (x->again.armed) {
            ps_loop_cancel(all->conf.loop, &x->again);
            end(x, ps_ok());
        }
    }
}

size_t ps_executors_progress(ps_executors *all, Psgd__V1__WorkerProgress ***list)
{
    for (uint32_t i = 0; i < all->count; i++) {
        executing *x = &all->ranks[i];

        psgd__v1__worker_progress__init(&x->progress);
        x->progress.rank = x->rank;
        x->progress.step = x->done;
        x->progress.total_steps = all->conf.session->plan->spec->compute->partitions;
        all->list[i] = &x->progress;
    }
    *list = all->list;
    return all->count;
}
