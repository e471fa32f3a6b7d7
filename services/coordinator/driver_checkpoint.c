/* SPDX-License-Identifier: Apache-2.0 */
/* driver_checkpoint.c - does what domain/checkpoints.h decides: names checkpoints by heartbeats,
 * collects the files of all nodes one after the other while the job trains, and stores them.
 *
 * Nothing that goes wrong here ends the job: the checkpoint is skipped, the job says so and trains
 * on. */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_checkpoints_begin(ps_attempt *a)
{
    uint64_t first = a->package != NULL ? a->package->first_clock : 0;

    if (ps_plan_checkpoint_lacks(a->plan) != NULL || a->checkpoints.is_running) {
        return;
    }
    a->checkpoints.is_running = true;
    /* The clock is the first at which all nodes take a checkpoint by themselves. It is 0 (none) if
     * ranks are not in step, or if the attempt was adopted, as it is not known yet how far its
     * nodes are. A clock is then named when heartbeats have told that. */
    ps_cuts_init(
        &a->checkpoints.cuts, a->commit.count,
        a->package != NULL && ps_plan_is_in_step(a->plan) ? ps_checkpoint_next(a->plan, first) : 0,
        ps_coordinator_now_us(a->c));
    if (!ps_plan_is_in_step(a->plan)) {
        a->checkpoints.cuts.done = first;
    } else if (a->package == NULL) {
        ps_checkpoints_look(a);
    }
}

void ps_checkpoints_fini(ps_attempt *a)
{
    if (a->checkpoints.is_running) {
        ps_cuts_fini(&a->checkpoints.cuts);
    }
    free(a->checkpoints.files);
    a->checkpoints.files = NULL;
    free(a->checkpoints.scores);
    a->checkpoints.scores = NULL;
}

void ps_checkpoints_evaluated(ps_attempt *a, uint64_t step, double value)
{
    size_t count = a->checkpoints.score_count;

    if (a->plan->spec->checkpoint == NULL || a->plan->spec->checkpoint->best_by[0] == '\0' ||
        !isfinite(value) || ps_plan_checkpoint_lacks(a->plan) != NULL) {
        return;
    }
    a->checkpoints.scores =
        ps_xrealloc(a->checkpoints.scores, (count + 1) * sizeof *a->checkpoints.scores);
    a->checkpoints.scores[count].step = step;
    a->checkpoints.scores[count].value = value;
    a->checkpoints.score_count++;
}

/* Fills in the value of checkpoint.best_by in the last evaluation up to the checkpoint's step, if
 * there was one. */
static void fill_score(const ps_attempt *a, ps_checkpoint_facts *facts)
{
    for (size_t i = 0; i < a->checkpoints.score_count; i++) {
        if (a->checkpoints.scores[i].step <= facts->step) {
            snprintf(facts->metric, sizeof facts->metric, "%s", a->plan->spec->checkpoint->best_by);
            facts->is_cost = a->plan->best_is_cost;
            facts->value = a->checkpoints.scores[i].value;
            facts->evaluated_step = a->checkpoints.scores[i].step;
        }
    }
}

static void forget_files(ps_attempt *a)
{
    free(a->checkpoints.files);
    a->checkpoints.files = NULL;
    a->checkpoints.count = 0;
}

static uint64_t step_of(const ps_attempt *a)
{
    return ps_checkpoint_step(a->plan, a->checkpoints.cuts.clock);
}

/* Shows in a RUNNING job why a checkpoint was skipped or is not taken. NULL: one was stored; shows
 * the commit's reason and message again, if the job still shows that one was skipped. */
static void tell(ps_attempt *a, const char *why)
{
    if (why == NULL && !a->checkpoints.has_skipped) {
        return;
    }
    a->checkpoints.has_skipped = why != NULL;
    if (a->commit.state != PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        return;
    }
    ps_live_tell(a->job, why != NULL ? "CHECKPOINT_SKIPPED" : a->commit.reason,
                 why != NULL ? why : a->commit.message);
}

/* --- those who wait ------------------------------------------------------------------ */

