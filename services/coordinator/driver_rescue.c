/* SPDX-License-Identifier: Apache-2.0 */
/* driver_rescue.c - after the loss of workers or servers of a job: stores the state of the servers
 * as a checkpoint, from which the next attempt goes on. The state of a lost server is given by the
 * server that has copies of it, or computed anew of what workers have kept. If ranks have state of
 * their own, no worker may be lost: each gives its ranks where they are
 * (common/train/trainer_place.c).
 *
 * A slice of any server is at one of two clocks: the oldest that is not complete everywhere, or the
 * next one. Servers keep what slices were before their last step, so all can give their state at
 * the older clock. If that fails, the next attempt goes on from the last checkpoint.
 *
 * In a mesh whose workers are alike (ps_plan_ranks_are_alike), each worker has the state of all
 * ranks at its own clock, and all reports of ranks before it. The worker at the greatest clock
 * gives them. */
#include "services/coordinator/driver_impl.h"

#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "services/coordinator/io/checkpoint_store.h"
#include "services/coordinator/io/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How long a server has to say its clock. A worker of a mesh has less, as another one can give the
 * state in its place; if none answers, all are asked again. */
enum { STATUS_US = 5000000, MESH_STATUS_US = 1000000 };

static void end(ps_attempt *a, const ps_status *why)
{
    a->rescue.is_running = a->rescue.is_waiting = a->rescue.is_collecting = false;
    a->rescue.is_parking = false;
    if (!ps_is_ok(why)) {
        ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "goes back to its last checkpoint: %s", why->text);
    }
    ps_commit_rescued(&a->commit, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

static bool is_there(const ps_attempt *a, size_t node)
{
    return ps_commit_is_there(&a->commit.members[node]);
}

/* Returns the member that gives the state of server `node`: the server itself, or if it is lost and
 * the job has copies, the server with its copies. */
static size_t giver(const ps_attempt *a, size_t node)
{
    return is_there(a, node) || !a->placement.has_copies ? node
                                                         : ps_commit_copier(&a->commit, node);
}

static bool is_server(const ps_attempt *a, size_t node)
{
    return a->commit.members[node].role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
}

/* Returns whether the node is a server with a part of the model. Rows of sparse tables are on all
 * servers. */
static bool has_part(const ps_attempt *a, size_t node)
{
    return is_server(a, node) && (a->placement.owned_count[a->commit.members[node].rank] > 0 ||
                                  ps_plan_table_files(a->plan) > 0);
}

/* Returns whether the node is asked for its clock. */
static bool has_clock(const ps_attempt *a, size_t node)
{
    return a->plan->mesh != NULL || has_part(a, node);
}

/* Returns whether the node gives state. */
static bool has_state(const ps_attempt *a, size_t node)
{
    return a->plan->mesh != NULL ? a->rescue.rounds.has_source && node == a->rescue.rounds.source
                                 : has_part(a, node);
}

/* Returns whether the state of the server is computed anew: find_lost has put it in rescue.lost. */
static bool is_replayed(const ps_attempt *a, size_t node)
{
    for (size_t i = 0; i < a->rescue.lost_count; i++) {
        if (a->rescue.lost[i] == a->commit.members[node].rank) {
            return true;
        }
    }
    return false;
}

/* Collects the files of the next server from rescue.at on, except servers without a part of the
 * model and those whose state was computed anew; in a mesh, those of the worker at the greatest
 * clock. If none is left, stores the gathered files as a checkpoint. */
static void collect_next(ps_attempt *a)
{
    while (a->rescue.at < a->commit.count &&
           (!has_state(a, a->rescue.at) || is_replayed(a, a->rescue.at))) {
        a->rescue.at++;
    }
    if (a->rescue.at < a->commit.count) {
        a->rescue.from = giver(a, a->rescue.at);
        ps_collect_rescued(&a->nodes[a->rescue.from], a->rescue.rounds.clock,
                           a->rescue.from != a->rescue.at, a->checkpoints.folder);
    } else {
        a->rescue.is_collecting = false;
        ps_checkpoint_store_rescued(a, a->rescue.rounds.clock);
    }
}

/* Returns whether the file has what a rank has kept of its contributions: only the replay uses
 * it. */
static bool is_kept(const ps_attempt *a, const char *name)
{
    char kept[PS_CHECKPOINT_NAME_MAX];

    for (uint32_t rank = 0; rank < a->placement.rank_count; rank++) {
        ps_checkpoint_kept_name(kept, rank);
        if (strcmp(name, kept) == 0) {
            return true;
        }
    }
    return false;
}

static void add_files(ps_attempt *a, const ps_intake_file *files, size_t count)
{
    size_t had = a->checkpoints.count;

    a->checkpoints.files =
        ps_xrealloc(a->checkpoints.files, (had + count + 1) * sizeof *a->checkpoints.files);
    for (size_t i = 0; i < count; i++) {
        if (!is_kept(a, files[i].name)) {
            a->checkpoints.files[a->checkpoints.count++] = files[i];
        }
    }
}

/* --- servers whose state nobody has ------------------------------------------------- */

/* A task that computes the state of the lost servers anew (ps_replay). */
typedef struct replaying {
    ps_task task;
    ps_attempt *a;
    ps_replay_conf conf;
    uint64_t *shrinks; /* (conf.shrink_count): a copy, because the job may get more of them */
    uint64_t clock;
    ps_intake_file *files;
    size_t count;
    ps_status status;
} replaying;

static void run_replay(ps_task *task)
{
    replaying *r = PS_CONTAINER_OF(task, replaying, task);

    r->status = ps_replay(&r->conf, &r->clock, &r->files, &r->count);
}

/* Returns the clock at which the attempt began; 0 if it began anew or was adopted. */
static uint64_t first_clock(const ps_attempt *a)
{
    return a->package ? a->package->first_clock : 0;
}

static void collect_files(ps_attempt *a);
static void park_next(ps_attempt *a);

static void replayed(ps_task *task)
{
    replaying *r = PS_CONTAINER_OF(task, replaying, task);
    ps_attempt *a = r->a;

    a->rescue.is_replaying = false;
    if (!a->job || !a->rescue.is_running || a->commit.stage != PS_STAGE_RESCUE) {
        ps_checkpoint_discard_gathered(&a->nodes[0]); /* what the task has written meanwhile */
        free(r->files);
    } else if (a->rescue.is_outdated) {
        free(r->files);
        collect_files(a);
    } else if (!ps_is_ok(&r->status) || r->clock <= first_clock(a)) {
        ps_checkpoint_discard_gathered(&a->nodes[0]);
        free(r->files);
        end(a, &r->status);
    } else {
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "lost servers computed anew, up to clock %" PRIu64, r->clock);
        add_files(a, r->files, r->count);
        free(r->files);
        a->rescue.rounds.clock = r->clock;
        a->rescue.at = 0;
        collect_next(a);
    }
    free(r->shrinks);
    free(r);
    ps_attempt_settle(a);
}

