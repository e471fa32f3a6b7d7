/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - carries out the decisions of commit.h: the life of an attempt. */
#include "services/coordinator/driver_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"
#include "services/coordinator/domain/recoveries.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ABORT_US = 5000000,
    /* limit for finding data and model, after which the job fails; large files on slow disks take
     * minutes */
    FIND_US = 600000000,
    MAKE_US = 60000000, /* limit for making the weights; 1 us more for each VALUES_PER_US of them */
    VALUES_PER_US = 5
};

static int64_t us_of_ms(uint32_t ms)
{
    return (int64_t)ms * 1000;
}

static void on_timer(ps_event *event, bool ok)
{
    ps_attempt *a = PS_CONTAINER_OF(event, ps_attempt, timer.event);

    if (!ok || !a->job) {
        return;
    }
    ps_commit_tick(&a->commit, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

static void conf_of(const ps_attempt *a, ps_commit_conf *conf)
{
    const Psgd__V1__TimeoutSpec *t = a->plan->spec->timeouts;
    const Psgd__V1__RecoverySpec *recovery = a->plan->spec->recovery;
    const Psgd__V1__Job *msg = a->job->record.job;
    bool may_restart = msg->restarts < recovery->max_restarts;
    bool is_first = !ps_recovery_is_open(msg); /* true: no recovery is under way */
    int64_t beats_us = PS_LEASE_BEATS * a->c->conf.heartbeat_us;

    *conf = (ps_commit_conf){
        .find_us = FIND_US,
        .can_commit_us = us_of_ms(t->can_commit_ms),
        .make_us = MAKE_US + (int64_t)(a->plan->layout.param_count / VALUES_PER_US),
        /* ps_commit_packaged replaces it when the size of the packages is known */
        .pre_commit_us = us_of_ms(t->pre_commit_cap_ms),
        .ready_us = us_of_ms(t->ready_ms),
        .lease_us = us_of_ms(t->lease_ms),
        .collect_us = us_of_ms(t->collect_ms),
        .abort_us = ABORT_US,
        .survives_loss = a->plan->policy->survives_loss,
        .nodes_are_named = a->plan->spec->n_nodes > 0 && is_first,
        .fails_if_busy = msg->no_queue && is_first,
        .may_repeat = msg->interrupted < PS_INTERRUPTED_MAX,
        .restarts_workers = may_restart && ps_loss_restarts(recovery->on_worker_loss),
        .restarts_servers = may_restart && ps_loss_restarts(recovery->on_server_loss),
        .rescues = ps_plan_rescues(a->plan),
        .carries = ps_plan_carries(a->plan),
        .has_copies = ps_plan_has_copies(a->plan),
        .has_kept = ps_plan_kept_bytes(a->plan) > 0 && !ps_plan_has_copies(a->plan),
        .rolls_back = ps_attempt_may_roll_back(a),
        .fails_alike = ps_recovery_fails_alike(msg),
    };
    /* the job was accepted by a coordinator with shorter heartbeats */
    if (conf->lease_us < beats_us) {
        ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "lease_ms %" PRIu32 " is less than %d heartbeats of %lld ms: %lld counts",
                    t->lease_ms, PS_LEASE_BEATS, (long long)(a->c->conf.heartbeat_us / 1000),
                    (long long)(beats_us / 1000));
        conf->lease_us = beats_us;
    }
    conf->late_us = beats_us;
    conf->silent_us =
        conf->lease_us < us_of_ms(t->step_ms) ? conf->lease_us / 2 : us_of_ms(t->step_ms) / 2;
    if (conf->silent_us < beats_us) {
        conf->silent_us = beats_us;
    }
}

/* Returns how many microseconds the nodes have to take the packages. It counts the bytes of all
 * packages together, because all leave through the coordinator's own link. */
static int64_t pre_commit_us(const ps_attempt *a)
{
    uint64_t bytes =
        a->plan->spec->workers * ps_plan_package_bytes(a->plan, a->plan->layout.slice_count,
                                                       a->plan->layout.param_count) +
        ps_package_data_bytes(a->package, a->plan->spec->workers);

    for (uint32_t rank = 0; rank < a->plan->spec->pservers; rank++) {
        size_t values = ps_placement_value_count(&a->placement, rank);

        if (a->placement.has_copies) {
            values +=
                ps_placement_value_count(&a->placement, ps_placement_copied(&a->placement, rank));
        }
        bytes +=
            ps_plan_package_bytes(a->plan, ps_placement_held_count(&a->placement, rank), values);
        /* each server is sent every file whole, and keeps its own part of it */
        for (size_t i = 0; i < a->package->tables.count; i++) {
            bytes += a->package->tables.sizes[i];
        }
        for (size_t i = 0; i < a->package->servers.count; i++) {
            bytes += a->package->servers.sizes[i];
        }
    }
    for (size_t i = 0; i < a->package->ranks.count; i++) {
        bytes += a->package->ranks.sizes[i];
    }
    return ps_plan_pre_commit_us(a->plan, bytes);
}

/* Called when FAILED, the answer to a plan that was refused, is stored or could not be stored. Ends
 * the job in the first case. In the second one it keeps its state and has no attempt, and the queue
 * tries to start it again. */
static void refused(void *arg, const ps_status *result)
{
    ps_live *job = arg;

    if (ps_is_ok(result)) {
        ps_jobs_settle(ps_jobs_of(job), job);
    }
}

/* Stores FAILED, with the reason SPEC_REFUSED, for a job of which no attempt can be made. */
static void refuse(ps_live *job, const ps_status *why)
{
    ps_live_store(job, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, 0, "SPEC_REFUSED", why->text, refused,
                  job);
}

/* Makes the plan of an attempt on these members, which may be fewer than the job wants. Halves its
 * learning rate once for each rollback. With count 0 the numbers of nodes are the
 * specification's. */
static ps_status make_plan(ps_attempt *a, const ps_member *members, size_t count)
{
    /* a shallow copy: what it points to belongs to the job */
    Psgd__V1__JobSpec spec = *a->job->record.job->spec;
    Psgd__V1__RecoverySpec recovery;
    uint32_t workers = 0;

    ps_attempt_halve_rate(a, &spec, &recovery);

    for (size_t i = 0; i < count; i++) {
        workers += members[i].role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    }
    if (count > 0) {
        spec.worker_processes = workers;
        spec.workers_min = spec.workers_max = 0; /* the attempt has exactly these workers */
        spec.pservers = (uint32_t)count - workers;
    }
    return ps_plan_create(&spec, NULL, NULL, &a->plan);
}

static ps_attempt *create(ps_coordinator *c, ps_live *job, const ps_member *members, size_t count)
{
    ps_attempt *a = ps_xcalloc(1, sizeof *a);
    ps_status st;

    a->job = job;
    a->c = c;
    a->number = job->record.job->attempt;
    snprintf(a->job_id, sizeof a->job_id, "%s", job->record.job->id);
    a->timer.event.fire = on_timer;
    st = ps_artifacts_folder(a->folder, a->c->conf.data_dir, a->job_id);
    if (ps_is_ok(&st)) {
        st = make_plan(a, members, count);
    }
    if (!ps_is_ok(&st)) {
        /* The specification was accepted at submission, but perhaps by an older program. */
        ps_log(PS_LOG_ERROR, "job", "%s: %s", a->job_id, st.text);
        refuse(job, &st);
        free(a);
        return NULL;
    }
    ps_placement_init(&a->placement, &a->plan->layout, a->plan->spec->pservers,
                      a->plan->spec->workers);
    if (ps_plan_has_copies(a->plan)) {
        ps_placement_copy(&a->placement);
    } else if (a->plan->spec->recovery->replicas > 1) {
        ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "no copies: recovery.replicas is %u, and there is one server",
                    a->plan->spec->recovery->replicas);
    }
    c->attempts++;
    job->attempt = a;
    ps_jobs_activate(ps_jobs_of(job), job);
    return a;
}

