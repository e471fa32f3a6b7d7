/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedules.c - the coordinator's state machines under a seeded scheduler.
 *
 * The real commits, recoveries, known nodes and node scheduler run against model nodes. One seed
 * decides which message arrives next, which is lost or doubled, and when nodes and the coordinator
 * crash, freeze and come back. Then faults stop, and every job must end. PSGD_SEED is the first
 * seed, PSGD_SCHEDULES the number of schedules. A failure prints its seed.
 */
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/domain/recoveries.h"
#include "services/coordinator/domain/scheduler.h"
#include "tests/support/schedule_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTY_TURNS = 700, TURNS_MAX = 20000, MS = 1000 };

static struct {
    unsigned schedules, done, failed, attempts, crashes, lost, recoveries;
} total;

static void show(const world *w)
{
    for (unsigned at = 0; at < SW_JOBS; at++) {
        const model_job *j = &w->job[at];

        print_message("job %u: over %d, live %d, attempt %u, stored %d of %u, state %d, stage %d, "
                      "outcome %d, step %u of counts %u: %s\n",
                      at, j->is_over, j->is_live, j->attempt, (int)j->stored_state,
                      j->stored_attempt, j->is_live ? (int)j->commit.state : 0,
                      j->is_live ? (int)j->commit.stage : 0,
                      j->is_live ? (int)j->commit.outcome : 0, (unsigned)j->steps[j->attempt],
                      j->counts[j->attempt], j->is_live ? j->commit.message : "");
        for (size_t i = 0; j->is_live && i < j->commit.count; i++) {
            const ps_member *m = &j->commit.members[i];

            print_message("  %s: step %d, files %d, lost %d, released %d, incarnation %u\n", m->id,
                          (int)m->step, (int)m->files, m->is_lost, m->is_released,
                          (unsigned)m->incarnation);
        }
    }
    for (unsigned i = 0; i < SW_NODES; i++) {
        const model_node *n = &w->node[i];
        const ps_node_entry *e = w->is_up ? ps_nodes_find(&w->nodes, n->id) : NULL;

        print_message("%s: up %d, incarnation %u, job %d, attempt %u, phase %d; holder '%s', "
                      "suspect %d\n",
                      n->id, n->is_up, (unsigned)n->incarnation, n->job, n->attempt, (int)n->phase,
                      e != NULL ? e->holder : "unknown", e != NULL && e->is_suspect);
    }
}

/* --- the coordinator --------------------------------------------------------------- */

static void pump(world *w, unsigned at);

static void begin_attempt(world *w, unsigned at, ps_member *members, size_t count)
{
    model_job *j = &w->job[at];
    ps_commit_conf conf = cm_conf;

    conf.can_commit_us = 2 * S;
    conf.pre_commit_us = conf.ready_us = 3 * S;
    conf.lease_us = 3 * S;
    conf.silent_us = conf.late_us = S;
    conf.rescues = true;
    conf.has_copies = at % 2 == 0;
    conf.has_kept = at % 3 == 0;
    conf.carries = at % 5 < 2;
    conf.collect_us = 6 * S;
    conf.abort_us = S;
    conf.restarts_workers = conf.restarts_servers = true;
    conf.may_repeat = true;
    if (count == 0) { /* adopted */
        if (j->stored_outcome != 0) {
            ps_commit_adopt_end(&j->commit, &conf, j->members, j->count, j->stored_state,
                                j->stored_outcome, "AS_STORED", "as stored", false, w->now);
        } else if (j->stored_state < STATE(RUNNING)) {
            ps_commit_adopt_end(&j->commit, &conf, j->members, j->count, j->stored_state,
                                STATE(QUEUED), "COORDINATOR_RESTARTED", "anew", false, w->now);
        } else {
            ps_commit_adopt(&j->commit, &conf, j->members, j->count, j->stored_state, w->now);
        }
    } else {
        j->attempt++;
        j->msg->attempt++;
        total.attempts++;
        MUST(j->attempt < SW_ATTEMPTS);
        MUST(j->attempt > j->stored_attempt);
        j->counts[j->attempt] = (unsigned)count;
        j->steps[j->attempt] = j->firsts[j->attempt] = j->checkpoint;
        ps_commit_begin(&j->commit, &conf, members, count, w->now);
        memcpy(j->members, j->commit.members, count * sizeof *members);
        j->count = count;
    }
    j->is_live = true;
    for (size_t i = 0; i < j->commit.count; i++) {
        ps_node_entry *n = ps_nodes_find(&w->nodes, j->commit.members[i].id);

        if (n != NULL) {
            MUST(count == 0 || n->holder[0] == '\0'); /* no other attempt has the node */
            snprintf(n->holder, sizeof n->holder, "%u", at);
        }
    }
    pump(w, at);
}

