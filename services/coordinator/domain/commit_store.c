/* SPDX-License-Identifier: Apache-2.0 */
/* commit_store.c - stores what an attempt leaves before its nodes are released.
 *
 * Three things can fail because a disk is full: the files of a node (PS_FILES_HELD), summary and
 * manifest (STORE), and the job's record (DECIDED, NOTE, CLOSE). All three wait in the same way:
 * the text `waits` says for what, `retry_us` is the time of the next try. Nodes keep their files
 * until the record is stored in NOTE, because they are released after that.
 */
#include "services/coordinator/domain/commit_impl.h"

#include <stdio.h>
#include <string.h>

static const int64_t first_pause_us = 250 * 1000, longest_pause_us = 5 * 1000 * 1000;

bool ps_commit_may_pass(ps_code code)
{
    switch (code) {
    case PS_DATA_LOSS:
    case PS_INVALID_ARGUMENT:
    case PS_NOT_FOUND:
    case PS_OUT_OF_RANGE:
    case PS_FAILED_PRECONDITION:
        return false; /* what is to be stored is at fault, so a repetition would fail too */
    default:
        return true;
    }
}

bool ps_commit_is_held(const ps_commit *c)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->members[i].files == PS_FILES_HELD) {
            return true;
        }
    }
    return false;
}

static void hold(ps_commit *c, const char *whose, const ps_status *why, int64_t now_us)
{
    snprintf(c->waits, sizeof c->waits, "waits for %s%s disk: %s",
             why->code == PS_RESOURCE_EXHAUSTED ? "room on " : "", whose, why->text);
    if (c->retry_us == INT64_MAX) {
        c->pause_us = c->pause_us == 0 ? first_pause_us : 2 * c->pause_us;
        if (c->pause_us > longest_pause_us) {
            c->pause_us = longest_pause_us;
        }
        c->retry_us = now_us + c->pause_us;
    }
}

void ps_commit_go_on(ps_commit *c)
{
    if (!ps_commit_is_held(c) && !c->is_unsaved) {
        c->waits[0] = '\0';
        c->retry_us = INT64_MAX;
        c->pause_us = 0;
    }
}

void ps_commit_held(ps_commit *c, size_t node, bool is_its_disk, const ps_status *why,
                    int64_t now_us)
{
    ps_member *m = &c->members[node];
    char whose[sizeof(ps_member_label) + 8] = "the coordinator's";

    if (m->files != PS_FILES_ASKED || c->stage >= PS_STAGE_STORE) {
        return;
    }
    m->seen_us = now_us;
    if (c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED) {
        /* a cancelled job does not wait for room */
        char lost[sizeof(ps_member_label) + 64];

        m->files = PS_FILES_LOST;
        snprintf(lost, sizeof lost, "the files of %s are lost", ps_member_name(m).text);
        ps_commit_confess(c, lost, why->text);
        ps_commit_settle(c, now_us);
        return;
    }
    m->files = PS_FILES_HELD;
    if (is_its_disk) {
        snprintf(whose, sizeof whose, "%s's", ps_member_name(m).text);
    }
    hold(c, whose, why, now_us);
}

void ps_commit_confess(ps_commit *c, const char *what, const char *why)
{
    size_t n = strlen(c->message);

    snprintf(c->message + n, sizeof c->message - n, "%s%s%s%s", n > 0 ? "; " : "", what,
             why[0] ? ": " : "", why);
}

/* Changes the outcome DONE to CANCELLED, because a client gave up the files that wait for room. */
static void give_up_done(ps_commit *c)
{
    if (c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_DONE) {
        c->outcome = PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED;
        snprintf(c->reason, sizeof c->reason, "CANCELLED");
        snprintf(c->message, sizeof c->message,
                 "cancelled by a client while it waited for room for its files");
    }
}

static void try_last(ps_commit *c)
{
    give_up_done(c);
    c->is_last_try = true;
    c->retry_us = INT64_MAX;
    ps_commit_do(c, PS_COMMIT_STORE);
}

