/* SPDX-License-Identifier: Apache-2.0 */
/* test_node.c - a node through the life of attempts, as its coordinator sees it. */
#include "common/base/log.h"
#include "tests/support/node_job.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

/* What the role does at its end. */
typedef struct outcome {
    node_world *w;
    ps_status result;
} outcome;

static void finish(void *arg)
{
    outcome *o = arg;
    char path[600];
    FILE *file;

    snprintf(path, sizeof path, "%s/TR-psgd-N(0).csv", ps_node_session(o->w->node)->folder);
    file = fopen(path, "w");
    fputs("time_s,epoch\n", file);
    fclose(file);
    ps_node_keep(o->w->node, "TR-psgd-N(0).csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT);
    ps_node_finished(o->w->node, &o->result);
}

static void an_attempt_goes_from_reserved_to_collected_and_back_to_idle(void **state)
{
    node_world w;
    job j = worker_job_of(small_job, "job-1", 1);
    outcome o = {&w, {.code = PS_OK}};
    nw_collected files;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_worker_hooks, NULL, NULL, 0, NULL);
    reserve(&w, "job-1", 1);
    nw_await(&w, is_reserved, "RESERVED in a heartbeat");
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    pthread_mutex_lock(&w.mutex);
    assert_int_equal(w.prepared, 1);
    assert_int_equal(w.ran, 1);
    assert_int_equal(w.coordinator[0].readies, 1);
    assert_int_equal(w.coordinator[0].steps, 42);
    assert_int_equal(w.session->weight_count, j.plan->layout.param_count);
    assert_memory_equal(w.session->weights, j.weights, w.session->weight_count * sizeof(float));
    assert_int_equal(ps_dataset_count(w.session->data, PS_TRAIN), 256);
    assert_int_equal(w.session->placement.server_count, 2);
    assert_string_equal(w.session->placement.servers[1].address, "127.0.0.1:10002");
    pthread_mutex_unlock(&w.mutex);

    nw_run(&w, finish, &o);
    nw_await(&w, is_finished, "FINISHED");
    nw_collect(&w, "job-1", 1, &files);
    assert_string_equal(files.error.status.text, "");
    assert_int_equal(files.count, 2);
    assert_string_equal(files.files[0].name, "TR-psgd-N(0).csv");
    assert_string_equal(ps_strbuf_text(&files.files[0].bytes), "time_s,epoch\n");
    assert_string_equal(files.files[1].name, "node-1.log");
    assert_int_equal(files.files[1].kind, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG);
    assert_non_null(strstr(ps_strbuf_text(&files.files[1].bytes), "PREPARED"));
    nw_collected_fini(&files);

    assert_true(has_folder(&w, "sessions/job-1-1"));
    nw_abort(&w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE);
    assert_int_equal(w.released, 1);
    assert_false(has_folder(&w, "sessions/job-1-1"));
    nw_await(&w, is_idle, "IDLE in a heartbeat");
    nw_end(&w);
    job_fini(&j);
}

static bool log_is_shipped(node_world *w)
{
    return w->coordinator[0].log.len > 100000;
}

/* Not on stderr: 2000 lines need not be seen. */
static void shout(void *arg)
{
    int terminal = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);

    (void)arg;
    dup2(nowhere, STDERR_FILENO);
    for (int i = 0; i < 2000; i++) {
        ps_log(PS_LOG_ERROR, "test", "line %d of a log that is longer than one heartbeat takes", i);
    }
    dup2(terminal, STDERR_FILENO);
    close(terminal);
    close(nowhere);
}

static void the_log_of_the_job_is_shipped_by_heartbeat(void **state)
{
    node_world w;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    reserve(&w, "job-1", 1);
    nw_run(&w, shout, NULL);
    nw_await(&w, log_is_shipped, "the log");
    pthread_mutex_lock(&w.mutex);
    assert_non_null(strstr(ps_strbuf_text(&w.coordinator[0].log), "line 0 of"));
    pthread_mutex_unlock(&w.mutex);
    nw_end(&w);
}