static void look_for_nodes(world *w)
{
    for (unsigned at = 0; at < SW_JOBS; at++) {
        model_job *j = &w->job[at];
        const ps_want want = {.spec = j->msg->spec, .is_after_loss = ps_recovery_is_open(j->msg)};
        ps_member members[2 * SW_NODES];
        char why[200];
        size_t count = 0;

        if (!j->is_acknowledged || j->is_live || j->is_over) {
            continue;
        }
        memset(members, 0, sizeof members);
        if (ps_schedule_job(&w->nodes, &want, NULL, w->now, members, &count, why, sizeof why)) {
            begin_attempt(w, at, members, count);
        }
    }
}

/* Checks what must hold of an attempt that ends. */
static void check_end(world *w, model_job *j)
{
    const ps_commit *c = &j->commit;
    bool has_lost = false;

    for (size_t i = 0; i < c->count; i++) {
        has_lost = has_lost || c->members[i].is_lost;
    }
    MUST(has_lost || strcmp(c->reason, "NODE_LOST") != 0); /* the lost node is marked */
    for (size_t i = 0; i < c->count; i++) {
        for (unsigned k = 0; k < SW_NODES; k++) {
            if (strcmp(w->node[k].id, c->members[i].id) != 0 || !c->members[i].is_lost) {
                continue;
            }
            total.lost++;
            if (!w->dropped) {
                if (!w->node[k].is_hurt) {
                    show(w);
                }
                MUST(w->node[k].is_hurt); /* blame falls on a node that was down */
            }
        }
    }
    if (c->outcome == STATE(DONE)) {
        MUST(j->steps[j->attempt] == SW_STEPS);
        MUST(strcmp(c->reason, "AS_STORED") == 0 || j->files[j->attempt] >= j->counts[j->attempt]);
    }
}

static void close_attempt(world *w, unsigned at)
{
    model_job *j = &w->job[at];

    for (size_t i = 0; i < j->commit.count; i++) {
        ps_node_entry *n = ps_nodes_find(&w->nodes, j->commit.members[i].id);

        if (n != NULL && atoi(n->holder) == (int)at) {
            n->holder[0] = '\0';
        }
        if (n != NULL && (j->commit.members[i].is_silent || j->commit.members[i].is_lost)) {
            ps_node_suspect(n);
        }
    }
    if (j->commit.state != STATE(QUEUED)) {
        j->is_over = true;
        j->ended++;
        MUST(j->ended == 1);
        *(j->commit.state == STATE(DONE) ? &total.done : &total.failed) += 1;
    }
    ps_commit_fini(&j->commit);
    j->is_live = false;
}

static void store(world *w, unsigned at, kind how, Psgd__V1__JobState state,
                  Psgd__V1__JobState outcome)
{
    model_job *j = &w->job[at];

    sw_post(w, (message){.kind = how,
                         .job = at,
                         .attempt = j->attempt,
                         .number = ++j->number,
                         .restarts = j->msg->restarts,
                         .state = state,
                         .outcome = outcome});
}

static void save(world *w, unsigned at)
{
    model_job *j = &w->job[at];
    const ps_commit *c = &j->commit;
    bool closes = c->stage == PS_STAGE_CLOSE;

    if (closes) {
        check_end(w, j);
        if (c->is_recovery) {
            ps_recovery_add(j->msg, c, j->msg->progress != NULL ? j->msg->progress->step : 0,
                            w->now, w->now + 1);
            total.recoveries++;
        }
    }
    store(w, at, STORED_SAVE, closes ? c->outcome : c->state,
          closes || c->outcome == STATE(QUEUED) ? 0 : c->outcome);
}

