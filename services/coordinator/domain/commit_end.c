/* SPDX-License-Identifier: Apache-2.0 */
/* commit_end.c - the end of an attempt: its outcome, and the stages after it. commit_store.c has
 * the stages that store something. */
#include "services/coordinator/domain/commit_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 4 }; /* most nodes named in a message; the others are counted */

/* Longest wait for the files of a failed or cancelled job, if conf.collect_us is not shorter. A
 * failed job may wait for room on a disk too; each try after such a wait has conf.collect_us. A
 * cancelled job does not wait for room. */
static const int64_t salvage_max_us = 10 * 1000 * 1000;

/* Longest wait for the state that is left after a loss, if conf.collect_us is not shorter. The
 * state may be as large as a checkpoint. */
static const int64_t rescue_max_us = 60 * 1000 * 1000;

ps_member_label ps_member_name(const ps_member *m)
{
    ps_member_label label;
    const char *role =
        m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? "worker" : "parameter server";

    if (m->id[0] != '\0') {
        snprintf(label.text, sizeof label.text, "%s %s (%s)", role, m->id, m->address);
    } else {
        snprintf(label.text, sizeof label.text, "%s %s", role, m->address);
    }
    return label;
}

void ps_commit_do(ps_commit *c, ps_commit_action action)
{
    c->todo |= 1u << action;
}

void ps_commit_do_at(ps_commit *c, size_t node, ps_commit_action action)
{
    c->members[node].todo |= 1u << action;
}

ps_commit_action ps_commit_next(ps_commit *c, size_t *node)
{
    static const ps_commit_action order[] = {PS_COMMIT_ASK,    PS_COMMIT_PREPARE, PS_COMMIT_START,
                                             PS_COMMIT_OPEN,   PS_COMMIT_COLLECT, PS_COMMIT_SPARED,
                                             PS_COMMIT_RELEASE};

    *node = 0;
    if (c->todo & 1u << PS_COMMIT_CHANGED) {
        c->todo &= ~(1u << PS_COMMIT_CHANGED);
        return PS_COMMIT_CHANGED;
    }
    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];

        if (m->todo == 0) {
            continue;
        }
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
            if (!(m->todo & 1u << order[k])) {
                continue;
            }
            m->todo &= ~(1u << order[k]);
            *node = i;
            return order[k];
        }
    }
    for (unsigned a = PS_COMMIT_MAKE; a <= PS_COMMIT_OVER; a++) {
        if (!(c->todo & 1u << a)) {
            continue;
        }
        c->todo &= ~(1u << a);
        return (ps_commit_action)a;
    }
    return PS_COMMIT_NOTHING;
}

static void release(ps_commit *c, size_t node)
{
    ps_member *m = &c->members[node];

    if (m->is_releasing) {
        return;
    }
    m->is_releasing = true;
    if (m->files == PS_FILES_ASKED || m->files == PS_FILES_HELD) {
        m->files = PS_FILES_LOST;
    }
    m->todo = 1u << PS_COMMIT_RELEASE; /* instead of all other actions for the member */
}

/* Returns whether the node has files to collect, because it trains or has ended: a worker its
 * reports so far, a server its present weights. */
static bool has_files(const ps_member *m)
{
    return m->step == PS_MEMBER_OVER || m->step == PS_MEMBER_RUNNING;
}

static bool may_salvage(const ps_commit *c, const ps_member *m)
{
    bool is_kept = c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_FAILED ||
                   c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED;

    return is_kept && c->state >= PSGD__V1__JOB_STATE__JOB_STATE_RUNNING && !m->is_lost &&
           has_files(m) && m->files != PS_FILES_LOST && !m->is_releasing;
}

/* Returns how long a failed or cancelled job waits for files, in microseconds. */
static int64_t salvage_us(const ps_commit *c)
{
    return c->conf.collect_us < salvage_max_us ? c->conf.collect_us : salvage_max_us;
}