static void a_node_that_is_held_says_by_whom(void **state)
{
    Psgd__V1__CanCommitRequest request = PSGD__V1__CAN_COMMIT_REQUEST__INIT;
    Psgd__V1__CanCommitResponse *reply;
    node_world w;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    reserve(&w, "job-1", 7);
    request.job_id = (char *)"job-2";
    request.attempt = 1;
    request.role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
    request.coordinator = w.coordinator[0].address;
    reply = (Psgd__V1__CanCommitResponse *)nw_call(&w, "CanCommit", &request.base, &error);
    assert_non_null(reply);
    assert_false(reply->ready);
    assert_string_equal(reply->held_by_job, "job-1");
    assert_int_equal(reply->held_by_attempt, 7);
    assert_int_equal(reply->phase, PSGD__V1__NODE_PHASE__NODE_PHASE_RESERVED);
    assert_string_equal(reply->node_id, "node-1");
    assert_true(reply->incarnation == 0); /* told to whom it is reserved for */
    assert_string_equal(reply->version, PS_VERSION);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
    nw_end(&w);
}

static void what_cannot_be_reserved_has_a_reason(void **state)
{
    Psgd__V1__CanCommitRequest request = PSGD__V1__CAN_COMMIT_REQUEST__INIT;
    node_world w;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    request.job_id = (char *)"job-1";
    request.attempt = 1;
    request.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    request.coordinator = w.coordinator[0].address;
    assert_null(nw_call(&w, "CanCommit", &request.base, &error));
    assert_int_equal(error.status.code, PS_FAILED_PRECONDITION);
    assert_string_equal(error.reason, "WRONG_ROLE");

    request.role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
    request.job_id = (char *)"../x";
    assert_null(nw_call(&w, "CanCommit", &request.base, &error));
    assert_int_equal(error.status.code, PS_INVALID_ARGUMENT);
    assert_string_equal(error.reason, "BAD_JOB_ID");

    request.job_id = (char *)"job-1";
    request.coordinator = (char *)"nowhere";
    assert_null(nw_call(&w, "CanCommit", &request.base, &error));
    assert_string_equal(error.reason, "BAD_ADDRESS");
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE);
    nw_end(&w);
}

static void a_reservation_lapses(void **state)
{
    node_world w;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    assert_true(nw_can_commit(&w, "job-1", 1, 0, 100, &error));
    nw_await(&w, is_reserved, "RESERVED");
    nw_await(&w, is_idle, "IDLE again");
    assert_false(has_folder(&w, "sessions/job-1-1"));
    reserve(&w, "job-2", 1);
    nw_end(&w);
}

static void the_second_phase_has_a_deadline(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    nw_precommit_result result;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    j.packages.deadline_ms = 100;
    j.packages.stop_after = 0;
    reserve(&w, "job-1", 1);
    /* A seal that waits for nothing is fast enough or not; either way the node
     * is not held for ever: prepared, it waits for DoCommit so long and 5 s. */
    nw_precommit(&w, &j.packages, &result);
    nw_await(&w, is_idle, "IDLE");
    nw_end(&w);
    job_fini(&j);
}

static void a_barrier_that_does_not_open_rolls_back(void **state)
{
    node_world w;
    job j = job_of(NODE_JOB(",\"timeouts\":{\"ready_ms\":500}"), "job-1", 1);

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    w.coordinator[0].answers_ready = false;
    start(&w, &j);
    nw_await(&w, is_ready, "Ready");
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_READY);
    nw_await(&w, is_idle, "IDLE"); /* 2 * ready_ms and 2 s */
    assert_int_equal(w.ran, 0);
    assert_int_equal(w.released, 1);
    nw_end(&w);
    job_fini(&j);
}

static void a_coordinator_that_dies_at_the_barrier_is_asked_again(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    w.coordinator[0].answers_ready = false;
    start(&w, &j);
    nw_await(&w, is_ready, "Ready");
    nw_stop_coordinator(&w, 0);
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_READY);
    w.coordinator[0].answers_ready = true;
    nw_start_coordinator(&w, 0);
    nw_await(&w, is_running, "RUNNING");
    assert_int_equal(w.coordinator[0].readies, 2);
    nw_end(&w);
    job_fini(&j);
}

static void an_abort_may_come_between_two_tries_at_the_barrier(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    w.coordinator[0].answers_ready = false;
    start(&w, &j);
    nw_await(&w, is_ready, "Ready");
    nw_stop_coordinator(&w, 0);
    nw_abort(&w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    assert_int_equal(w.ran, 0);
    nw_end(&w);
    job_fini(&j);
}

static void finish_release(void *arg)
{
    node_world *w = arg;

    ps_node_released(w->node);
}

static bool is_releasing(node_world *w)
{
    return w->is_releasing;
}

static void *abort_on_thread(void *arg)
{
    node_world *w = arg;

    nw_await(w, is_releasing, "release");
    nw_run(w, finish_release, w);
    return NULL;
}

static void abort_is_answered_when_the_role_has_let_go(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    pthread_t thread;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    w.release_waits = true;
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    pthread_create(&thread, NULL, abort_on_thread, &w);
    nw_abort(&w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE);
    pthread_join(thread, NULL);
    nw_end(&w);
    job_fini(&j);
}

static void an_abort_of_what_is_not_held_is_ok_and_ends_nothing(void **state)
{
    node_world w;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    reserve(&w, "job-1", 3);
    nw_abort(&w, "job-1", 2, &error);
    assert_true(ps_is_ok(&error.status));
    nw_abort(&w, "job-2", 9, &error);
    assert_true(ps_is_ok(&error.status));
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_RESERVED);
    nw_end(&w);
}