static void state_changed(world *w, unsigned at)
{
    model_job *j = &w->job[at];

    if (j->commit.state == STATE(CAN_COMMIT)) {
        store(w, at, STORED_START, j->commit.state, 0);
        return;
    }
    if (j->commit.state == STATE(RUNNING) && ps_recovery_is_open(j->msg)) {
        uint64_t from = j->firsts[j->attempt];

        MUST(from == 0 || from <= j->checkpoint); /* goes on from a checkpoint that there is */
        ps_recovery_close(j->msg, from, w->now + 1);
    }
    store(w, at, STORED_STATE, j->commit.state, 0);
}

static void act(world *w, unsigned at, ps_commit_action action, size_t member)
{
    static const kind calls[] = {
        [PS_COMMIT_ASK] = ASK,   [PS_COMMIT_PREPARE] = PREPARE, [PS_COMMIT_START] = START,
        [PS_COMMIT_OPEN] = OPEN, [PS_COMMIT_COLLECT] = COLLECT, [PS_COMMIT_RELEASE] = ABORT};
    model_job *j = &w->job[at];

    switch (action) {
    case PS_COMMIT_CHANGED:
        state_changed(w, at);
        break;
    case PS_COMMIT_MAKE:
        ps_commit_packaged(&j->commit, 3 * S, w->now);
        break;
    case PS_COMMIT_STORE:
        ps_commit_stored(&j->commit, &cm_ok, w->now);
        break;
    case PS_COMMIT_RESCUE: /* it takes no time, or longer than it may */
        if (w->now % 2 == 0) {
            ps_commit_rescued(&j->commit, w->now);
        }
        break;
    case PS_COMMIT_SAVE:
        save(w, at);
        break;
    case PS_COMMIT_SPARED:
    case PS_COMMIT_OVER:
    case PS_COMMIT_NOTHING:
        break;
    default:
        for (unsigned i = 0; i < SW_NODES; i++) {
            if (strcmp(w->node[i].id, j->commit.members[member].id) == 0) {
                sw_post(w, (message){
                               .kind = calls[action], .node = i, .job = at, .attempt = j->attempt});
            }
        }
    }
}

static void pump(world *w, unsigned at)
{
    model_job *j = &w->job[at];
    ps_commit_action action;
    size_t member;

    while (j->is_live && (action = ps_commit_next(&j->commit, &member)) != PS_COMMIT_NOTHING) {
        if (action == PS_COMMIT_OVER) {
            close_attempt(w, at);
        } else {
            act(w, at, action, member);
        }
    }
}

/* Returns the index of the node in the job's attempt; SIZE_MAX: it has no part in it. */
static size_t member_of(const world *w, unsigned at, unsigned node)
{
    const model_job *j = &w->job[at];
    size_t i = j->is_live ? ps_commit_find(&j->commit, w->node[node].id) : 0;

    return j->is_live && i < j->commit.count ? i : SIZE_MAX;
}

static void take_registration(world *w, const message *m)
{
    Psgd__V1__RegisterNodeRequest q = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    model_node *n = &w->node[m->node];
    ps_node_entry *entry;
    ps_status st;
    bool is_new;

    q.node_id = n->id;
    q.address = n->address;
    q.role = n->role;
    q.incarnation = m->incarnation;
    st = ps_nodes_register(&w->nodes, &q, "ipv4:h", w->now, w->now, &entry, &is_new);
    for (unsigned at = 0; at < SW_JOBS && ps_is_ok(&st); at++) {
        size_t i = member_of(w, at, m->node);

        if (i != SIZE_MAX) {
            snprintf(entry->holder, sizeof entry->holder, "%u", at);
            ps_commit_restarted(&w->job[at].commit, i, m->incarnation, w->now);
            pump(w, at);
        }
    }
}