/* Tells the result to those for whom the checkpoint at `clock` is late enough: wait->after is less.
 * Somebody who wants workers to stay at the checkpoint is told of success only if workers `stayed`
 * at this one. Reads the list from its beginning after each call, which may end the attempt and so
 * change the list. */
static void tell_waits(ps_attempt *a, uint64_t clock, bool stayed, const ps_status *result,
                       uint64_t step)
{
    ps_checkpoint_wait **at = &a->checkpoints.waits, *wait;

    while ((wait = *at) != NULL) {
        if (wait->after >= clock || (ps_is_ok(result) && wait->stays && !stayed)) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        ps_loop_cancel(a->c->loop, &wait->timer);
        wait->told(wait, result, step);
        at = &a->checkpoints.waits;
    }
}

void ps_checkpoints_tell(ps_attempt *a, const ps_status *why)
{
    tell_waits(a, UINT64_MAX, false, why, 0);
}

static void wait_is_over(ps_event *event, bool ok)
{
    ps_checkpoint_wait *wait = PS_CONTAINER_OF(event, ps_checkpoint_wait, timer.event);
    ps_checkpoint_wait **at = &wait->a->checkpoints.waits;
    ps_status late = ps_fail(PS_DEADLINE_EXCEEDED, "no checkpoint was stored in time");

    if (!ok) {
        return;
    }
    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
    wait->told(wait, &late, 0);
}

static void skip(ps_attempt *a, const ps_status *why)
{
    char text[PS_STATUS_TEXT_BYTES + 80];

    snprintf(text, sizeof text, "checkpoint of step %" PRIu64 " skipped: %s", step_of(a),
             why->text);
    ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)), "%s", text);
    ps_job_progress(a->job->record.job)->checkpoints_skipped++;
    tell(a, text);
    ps_cuts_give_up(&a->checkpoints.cuts, ps_coordinator_now_us(a->c));
    a->checkpoints.chain.clock = 0; /* whatever it was, the next one does not depend on it */
    forget_files(a);
    tell_waits(a, a->checkpoints.cuts.clock, false, why, 0);
}

/* --- storing ------------------------------------------------------------------------ */

/* A task that stores a checkpoint, or removes the gathered files of one that was given up. */
typedef struct storing {
    ps_task task;
    ps_attempt *a;
    char job_folder[PS_FOLDER_MAX], gathered[PS_FOLDER_MAX];
    ps_checkpoint_conf conf;
    ps_intake_file *files;
    ps_checkpoint_rows rows;
    ps_status status;
} storing;

static void run_store(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);

    s->status = ps_checkpoint_store(&s->conf, &s->rows);
}

static void rescued(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    ps_attempt *a = s->a;

    if (a->job) {
        ps_rescue_stored(a, &s->status, s->conf.facts.step);
    }
    free(s->files);
    free(s);
    ps_attempt_settle(a);
}

static void stored(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    ps_attempt *a = s->a;
    bool stayed = a->checkpoints.cuts.stays;

    if (a->job && !ps_is_ok(&s->status)) {
        skip(a, &s->status);
    } else if (a->job) {
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "checkpoint of step %" PRIu64 " stored", s->conf.facts.step);
        ps_job_progress(a->job->record.job)->checkpoints++;
        a->job->checkpoint_wall_us = ps_clock_wall_us();
        ps_cuts_stored(&a->checkpoints.cuts, ps_coordinator_now_us(a->c));
        ps_chain_stored(&a->checkpoints.chain, s->conf.facts.clock, s->rows.is_whole,
                        s->rows.bytes);
        tell(a, NULL);
        tell_waits(a, s->conf.facts.clock, stayed, &s->status, s->conf.facts.step);
    }
    free(s->files);
    free(s);
    ps_rescue_go_on(a);
    ps_attempt_settle(a);
}

static void run_discard(ps_task *task)
{
    ps_checkpoint_discard(PS_CONTAINER_OF(task, storing, task)->gathered);
}

static void discarded(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    ps_attempt *a = s->a;

    free(s);
    ps_attempt_settle(a);
}