static void a_newer_attempt_takes_the_place_of_the_older(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    prepare(&w, &j);
    reserve(&w, "job-1", 2);
    assert_int_equal(w.released, 1);
    nw_do_commit(&w, "job-1", 1, &error);
    assert_int_equal(error.status.code, PS_ABORTED);
    assert_string_equal(error.reason, "STALE_ATTEMPT");
    assert_false(nw_can_commit(&w, "job-1", 1, 0, 1000, &error));
    assert_string_equal(error.reason, "STALE_ATTEMPT");
    nw_end(&w);
    job_fini(&j);
}

static void a_heartbeat_may_end_the_attempt(void **state)
{
    (void)state;
    for (int is_lost = 0; is_lost <= 1; is_lost++) {
        node_world w;
        job j = job_of(small_job, "job-1", 1);

        nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
        start(&w, &j);
        nw_await(&w, is_running, "RUNNING");
        pthread_mutex_lock(&w.mutex);
        w.coordinator[0].abort_it = true;
        w.coordinator[0].is_lost = is_lost;
        pthread_mutex_unlock(&w.mutex);
        nw_await(&w, is_idle, "IDLE");
        assert_int_equal(w.released, 1);
        assert_int_equal(w.was_lost, is_lost);
        nw_end(&w);
        job_fini(&j);
    }
}

static bool is_registered_twice(node_world *w)
{
    return w->coordinator[0].registrations == 2;
}

static void a_coordinator_that_forgot_the_node_is_told_again(void **state)
{
    node_world w;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    pthread_mutex_lock(&w.mutex);
    w.coordinator[0].forget = true;
    pthread_mutex_unlock(&w.mutex);
    nw_await(&w, is_registered_twice, "another registration");
    nw_end(&w);
}

static bool other_sees_running(node_world *w)
{
    return w->coordinator[1].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING &&
           w->coordinator[1].steps == 42 && is_running(w) && w->coordinator[0].steps == 0;
}

static void a_job_may_have_another_coordinator_than_the_node(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    nw_precommit_result result;
    ps_error error;
    unsigned beats;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    w.coordinator[0].abort_it = true; /* it knows no such job; not its business */
    assert_true(nw_can_commit(&w, "job-1", 1, 1, PS_TEST_PATIENCE_S * 1000, &error));
    nw_precommit(&w, &j.packages, &result);
    assert_true(result.sealed);
    nw_do_commit(&w, "job-1", 1, &error);
    nw_await(&w, other_sees_running, "heartbeats to both");
    pthread_mutex_lock(&w.mutex);
    assert_int_equal(w.coordinator[1].readies, 1);
    assert_int_equal(w.coordinator[0].readies, 0);
    assert_true(w.coordinator[1].log.len > 0);
    assert_int_equal(w.coordinator[0].log.len, 0);
    pthread_mutex_unlock(&w.mutex);
    nw_abort(&w, "job-1", 1, &error);
    nw_await(&w, is_idle, "IDLE");
    pthread_mutex_lock(&w.mutex);
    beats = w.coordinator[1].heartbeats;
    w.coordinator[0].heartbeats = 0;
    pthread_mutex_unlock(&w.mutex);
    (void)nw_phase(&w); /* a round trip later the other is not spoken to any more */
    assert_true(w.coordinator[1].heartbeats <= beats + 1);
    nw_end(&w);
    job_fini(&j);
}

static void training_goes_on_while_the_coordinator_is_away(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    outcome o = {&w, {.code = PS_DATA_LOSS, .text = "a reason"}};

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    nw_stop_coordinator(&w, 0);
    nw_run(&w, finish, &o); /* a failure, which it hears of later */
    assert_int_equal(nw_phase(&w), PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED);
    assert_int_equal(w.released, 0);
    nw_start_coordinator(&w, 0);
    nw_await(&w, is_failed, "FAILED");
    assert_int_equal(w.coordinator[0].error_code, PS_DATA_LOSS);
    assert_string_equal(w.coordinator[0].job_id, "job-1");
    nw_end(&w);
    job_fini(&j);
}