static void take_beat(world *w, const message *m)
{
    Psgd__V1__HeartbeatRequest q = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    message back = *m;
    ps_node_entry *entry;
    char job[16] = "";
    ps_status st;

    q.node_id = w->node[m->node].id;
    q.incarnation = m->incarnation;
    q.phase = m->phase;
    if (m->holds >= 0) {
        snprintf(job, sizeof job, "%d", m->holds);
    }
    q.job_id = job;
    q.attempt = m->attempt;
    st = ps_nodes_beat(&w->nodes, &q, w->now, w->now, &entry);
    if (!ps_is_ok(&st)) {
        back.kind = REGISTER_AGAIN;
        sw_post(w, back);
        return;
    }
    MUST(entry->incarnation == m->incarnation); /* it is the node's own beat */
    ps_node_trust(entry);
    for (unsigned at = 0; at < SW_JOBS; at++) {
        model_job *j = &w->job[at];
        size_t i = member_of(w, at, m->node);
        bool holds = m->holds == (int)at && m->attempt == j->attempt;

        if (i != SIZE_MAX) {
            if (holds && j->commit.state == STATE(RUNNING)) {
                ps_job_progress(j->msg)->step = j->steps[j->attempt];
            }
            ps_commit_beat(&j->commit, i, m->incarnation, holds, m->phase, &cm_ok, w->now);
            pump(w, at);
        }
        if (m->holds == (int)at && (i == SIZE_MAX || !holds)) {
            back.kind = DROP;
            sw_post(w, back);
        }
    }
}

static void take_answer(world *w, const message *m)
{
    model_job *j = &w->job[m->job];
    size_t i = member_of(w, m->job, m->node);
    ps_node_entry *entry = ps_nodes_find(&w->nodes, w->node[m->node].id);
    ps_status st = ps_fail(PS_FAILED_PRECONDITION, "holds nothing");

    if (i == SIZE_MAX || (m->attempt != j->attempt && m->kind != GONE)) {
        return;
    }
    switch (m->kind) {
    case RESERVED:
        ps_commit_reserved(&j->commit, i, w->node[m->node].id, m->incarnation, w->now);
        break;
    case BUSY:
        ps_commit_busy(&j->commit, i, w->node[m->node].id, "another job", w->now);
        break;
    case PREPARED:
        ps_commit_prepared(&j->commit, i, w->now);
        break;
    case UNRESERVED:
        ps_commit_unreserved(&j->commit, i, &st, w->now);
        break;
    case READY:
        st = ps_commit_ready(&j->commit, i, m->incarnation, w->now);
        break;
    case FILES:
        if (m->step == SW_STEPS) {
            j->files[m->attempt]++;
        }
        ps_commit_collected(&j->commit, i, &cm_ok, w->now);
        break;
    case RELEASED:
        if (entry != NULL && atoi(entry->job_id) == (int)m->job && entry->job_id[0] != '\0') {
            ps_node_mark_idle(entry);
        }
        ps_commit_released(&j->commit, i, w->now);
        break;
    default:
        break;
    }
    pump(w, m->job);
}

static void take_stored(world *w, const message *m)
{
    model_job *j = &w->job[m->job];

    if (m->number > j->stored_number) {
        j->stored_number = m->number;
        j->stored_attempt = m->attempt;
        j->stored_state = m->state;
        j->stored_outcome = m->outcome;
        j->stored_restarts = m->restarts;
    }
    if (m->kind == STORED_START) {
        ps_commit_started(&j->commit, w->now);
    } else if (m->kind == STORED_SAVE) {
        ps_commit_saved(&j->commit, &cm_ok, w->now);
    }
    pump(w, m->job);
}

static void arrive(world *w, const message *m)
{
    if (m->kind < TO_NODES) {
        sw_node_takes(w, m);
    } else if (!w->is_up) {
        return;
    } else if (m->kind > FROM_NODES) {
        take_stored(w, m);
    } else if (m->kind == BEAT) {
        take_beat(w, m);
    } else if (m->kind == REGISTER) {
        take_registration(w, m);
    } else if (m->kind == GONE) {
        for (unsigned at = 0; at < SW_JOBS; at++) {
            size_t i = member_of(w, at, m->node);

            if (i != SIZE_MAX && w->job[at].commit.members[i].incarnation == m->incarnation) {
                ps_commit_gone(&w->job[at].commit, i, w->now);
                pump(w, at);
            }
        }
    } else {
        take_answer(w, m);
    }
}

/* --- the scheduler of everything --------------------------------------------------- */

/* Drops the recoveries that were not stored. */
static void forget_recoveries(model_job *j)
{
    for (; j->msg->restarts > j->stored_restarts; j->msg->restarts--) {
        if (j->msg->n_recoveries > 0) {
            psgd__v1__recovery__free_unpacked(j->msg->recoveries[--j->msg->n_recoveries], NULL);
        }
    }
}