void ps_commit_salvage(ps_commit *c, int64_t now_us)
{
    bool salvages = false;

    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];

        if (!may_salvage(c, m)) {
            release(c, i);
            continue;
        }
        if (m->files == PS_FILES_NONE) {
            m->files = PS_FILES_ASKED;
            ps_commit_do_at(c, i, PS_COMMIT_COLLECT);
        }
        salvages = salvages || m->files == PS_FILES_ASKED || m->files == PS_FILES_HELD;
    }
    if (salvages && c->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        c->state = PSGD__V1__JOB_STATE__JOB_STATE_COLLECTING;
        ps_commit_do(c, PS_COMMIT_CHANGED);
    }
    ps_commit_go_on(c);
    if (ps_commit_is_held(c) && c->retry_us == INT64_MAX) {
        c->retry_us = now_us;
    }
    c->stage = PS_STAGE_SALVAGE;
    c->deadline_us = now_us + salvage_us(c);
    ps_commit_settle(c, now_us);
}

bool ps_commit_is_there(const ps_member *m)
{
    return !m->is_lost && !m->is_gone && !m->is_culprit && !m->has_left && ps_is_ok(&m->error) &&
           m->step >= PS_MEMBER_RUNNING;
}

size_t ps_commit_copier(const ps_commit *c, size_t server)
{
    uint32_t servers = 0;

    for (size_t i = 0; i < c->count; i++) {
        servers += c->members[i].role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
    }
    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER &&
            m->rank == (c->members[server].rank + 1) % servers) {
            return i;
        }
    }
    return server;
}

static bool has_workers(const ps_commit *c)
{
    bool has_all = true;

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        has_all =
            has_all && (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER || ps_commit_is_there(m));
    }
    return has_all;
}

/* Returns whether the trained state can be rescued. For each server one of these must be there: the
 * server, the server that has its copies (conf.has_copies), or all workers, if they have kept what
 * its state is computed of (conf.has_kept). If ranks have state of their own (conf.carries), all
 * workers must be there in any case. Without servers any worker has the state. */
static bool has_state(const ps_commit *c)
{
    bool has_all = !c->conf.carries || has_workers(c), has_any = false;

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        has_any =
            has_any || m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER || ps_commit_is_there(m);
        if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER && !ps_commit_is_there(m)) {
            size_t copier = ps_commit_copier(c, i);

            has_all = has_all && ((c->conf.has_copies && ps_commit_is_there(&c->members[copier])) ||
                                  (c->conf.has_kept && has_workers(c)));
        }
    }
    return has_all && has_any;
}

static bool may_rescue(const ps_commit *c)
{
    return c->conf.rescues && c->is_recovery && !c->is_rollback &&
           c->state >= PSGD__V1__JOB_STATE__JOB_STATE_RUNNING && has_state(c);
}

void ps_commit_rescued(ps_commit *c, int64_t now_us)
{
    if (c->stage == PS_STAGE_RESCUE) {
        ps_commit_salvage(c, now_us);
    }
}

/* Enters the first stage of the end, by the outcome. FAILED and CANCELLED are saved before nodes
 * are told. DONE is saved when its files are stored. QUEUED need not be saved before nodes are
 * told, as a later process would decide the same. */
static void begin_end(ps_commit *c, int64_t now_us)
{
    c->blame_us = INT64_MAX;
    c->retry_us = INT64_MAX; /* ps_commit_salvage sets it again for files that wait for room */
    switch (c->outcome) {
    case PSGD__V1__JOB_STATE__JOB_STATE_DONE:
        c->stage = PS_STAGE_STORE;
        ps_commit_do(c, PS_COMMIT_STORE);
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_QUEUED:
        if (may_rescue(c)) {
            c->stage = PS_STAGE_RESCUE;
            c->deadline_us =
                now_us + (c->conf.collect_us < rescue_max_us ? c->conf.collect_us : rescue_max_us);
            ps_commit_do(c, PS_COMMIT_RESCUE);
        } else {
            ps_commit_salvage(c, now_us);
        }
        break;
    default:
        c->stage = PS_STAGE_DECIDED;
        ps_commit_do(c, PS_COMMIT_SAVE);
        break;
    }
}