static void nothing_is_collected_before_the_end(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    nw_collected files;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    nw_collect(&w, "job-1", 1, &files);
    assert_int_equal(files.error.status.code, PS_FAILED_PRECONDITION);
    assert_string_equal(files.error.reason, "WRONG_PHASE");
    nw_collect(&w, "job-1", 2, &files);
    assert_string_equal(files.error.reason, "NOT_HELD");
    nw_end(&w);
    job_fini(&j);
}

/* A role whose files take a while: until it is told to go on, or to stop. */
typedef struct saver {
    node_world w;
    ps_role_hooks hooks;
    atomic_bool goes_on;
    bool is_saving, was_stopped; /* under the mutex */
} saver;

static void save_is(saver *s, bool saving, bool stopped)
{
    pthread_mutex_lock(&s->w.mutex);
    s->is_saving = saving;
    s->was_stopped = stopped;
    nw_changed(&s->w);
    pthread_mutex_unlock(&s->w.mutex);
}

static ps_status save_slowly(void *state, const atomic_bool *stop)
{
    saver *s = state; /* the world is its first member */

    save_is(s, true, false);
    while (!atomic_load(&s->goes_on) && !atomic_load(stop)) {
        sched_yield();
    }
    save_is(s, false, atomic_load(stop));
    return atomic_load(stop) ? ps_fail(PS_ABORTED, "stopped") : ps_ok();
}

static void release_after_saving(void *state)
{
    assert_false(((saver *)state)->is_saving);
    nw_server_hooks.release(state);
}

static bool saves(node_world *w)
{
    return ((saver *)w)->is_saving;
}

static void saver_begin(saver *s, const job *j)
{
    outcome o = {&s->w, {.code = PS_OK}};

    s->hooks = nw_server_hooks;
    s->hooks.save = save_slowly;
    s->hooks.release = release_after_saving;
    nw_begin(&s->w, &s->hooks, NULL, NULL, 0, NULL);
    start(&s->w, j);
    nw_await(&s->w, is_running, "RUNNING");
    nw_run(&s->w, finish, &o);
}

static void a_node_that_saves_its_files_answers_meanwhile(void **state)
{
    job j = job_of(small_job, "job-1", 1);
    saver s = {.goes_on = false};
    nw_collected files;
    nw_collector *c;

    (void)state;
    saver_begin(&s, &j);
    c = nw_collect_begin(&s.w, "job-1", 1, &files);
    nw_await(&s.w, saves, "the files to be saved");
    assert_int_equal(nw_phase(&s.w), PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED);
    assert_true(saves(&s.w));
    atomic_store(&s.goes_on, true);
    nw_collect_end(c);
    assert_string_equal(files.error.status.text, "");
    assert_int_equal(files.count, 2);
    assert_false(s.was_stopped);
    nw_collected_fini(&files);
    nw_end(&s.w);
    job_fini(&j);
}