static void make_nodes(ps_attempt *a)
{
    a->nodes = ps_xcalloc(a->commit.count, sizeof *a->nodes);
    a->told = ps_xcalloc(a->placement.rank_count, sizeof *a->told);
    if (a->plan->compute != NULL) {
        ps_partitions_create(a);
    }
    for (size_t i = 0; i < a->commit.count; i++) {
        ps_attempt_node *p = &a->nodes[i];
        const ps_member *m = &a->commit.members[i];

        for (uint32_t k = 0; m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER &&
                             k < m->rank_count && m->rank + k < a->placement.rank_count;
             k++) {
            a->told[m->rank + k].member = i;
        }
        ps_node_entry *node = m->id[0] ? ps_nodes_find(&a->c->nodes, m->id) : NULL;

        p->a = a;
        p->index = i;
        p->channel = ps_channel_create(a->c->loop, m->address);
        ps_channel_expect(p->channel, PS_PRINCIPAL_NODE, m->id);
        if (node) {
            snprintf(node->holder, sizeof node->holder, "%s", a->job_id);
        }
    }
}

/* Begins CanCommit when CAN_COMMIT is stored and the data and model are found. */
static void ask_if_ready(ps_attempt *a)
{
    if (a->job && a->is_stored && a->is_found) {
        ps_commit_started(&a->commit, ps_coordinator_now_us(a->c));
    }
}