static void submit(ps_attempt *a, storing *s, ps_strand *strand, void (*run)(ps_task *task),
                   void (*done)(ps_task *task))
{
    s->a = a;
    s->task = (ps_task){.run = run, .done = done};
    s->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    snprintf(s->job_folder, sizeof s->job_folder, "%s", a->folder);
    snprintf(s->gathered, sizeof s->gathered, "%s", a->checkpoints.folder);
    a->pending++;
    ps_tasks_submit(a->c->tasks, strand, &s->task);
}

void ps_checkpoint_discard_gathered(ps_attempt_node *node)
{
    submit(node->a, ps_xcalloc(1, sizeof(storing)), &node->files, run_discard, discarded);
}

static void discard(ps_attempt *a)
{
    ps_checkpoint_discard_gathered(&a->nodes[a->checkpoints.cuts.at]);
}

static void run_drop(ps_task *task)
{
    ps_checkpoint_drop_passing(PS_CONTAINER_OF(task, storing, task)->job_folder);
}

static void dropped(ps_task *task)
{
    storing *s = PS_CONTAINER_OF(task, storing, task);
    ps_attempt *a = s->a;

    free(s);
    if (a->job) {
        ps_archive_end(a);
    }
    ps_attempt_settle(a);
}

void ps_checkpoints_drop_passing(ps_attempt *a)
{
    submit(a, ps_xcalloc(1, sizeof(storing)), NULL, run_drop, dropped);
}

void ps_checkpoints_end(ps_attempt *a, const ps_status *why)
{
    ps_checkpoints_tell(a, why);
    if (a->checkpoints.is_running && a->checkpoints.cuts.stage == PS_CUT_COLLECTING) {
        discard(a);
        ps_cuts_give_up(&a->checkpoints.cuts, ps_coordinator_now_us(a->c));
    }
}

bool ps_checkpoints_stop(ps_attempt *a)
{
    ps_status lost = ps_fail(PS_FAILED_PRECONDITION, "job %s has lost a worker", a->job_id);
    bool is_storing = a->checkpoints.is_running && a->checkpoints.cuts.stage == PS_CUT_STORING;

    for (size_t i = 0; i < a->commit.count; i++) {
        if (a->nodes[i].saving) {
            ps_collect_stop(a->nodes[i].saving);
        }
    }
    if (is_storing) {
        ps_checkpoints_tell(a, &lost);
    } else {
        ps_checkpoints_end(a, &lost);
    }
    return is_storing;
}

/* Starts a task that stores the gathered files as a checkpoint at `clock`, and then calls `done`.
 * Takes the list a->checkpoints.files. */
static void start_store(ps_attempt *a, uint64_t clock, bool is_passing, void (*done)(ps_task *task))
{
    storing *s = ps_xcalloc(1, sizeof *s);

    s->files = a->checkpoints.files;
    a->checkpoints.files = NULL;
    s->conf = (ps_checkpoint_conf){
        .job_folder = s->job_folder,
        .gathered = s->gathered,
        .plan = a->plan,
        .placement = &a->placement,
        .facts = {.step = ps_checkpoint_step(a->plan, clock),
                  .clock = clock,
                  .is_passing = is_passing,
                  .plan_hash = ps_plan_hash(a->plan),
                  .ranks = a->plan->spec->workers,
                  .seed = a->plan->spec->seed,
                  .version = PS_VERSION},
        .files = s->files,
        .count = a->checkpoints.count,
        .base = a->checkpoints.chain.clock,
    };
    snprintf(s->conf.facts.job_id, sizeof s->conf.facts.job_id, "%s", a->job_id);
    if (a->package != NULL) {
        snprintf(s->conf.facts.data, sizeof s->conf.facts.data, "%s", a->package->files.sha256);
    }
    fill_score(a, &s->conf.facts);
    a->checkpoints.count = 0;
    submit(a, s, NULL, run_store, done);
}

void ps_checkpoint_store_rescued(ps_attempt *a, uint64_t clock)
{
    start_store(a, clock, true, rescued);
}

/* --- collecting --------------------------------------------------------------------- */

static void collect_next(ps_attempt *a)
{
    const ps_cuts *cuts = &a->checkpoints.cuts;

    ps_collect_checkpoint(&a->nodes[cuts->at], cuts->clock, a->checkpoints.folder);
}

