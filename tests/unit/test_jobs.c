/* SPDX-License-Identifier: Apache-2.0 */
/* test_jobs.c - the jobs that are not over: found, published, stored. */
#include "services/coordinator/domain/jobs.h"

#include "services/coordinator/domain/job_message.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUED PSGD__V1__JOB_STATE__JOB_STATE_QUEUED
#define CANCELLED PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED
#define RUNNING PSGD__V1__JOB_STATE__JOB_STATE_RUNNING
#define FAILED PSGD__V1__JOB_STATE__JOB_STATE_FAILED
#define STATE_EVENT PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE
#define METRICS_EVENT PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_METRICS

static int64_t now_us;

static int64_t fake_clock(void)
{
    return now_us;
}

/* What observers were told, and the changes that wait to be stored. */
typedef struct world {
    ps_jobs jobs;
    unsigned seen[PS_JOB_OVER + 1];
    char order[64];
    ps_live_change *changes[8];
    size_t change_count;
    unsigned answers;
    ps_code answer;
} world;

static void note(void *arg, ps_live *job, ps_job_news what)
{
    world *w = arg;
    size_t n = strlen(w->order);

    w->seen[what]++;
    if (n + 1 < sizeof w->order) {
        w->order[n] = "tsvefqo"[what];
    }
    if (what == PS_JOB_OVER) {
        assert_null(ps_jobs_find(&w->jobs, job->record.job->id));
    }
}

static void keep_changes(void *arg, ps_live *job, ps_job_news what)
{
    world *w = arg;

    if (what == PS_JOB_TO_STORE) {
        assert_true(w->change_count < 8);
        w->changes[w->change_count++] = ps_live_take_change(job);
    }
}

static void answer_first(world *w, ps_code code)
{
    ps_live_change *first = w->changes[0];
    ps_status st = code == PS_OK ? ps_ok() : ps_fail(code, "no room");

    assert_true(w->change_count > 0);
    memmove(w->changes, w->changes + 1, --w->change_count * sizeof first);
    ps_live_stored(first, &st);
}

static ps_live *add(world *w, const char *id)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    ps_record record = {.number = w->jobs.count + 1, .sequence = 1};
    ps_live *job;

    record.job = ps_job_create(&spec, 0);
    ps_text_set(&record.job->id, id);
    job = ps_live_create(&record);
    ps_jobs_append(&w->jobs, job);
    return job;
}

static void begin(world *w)
{
    memset(w, 0, sizeof *w);
    now_us = 1000000;
    ps_jobs_init(&w->jobs, fake_clock);
    ps_jobs_observe(&w->jobs.board, keep_changes, w);
    ps_jobs_observe(&w->jobs.board, note, w);
}

static void on_stored(void *arg, const ps_status *result)
{
    world *w = arg;

    w->answers++;
    w->answer = result->code;
}

static void jobs_are_found_by_their_ids_and_stand_in_order(void **state)
{
    enum { MANY = 20000 };
    ps_live **all = calloc(MANY, sizeof *all);
    char id[32];
    world w;

    (void)state;
    begin(&w);
    for (int i = 0; i < MANY; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        all[i] = add(&w, id);
    }
    assert_int_equal(w.jobs.count, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        assert_ptr_equal(ps_jobs_find(&w.jobs, id), all[i]);
        assert_ptr_equal(all[i]->next, i + 1 < MANY ? all[i + 1] : NULL);
    }
    assert_null(ps_jobs_find(&w.jobs, "job"));
    ps_jobs_remove(&w.jobs, all[5]);
    assert_null(ps_jobs_find(&w.jobs, "job-5"));
    assert_ptr_equal(all[4]->next, all[6]);
    ps_live_destroy(all[5]);
    ps_jobs_fini(&w.jobs);
    free(all);
}

static void what_concerns_nodes_walks_through_active_jobs_alone(void **state)
{
    world w;
    ps_live *a, *b, *d;

    (void)state;
    begin(&w);
    a = add(&w, "a");
    b = add(&w, "b");
    d = add(&w, "d");
    assert_null(w.jobs.active);
    ps_jobs_activate(&w.jobs, a);
    ps_jobs_activate(&w.jobs, d);
    assert_int_equal(w.jobs.queued, 1);
    assert_ptr_equal(w.jobs.active, d);
    assert_ptr_equal(d->active_next, a);
    assert_null(a->active_next);
    ps_jobs_deactivate(&w.jobs, d);
    ps_jobs_deactivate(&w.jobs, d);
    assert_ptr_equal(w.jobs.active, a);
    ps_jobs_remove(&w.jobs, a);
    assert_null(w.jobs.active);
    assert_int_equal(w.jobs.queued, 2);
    ps_live_destroy(a);
    (void)b;
    ps_jobs_fini(&w.jobs);
}