static void files_that_nobody_wants_any_more_are_saved_no_further(void **state)
{
    job j = job_of(small_job, "job-1", 1);
    saver s = {.goes_on = false};
    nw_collected files;
    nw_collector *c;
    ps_error error;

    (void)state;
    saver_begin(&s, &j);
    c = nw_collect_begin(&s.w, "job-1", 1, &files);
    nw_await(&s.w, saves, "the files to be saved");
    nw_abort(&s.w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    assert_true(s.was_stopped);
    assert_int_equal(s.w.released, 1);
    nw_collect_end(c);
    assert_int_equal(files.error.status.code, PS_ABORTED);
    assert_false(has_folder(&s.w, "sessions/job-1-1"));
    atomic_store(&s.goes_on, true); /* the next attempt's are saved whole */
    job_fini(&j);
    j = job_of(small_job, "job-1", 2);
    start(&s.w, &j);
    nw_await(&s.w, is_running, "RUNNING");
    nw_run(&s.w, finish, &(outcome){&s.w, {.code = PS_OK}});
    nw_collect(&s.w, "job-1", 2, &files);
    assert_string_equal(files.error.status.text, "");
    assert_false(s.was_stopped);
    nw_collected_fini(&files);
    nw_end(&s.w);
    job_fini(&j);
}

/* --- the end of the node ---------------------------------------------------------- */

static void a_node_that_is_stopped_takes_no_job(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    nw_stop_node(&w, 0); /* the running one is ended */
    assert_int_equal(w.released, 1);
    nw_end(&w);
    job_fini(&j);
}

static bool is_released(node_world *w)
{
    return w->released == 1;
}

static void *stop_with_grace(void *arg)
{
    nw_stop_node(arg, 60000000);
    return NULL;
}

static bool is_not_serving(node_world *w)
{
    return w->node_is_down || w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED;
}

static void a_running_job_may_end_within_the_grace_time(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    outcome o = {&w, {.code = PS_OK}};
    pthread_t thread;
    nw_collected files;
    ps_error error;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    pthread_create(&thread, NULL, stop_with_grace, &w);
    nw_run(&w, finish, &o);
    nw_await(&w, is_not_serving, "FINISHED");
    nw_collect(&w, "job-1", 1, &files);
    assert_int_equal(files.count, 2);
    nw_collected_fini(&files);
    nw_abort(&w, "job-1", 1, &error);
    assert_string_equal(error.status.text, "");
    pthread_join(thread, NULL);
    nw_await(&w, is_released, "release");
    nw_end(&w);
    job_fini(&j);
}

static void a_job_that_outlives_the_grace_time_is_failed_aloud(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    nw_stop_node(&w, 1000);
    assert_int_equal(w.coordinator[0].phase, PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED);
    assert_int_equal(w.coordinator[0].error_code, PS_CANCELLED);
    assert_true(w.coordinator[0].has_left); /* the last that it was told */
    assert_int_equal(w.released, 1);
    nw_end(&w);
    job_fini(&j);
}

static void *stop_at_once(void *arg)
{
    nw_stop_node(arg, 0);
    return NULL;
}

static bool has_given_up(node_world *w)
{
    return w->is_releasing && w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED &&
           w->coordinator[0].error_code == PS_CANCELLED;
}

/* Its heartbeats have no progress any more. */
static void a_node_that_gives_a_finished_attempt_up_does_not_say_that_it_has_finished(void **state)
{
    node_world w;
    job j = job_of(small_job, "job-1", 1);
    outcome o = {&w, {.code = PS_OK}};
    pthread_t thread;

    (void)state;
    nw_begin(&w, &nw_server_hooks, NULL, NULL, 0, NULL);
    w.release_waits = true;
    start(&w, &j);
    nw_await(&w, is_running, "RUNNING");
    nw_run(&w, finish, &o);
    nw_await(&w, is_finished, "FINISHED");
    pthread_create(&thread, NULL, stop_at_once, &w);
    nw_await(&w, has_given_up, "FAILED");
    nw_run(&w, finish_release, &w);
    pthread_join(thread, NULL);
    assert_true(w.coordinator[0].has_left);
    nw_end(&w);
    job_fini(&j);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_attempt_goes_from_reserved_to_collected_and_back_to_idle),
        cmocka_unit_test(a_node_that_is_held_says_by_whom),
        cmocka_unit_test(what_cannot_be_reserved_has_a_reason),
        cmocka_unit_test(a_reservation_lapses),
        cmocka_unit_test(the_second_phase_has_a_deadline),
        cmocka_unit_test(a_barrier_that_does_not_open_rolls_back),
        cmocka_unit_test(a_coordinator_that_dies_at_the_barrier_is_asked_again),
        cmocka_unit_test(an_abort_may_come_between_two_tries_at_the_barrier),
        cmocka_unit_test(abort_is_answered_when_the_role_has_let_go),
        cmocka_unit_test(an_abort_of_what_is_not_held_is_ok_and_ends_nothing),
        cmocka_unit_test(a_newer_attempt_takes_the_place_of_the_older),
        cmocka_unit_test(a_heartbeat_may_end_the_attempt),
        cmocka_unit_test(a_coordinator_that_forgot_the_node_is_told_again),
        cmocka_unit_test(a_job_may_have_another_coordinator_than_the_node),
        cmocka_unit_test(training_goes_on_while_the_coordinator_is_away),
        cmocka_unit_test(nothing_is_collected_before_the_end),
        cmocka_unit_test(a_node_that_saves_its_files_answers_meanwhile),
        cmocka_unit_test(files_that_nobody_wants_any_more_are_saved_no_further),
        cmocka_unit_test(a_node_that_is_stopped_takes_no_job),
        cmocka_unit_test(a_running_job_may_end_within_the_grace_time),
        cmocka_unit_test(a_job_that_outlives_the_grace_time_is_failed_aloud),
        cmocka_unit_test(a_node_that_gives_a_finished_attempt_up_does_not_say_that_it_has_finished),
        cmocka_unit_test(the_log_of_the_job_is_shipped_by_heartbeat),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