static void start_collecting(ps_attempt *a)
{
    ps_status st = ps_checkpoint_gather(a->checkpoints.folder, a->folder, step_of(a), a->number);

    if (ps_is_ok(&st)) {
        st = ps_room_check(ps_coordinator_checkpoint_room(a->c));
    }
    if (!ps_is_ok(&st)) {
        skip(a, &st);
        return;
    }
    forget_files(a);
    collect_next(a);
}

void ps_checkpoint_collected(ps_attempt_node *node, const ps_status *result,
                             const ps_intake_file *files, size_t count)
{
    ps_attempt *a = node->a;
    size_t had = a->checkpoints.count;
    ps_status why;

    if (!ps_is_ok(result) && a->rescue.is_running) {
        ps_rescue_collected(node, result);
        return;
    }
    if (!ps_is_ok(result)) {
        why = ps_wrap(*result, "files of %s", ps_attempt_node_member(node)->id);
        discard(a);
        skip(a, &why);
        return;
    }
    a->checkpoints.files =
        ps_xrealloc(a->checkpoints.files, (had + count + 1) * sizeof *a->checkpoints.files);
    memcpy(a->checkpoints.files + had, files, count * sizeof *files);
    a->checkpoints.count += count;
    if (a->rescue.is_running) {
        ps_rescue_collected(node, result);
    } else if (ps_cuts_collected(&a->checkpoints.cuts)) {
        collect_next(a);
    } else {
        start_store(a, a->checkpoints.cuts.clock,
                    a->plan->spec->checkpoint == NULL && ps_cuts_is_passing(&a->checkpoints.cuts),
                    stored);
    }
}

/* --- naming ------------------------------------------------------------------------- */

uint64_t ps_attempt_clock(const ps_attempt *a)
{
    const Psgd__V1__Progress *progress = a->job->record.job->progress;

    return ps_checkpoint_clock(a->plan, progress != NULL ? progress->step : 0);
}

uint64_t ps_attempt_clock_ahead(const ps_attempt *a)
{
    const Psgd__V1__Progress *progress = a->job->record.job->progress;
    uint64_t step = progress != NULL ? progress->step : 0, clock = ps_attempt_clock(a);
    double steps_a_clock = clock > 0 ? (double)step / (double)clock : 1;

    return clock + ps_cuts_ahead(&a->checkpoints.cuts, ps_attempt_rate(a, step) / steps_a_clock,
                                 a->c->conf.heartbeat_us);
}

/* Returns the clock for a checkpoint that is named now. If ranks are in step, no rank will have
 * begun that clock when it hears of the checkpoint. If not, each rank saves itself as soon as it
 * hears of the checkpoint, and the clock only names it: the clock that the slowest rank has
 * reached, but at least one after that of the last checkpoint (`done`), and more than one after it
 * if checkpoints were missed. */
static uint64_t clock_ahead(const ps_attempt *a)
{
    const ps_cuts *cuts = &a->checkpoints.cuts;
    uint64_t clock, least;

    if (ps_plan_is_in_step(a->plan)) {
        return ps_attempt_clock_ahead(a);
    }
    clock = ps_attempt_clock(a);
    least = cuts->done + ps_cuts_ahead(cuts, 0, 0) / 2; /* 1, and more after misses */
    return clock > least ? clock : least;
}

static int64_t every_us(const ps_attempt *a)
{
    const Psgd__V1__CheckpointSpec *spec = a->plan->spec->checkpoint;

    return spec != NULL ? (int64_t)(spec->every_seconds * 1e6) : 0;
}

static ps_status ends_before(const ps_attempt *a)
{
    return ps_fail(PS_FAILED_PRECONDITION, "job %s ends before all nodes could take a checkpoint",
                   a->job_id);
}

static ps_status does_not_train(const ps_attempt *a)
{
    return ps_fail(PS_FAILED_PRECONDITION, "job %s does not train", a->job_id);
}

/* Returns whether the job has an earlier checkpoint, from which a rank that cannot save itself now
 * can go on. */
static bool has_stored(const ps_attempt *a)
{
    return a->job->record.job->progress != NULL && a->job->record.job->progress->checkpoints > 0;
}