/* Deals the shards of each server to its threads, as the server did. Of a variable that is sent
 * whole, a kept contribution has one encoding for all slices of a thread. */
static ps_status place_threads(ps_attempt *a)
{
    ps_status st = ps_ok();

    for (size_t i = 0; i < a->commit.count && ps_is_ok(&st); i++) {
        const ps_member *m = &a->commit.members[i];

        if (is_server(a, i) && m->threads > 1) {
            st = ps_placement_set_threads(&a->placement, m->rank, m->threads);
        }
    }
    return st;
}

static void start_replay(ps_attempt *a)
{
    const Psgd__V1__Job *job = a->job->record.job;
    replaying *r = ps_xcalloc(1, sizeof *r);
    uint64_t *shrinks;
    ps_status st = place_threads(a);

    if (!ps_is_ok(&st)) {
        ps_checkpoint_discard_gathered(&a->nodes[0]);
        free(r);
        end(a, &st);
        return;
    }
    shrinks = ps_xcalloc(job->n_table_shrinks + 1, sizeof *shrinks);
    if (job->n_table_shrinks > 0) {
        memcpy(shrinks, job->table_shrinks, job->n_table_shrinks * sizeof *shrinks);
    }
    *r = (replaying){
        .task = {.run = run_replay, .done = replayed},
        .a = a,
        .conf = {.plan = a->plan,
                 .placement = &a->placement,
                 .package = a->package,
                 .job_folder = a->folder,
                 .folder = a->checkpoints.folder,
                 .servers = a->rescue.lost,
                 .server_count = a->rescue.lost_count,
                 .until = a->rescue.rounds.clock,
                 .shrinks = shrinks,
                 .shrink_count = job->n_table_shrinks},
        .shrinks = shrinks,
        .status = ps_fail(PS_CANCELLED, "the coordinator is stopping"),
    };
    a->pending++;
    a->rescue.is_replaying = true;
    ps_tasks_submit(a->c->tasks, NULL, &r->task);
}