static void decide(ps_commit *c, Psgd__V1__JobState outcome, const char *reason, int64_t now_us,
                   const char *fmt, va_list ap)
{
    c->outcome = outcome;
    c->decided_us = now_us;
    snprintf(c->reason, sizeof c->reason, "%s", reason);
    vsnprintf(c->message, sizeof c->message, fmt, ap);
    begin_end(c, now_us);
}

void ps_commit_decide(ps_commit *c, Psgd__V1__JobState outcome, const char *reason, int64_t now_us,
                      const char *fmt, ...)
{
    va_list ap;

    if (c->stage != PS_STAGE_GOING) {
        return;
    }
    va_start(ap, fmt);
    decide(c, outcome, reason, now_us, fmt, ap);
    va_end(ap);
}

/* Returns whether another attempt follows a loss of workers, of servers, or of both. Workers that
 * are lost together with servers need no restarts_workers if the policy survives their loss. */
static bool may_restart(const ps_commit *c, bool of_workers, bool of_servers)
{
    bool may_spare = of_servers && c->conf.survives_loss;

    return (!of_workers || c->conf.restarts_workers || may_spare) &&
           (!of_servers || c->conf.restarts_servers);
}

static Psgd__V1__JobState outcome_of_loss(ps_commit *c, bool of_workers, bool of_servers)
{
    c->is_recovery = may_restart(c, of_workers, of_servers);
    return c->is_recovery ? PSGD__V1__JOB_STATE__JOB_STATE_QUEUED
                          : PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
}

void ps_commit_decide_loss(ps_commit *c, bool of_workers, bool of_servers, const char *reason,
                           int64_t now_us, const char *fmt, ...)
{
    bool fails = c->conf.fails_alike && strcmp(reason, "NODE_STALLED") == 0;
    va_list ap;

    if (c->stage != PS_STAGE_GOING) {
        return;
    }
    va_start(ap, fmt);
    decide(c,
           fails ? PSGD__V1__JOB_STATE__JOB_STATE_FAILED
                 : outcome_of_loss(c, of_workers, of_servers),
           reason, now_us, fmt, ap);
    va_end(ap);
}

void ps_commit_interrupt(ps_commit *c, const char *reason, int64_t now_us, const char *fmt, ...)
{
    va_list ap;

    if (c->stage != PS_STAGE_GOING) {
        return;
    }
    c->is_interrupted = true;
    va_start(ap, fmt);
    decide(c,
           c->conf.may_repeat ? PSGD__V1__JOB_STATE__JOB_STATE_QUEUED
                              : outcome_of_loss(c, true, true),
           reason, now_us, fmt, ap);
    va_end(ap);
}

void ps_commit_torn(ps_commit *c, const ps_status *why, int64_t now_us)
{
    if (c->conf.may_repeat && why->code != PS_RESOURCE_EXHAUSTED) {
        ps_commit_interrupt(c, "CHECKPOINT_TORN", now_us, "%s", why->text);
    }
}

/* Writes to buf[0..cap) the names of the first NAMES_MAX members for which `wants` holds, and how
 * many more there are. Returns the number of all of them. */
static size_t name_members(const ps_commit *c,
                           bool (*wants)(const ps_member *m, ps_member_step step),
                           ps_member_step step, char *buf, size_t cap)
{
    size_t len = 0, named = 0, count = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < c->count; i++) {
        int n;

        if (!wants(&c->members[i], step) || count++ >= NAMES_MAX) {
            continue;
        }
        n = snprintf(buf + len, cap - len, "%s%s", named++ ? ", " : "",
                     ps_member_name(&c->members[i]).text);
        len = n > 0 && len + (size_t)n < cap ? len + (size_t)n : cap - 1;
    }
    if (count > NAMES_MAX) {
        snprintf(buf + len, cap - len, " and %zu more", count - NAMES_MAX);
    }
    return count;
}