static void package_found(void *arg, ps_package *package)
{
    ps_attempt *a = arg;

    if (a->job && !ps_is_ok(&package->status)) {
        ps_commit_fail(&a->commit, package->reason, &package->status, ps_coordinator_now_us(a->c));
    } else {
        a->is_found = true;
        ask_if_ready(a);
    }
    ps_attempt_pump(a);
    ps_attempt_settle(a);
}

static void package_made(void *arg, ps_package *package)
{
    ps_attempt *a = arg;
    int64_t now_us = ps_coordinator_now_us(a->c);

    if (a->job && !ps_is_ok(&package->status)) {
        if (package->is_own) {
            ps_commit_torn(&a->commit, &package->status, now_us);
        }
        ps_commit_fail(&a->commit, package->reason, &package->status, now_us);
    } else if (a->job) {
        ps_commit_packaged(&a->commit, pre_commit_us(a), now_us);
    }
    ps_attempt_pump(a);
    ps_attempt_settle(a);
}

/* Starts the task that finds the data and the model for the packages. */
static void find_package(ps_attempt *a)
{
    ps_package_conf conf = {.plan = a->plan,
                            .where = ps_coordinator_init_where(a->c),
                            .folder = a->folder,
                            .job_id = a->job_id,
                            .goes_on = a->number > 1,
                            .checkpoint_dir = a->c->checkpoint_dir,
                            .rollback_limit = ps_recovery_rollback_limit(a->job->record.job),
                            .cache = &a->c->data_cache,
                            .found = package_found,
                            .made = package_made,
                            .arg = a};

    a->package = ps_package_create(&conf);
    a->pending++;
    ps_package_find(a->package, a->c->packages);
}

/* Frees the weights and returns their memory to the coordinator's budget. Call it when all nodes
 * have the weights, or will not get them. */
static void drop_weights(ps_attempt *a)
{
    if (a->package) {
        ps_package_drop_weights(a->package);
    }
    ps_coordinator_give_memory(a->c, a->memory_bytes);
    a->memory_bytes = 0;
}

void ps_attempt_start(ps_coordinator *c, ps_live *job, const ps_member *members, size_t count)
{
    Psgd__V1__Job *msg = job->record.job;
    ps_commit_conf conf;
    ps_attempt *a;

    msg->attempt++;
    msg->evaluations = 0;
    a = create(c, job, members, count);
    if (!a) {
        return;
    }
    a->memory_bytes = job->memory_bytes;
    c->memory_taken += a->memory_bytes;
    conf_of(a, &conf);
    ps_commit_begin(&a->commit, &conf, members, count, ps_coordinator_now_us(a->c));
    make_nodes(a);
    ps_job_place(msg, a->commit.members, count);
    find_package(a);
    ps_attempt_pump(a);
}

/* Adopts an attempt that an earlier process left before training, and ends it: the job goes back to
 * the queue, or fails after PS_INTERRUPTED_MAX interruptions in a row. If the process was not told
 * to stop, the job may be the cause of its end, so the interruption is counted. It is not counted
 * if coordinators share a registry (etcd): the process may just have lost its leadership. */
static void adopt_unbegun(ps_attempt *a, const ps_commit_conf *conf, const ps_member *members,
                          size_t count, int64_t now_us)
{
    Psgd__V1__Job *msg = a->job->record.job;
    Psgd__V1__JobState outcome = PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    char message[200] = "the coordinator was started anew before training began";

    msg->interrupted += !a->c->was_stopped && !a->c->conf.etcd;
    if (msg->interrupted >= PS_INTERRUPTED_MAX) {
        outcome = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
        snprintf(message, sizeof message,
                 "%u attempts were interrupted before training began, the last because the "
                 "coordinator ended; look for the cause in its log, then submit the job again",
                 msg->interrupted);
    }
    ps_commit_adopt_end(&a->commit, conf, members, count, msg->state, outcome,
                        "COORDINATOR_RESTARTED", message, false, now_us);
}