/* Collects what the next worker from rescue.at on has kept, and its ranks if these have state.
 * After the last worker, begins the replay if rescue.lost has servers. Else begins to collect from
 * servers. */
static void collect_next_kept(ps_attempt *a)
{
    while (a->rescue.at < a->commit.count && is_server(a, a->rescue.at)) {
        a->rescue.at++;
    }
    if (a->rescue.at < a->commit.count) {
        a->rescue.from = a->rescue.at;
        ps_collect_kept(&a->nodes[a->rescue.at], a->checkpoints.folder);
    } else if (a->rescue.lost_count > 0) {
        start_replay(a);
    } else {
        a->rescue.at = 0;
        collect_next(a);
    }
}

void ps_rescue_kept(ps_attempt_node *node, const ps_status *result, const ps_intake_file *files,
                    size_t count)
{
    ps_attempt *a = node->a;

    if (a->commit.stage == PS_STAGE_RESCUE && a->rescue.is_running && ps_is_ok(result)) {
        a->rescue.at++;
        if (a->rescue.is_parking) {
            park_next(a);
        } else {
            add_files(a, files, count);
            collect_next_kept(a);
        }
        return;
    }
    if (!a->rescue.is_parking) {
        ps_checkpoint_discard_gathered(node);
    }
    end(a, result);
}

static void find_lost(ps_attempt *a)
{
    a->rescue.lost_count = 0;
    for (size_t i = 0; i < a->commit.count; i++) {
        bool is_unheard = a->commit.conf.has_kept && a->nodes[i].is_unheard;

        if (has_part(a, i) && (is_unheard || !is_there(a, giver(a, i)))) {
            a->rescue.lost =
                ps_xrealloc(a->rescue.lost, (a->rescue.lost_count + 1) * sizeof *a->rescue.lost);
            a->rescue.lost[a->rescue.lost_count++] = a->commit.members[i].rank;
        }
    }
}

/* Collects the states of all servers; first, if some must be computed anew or ranks have state,
 * what workers have kept. */
static void collect_files(ps_attempt *a)
{
    find_lost(a);
    a->rescue.is_collecting = true;
    a->rescue.is_outdated = false;
    a->checkpoints.count = 0;
    a->rescue.at = 0;
    (a->rescue.lost_count > 0 || a->commit.conf.carries ? collect_next_kept : collect_next)(a);
}

/* Collects all files anew, as another server is lost. A replay that is running ends first. */
static void collect_anew(ps_attempt *a)
{
    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->nodes[i].saving != NULL) {
            ps_collect_stop(a->nodes[i].saving);
        }
    }
    /* the replay reads the files of ranks; replayed() collects anew */
    if (a->rescue.is_replaying) {
        a->rescue.is_outdated = true;
    } else {
        collect_files(a);
    }
}

/* --- the clock ---------------------------------------------------------------------- */

/* Returns whether the clock of the state is known: a worker of a mesh has told it, or a server, or
 * the replay finds it. False if a server that is needed has not told its clock. */
static bool knows_clock(const ps_attempt *a)
{
    if (a->plan->mesh != NULL) {
        return a->rescue.rounds.has_source;
    }
    return !a->rescue.has_failed &&
           (a->rescue.rounds.clock < UINT64_MAX || a->rescue.lost_count > 0);
}

static void ask(ps_attempt *a);

/* Called when each node that was asked for its clock has answered or has missed its deadline. Asks
 * again, collects the state at the newest common clock, or ends the rescue if there is none. */