/* Returns OK, or why a checkpoint cannot have all ranks: a rank is lost, and the job has no earlier
 * checkpoint to take it from. Returns OK if ranks are in step: there a loss ends the attempt. */
static ps_status find_lost(const ps_attempt *a)
{
    for (uint32_t r = 0; r < a->placement.rank_count && !ps_plan_is_in_step(a->plan); r++) {
        if (ps_rank_is_lost(a, r) && !has_stored(a)) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "rank %" PRIu32 " is lost, with %s, and no checkpoint before has it", r,
                           PS_SHORT(a->commit.members[a->told[r].member].id, 40));
        }
    }
    return ps_ok();
}

/* Returns OK, or why no checkpoint can begin: find_lost finds a lost rank, or ranks are not in
 * step, one of them has done all its steps, and the job has no earlier checkpoint to take it
 * from. */
static ps_status find_missing(const ps_attempt *a)
{
    ps_status st = find_lost(a);

    for (uint32_t r = 0; ps_is_ok(&st) && r < a->placement.rank_count; r++) {
        const Psgd__V1__WorkerProgress *told = a->told[r].progress;

        if (!ps_plan_is_in_step(a->plan) && told != NULL && told->step >= a->plan->total_steps &&
            !has_stored(a)) {
            st = ps_fail(PS_OUT_OF_RANGE,
                         "rank %" PRIu32 " has done all of its steps, and no checkpoint before has "
                         "it",
                         r);
        }
    }
    return st;
}

/* Skips the checkpoint that is named if find_lost finds a lost rank, or if a node has not taken it
 * within step_ms of its naming. Does nothing if ranks are in step, because the checkpoint's step
 * may be far ahead then. */
static void check_named(ps_attempt *a)
{
    const ps_cuts *cuts = &a->checkpoints.cuts;
    int64_t limit_ms = a->plan->spec->timeouts->step_ms;
    ps_status st = find_lost(a);
    size_t late = 0;

    if (cuts->stage != PS_CUT_NAMED || ps_plan_is_in_step(a->plan)) {
        return;
    }
    if (ps_is_ok(&st) && ps_coordinator_now_us(a->c) - a->checkpoints.named_us > limit_ms * 1000) {
        while (late + 1 < cuts->count && ps_cuts_has(cuts, late)) {
            late++;
        }
        st = ps_fail(PS_DEADLINE_EXCEEDED, "%s has not taken it within %" PRId64 " ms (step_ms)",
                     PS_SHORT(a->commit.members[late].id, 40), limit_ms);
    }
    if (!ps_is_ok(&st)) {
        skip(a, &st);
    }
}

/* Shows once in the job, if its specification asks for checkpoints, that none is taken because a
 * rank is lost. Shows nothing if the reason `why` is a rank that has done all of its steps. */
static void tell_missing(ps_attempt *a, const ps_status *why)
{
    char text[PS_STATUS_TEXT_BYTES + 40];

    if (!a->checkpoints.has_skipped && ps_attempt_has_checkpoints(a) &&
        why->code != PS_OUT_OF_RANGE) {
        snprintf(text, sizeof text, "no checkpoint is taken: %s", why->text);
        tell(a, text);
    }
}

/* Names the next checkpoint if one is wanted, or due by time or by steps. If one is wanted and
 * cannot be taken any more, tells those who wait. Names nothing later than the one that is named
 * already, and nothing while files of one are collected or stored. */