static bool is_short_of(const ps_member *m, ps_member_step step)
{
    return !m->is_lost && m->step < step;
}

static bool is_held(const ps_member *m, ps_member_step unused)
{
    (void)unused;
    return !m->is_lost && m->files == PS_FILES_HELD;
}

static bool is_uncollected(const ps_member *m, ps_member_step unused)
{
    (void)unused;
    return !m->is_lost && (m->files == PS_FILES_ASKED || m->files == PS_FILES_HELD);
}

size_t ps_commit_uncollected(const ps_commit *c, char *names, size_t cap)
{
    return name_members(c, is_uncollected, 0, names, cap);
}

void ps_commit_note_role(const ps_member *m, bool *of_workers, bool *of_servers)
{
    if (m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER) {
        *of_workers = true;
    } else {
        *of_servers = true;
    }
}

void ps_commit_expire(ps_commit *c, Psgd__V1__JobState outcome, ps_member_step step,
                      const char *reason, const char *what, int64_t limit_us, int64_t now_us)
{
    char names[PS_COMMIT_MESSAGE_MAX - 100];
    bool of_workers = false, of_servers = false;

    name_members(c, is_short_of, step, names, sizeof names);
    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];

        if (is_short_of(m, step)) {
            m->is_silent = step == PS_MEMBER_RESERVED;
            m->is_lost = true; /* the node gets an Abort, but nothing waits for its answer */
            ps_commit_note_role(m, &of_workers, &of_servers);
        }
    }
    if (outcome == PSGD__V1__JOB_STATE__JOB_STATE_FAILED && step > PS_MEMBER_RESERVED) {
        ps_commit_decide_loss(c, of_workers, of_servers, reason, now_us,
                              "did not %s within %.1f s: %s", what, (double)limit_us / 1e6, names);
    } else {
        ps_commit_decide(c, outcome, reason, now_us, "did not %s within %.1f s: %s", what,
                         (double)limit_us / 1e6, names);
    }
}

/* Returns whether there is a worker other than `but` that is not lost and has not given up. */
static bool has_other_worker(const ps_commit *c, const ps_member *but)
{
    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        if (m != but && m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER && !m->is_lost &&
            !m->is_blamed) {
            return true;
        }
    }
    return false;
}

/* Returns the verb of a message about a node that is lost for the attempt. */
static const char *verb_of(const char *reason)
{
    if (strcmp(reason, "NODE_FAILED") == 0) {
        return "failed";
    }
    if (strcmp(reason, "NODE_STALLED") == 0) {
        return "holds up the others";
    }
    return strcmp(reason, "COLLECT_FAILED") == 0 ? "gave no good files" : "is lost";
}

void ps_commit_describe_loss(const ps_member *m, const char *reason, const char *why, char *text,
                             size_t cap)
{
    snprintf(text, cap, "%s %s%s%s", ps_member_name(m).text, verb_of(reason),
             why[0] != '\0' ? ": " : "", why);
}

/* Returns whether the end of a node for this reason is no fault of the job: the node was lost,
 * stalled or was told to stop, or it failed for want of another node or of room on its disk. A
 * failure (NODE_FAILED) is the job's fault if earlier attempts have failed alike
 * (conf.fails_alike). */
static bool is_mendable(const ps_commit *c, const ps_member *m, const char *reason)
{
    ps_code code = m->error.code;

    return strcmp(reason, "NODE_LOST") == 0 || strcmp(reason, "NODE_STALLED") == 0 ||
           (strcmp(reason, "NODE_FAILED") == 0 && !c->conf.fails_alike &&
            (code == PS_UNAVAILABLE || code == PS_DEADLINE_EXCEEDED || code == PS_ABORTED ||
             code == PS_CANCELLED || code == PS_RESOURCE_EXHAUSTED));
}