void ps_attempt_adopt(ps_coordinator *c, ps_live *job)
{
    Psgd__V1__Job *msg = job->record.job;
    ps_member *members = ps_xcalloc(msg->n_placements + 1, sizeof *members);
    /* the attempt's, as placements are stored with the state */
    size_t count = ps_job_members(msg, members);
    int64_t now_us = ps_coordinator_now_us(c);
    ps_commit_conf conf;
    ps_attempt *a;

    ps_recovery_mark_spared(msg, members, count);
    a = create(c, job, members, count);
    if (!a) {
        free(members);
        return;
    }
    conf_of(a, &conf);
    /* ps_artifacts_size waits for the disk on the loop's thread. That delays no call, as none is
     * served before all jobs are adopted. */
    if (job->record.outcome != 0) {
        ps_commit_adopt_end(&a->commit, &conf, members, count, msg->state, job->record.outcome,
                            msg->reason, msg->message,
                            ps_artifacts_size(a->folder, "manifest.json") > 0, now_us);
    } else if (msg->state < PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        adopt_unbegun(a, &conf, members, count, now_us);
    } else {
        ps_commit_adopt(&a->commit, &conf, members, count, msg->state, now_us);
        ps_attempt_limit(a);
    }
    free(members);
    make_nodes(a);
    if (a->commit.state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        ps_checkpoints_begin(a);
    }
    for (size_t i = 0; i < a->commit.count && a->commit.stage == PS_STAGE_GOING; i++) {
        ps_presence_start(&a->nodes[i]);
    }
    ps_attempt_pump(a);
}

/* --- the pump ---------------------------------------------------------------- */

/* Begins the attempt if CAN_COMMIT is stored, else sends the job back to the queue. */
static void start_stored(void *arg, const ps_status *result)
{
    ps_attempt *a = arg;

    if (a->job && ps_is_ok(result)) {
        a->is_stored = true;
        ask_if_ready(a);
    } else if (a->job) {
        ps_commit_unstarted(&a->commit, result, ps_coordinator_now_us(a->c));
    }
    ps_attempt_pump(a);
    ps_attempt_settle(a);
}

/* Handles a new state of the commit: begins or frees what belongs to the state, then stores and
 * publishes it. */
static void changed(ps_attempt *a)
{
    Psgd__V1__Job *msg = a->job->record.job;

    switch (a->commit.state) {
    case PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT:
        a->pending++;
        ps_live_store(a->job, a->commit.state, 0, a->commit.reason, a->commit.message, start_stored,
                      a);
        return;
    case PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT:
        /* stores the ids of the nodes, as all are known now */
        ps_job_place(msg, a->commit.members, a->commit.count);
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT:
        drop_weights(a);
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_RUNNING:
        msg->interrupted = 0;
        if (!msg->start_time) {
            ps_time_set(&msg->start_time, ps_clock_wall_us());
        }
        ps_attempt_trains(a);
        ps_attempt_limit(a);
        ps_checkpoints_begin(a);
        break;
    default:
        break;
    }
    ps_live_set_state(a->job, a->commit.state, a->commit.reason, a->commit.message);
}

static void saved(void *arg, const ps_status *result)
{
    ps_attempt *a = arg;

    if (a->job) {
        ps_commit_saved(&a->commit, result, ps_coordinator_now_us(a->c));
    }
    ps_attempt_pump(a);
    ps_attempt_settle(a);
}

/* Saves what the commit has decided, so that a later process goes on from there. In stage CLOSE,
 * when the nodes are released, that is the final state or QUEUED. In an earlier stage, while nodes
 * still hold their files, it is the present state with the outcome. */