void ps_commit_give_up(ps_commit *c, const char *why, int64_t now_us)
{
    char names[PS_COMMIT_MESSAGE_MAX - 200], lost[PS_COMMIT_MESSAGE_MAX];

    if (c->waits[0] == '\0' || c->is_given_up) {
        return;
    }
    if (c->stage == PS_STAGE_STORE) {
        c->is_given_up = true;
        if (c->retry_us != INT64_MAX) {
            try_last(c);
        } /* otherwise a try is running; if it fails, ps_commit_stored begins the last one */
    } else if (c->stage == PS_STAGE_SALVAGE && ps_commit_is_held(c)) {
        c->is_given_up = true;
        ps_commit_uncollected(c, names, sizeof names);
        snprintf(lost, sizeof lost, "%s while files of %s waited for room: they are lost", why,
                 names);
        ps_commit_confess(c, lost, "");
        for (size_t i = 0; i < c->count; i++) {
            if (c->members[i].files == PS_FILES_HELD) {
                c->members[i].files = PS_FILES_LOST;
            }
        }
        ps_commit_go_on(c);
        ps_commit_settle(c, now_us);
    }
}

void ps_commit_retry(ps_commit *c, int64_t now_us)
{
    c->retry_us = INT64_MAX;
    switch (c->stage) {
    case PS_STAGE_STORE:
        ps_commit_do(c, PS_COMMIT_STORE);
        return;
    case PS_STAGE_DECIDED:
    case PS_STAGE_NOTE:
    case PS_STAGE_CLOSE:
        ps_commit_do(c, PS_COMMIT_SAVE);
        return;
    default:
        break;
    }
    for (size_t i = 0; i < c->count; i++) {
        if (c->members[i].files == PS_FILES_HELD) {
            c->members[i].files = PS_FILES_ASKED;
            ps_commit_do_at(c, i, PS_COMMIT_COLLECT);
        }
    }
    /* Nodes get the full time of Collect again, as the wait for room may have used it up. */
    c->deadline_us = now_us + c->conf.collect_us;
}

void ps_commit_stored(ps_commit *c, const ps_status *result, int64_t now_us)
{
    if (c->stage != PS_STAGE_STORE) {
        return;
    }
    if (!ps_is_ok(result) && c->is_given_up && !c->is_last_try) {
        try_last(c);
        return;
    }
    if (!ps_is_ok(result) && !c->is_given_up && ps_commit_may_pass(result->code)) {
        c->is_unsaved = true;
        hold(c, "the coordinator's", result, now_us);
        return;
    }
    c->is_unsaved = false;
    ps_commit_go_on(c);
    if (!ps_is_ok(result) && c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_DONE) {
        c->outcome = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
        snprintf(c->reason, sizeof c->reason, "%s",
                 result->code == PS_FAILED_PRECONDITION ? "CODE_FAILED" : "STORE_FAILED");
        snprintf(c->message, sizeof c->message, "%s", result->text);
    } else if (!ps_is_ok(result)) {
        ps_commit_confess(c, "not all of its files are stored", result->text);
    }
    if (c->outcome == PSGD__V1__JOB_STATE__JOB_STATE_QUEUED) {
        ps_commit_release_all(c, now_us);
    } else {
        c->stage = PS_STAGE_NOTE;
        ps_commit_do(c, PS_COMMIT_SAVE);
    }
}

void ps_commit_saved(ps_commit *c, const ps_status *result, int64_t now_us)
{
    if (c->stage != PS_STAGE_DECIDED && c->stage != PS_STAGE_NOTE && c->stage != PS_STAGE_CLOSE) {
        return;
    }
    c->is_unsaved = !ps_is_ok(result);
    if (c->is_unsaved) {
        hold(c, "the coordinator's", result, now_us);
        return;
    }
    ps_commit_go_on(c);
    if (c->stage == PS_STAGE_DECIDED) {
        ps_commit_salvage(c, now_us);
    } else if (c->stage == PS_STAGE_NOTE) {
        ps_commit_release_all(c, now_us);
    } else {
        c->stage = PS_STAGE_OVER;
        c->state = c->outcome;
        ps_commit_do(c, PS_COMMIT_OVER);
    }
}

void ps_commit_unstarted(ps_commit *c, const ps_status *why, int64_t now_us)
{
    if (c->stage != PS_STAGE_GOING) {
        return;
    }
    /* No node was asked, so none holds the attempt. None gets an Abort either: nodes must not learn
     * of an attempt that is not stored. */
    for (size_t i = 0; i < c->count; i++) {
        c->members[i].is_releasing = c->members[i].is_released = true;
        c->members[i].todo = 0;
    }
    ps_commit_decide(c, PSGD__V1__JOB_STATE__JOB_STATE_QUEUED, "WAITING_FOR_ROOM", now_us,
                     "its start could not be stored: %s", why->text);
}