void ps_commit_diverged(ps_commit *c, size_t node)
{
    c->members[node].has_diverged = true;
}

void ps_commit_low_disk(ps_commit *c, size_t node)
{
    c->members[node].has_low_disk = true;
}

static void end_diverged(ps_commit *c, const ps_member *m, const char *why, int64_t now_us)
{
    bool goes_back = c->conf.rolls_back && c->stage == PS_STAGE_GOING;

    c->is_recovery |= goes_back;
    c->is_rollback |= goes_back;
    ps_commit_decide(c,
                     goes_back ? PSGD__V1__JOB_STATE__JOB_STATE_QUEUED
                               : PSGD__V1__JOB_STATE__JOB_STATE_FAILED,
                     "DIVERGED", now_us, "%s: training has diverged: %s%s", ps_member_name(m).text,
                     why, goes_back ? "; it goes back at half the rate" : "");
    ps_commit_settle(c, now_us);
}

/* Returns whether the attempt goes on without the member: it is a worker, training has begun, the
 * policy survives such a loss, and another worker is there. */
static bool survives_without(const ps_commit *c, const ps_member *m)
{
    return c->stage == PS_STAGE_GOING && c->conf.survives_loss &&
           c->state >= PSGD__V1__JOB_STATE__JOB_STATE_RUNNING &&
           m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER && has_other_worker(c, m);
}

/* Gives up the files of a member if they are wanted but not collected yet. */
static void lose_files(ps_commit *c, ps_member *m)
{
    if (m->files == PS_FILES_ASKED || m->files == PS_FILES_HELD) {
        m->files = PS_FILES_LOST;
        ps_commit_go_on(c);
    }
}

void ps_commit_found_released(ps_commit *c, size_t node, int64_t now_us)
{
    ps_member *m = &c->members[node];
    bool of_workers = false, of_servers = false;

    if (survives_without(c, m)) {
        ps_commit_lose(c, node, "NODE_LOST", "it no longer holds the job", now_us);
        return;
    }
    lose_files(c, m);
    ps_commit_note_role(m, &of_workers, &of_servers);
    ps_commit_decide_loss(c, of_workers, of_servers, "COORDINATOR_RESTARTED", now_us,
                          "%s no longer holds the job, which an earlier coordinator had started",
                          ps_member_name(m).text);
    ps_commit_settle(c, now_us);
}

/* Releases a member that is lost; the attempt goes on without it. */
static void spare(ps_commit *c, size_t node, const char *reason, const char *what)
{
    ps_member *m = &c->members[node];

    release(c, node);
    m->is_spared = true;
    snprintf(m->spared.reason, sizeof m->spared.reason, "%s", reason);
    snprintf(m->spared.message, sizeof m->spared.message, "%.500s; the job goes on without it",
             what);
    ps_commit_do_at(c, node, PS_COMMIT_SPARED);
}

void ps_commit_name_too(ps_commit *c, const ps_member *m, const char *reason, const char *why)
{
    char what[PS_COMMIT_MESSAGE_MAX];

    if (c->is_recovery && c->stage > PS_STAGE_GOING && c->stage < PS_STAGE_CLOSE) {
        ps_commit_describe_loss(m, reason, why, what, sizeof what);
        ps_commit_confess(c, what, "");
    }
}