static void name_next(ps_attempt *a)
{
    ps_cuts *cuts = &a->checkpoints.cuts;
    ps_status missing = find_missing(a);
    uint64_t ahead, clock = 0;

    check_named(a);
    if (ps_checkpoints_are_silent(a)) {
        return;
    }
    if (a->commit.is_adopted && !ps_plan_is_in_step(a->plan) && cuts->done == 0) {
        /* Some nodes may have taken a checkpoint that the earlier coordinator named, and others may
         * have dropped it. With `done` beyond its clock all drop it, and a later clock is named.
         * While heartbeats have not told the clock, `done` stays 0. */
        cuts->done = ps_attempt_clock(a) > 0 ? ps_attempt_clock(a) + 1 : 0;
        return;
    }
    ahead = clock_ahead(a);
    if (cuts->stage == PS_CUT_NONE && cuts->is_wanted &&
        (ahead >= a->plan->total_clocks || !ps_is_ok(&missing))) {
        ps_status why = ps_is_ok(&missing) ? ends_before(a) : missing;

        cuts->is_wanted = false;
        ps_checkpoints_tell(a, &why);
    } else if (!ps_is_ok(&missing)) {
        tell_missing(a, &missing);
    } else if (ps_cuts_is_due(cuts, every_us(a), ps_coordinator_now_us(a->c))) {
        clock = ahead;
    } else if (cuts->stage == PS_CUT_NONE) {
        clock = ps_plan_is_in_step(a->plan) ? ps_checkpoint_next(a->plan, ahead - 1)
                                            : ps_checkpoint_last(a->plan, ps_attempt_clock(a));
    }
    if (cuts->stage == PS_CUT_NAMED && clock >= cuts->clock) {
        return; /* the checkpoint that is named already comes first */
    }
    if (clock > cuts->done && clock < a->plan->total_clocks) {
        ps_cuts_name(cuts, clock);
        a->checkpoints.named_us = ps_coordinator_now_us(a->c);
    }
}

static bool is_training(const ps_attempt *a)
{
    return a->checkpoints.is_running && a->commit.stage == PS_STAGE_GOING &&
           a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
}

static bool is_server(const ps_attempt *a, size_t node)
{
    return a->commit.members[node].role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
}

static void last_is_told(ps_checkpoint_wait *wait, const ps_status *result, uint64_t step)
{
    ps_attempt_node *node = PS_CONTAINER_OF(wait, ps_attempt_node, last.wait);

    if (ps_is_ok(result) && wait->stays) {
        ps_attempt_drain(node, step);
        return;
    }
    node->last.is_told = true;
    node->last.step = ps_is_ok(result) ? step : 0;
}

/* Returns whether recovery.on_worker_loss or on_server_loss has the job restart after the loss of a
 * node of this role. Then it can go on without this node when it stops. */
static bool goes_on_without(const ps_attempt_node *node)
{
    const Psgd__V1__RecoverySpec *recovery = node->a->plan->spec->recovery;

    return ps_loss_restarts(is_server(node->a, node->index) ? recovery->on_server_loss
                                                            : recovery->on_worker_loss);
}

/* Asks for a last checkpoint, once, because the node was told to stop. Workers stay at the
 * checkpoint if the job can go on from it without the node. */
static void take_last(ps_attempt_node *node)
{
    if (!node->last.is_asked) {
        node->last.is_asked = true;
        node->last.wait.told = last_is_told;
        node->last.wait.stays = goes_on_without(node) && ps_plan_move_lacks(node->a->plan) == NULL;
        ps_attempt_await_checkpoint(node->a, 0, &node->last.wait);
    }
}

/* Returns whether the node is told of the checkpoint that is named; false if none is. Workers are
 * told at once, and servers too if ranks are in step and workers do not stay. Otherwise servers are
 * told when all workers have it. Then, if workers stay, nobody sends servers anything of that
 * clock. If ranks are not in step, servers have all that ranks had sent when they saved
 * themselves. */
static bool is_told(const ps_attempt *a, size_t node)
{
    const ps_cuts *cuts = &a->checkpoints.cuts;
    bool have_all = true, waits = cuts->stays || !ps_plan_is_in_step(a->plan);

    for (size_t i = 0; i < cuts->count; i++) {
        have_all = have_all && (ps_cuts_has(cuts, i) || is_server(a, i));
    }
    return cuts->stage == PS_CUT_NAMED && (have_all || !waits || !is_server(a, node));
}

/* Notes which workers cannot save their ranks any more, as they are lost or have ended. A
 * checkpoint takes these ranks from the one before it. Does nothing if ranks are in step. */
static void note_away(ps_attempt *a)
{
    for (size_t i = 0; i < a->commit.count && !ps_plan_is_in_step(a->plan); i++) {
        const ps_member *m = &a->commit.members[i];

        if (!is_server(a, i) && (m->is_lost || m->step == PS_MEMBER_OVER)) {
            ps_cuts_leave(&a->checkpoints.cuts, i);
        }
    }
}