static void save(ps_attempt *a)
{
    const ps_commit *c = &a->commit;
    Psgd__V1__Job *msg = a->job->record.job;
    bool closes = c->stage == PS_STAGE_CLOSE;
    Psgd__V1__JobState outcome =
        closes || c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED ? 0 : c->outcome;

    if (closes && c->outcome != PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
        ps_time_set(&msg->end_time, ps_clock_wall_us());
    }
    if (closes && !a->is_noted) { /* is_noted: an earlier try to store the end has noted this */
        a->is_noted = true;
        msg->interrupted += c->is_interrupted;
        if (c->is_recovery) {
            ps_attempt_note_loss(a);
        } else if (c->is_move) {
            ps_attempt_note_move(a);
        }
    }
    if (closes && msg->progress) {
        ps_text_set(&msg->progress->waiting_for, "");
    }
    if (closes && msg->progress && c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
        msg->progress->samples_per_second = msg->progress->eta_seconds = 0; /* nobody trains */
    }
    a->pending++;
    ps_live_store(a->job, closes ? c->outcome : c->state, outcome, c->reason, c->message, saved, a);
}

/* Shows users what a full disk delays (commit.waits), if that has changed: as the job's message, or
 * after the message that the commit has. The reason is the commit's; if it has none,
 * WAITING_FOR_ROOM. Logs the beginning and the end of the wait. */
static void tell_waits(ps_attempt *a)
{
    const ps_commit *c = &a->commit;
    const char *reason = c->reason[0] ? c->reason : c->waits[0] ? "WAITING_FOR_ROOM" : "";
    char message[PS_COMMIT_MESSAGE_MAX + PS_COMMIT_WAITS_MAX + 2];

    if (strcmp(a->waits, c->waits) == 0) {
        return;
    }
    if (a->waits[0] == '\0') {
        ps_log_with(PS_LOG_WARN, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)), "%s",
                    c->waits);
    } else if (c->waits[0] == '\0') {
        ps_log_with(PS_LOG_INFO, "job", PS_LOG_FIELDS(PS_LOG_STR("job", a->job_id)),
                    "waits for room no more");
    }
    snprintf(a->waits, sizeof a->waits, "%s", c->waits);
    snprintf(message, sizeof message, "%s%s%s", c->message,
             c->message[0] && c->waits[0] ? "; " : "", c->waits);
    ps_live_tell(a->job, reason, message);
}

/* Ends the attempt: its end is stored and its nodes are free. The struct is freed when its last
 * call has ended. */
static void over(ps_attempt *a)
{
    ps_status ended = ps_fail(PS_FAILED_PRECONDITION, "job %s has ended before", a->job_id);
    ps_live *job = a->job;

    for (size_t i = 0; i < a->commit.count; i++) {
        const ps_member *m = &a->commit.members[i];
        ps_node_entry *node = ps_nodes_find(&a->c->nodes, m->id);

        if (node && strcmp(node->holder, a->job_id) == 0) {
            node->holder[0] = '\0';
        }
        if (node && (m->is_silent || m->is_lost || m->is_gone) &&
            node->incarnation == m->incarnation) {
            ps_node_suspect(node);
        }
        ps_attempt_node_let_go(&a->nodes[i], a->commit.message);
        ps_presence_stop(&a->nodes[i]);
    }
    ps_checkpoints_end(a, &ended);
    ps_rescue_end(a);
    ps_traces_over(a);
    a->job = NULL;
    job->attempt = NULL;
    ps_loop_cancel(a->c->loop, &a->timer);
    ps_loop_cancel(a->c->loop, &a->limit);
    ps_jobs_deactivate(ps_jobs_of(job), job);
    job->returns = a->commit.is_move;
    ps_jobs_settle(ps_jobs_of(job), job);
}

static void act(ps_attempt *a, ps_commit_action action, ps_attempt_node *p)
{
    switch (action) {
    case PS_COMMIT_ASK:
        if (!a->commit.conf.nodes_are_named) { /* else its process may be started later */
            ps_presence_start(p);
        }
        ps_attempt_node_ask(p);
        break;
    case PS_COMMIT_MAKE:
        a->pending++;
        ps_package_make(a->package, a->c->packages);
        break;
    case PS_COMMIT_PREPARE:
        ps_presence_start(p);
        ps_prepare_start(p);
        break;
    case PS_COMMIT_START:
        ps_attempt_node_start(p);
        break;
    case PS_COMMIT_OPEN:
        ps_attempt_node_answer_ready(p, NULL);
        break;
    case PS_COMMIT_COLLECT:
        ps_attempt_node_log_name(p);
        ps_collect_start(p);
        break;
    case PS_COMMIT_SPARED:
        ps_attempt_note_spared(p);
        break;
    case PS_COMMIT_RELEASE:
        ps_attempt_node_release(p);
        break;
    case PS_COMMIT_CHANGED:
        changed(a);
        break;
    case PS_COMMIT_STORE:
        ps_attempt_describe_end(a);
        ps_attempt_sum_up(a);
        a->store_waits = a->logging > 0;
        if (!a->store_waits) {
            ps_archive_start(a);
        }
        break;
    case PS_COMMIT_RESCUE:
        ps_rescue_start(a);
        break;
    case PS_COMMIT_SAVE:
        save(a);
        break;
    case PS_COMMIT_NOTHING:
    case PS_COMMIT_OVER: /* ps_attempt_pump handles OVER and does not pass it on */
        break;
    }
}