void ps_commit_lose(ps_commit *c, size_t node, const char *reason, const char *why, int64_t now_us)
{
    ps_member *m = &c->members[node];
    bool survives = survives_without(c, m);
    char what[PS_COMMIT_MESSAGE_MAX];

    if (m->has_diverged) {
        end_diverged(c, m, why, now_us);
        return;
    }
    if (strcmp(reason, "NODE_LOST") == 0) {
        ps_commit_name_too(c, m, reason, why);
    }
    if (survives || strcmp(reason, "NODE_LOST") == 0) {
        m->is_lost = true;
        lose_files(c, m);
    }
    ps_commit_describe_loss(m, reason, why, what, sizeof what);
    if (survives) {
        spare(c, node, reason, what);
        return;
    }
    if (is_mendable(c, m, reason)) {
        bool of_workers = false, of_servers = false;

        m->has_left = m->error.code == PS_CANCELLED;
        ps_commit_note_role(m, &of_workers, &of_servers);
        ps_commit_decide_loss(c, of_workers, of_servers, reason, now_us, "%s", what);
    } else {
        ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, reason, now_us, "%s", what);
    }
    ps_commit_settle(c, now_us);
}

void ps_commit_cancel(ps_commit *c, const char *why, int64_t now_us)
{
    char names[PS_COMMIT_MESSAGE_MAX - 200];

    if (c->stage != PS_STAGE_GOING) {
        ps_commit_give_up(c, why, now_us);
    } else if (name_members(c, is_held, 0, names, sizeof names) > 0) {
        for (size_t i = 0; i < c->count; i++) {
            if (is_held(&c->members[i], 0)) {
                c->members[i].files = PS_FILES_LOST; /* a cancelled job does not wait for room */
            }
        }
        ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED, "CANCELLED", now_us,
                         "%s before the files of %s were stored: they are lost", why, names);
    } else {
        ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED, "CANCELLED", now_us, "%s",
                         why);
    }
}

void ps_commit_move(ps_commit *c, const char *reason, const char *message, int64_t now_us)
{
    if (c->stage == PS_STAGE_GOING) {
        c->is_move = true;
        ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_QUEUED, reason, now_us, "%s", message);
    }
}

void ps_commit_fail(ps_commit *c, const char *reason, const ps_status *why, int64_t now_us)
{
    ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, reason, now_us, "%s", why->text);
}

void ps_commit_note(ps_commit *c, const char *reason, const char *message)
{
    if (c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_DONE && c->message[0] == '\0') {
        snprintf(c->reason, sizeof c->reason, "%s", reason);
        snprintf(c->message, sizeof c->message, "%s", message);
    }
}

void ps_commit_release_all(ps_commit *c, int64_t now_us)
{
    c->stage = PS_STAGE_RELEASE;
    c->deadline_us = now_us + c->conf.abort_us;
    for (size_t i = 0; i < c->count; i++) {
        release(c, i);
    }
    ps_commit_settle(c, now_us);
}

void ps_commit_released(ps_commit *c, size_t node, int64_t now_us)
{
    c->members[node].is_released = true;
    ps_commit_settle(c, now_us);
}

/* Ends COLLECTING if all files have been collected, or if the time is over and no files wait for
 * room on a disk. */
static void settle_collecting(ps_commit *c, int64_t now_us)
{
    char names[PS_COMMIT_MESSAGE_MAX - 100];
    size_t missing = ps_commit_uncollected(c, names, sizeof names);
    bool of_workers = false, of_servers = false, are_silent = true;

    if (missing == 0) {
        ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_DONE, "", now_us, "%s", "");
        return;
    }
    if (now_us < c->deadline_us || ps_commit_is_held(c)) {
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        ps_member *m = &c->members[i];

        if (is_uncollected(m, 0)) {
            m->files = PS_FILES_LOST;
            m->is_lost = true;
            ps_commit_note_role(m, &of_workers, &of_servers);
            are_silent = are_silent && now_us - m->seen_us >= c->conf.silent_us;
        }
    }
    if (are_silent) {
        ps_commit_decide_loss(c, of_workers, of_servers, "COLLECT_TIMEOUT", now_us,
                              "files were not collected within %.1f s from %s",
                              (double)c->conf.collect_us / 1e6, names);
    } else { /* a node is heard of, but its files are too slow: another attempt would end so, too */
        ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_FAILED, "COLLECT_TIMEOUT", now_us,
                         "files were not collected within %.1f s from %s",
                         (double)c->conf.collect_us / 1e6, names);
    }
}