static void crash_coordinator(world *w)
{
    size_t kept = 0;

    w->is_up = false;
    w->up_at = w->now + sw_draw(w, 2 * S);
    for (unsigned at = 0; at < SW_JOBS; at++) {
        if (w->job[at].is_live) {
            ps_commit_fini(&w->job[at].commit);
            w->job[at].is_live = false;
        }
        forget_recoveries(&w->job[at]);
    }
    ps_nodes_fini(&w->nodes);
    for (size_t i = 0; i < w->n; i++) { /* what was not stored is lost */
        if (w->flight[i].kind < FROM_NODES) {
            w->flight[kept++] = w->flight[i];
        }
    }
    w->n = kept;
    total.crashes++;
}

static void start_coordinator(world *w)
{
    w->is_up = true;
    ps_nodes_init(&w->nodes, SW_BEAT_US, 3 * S);
    for (unsigned at = 0; at < SW_JOBS; at++) {
        model_job *j = &w->job[at];

        j->number = j->stored_number;
        j->attempt = j->msg->attempt > j->stored_attempt ? j->msg->attempt : j->stored_attempt;
        if (j->is_acknowledged && !j->is_over && j->stored_attempt > 0 &&
            j->stored_state != STATE(QUEUED) && j->stored_attempt == j->attempt) {
            begin_attempt(w, at, NULL, 0);
        }
    }
}

static void hurt(world *w)
{
    unsigned i = sw_draw(w, SW_NODES + 1);

    if (i == SW_NODES) {
        if (w->is_up) {
            crash_coordinator(w);
        }
        return;
    }
    w->node[i].is_hurt = true;
    if (sw_draw(w, 3) == 0) {
        w->node[i].frozen_until = w->now + sw_draw(w, 8 * S);
    } else if (w->node[i].is_up) {
        w->node[i].is_up = false;
        w->node[i].up_at = w->now + sw_draw(w, 4 * S);
        sw_node_lets_go(&w->node[i]);
        sw_post(w, (message){.kind = GONE, .node = i, .incarnation = w->node[i].incarnation});
        total.crashes++;
    }
}

static bool deliver(world *w)
{
    size_t i = w->n > 0 && sw_draw(w, 3) > 0 ? sw_draw(w, (uint32_t)w->n) : 0;
    message m;
    bool stays;

    if (w->n == 0) {
        return false;
    }
    m = w->flight[i];
    if (m.kind < TO_NODES && w->now < w->node[m.node].frozen_until && w->node[m.node].is_up) {
        return true; /* it waits in the socket of the frozen process */
    }
    stays = w->drops && m.kind < FROM_NODES && sw_draw(w, 20) == 0; /* it will arrive once more */
    if (!stays) {
        memmove(w->flight + i, w->flight + i + 1, (w->n - i - 1) * sizeof m);
        w->n--;
    }
    if (!(w->drops && m.kind < FROM_NODES && sw_draw(w, 25) == 0)) {
        arrive(w, &m);
    }
    return true;
}

static void no_two_jobs_hold_a_node(world *w)
{
    for (unsigned a = 0; a < SW_JOBS; a++) {
        for (size_t i = 0; w->job[a].is_live && i < w->job[a].commit.count; i++) {
            const ps_member *m = &w->job[a].commit.members[i];

            for (unsigned b = a + 1; b < SW_JOBS && !m->is_lost && !m->is_released; b++) {
                const ps_commit *c = &w->job[b].commit;
                size_t k = w->job[b].is_live ? ps_commit_find(c, m->id) : 0;
                bool both = w->job[b].is_live && k < c->count && m->step >= PS_MEMBER_RESERVED &&
                            c->members[k].step >= PS_MEMBER_RESERVED && !c->members[k].is_lost &&
                            !c->members[k].is_released;

                MUST(!both);
            }
        }
    }
}