static void an_event_is_shown_when_it_is_stored(void **state)
{
    world w;
    ps_live *job;

    (void)state;
    begin(&w);
    job = add(&w, "a");
    ps_live_set_state(job, RUNNING, "", "");
    assert_string_equal(w.order, "st"); /* STATE, then TO_STORE */
    assert_int_equal(w.seen[PS_JOB_EVENT], 0);
    assert_true(w.changes[0]->has_event);
    assert_int_equal(w.changes[0]->kind, STATE_EVENT);
    answer_first(&w, PS_OK);
    assert_string_equal(w.order, "ste");
    assert_int_equal(job->stored_sequence, job->sequence);
    ps_jobs_fini(&w.jobs);
}

static void a_decision_is_the_job_s_only_when_it_is_stored(void **state)
{
    world w;
    ps_live *job;

    (void)state;
    begin(&w);
    job = add(&w, "a");
    ps_live_store(job, CANCELLED, 0, "CANCELLED", "by a client", on_stored, &w);
    ps_live_publish(job, METRICS_EVENT); /* behind the decision */
    ps_live_publish(job, STATE_EVENT);   /* not in its place */
    assert_int_equal(w.change_count, 1);
    assert_int_equal(job->record.job->state, QUEUED);
    answer_first(&w, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(w.answer, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(job->record.job->state, QUEUED);
    assert_int_equal(w.change_count, 2); /* what was published meanwhile */
    assert_int_equal(w.changes[0]->kind, METRICS_EVENT);
    assert_int_equal(w.changes[1]->kind, STATE_EVENT);
    answer_first(&w, PS_OK);
    answer_first(&w, PS_OK);
    ps_live_store(job, CANCELLED, 0, "CANCELLED", "by a client", on_stored, &w);
    answer_first(&w, PS_OK);
    assert_int_equal(w.answers, 2);
    assert_int_equal(job->record.job->state, CANCELLED);
    w.order[0] = '\0';
    memset(w.order, 0, sizeof w.order);
    ps_jobs_settle(&w.jobs, job);
    assert_string_equal(w.order, "o");
    assert_int_equal(w.jobs.count, 0);
    ps_jobs_fini(&w.jobs);
}

static void what_cannot_be_stored_is_said_once_and_shown(void **state)
{
    world w;
    ps_live *job;

    (void)state;
    begin(&w);
    job = add(&w, "a");
    for (int i = 0; i < 3; i++) {
        ps_live_publish(job, STATE_EVENT);
        answer_first(&w, PS_RESOURCE_EXHAUSTED);
        assert_true(job->is_unsaved);
        assert_int_equal(w.jobs.board.unsaved, 1);
        assert_int_equal(job->progress_sequence, job->sequence);
    }
    assert_int_equal(w.seen[PS_JOB_SAVING], 1);
    assert_int_equal(w.seen[PS_JOB_EVENT], 3); /* as progress */
    ps_live_save(job);
    answer_first(&w, PS_OK);
    assert_int_equal(w.seen[PS_JOB_SAVING], 2);
    assert_int_equal(w.jobs.board.unsaved, 0);
    ps_jobs_fini(&w.jobs);
}

static void a_job_that_is_not_over_goes_back_to_the_queue(void **state)
{
    world w;
    ps_live *job;

    (void)state;
    begin(&w);
    job = add(&w, "a");
    ps_jobs_settle(&w.jobs, job);
    assert_int_equal(w.seen[PS_JOB_QUEUED], 1);
    assert_int_equal(w.seen[PS_JOB_OVER], 0);
    ps_live_store(job, FAILED, 0, "X", "y", on_stored, &w);
    answer_first(&w, PS_OK);
    ps_live_save(job); /* on its way when the job ends */
    ps_jobs_settle(&w.jobs, job);
    assert_int_equal(w.seen[PS_JOB_OVER], 1);
    answer_first(&w, PS_OK); /* frees it */
    ps_jobs_fini(&w.jobs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs_are_found_by_their_ids_and_stand_in_order),
        cmocka_unit_test(what_concerns_nodes_walks_through_active_jobs_alone),
        cmocka_unit_test(an_event_is_shown_when_it_is_stored),
        cmocka_unit_test(a_decision_is_the_job_s_only_when_it_is_stored),
        cmocka_unit_test(what_cannot_be_stored_is_said_once_and_shown),
        cmocka_unit_test(a_job_that_is_not_over_goes_back_to_the_queue),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