/* Returns whether the attempt waits for the node to answer Abort. */
static bool is_unreleased(const ps_member *m)
{
    return !m->is_lost && !m->is_gone && !m->is_released;
}

static bool has_nodes(const ps_commit *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (is_unreleased(&c->members[i])) {
            return true;
        }
    }
    return false;
}

void ps_commit_settle(ps_commit *c, int64_t now_us)
{
    if (c->stage == PS_STAGE_GOING) {
        if (c->state == PSGD__V1__JOB_STATE__JOB_STATE_COLLECTING) {
            settle_collecting(c, now_us);
        }
        return;
    }
    if (c->stage == PS_STAGE_RESCUE && (now_us >= c->deadline_us || !has_state(c))) {
        ps_commit_salvage(c, now_us);
        return;
    }
    if (c->stage == PS_STAGE_SALVAGE) {
        for (size_t i = 0; i < c->count; i++) {
            if (is_uncollected(&c->members[i], 0) &&
                (now_us < c->deadline_us || ps_commit_is_held(c))) {
                return;
            }
        }
        c->stage = PS_STAGE_STORE;
        if (c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
            /* nothing has to be stored for QUEUED */
            ps_commit_stored(c, &(ps_status){.code = PS_OK}, now_us);
        } else {
            ps_commit_do(c, PS_COMMIT_STORE);
        }
        return;
    }
    if (c->stage == PS_STAGE_RELEASE && (!has_nodes(c) || now_us >= c->deadline_us)) {
        c->stage = PS_STAGE_CLOSE;
        ps_commit_do(c, PS_COMMIT_SAVE);
    }
}

void ps_commit_waiting_for(const ps_commit *c, int64_t now_us, char *buf, size_t cap)
{
    ps_member_step step = PS_MEMBER_NEW;
    size_t len = 0;

    if (c->stage == PS_STAGE_GOING &&
        ((c->state == PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT && !c->has_asked) ||
         (c->state == PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT && !c->has_packages))) {
        snprintf(buf, cap, "the coordinator");
        return;
    }
    switch (c->state) {
    case PSGD__V1__JOB_STATE__JOB_STATE_CAN_COMMIT:
        step = PS_MEMBER_RESERVED;
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT:
        step = PS_MEMBER_PREPARED;
        break;
    case PSGD__V1__JOB_STATE__JOB_STATE_DO_COMMIT:
        step = PS_MEMBER_WAITING;
        break;
    default:
        break;
    }
    buf[0] = '\0';
    if (c->stage == PS_STAGE_GOING && c->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        ps_commit_name_roots(c, now_us, buf, cap);
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];
        int n;

        if (c->stage == PS_STAGE_RELEASE ? !is_unreleased(m)
                                         : !is_short_of(m, step) && !is_uncollected(m, 0)) {
            continue;
        }
        n = snprintf(buf + len, cap - len, "%s%s", len ? ", " : "", m->id[0] ? m->id : m->address);
        if (n < 0 || len + (size_t)n >= cap) {
            return;
        }
        len += (size_t)n;
    }
}

size_t ps_commit_find(const ps_commit *c, const char *node_id)
{
    size_t i = 0;

    while (i < c->count && strcmp(c->members[i].id, node_id) != 0) {
        i++;
    }
    return i;
}

uint32_t ps_commit_workers_alive(const ps_commit *c)
{
    uint32_t ranks = 0;

    for (size_t i = 0; i < c->count; i++) {
        const ps_member *m = &c->members[i];

        ranks +=
            m->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER && !m->is_lost ? m->rank_count : 0;
    }
    return ranks;
}