static void turn(world *w, bool is_faulty)
{
    w->now += sw_draw(w, 40 * MS);
    if (is_faulty && sw_draw(w, 60) == 0) {
        hurt(w);
    }
    if (!w->is_up && w->now >= w->up_at) {
        start_coordinator(w);
    }
    for (unsigned i = 0; i < SW_NODES; i++) {
        model_node *n = &w->node[i];

        if (!n->is_up && w->now >= n->up_at) {
            n->is_up = true;
            n->incarnation++;
            sw_post(w, (message){.kind = REGISTER, .node = i, .incarnation = n->incarnation});
        }
        if (n->is_up && w->now >= n->frozen_until && w->now >= n->next_beat) {
            sw_node_beats(w, i);
        }
    }
    for (unsigned k = sw_draw(w, 24); k-- > 0 && deliver(w);) {
    }
    sw_work(w);
    for (unsigned at = 0; at < SW_JOBS && w->is_up; at++) {
        model_job *j = &w->job[at];

        if (j->is_live && w->now >= ps_commit_deadline(&j->commit)) {
            ps_commit_tick(&j->commit, w->now);
            pump(w, at);
        }
        if (j->is_live && j->commit.state == STATE(RUNNING) && j->commit.outcome == 0 &&
            sw_draw(w, 10) == 0 && j->steps[j->attempt] > j->checkpoint) {
            j->checkpoint = j->steps[j->attempt];
        }
    }
    if (w->is_up) {
        look_for_nodes(w);
        no_two_jobs_hold_a_node(w);
    }
}

static bool are_all_over(const world *w)
{
    for (unsigned at = 0; at < SW_JOBS; at++) {
        if (!w->job[at].is_over) {
            return false;
        }
    }
    return true;
}

static void begin(world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->drops = w->dropped = sw_draw(w, 2) == 0;
    w->now = 100 * (int64_t)S;
    w->is_up = true;
    ps_nodes_init(&w->nodes, SW_BEAT_US, 3 * S);
    for (unsigned i = 0; i < SW_NODES; i++) {
        model_node *n = &w->node[i];

        snprintf(n->id, sizeof n->id, "%s%u", i < SW_WORKERS ? "w" : "ps", i);
        snprintf(n->address, sizeof n->address, "h:%u", i + 1);
        n->role = i < SW_WORKERS ? WORKER : PSERVER;
        n->is_up = true;
        n->incarnation = 1;
        sw_node_lets_go(n);
        sw_post(w, (message){.kind = REGISTER, .node = i, .incarnation = 1});
    }
    for (unsigned at = 0; at < SW_JOBS; at++) {
        Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;

        spec.workers = 1 + sw_draw(w, SW_WORKERS);
        spec.pservers = 1 + sw_draw(w, 2);
        w->job[at].msg = ps_job_create(&spec, w->now);
        ps_time_set(&w->job[at].msg->start_time, w->now);
        w->job[at].stored_state = STATE(QUEUED);
        w->job[at].is_acknowledged = true;
    }
}

static void run(uint64_t seed)
{
    static world one;
    world *w = &one;
    unsigned turns = 0;

    begin(w, seed);
    while (turns < FAULTY_TURNS || !are_all_over(w)) {
        turn(w, turns < FAULTY_TURNS);
        if (turns == FAULTY_TURNS) {
            w->drops = false;
        }
        if (++turns >= TURNS_MAX) {
            show(w);
            fail_msg("seed %llu: a job does not end", (unsigned long long)seed);
        }
    }
    for (unsigned at = 0; at < SW_JOBS; at++) {
        model_job *j = &w->job[at];

        MUST(j->is_acknowledged && j->ended == 1);
        MUST(j->msg->restarts <= j->attempt);
        psgd__v1__job__free_unpacked(j->msg, NULL);
        if (j->is_live) {
            ps_commit_fini(&j->commit);
        }
    }
    if (w->is_up) {
        ps_nodes_fini(&w->nodes);
    }
    total.schedules++;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static void jobs_end_once_whatever_happens_to_messages_and_processes(void **state)
{
    uint64_t first = setting("PSGD_SEED", 20261123), count = setting("PSGD_SCHEDULES", 2000);

    (void)state;
    for (uint64_t k = 0; k < count; k++) {
        run(first + k);
    }
    print_message(
        "%u schedules from seed %llu: %u jobs done, %u failed, %u attempts, %u recoveries, "
        "%u crashes, %u nodes lost\n",
        total.schedules, (unsigned long long)first, total.done, total.failed, total.attempts,
        total.recoveries, total.crashes, total.lost);
    assert_true(total.done > total.failed);
    assert_true(count < 100 || (total.recoveries > 0 && total.crashes > 0 && total.lost > 0));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_end_once_whatever_happens_to_messages_and_processes),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