static void collect(ps_attempt *a)
{
    ps_status st;

    if (ps_rescue_rounds_end(&a->rescue.rounds, a->plan->mesh == NULL || knows_clock(a))) {
        ask(a);
        return;
    }
    find_lost(a);
    /* when all clocks are complete, the last one is repeated: servers have what was before it */
    if (a->plan->mesh == NULL && a->rescue.rounds.clock >= a->plan->total_clocks) {
        a->rescue.rounds.clock = a->plan->total_clocks - 1;
    }
    if (!knows_clock(a)) {
        st = ps_fail(PS_UNAVAILABLE, "a node does not say at which step it is");
    } else if (a->rescue.rounds.clock <= first_clock(a)) {
        st = ps_ok(); /* servers have nothing newer than what the attempt began with */
    } else {
        st = ps_checkpoint_gather(a->checkpoints.folder, a->folder,
                                  ps_checkpoint_step(a->plan, a->rescue.rounds.clock), a->number);
        st = ps_is_ok(&st) ? ps_room_check(ps_coordinator_checkpoint_room(a->c)) : st;
    }
    if (!ps_is_ok(&st) || a->rescue.rounds.clock <= first_clock(a)) {
        end(a, &st);
        return;
    }
    collect_files(a);
}

static bool may_lack_servers(const ps_attempt *a)
{
    return a->placement.has_copies || a->commit.conf.has_kept;
}

/* Takes the clock of a worker of a mesh, which could give the state of all ranks. Ignores a clock
 * that the job does not have. */
static void take_clock(ps_attempt_node *node, const Psgd__V1__GetStatusResponse *r)
{
    ps_attempt *a = node->a;

    for (size_t i = 0; i < r->n_progress; i++) {
        uint64_t clock = r->progress[i]->weights_clock;

        if (clock <= ps_plan_last_begin(a->plan) && is_there(a, node->index)) {
            ps_rescue_rounds_take(&a->rescue.rounds, node->index, clock);
        }
    }
}

static void on_status(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    const Psgd__V1__GetStatusResponse *r = (const void *)reply;
    ps_attempt_node *node = arg;
    ps_attempt *a = node->a;

    node->asking = NULL;
    if (a->job && a->rescue.is_running && a->commit.stage == PS_STAGE_RESCUE) {
        if (a->plan->mesh != NULL) {
            if (ps_is_ok(&error->status)) {
                take_clock(node, r);
            }
        } else if (ps_is_ok(&error->status) && r->counters) {
            a->rescue.rounds.clock = r->counters->version < a->rescue.rounds.clock
                                         ? r->counters->version
                                         : a->rescue.rounds.clock;
        } else {
            /* the server may be lost; its state is then taken from a copy, or computed anew */
            node->is_unheard = true;
            a->rescue.has_failed = a->rescue.has_failed || !may_lack_servers(a);
        }
        if (--a->rescue.asked == 0) {
            collect(a);
        }
    }
    ps_attempt_settle(a);
}

static void ask(ps_attempt *a)
{
    Psgd__V1__GetStatusRequest q = PSGD__V1__GET_STATUS_REQUEST__INIT;
    int64_t answer_us = a->plan->mesh != NULL ? MESH_STATUS_US : STATUS_US;

    a->rescue.is_collecting = false;
    ps_rescue_rounds_begin(&a->rescue.rounds, a->plan->mesh != NULL ? 0 : UINT64_MAX);
    a->rescue.asked = 1; /* 1 for this loop, so that it is not 0 before all are asked */
    for (size_t i = 0; i < a->commit.count; i++) {
        ps_attempt_node *node = &a->nodes[i];

        node->is_unheard = false;
        if (!is_there(a, i)) {
            continue;
        }
        if (has_clock(a, i) && node->asking == NULL) {
            a->rescue.asked++;
            a->pending++;
            node->asking = ps_unary_start(node->channel, &psgd__v1__node_service__descriptor,
                                          "GetStatus", &q.base, answer_us, on_status, node);
        } else if (has_clock(a, i)) {
            a->rescue.has_failed = true;
        }
    }
    if (--a->rescue.asked == 0) {
        collect(a);
    }
}