/* Notes when the first node says that it has the checkpoint `has`, if that is the named one and
 * workers stay at it. The first one is a worker. */
static void note_stay(ps_attempt *a, uint64_t has)
{
    const ps_cuts *cuts = &a->checkpoints.cuts;

    if (cuts->stage == PS_CUT_NAMED && cuts->stays && has == cuts->clock &&
        has != a->move.stood_clock) {
        a->move.stood_clock = has;
        a->move.stood_wall_us = ps_clock_wall_us();
    }
}

void ps_checkpoints_beat(ps_attempt *a, size_t node, const Psgd__V1__HeartbeatRequest *beat,
                         Psgd__V1__HeartbeatResponse *answer)
{
    ps_cuts *cuts = &a->checkpoints.cuts;
    ps_status ended = does_not_train(a);

    if (!is_training(a)) {
        ps_checkpoints_tell(a, &ended);
        answer->checkpoint_stays = a->commit.is_move;
        return;
    }
    ps_checkpoints_adopt(a, beat->checkpoint);
    note_stay(a, beat->checkpoint);
    note_away(a);
    if (ps_cuts_told(cuts, node, beat->checkpoint, beat->checkpoint_missed,
                     ps_coordinator_now_us(a->c))) {
        start_collecting(a);
    }
    name_next(a);
    answer->checkpoint = is_told(a, node) ? cuts->clock : 0;
    answer->checkpoint_base = answer->checkpoint > 0 ? a->checkpoints.chain.clock : 0;
    answer->checkpoint_stays = cuts->stage != PS_CUT_NONE && cuts->stays;
    answer->checkpoint_done = cuts->done;
    if (beat->wants_checkpoint) {
        take_last(&a->nodes[node]);
    }
    answer->checkpoint_settled = a->nodes[node].last.is_told;
    answer->checkpoint_step = a->nodes[node].last.step;
}

/* Does what ps_attempt_take_checkpoint does. `stays`: workers stop at the checkpoint. */
static ps_status ask_for(ps_attempt *a, bool stays, uint64_t *clock)
{
    const char *lacks = stays ? ps_plan_move_lacks(a->plan) : ps_plan_checkpoint_lacks(a->plan);
    ps_cuts *cuts = &a->checkpoints.cuts;
    ps_status missing = find_missing(a);

    if (lacks != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "job %s cannot %s: %s", a->job_id,
                       stays ? "stop at a checkpoint" : "have checkpoints", lacks);
    }
    if (!is_training(a)) {
        return does_not_train(a);
    }
    if (!ps_is_ok(&missing)) {
        return missing;
    }
    if (clock_ahead(a) >= a->plan->total_clocks) {
        return ends_before(a);
    }
    if (stays && !cuts->wants_stay) {
        a->move.asked_wall_us = ps_clock_wall_us();
    }
    (void)ps_cuts_want(cuts, stays);
    name_next(a);
    /* a checkpoint that is being collected is older than this request: another is named when it is
     * stored */
    *clock = cuts->stage == PS_CUT_NAMED ? cuts->clock : clock_ahead(a);
    return ps_ok();
}

ps_status ps_attempt_take_checkpoint(ps_attempt *a, uint64_t *clock)
{
    return ask_for(a, false, clock);
}

void ps_attempt_await_checkpoint(ps_attempt *a, int64_t within_us, ps_checkpoint_wait *wait)
{
    uint64_t clock;
    ps_status st = ask_for(a, wait->stays, &clock);

    wait->a = a;
    if (!ps_is_ok(&st)) {
        wait->told(wait, &st, 0);
        return;
    }
    wait->after = a->checkpoints.cuts.wanted_after;
    wait->timer.event.fire = wait_is_over;
    wait->next = a->checkpoints.waits;
    a->checkpoints.waits = wait;
    if (within_us > 0) {
        ps_loop_after(a->c->loop, &wait->timer, within_us);
    }
}

bool ps_attempt_has_checkpoints(const ps_attempt *a)
{
    return a->plan->spec->checkpoint != NULL;
}