void ps_attempt_pump(ps_attempt *a)
{
    ps_commit_action action;
    int64_t deadline_us, now_us;
    size_t index;

    if (a->is_pumping || !a->job) {
        return;
    }
    a->is_pumping = true;
    a->pending++; /* keeps the attempt from being freed during the loop */
    ps_rescue_lost(a);
    while ((action = ps_commit_next(&a->commit, &index)) != PS_COMMIT_NOTHING) {
        if (action == PS_COMMIT_OVER) {
            over(a);
            break;
        }
        act(a, action, &a->nodes[index]);
    }
    a->is_pumping = false;
    if (a->job) {
        tell_waits(a);
        deadline_us = ps_commit_deadline(&a->commit);
        now_us = ps_coordinator_now_us(a->c);
        if (deadline_us == INT64_MAX) {
            ps_loop_cancel(a->c->loop, &a->timer);
        } else {
            ps_loop_after(a->c->loop, &a->timer, deadline_us > now_us ? deadline_us - now_us : 0);
        }
    }
    ps_attempt_settle(a);
}

void ps_attempt_settle(ps_attempt *a)
{
    assert(a->pending > 0);
    if (--a->pending > 0 || a->job) {
        return;
    }
    for (size_t i = 0; i < a->commit.count; i++) {
        ps_channel_destroy(a->nodes[i].channel);
        if (a->nodes[i].counters) {
            psgd__v1__server_counters__free_unpacked(a->nodes[i].counters, NULL);
        }
    }
    free(a->nodes);
    for (uint32_t r = 0; r < a->placement.rank_count; r++) {
        if (a->told[r].progress) {
            psgd__v1__worker_progress__free_unpacked(a->told[r].progress, NULL);
        }
        if (a->told[r].part) {
            psgd__v1__evaluation_part__free_unpacked(a->told[r].part, NULL);
        }
    }
    free(a->told);
    ps_partitions_destroy(a->partitions);
    ps_checkpoints_fini(a);
    ps_commit_fini(&a->commit);
    drop_weights(a);
    a->c->attempts--;
    ps_package_destroy(a->package);
    free(a->rescue.lost);
    ps_placement_fini(&a->placement);
    ps_plan_destroy(a->plan);
    free(a);
}

void ps_attempt_drop(ps_attempt *a)
{
    ps_status stops = ps_fail(PS_UNAVAILABLE, "the coordinator is stopping");

    a->pending++;
    ps_checkpoints_tell(a, &stops);
    ps_traces_end(a, &stops);
    ps_jobs_deactivate(ps_jobs_of(a->job), a->job);
    a->job->attempt = NULL;
    a->job = NULL;
    ps_loop_cancel(a->c->loop, &a->timer);
    ps_loop_cancel(a->c->loop, &a->limit);
    for (size_t i = 0; i < a->commit.count; i++) {
        ps_attempt_node_let_go(&a->nodes[i], "the coordinator is stopping");
        ps_presence_stop(&a->nodes[i]);
        if (a->nodes[i].aborting) {
            ps_unary_cancel(a->nodes[i].aborting);
        }
    }
    ps_attempt_settle(a);
}

void ps_attempt_cancel(ps_attempt *a, const char *why)
{
    ps_commit_cancel(&a->commit, why, ps_coordinator_now_us(a->c));
    ps_attempt_pump(a);
}

bool ps_attempt_has(const ps_attempt *a, const char *node_id)
{
    size_t i = ps_commit_find(&a->commit, node_id);

    return i < a->commit.count && !a->commit.members[i].is_lost;
}

uint32_t ps_attempt_number(const ps_attempt *a)
{
    return a->number;
}

size_t ps_attempt_count(const ps_attempt *a)
{
    return a->commit.count;
}

const ps_member *ps_attempt_member(const ps_attempt *a, size_t index)
{
    return &a->commit.members[index];
}