/* Has the ranks of the next worker from rescue.at on stand still, so that servers get nothing more.
 * If no worker is left, asks the nodes that have state at which clock they are. */
static void park_next(ps_attempt *a)
{
    while (a->rescue.at < a->commit.count && is_server(a, a->rescue.at)) {
        a->rescue.at++;
    }
    a->rescue.is_parking = a->rescue.at < a->commit.count;
    if (a->rescue.is_parking) {
        ps_collect_parked(&a->nodes[a->rescue.at], a->checkpoints.folder);
    } else {
        ask(a);
    }
}

static void begin(ps_attempt *a)
{
    a->rescue.is_running = true;
    a->rescue.rounds = (ps_rescue_rounds){0};
    a->rescue.at = a->commit.conf.carries ? 0 : a->commit.count;
    park_next(a);
}

void ps_rescue_start(ps_attempt *a)
{
    a->rescue.has_begun = true;
    a->rescue.step = ps_job_progress(a->job->record.job)->step;
    a->rescue.is_waiting = ps_checkpoints_stop(a);
    if (!a->rescue.is_waiting) {
        begin(a);
    }
}

void ps_rescue_go_on(ps_attempt *a)
{
    if (a->job && a->rescue.is_waiting) {
        a->rescue.is_waiting = false;
        if (a->commit.stage == PS_STAGE_RESCUE) {
            begin(a);
        }
    }
}

void ps_rescue_end(ps_attempt *a)
{
    if (a->rescue.is_collecting && !a->rescue.is_replaying) { /* replayed() would discard them */
        ps_checkpoint_discard_gathered(&a->nodes[a->rescue.from]);
    }
}

/* Asks the workers of a mesh for their clocks once more, because the worker that was giving the
 * state of all ranks is lost. */
static void ask_others(ps_attempt *a, ps_attempt_node *lost)
{
    if (lost->saving != NULL) {
        ps_collect_stop(lost->saving);
    }
    ps_checkpoint_discard_gathered(lost);
    ask(a);
}

void ps_rescue_lost(ps_attempt *a)
{
    for (size_t i = 0; i < a->commit.count; i++) {
        if (!a->rescue.is_running || a->commit.stage != PS_STAGE_RESCUE) {
            return;
        }
        if (is_there(a, i)) {
            continue;
        }
        if (a->nodes[i].asking != NULL) {
            ps_unary_cancel(a->nodes[i].asking);
        } else if (!has_state(a, i)) {
            continue;
        } else if (a->plan->mesh != NULL) {
            if (a->rescue.is_collecting) {
                ask_others(a, &a->nodes[i]);
            }
        } else if (is_there(a, giver(a, i))) {
            if (a->nodes[i].saving != NULL && a->rescue.at == i) {
                ps_collect_stop(a->nodes[i].saving);
                collect_next(a);
            }
        } else if (a->rescue.is_collecting && !is_replayed(a, i)) {
            collect_anew(a);
        }
    }
}

void ps_rescue_collected(ps_attempt_node *node, const ps_status *result)
{
    ps_attempt *a = node->a;

    if (a->commit.stage == PS_STAGE_RESCUE &&
        (ps_is_ok(result) || giver(a, a->rescue.at) != node->index)) {
        /* else the server was lost after it was asked, and its copy is collected */
        a->rescue.at += ps_is_ok(result);
        collect_next(a);
        return;
    }
    ps_checkpoint_discard_gathered(node);
    if (a->commit.stage == PS_STAGE_RESCUE && result->code == PS_FAILED_PRECONDITION &&
        ps_rescue_rounds_may_repeat(&a->rescue.rounds)) {
        ask(a); /* contributions that arrived after the server told its clock have moved it on */
        return;
    }
    end(a, result);
}

void ps_rescue_stored(ps_attempt *a, const ps_status *result, uint64_t step)
{
    if (ps_is_ok(result)) {
        a->job->carries_on = a->commit.conf.carries;
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "goes on from step %" PRIu64 ", where its %s are", step,
                    a->plan->mesh != NULL ? "workers" : "servers");
    }
    end(a, result);
}
