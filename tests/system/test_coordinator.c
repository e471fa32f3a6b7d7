/* SPDX-License-Identifier: Apache-2.0 */
/* test_coordinator.c - the coordinator as its clients and its nodes see it. */
#include "common/artifact/safetensors.h"
#include "common/base/sha256.h"
#include "common/rpc/process.h"
#include "services/coordinator/domain/job_message.h"
#include "tests/support/coordinator_world.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define STATE(name) PSGD__V1__JOB_STATE__JOB_STATE_##name
#define KIND(name) PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_##name

/* Small, but for the data set: workers draw it, which takes long on a busy host. */
#define TIMEOUTS(more) ",\"timeouts\":{\"pre_commit_floor_ms\":60000" more "}"
#define PLAIN                                                                                      \
    "\"model\":{\"widths\":[8]},\"data\":{\"train_limit\":128,\"test_limit\":10},\"epochs\":1"
#define SMALL PLAIN TIMEOUTS("")
#define PAIR "{\"title\":\"pair\",\"workers\":1,\"pservers\":1," SMALL "}"

static const Psgd__V1__Artifact *artifact(const Psgd__V1__Job *job, const char *name)
{
    for (size_t i = 0; i < job->n_artifacts; i++) {
        if (strcmp(job->artifacts[i]->name, name) == 0) {
            return job->artifacts[i];
        }
    }
    return NULL;
}

static void a_job_goes_through_all_states_and_leaves_its_files(void **state)
{
    static const Psgd__V1__JobState want[] = {
        STATE(QUEUED),  STATE(CAN_COMMIT), STATE(PRE_COMMIT), STATE(DO_COMMIT),
        STATE(RUNNING), STATE(COLLECTING), STATE(DONE)};
    coordinator_world w;
    cw_events events;
    Psgd__V1__Job *job;
    uint64_t sequence = 0;
    size_t seen = 0;
    char id[96];

    (void)state;
    cw_begin(&w, 2, 2);
    cw_submit(&w, "{\"title\":\"all\",\"workers\":2,\"pservers\":2," SMALL "}", id);
    cw_watch(&w, id, 0, STATE(UNSPECIFIED), &events);
    assert_int_equal(events.error.status.code, PS_OK); /* it ends with the job */
    for (size_t i = 0; i < events.count; i++) {
        assert_true(events.items[i]->sequence > sequence);
        sequence = events.items[i]->sequence;
        if (seen < 7 && events.items[i]->job->state == want[seen]) {
            seen++;
        }
    }
    assert_int_equal(seen, 7);
    job = cw_get(&w, id);
    assert_int_equal(job->state, STATE(DONE));
    assert_int_equal(job->attempt, 1);
    assert_string_equal(job->reason, "");
    assert_int_equal(job->n_placements, 4);
    assert_string_equal(job->placements[1]->node_id, "w1");
    assert_int_equal(job->placements[1]->rank, 1);
    assert_non_null(job->start_time);
    assert_non_null(job->end_time);
    assert_int_equal(job->progress->workers_total, 2);
    assert_int_equal(job->progress->bytes_up, 200); /* the sum */
    assert_int_equal(job->n_result, 1);
    assert_string_equal(job->result[0]->key, "accuracy");
    assert_float_equal(job->result[0]->value, 0.625, 1e-12); /* the mean */
    assert_string_equal(artifact(job, "TR-all-N(1).csv")->node_id, "w1");
    assert_non_null(artifact(job, "LOG-all-N(w0).jsonl"));
    assert_non_null(artifact(job, "MODEL-all-N(ps).safetensors"));
    assert_non_null(artifact(job, "summary.json"));
    assert_non_null(artifact(job, "manifest.json"));
    assert_int_equal(artifact(job, "summary.json")->kind, KIND(SUMMARY));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_events_fini(&events);
    cw_end(&w);
}

/* The sham servers give back what they were sent plus one: so the packages were
 * cut, and the model is put together, by the same layout. */
static void the_servers_weights_become_one_model(void **state)
{
    coordinator_world w;
    Psgd__V1__JobSpec *spec;
    ps_safetensors *file = NULL;
    ps_plan *plan = NULL;
    ps_model *model = NULL;
    Psgd__V1__Job *job;
    char id[96], path[400];
    float *block;
    ps_status st;

    (void)state;
    cw_begin(&w, 1, 3);
    cw_submit(&w,
              "{\"title\":\"m\",\"workers\":1,\"pservers\":3,\"seed\":7,"
              "\"model\":{\"widths\":[64,16]},"
              "\"data\":{\"train_limit\":128,\"test_limit\":10},\"epochs\":1" TIMEOUTS("") "}",
              id);
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    job = cw_get(&w, id);
    spec = job->spec;
    st = ps_plan_create(spec, NULL, NULL, &plan);
    assert_int_equal(st.code, PS_OK);
    st = ps_plan_model(plan, 1, &model);
    assert_int_equal(st.code, PS_OK);
    block = calloc(plan->layout.param_count, sizeof *block);
    ps_model_init(model, 7, block);
    snprintf(path, sizeof path, "%s/jobs/%s/MODEL-m-N(ps).safetensors", w.data_dir, id);
    st = ps_safetensors_open(path, &file);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_safetensors_count(file), plan->layout.variable_count);
    for (size_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *variable = &plan->layout.variables[v];
        const ps_tensor *tensor = ps_safetensors_at(file, v);

        assert_string_equal(tensor->name, variable->name);
        for (size_t i = 0; i < variable->size; i++) {
            assert_true(tensor->data[i] == block[variable->at + i] + 1);
        }
    }
    ps_safetensors_close(file);
    free(block);
    ps_model_destroy(model);
    ps_plan_destroy(plan);
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void files_are_reclaimed_whole_and_in_part(void **state)
{
    Psgd__V1__ReclaimLogsRequest q = PSGD__V1__RECLAIM_LOGS_REQUEST__INIT;
    Psgd__V1__ArtifactKind reports[] = {KIND(REPORT)};
    char id[96], hex[PS_SHA256_HEX_BYTES];
    coordinator_world w;
    cw_reclaimed r;
    Psgd__V1__Job *job;

    (void)state;
    cw_begin(&w, 1, 1);
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    job = cw_get(&w, id);
    q.job_id = id;
    cw_reclaim(&w, &q, &r);
    assert_int_equal(r.error.status.code, PS_OK);
    assert_int_equal(r.count, job->n_artifacts); /* each is one small chunk */
    for (size_t i = 0; i < r.count; i++) {
        const Psgd__V1__ReclaimLogsResponse *head = r.chunks[i].head;

        assert_true(head->last);
        assert_int_equal(r.chunks[i].n, head->artifact->size);
        assert_int_equal(head->crc32, crc32_z(0, r.chunks[i].bytes, r.chunks[i].n));
        ps_sha256_of(r.chunks[i].bytes, r.chunks[i].n, hex);
        assert_string_equal(head->artifact->sha256, hex);
        assert_non_null(artifact(job, head->artifact->name));
    }
    cw_reclaimed_fini(&r);
    q.n_kinds = 1;
    q.kinds = reports;
    cw_reclaim(&w, &q, &r);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.chunks[0].head->artifact->name, "TR-pair-N(0).csv");
    cw_reclaimed_fini(&r);
    q.n_kinds = 0;
    q.name = (char *)"TR-pair-N(0).csv";
    q.offset = 5;
    cw_reclaim(&w, &q, &r);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.chunks[0].head->offset, 5);
    assert_memory_equal(r.chunks[0].bytes, "loss\n", 5);
    cw_reclaimed_fini(&r);
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void reclaims_that_make_no_sense_are_refused(void **state)
{
    static const struct {
        const char *job, *name;
        uint64_t offset;
        ps_code want;
    } cases[] = {
        {"none-aaaaaaaa", "", 0, PS_NOT_FOUND}, {"../../../etc", "", 0, PS_NOT_FOUND},
        {NULL, "", 5, PS_INVALID_ARGUMENT},     {NULL, "../../jobs.db", 0, PS_INVALID_ARGUMENT},
        {NULL, "other.csv", 0, PS_NOT_FOUND},   {NULL, "TR-pair-N(0).csv", 1000, PS_OUT_OF_RANGE},
    };
    coordinator_world w;
    char id[96];

    (void)state;
    cw_begin(&w, 1, 1);
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Psgd__V1__ReclaimLogsRequest q = PSGD__V1__RECLAIM_LOGS_REQUEST__INIT;
        cw_reclaimed r;

        q.job_id = cases[i].job ? (char *)cases[i].job : id;
        q.name = (char *)cases[i].name;
        q.offset = cases[i].offset;
        cw_reclaim(&w, &q, &r);
        if (r.error.status.code != cases[i].want) {
            fail_msg("case %zu: %s (%s)", i, ps_code_name(r.error.status.code),
                     r.error.status.text);
        }
        assert_int_equal(r.count, 0);
        cw_reclaimed_fini(&r);
    }
    cw_end(&w);
}

/* Ends the run while a client follows its logs. */
typedef struct later {
    coordinator_world *w;
    pthread_t thread;
} later;

static void *finish_both(void *arg)
{
    later *l = arg;

    cw_finish(l->w, 0, ps_ok());
    return NULL;
}

static void logs_are_followed_until_the_job_is_over(void **state)
{
    Psgd__V1__ReclaimLogsRequest q = PSGD__V1__RECLAIM_LOGS_REQUEST__INIT;
    Psgd__V1__ArtifactKind logs[] = {KIND(LOG)};
    coordinator_world w;
    later l = {.w = &w};
    cw_reclaimed r;
    size_t last = 0;
    char id[96];

    (void)state;
    cw_begin(&w, 1, 1);
    w.nodes[0].finishes = w.nodes[1].finishes = false;
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(RUNNING)), STATE(RUNNING));
    pthread_create(&l.thread, NULL, finish_both, &l);
    q.job_id = id;
    q.follow = true;
    q.n_kinds = 1;
    q.kinds = logs;
    cw_reclaim(&w, &q, &r);
    pthread_join(l.thread, NULL);
    assert_int_equal(r.error.status.code, PS_OK);
    assert_true(r.count >= 2);
    for (size_t i = 0; i < r.count; i++) {
        assert_int_equal(r.chunks[i].head->artifact->kind, KIND(LOG));
        last += r.chunks[i].head->last ? 1 : 0;
    }
    assert_int_equal(last, 2); /* both nodes' logs came to their ends */
    cw_reclaimed_fini(&r);
    cw_end(&w);
}

static void a_repeated_request_is_one_job(void **state)
{
    coordinator_world w;
    Psgd__V1__SubmitJobResponse *first, *again, *other;
    ps_error error;

    (void)state;
    cw_begin(&w, 0, 0);
    first = cw_try_submit(&w, PAIR, "abc", &error);
    assert_non_null(first);
    assert_int_equal(first->job->state, STATE(QUEUED));
    again = cw_try_submit(&w, PAIR, "abc", &error);
    assert_non_null(again);
    assert_string_equal(first->job->id, again->job->id);
    /* The same in other words: a default that is written out. */
    psgd__v1__submit_job_response__free_unpacked(again, NULL);
    again = cw_try_submit(
        &w, "{\"title\":\"pair\",\"workers\":1,\"pservers\":1,\"block_size\":64," SMALL "}", "abc",
        &error);
    assert_non_null(again);
    assert_string_equal(first->job->id, again->job->id);
    other = cw_try_submit(&w, "{\"title\":\"other\"}", "abc", &error);
    assert_null(other);
    assert_int_equal(error.status.code, PS_ALREADY_EXISTS);
    assert_string_equal(error.reason, "REQUEST_ID_USED");
    other = cw_try_submit(&w, PAIR, "", &error);
    assert_non_null(other);
    assert_string_not_equal(first->job->id, other->job->id);
    psgd__v1__submit_job_response__free_unpacked(first, NULL);
    psgd__v1__submit_job_response__free_unpacked(again, NULL);
    psgd__v1__submit_job_response__free_unpacked(other, NULL);
    cw_end(&w);
}

static void everything_wrong_with_a_spec_is_said_at_once(void **state)
{
    coordinator_world w;
    ps_error error;

    (void)state;
    cw_begin(&w, 0, 0);
    assert_null(cw_try_submit(&w,
                              "{\"title\":\".x\",\"workers\":1000,"
                              "\"optimizer\":{\"rule\":{\"name\":\"magic\"}}}",
                              "a\nb", &error));
    assert_int_equal(error.status.code, PS_INVALID_ARGUMENT);
    assert_string_equal(error.reason, "BAD_JOB_SPEC");
    assert_int_equal(error.violation_count, 4);
    assert_string_equal(error.violations[0].field, "spec.title");
    assert_string_equal(error.violations[3].field, "request_id");
    cw_end(&w);
}

static void a_job_waits_for_nodes_and_says_for_which(void **state)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    cw_events events;
    char id[96];

    (void)state;
    cw_begin(&w, 1, 1);
    cw_submit(&w, "{\"workers\":2,\"pservers\":1," SMALL "}", id);
    cw_watch(&w, id, 1, STATE(QUEUED), &events); /* the second event says it */
    job = cw_get(&w, id);
    assert_int_equal(job->state, STATE(QUEUED));
    assert_string_equal(job->reason, "WAITING_FOR_NODES");
    assert_string_equal(job->message, "needs 2 workers, 1 idle of 1 known");
    psgd__v1__job__free_unpacked(job, NULL);
    cw_events_fini(&events);
    cw_end(&w);
}

static ps_code cancel(coordinator_world *w, const char *id)
{
    Psgd__V1__CancelJobRequest q = PSGD__V1__CANCEL_JOB_REQUEST__INIT;
    ps_error error;
    ProtobufCMessage *r;

    q.job_id = (char *)id;
    r = cw_call(w, "CancelJob", &q.base, &error);
    if (r) {
        protobuf_c_message_free_unpacked(r, NULL);
    }
    return error.status.code;
}

static ps_code forget(coordinator_world *w, const char *id)
{
    Psgd__V1__DeleteJobRequest q = PSGD__V1__DELETE_JOB_REQUEST__INIT;
    ps_error error;
    ProtobufCMessage *r;

    q.job_id = (char *)id;
    r = cw_call(w, "DeleteJob", &q.base, &error);
    if (r) {
        protobuf_c_message_free_unpacked(r, NULL);
    }
    return error.status.code;
}

static void a_job_is_cancelled_and_forgotten(void **state)
{
    coordinator_world w;
    char id[96], queued[96];

    (void)state;
    cw_begin(&w, 1, 1);
    w.nodes[0].finishes = w.nodes[1].finishes = false;
    cw_submit(&w, PAIR, id);
    cw_submit(&w, PAIR, queued);
    assert_int_equal(cw_await(&w, id, STATE(RUNNING)), STATE(RUNNING));
    assert_int_equal(forget(&w, id), PS_FAILED_PRECONDITION);
    assert_int_equal(cancel(&w, queued), PS_OK);
    assert_int_equal(cw_await(&w, queued, STATE(CANCELLED)), STATE(CANCELLED));
    assert_int_equal(cancel(&w, id), PS_OK);
    assert_int_equal(cw_await(&w, id, STATE(CANCELLED)), STATE(CANCELLED));
    assert_int_equal(cancel(&w, id), PS_FAILED_PRECONDITION);
    assert_int_equal(forget(&w, id), PS_OK);
    assert_int_equal(forget(&w, id), PS_NOT_FOUND);
    assert_int_equal(cancel(&w, id), PS_NOT_FOUND);
    /* The nodes are free for the next. */
    w.nodes[0].finishes = w.nodes[1].finishes = true;
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    cw_end(&w);
}

static void a_failed_node_fails_the_job_and_leaves_its_report(void **state)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    char id[96];

    (void)state;
    cw_begin(&w, 2, 1);
    for (size_t i = 0; i < 3; i++) {
        w.nodes[i].finishes = false;
    }
    cw_submit(&w, "{\"title\":\"f\",\"workers\":2,\"pservers\":1," SMALL "}", id);
    assert_int_equal(cw_await(&w, id, STATE(RUNNING)), STATE(RUNNING));
    cw_finish(&w, 1, ps_fail(PS_DATA_LOSS, "loss is not finite"));
    assert_int_equal(cw_await(&w, id, STATE(FAILED)), STATE(FAILED));
    job = cw_get(&w, id);
    assert_string_equal(job->reason, "NODE_FAILED");
    assert_non_null(strstr(job->message, "worker w1 "));
    assert_non_null(strstr(job->message, "loss is not finite"));
    assert_non_null(artifact(job, "TR-f-N(1).csv"));
    assert_non_null(artifact(job, "LOG-f-N(w1).jsonl"));
    assert_non_null(artifact(job, "summary.json"));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

/* A job whose first worker does so to Collect fails, and says which worker and why. */
static void must_fail_collecting(bool leaves_bad_file, bool cannot_collect, const char *words)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    char id[96];

    cw_begin(&w, 1, 1);
    w.nodes[0].leaves_bad_file = leaves_bad_file;
    w.nodes[0].cannot_collect = cannot_collect;
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(FAILED)), STATE(FAILED));
    job = cw_get(&w, id);
    assert_string_equal(job->reason, "COLLECT_FAILED");
    assert_non_null(strstr(job->message, "worker w0"));
    assert_non_null(strstr(job->message, words));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void a_node_may_not_write_over_the_coordinator_s_files(void **state)
{
    (void)state;
    must_fail_collecting(true, false, "summary.json");
}

/* A full disk of a node is not the coordinator's, and is not asked again until time is up. */
static void a_node_that_cannot_write_its_files_fails_the_job_with_the_reason(void **state)
{
    (void)state;
    must_fail_collecting(false, true, "no room for a file");
}

static void a_named_node_that_is_held_by_somebody_else_is_busy(void **state)
{
    Psgd__V1__CanCommitRequest q = PSGD__V1__CAN_COMMIT_REQUEST__INIT;
    coordinator_world w;
    ProtobufCMessage *r;
    Psgd__V1__Job *job;
    ps_error error;
    char id[96], json[400];

    (void)state;
    cw_begin(&w, 1, 1);
    q.job_id = (char *)"foreign-job";
    q.attempt = 4;
    q.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    q.coordinator = (char *)"127.0.0.1:9"; /* nobody is there */
    q.reserve_ms = 60000;
    r = cw_call_node(&w, 0, "CanCommit", &q.base, &error);
    assert_non_null(r);
    protobuf_c_message_free_unpacked(r, NULL);
    snprintf(json, sizeof json,
             "{\"workers\":1,\"pservers\":1," SMALL
             ",\"nodes\":[{\"role\":\"WORKER\",\"address\":\"%s\"},"
             "{\"role\":\"PSERVER\",\"address\":\"%s\"}]}",
             ps_node_address(w.nodes[0].node), ps_node_address(w.nodes[1].node));
    cw_submit(&w, json, id);
    assert_int_equal(cw_await(&w, id, STATE(FAILED)), STATE(FAILED));
    job = cw_get(&w, id);
    assert_string_equal(job->reason, "NODE_BUSY");
    assert_non_null(strstr(job->message, "worker w0"));
    assert_non_null(strstr(job->message, "held by job foreign-job (attempt 4, RESERVED)"));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void a_node_that_nobody_knows_is_dialled_by_its_address(void **state)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    char id[96];

    (void)state;
    cw_begin(&w, 0, 1);
    cw_submit(
        &w,
        "{\"workers\":1,\"pservers\":1," PLAIN TIMEOUTS(
            ",\"can_commit_ms\":200") ","
                                      "\"nodes\":[{\"role\":\"WORKER\",\"address\":\"127.0.0.1:9\"}"
                                      ","
                                      "{\"role\":\"PSERVER\",\"address\":\"127.0.0.1:9999\"}]}",
        id);
    assert_int_equal(cw_await(&w, id, STATE(FAILED)), STATE(FAILED));
    job = cw_get(&w, id);
    assert_string_equal(job->reason, "CAN_COMMIT_TIMEOUT");
    assert_non_null(strstr(job->message, "127.0.0.1:9"));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void a_stopped_node_is_named(void **state)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    char id[96];

    (void)state;
    cw_begin(&w, 1, 1);
    w.nodes[0].finishes = w.nodes[1].finishes = false;
    cw_submit(&w,
              "{\"workers\":1,\"pservers\":1," PLAIN TIMEOUTS(",\"lease_ms\":3000")
              ",\"recovery\":{\"on_server_loss\":\"LOSS_ACTION_FAIL\"}}",
              id);
    assert_int_equal(cw_await(&w, id, STATE(RUNNING)), STATE(RUNNING));
    cw_stop_node(&w, 1);
    assert_int_equal(cw_await(&w, id, STATE(FAILED)), STATE(FAILED));
    job = cw_get(&w, id);
    /* It says so itself if it had begun to run; if it had not heard yet that the
     * barrier opened, it just leaves. */
    assert_true(strcmp(job->reason, "NODE_FAILED") == 0 || strcmp(job->reason, "NODE_LOST") == 0);
    assert_non_null(strstr(job->message, "parameter server p0"));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void a_restarted_coordinator_takes_up_what_runs(void **state)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    cw_events events;
    char id[96], queued[96];
    uint64_t sequence;

    (void)state;
    cw_begin(&w, 1, 1);
    w.nodes[0].finishes = w.nodes[1].finishes = false;
    cw_submit(&w, PAIR, id);
    cw_submit(&w, PAIR, queued);
    cw_watch(&w, id, 0, STATE(RUNNING), &events);
    sequence = events.items[events.count - 1]->sequence;
    cw_events_fini(&events);
    cw_restart(&w);
    job = cw_get(&w, id);
    assert_int_equal(job->state, STATE(RUNNING));
    psgd__v1__job__free_unpacked(job, NULL);
    w.nodes[0].finishes = w.nodes[1].finishes = true;
    cw_finish(&w, 0, ps_ok());
    cw_watch(&w, id, sequence, STATE(DONE), &events);
    assert_true(events.count > 0);
    assert_true(events.items[0]->sequence > sequence);
    assert_int_equal(events.items[events.count - 1]->job->state, STATE(DONE));
    cw_events_fini(&events);
    assert_int_equal(cw_await(&w, queued, STATE(DONE)), STATE(DONE));
    job = cw_get(&w, id);
    assert_int_equal(job->attempt, 1);
    assert_non_null(artifact(job, "MODEL-pair-N(ps).safetensors"));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void a_crash_leaves_no_litter(void **state)
{
    coordinator_world w;
    Psgd__V1__Job *job;
    char id[96], path[400], half[400], inner[400], unknown[400];
    ps_status st;

    (void)state;
    cw_begin(&w, 1, 1);
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    snprintf(path, sizeof path, "%s/jobs/.deleted-gone-aaaaaaaa", w.data_dir);
    snprintf(unknown, sizeof unknown, "%s/jobs/unknown-aaaaaaaa", w.data_dir);
    st = ps_dir_make(unknown);
    assert_int_equal(st.code, PS_OK);
    snprintf(inner, sizeof inner, "%s/jobs/%s/TB-x/.events.1.2.tmp", w.data_dir, id);
    st = ps_dir_make_for(inner);
    assert_int_equal(st.code, PS_OK);
    st = ps_file_write(inner, "x", 1);
    assert_int_equal(st.code, PS_OK);
    snprintf(half, sizeof half, "%s/jobs/%s/.MODEL-x.1.2.tmp", w.data_dir, id);
    st = ps_dir_make(path);
    assert_int_equal(st.code, PS_OK);
    st = ps_file_write(half, "x", 1);
    assert_int_equal(st.code, PS_OK);
    cw_restart(&w);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(unknown, F_OK), 0); /* the registry may be the one that is wrong */
    assert_int_equal(access(half, F_OK), -1);
    assert_int_equal(access(inner, F_OK), -1);
    snprintf(path, sizeof path, "%s/jobs/%s/manifest.json", w.data_dir, id);
    assert_int_equal(access(path, F_OK), 0);
    job = cw_get(&w, id);
    assert_int_equal(job->state, STATE(DONE));
    psgd__v1__job__free_unpacked(job, NULL);
    cw_end(&w);
}

static void events_are_resumed_from_a_sequence_number(void **state)
{
    coordinator_world w;
    cw_events all, rest;
    char id[96];

    (void)state;
    cw_begin(&w, 1, 1);
    cw_submit(&w, PAIR, id);
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    cw_watch(&w, id, 0, STATE(UNSPECIFIED), &all);
    assert_true(all.count >= 7);
    cw_watch(&w, id, all.items[3]->sequence, STATE(UNSPECIFIED), &rest);
    assert_int_equal(rest.count, all.count - 4);
    for (size_t i = 0; i < rest.count; i++) {
        assert_int_equal(rest.items[i]->sequence, all.items[i + 4]->sequence);
    }
    cw_events_fini(&rest);
    cw_watch(&w, id, UINT64_MAX, STATE(UNSPECIFIED), &rest);
    assert_int_equal(rest.count, 0);
    assert_int_equal(rest.error.status.code, PS_OK);
    cw_watch(&w, "none-aaaaaaaa", 0, STATE(UNSPECIFIED), &rest);
    assert_int_equal(rest.error.status.code, PS_NOT_FOUND);
    assert_string_equal(rest.error.reason, "JOB_NOT_FOUND");
    cw_events_fini(&all);
    cw_end(&w);
}

static void lists_come_in_pages(void **state)
{
    Psgd__V1__ListJobsRequest q = PSGD__V1__LIST_JOBS_REQUEST__INIT;
    static char *const bad[] = {(char *)"x", (char *)"0011223344", (char *)"zz00112233445566"};
    char ids[5][96], token[256] = "";
    coordinator_world w;
    ps_error error;
    size_t at = 5;

    (void)state;
    cw_begin(&w, 0, 0);
    for (size_t i = 0; i < 5; i++) {
        cw_submit(&w, "{}", ids[i]);
    }
    q.page_size = 2;
    do {
        Psgd__V1__ListJobsResponse *r;

        q.page_token = token;
        r = (Psgd__V1__ListJobsResponse *)cw_call(&w, "ListJobs", &q.base, &error);
        assert_non_null(r);
        assert_true(r->n_jobs <= 2);
        for (size_t i = 0; i < r->n_jobs; i++) {
            assert_string_equal(r->jobs[i]->id, ids[--at]);
        }
        snprintf(token, sizeof token, "%s", r->next_page_token);
        psgd__v1__list_jobs_response__free_unpacked(r, NULL);
    } while (token[0] != '\0');
    assert_int_equal(at, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        q.page_token = bad[i];
        assert_null(cw_call(&w, "ListJobs", &q.base, &error));
        assert_int_equal(error.status.code, PS_INVALID_ARGUMENT);
        assert_string_equal(error.reason, "BAD_PAGE_TOKEN");
    }
    q.page_token = (char *)"";
    q.page_size = -1;
    assert_null(cw_call(&w, "ListJobs", &q.base, &error));
    assert_int_equal(error.status.code, PS_INVALID_ARGUMENT);
    cw_end(&w);
}

static void the_server_says_what_it_can_do(void **state)
{
    Psgd__V1__GetServerInfoRequest q = PSGD__V1__GET_SERVER_INFO_REQUEST__INIT;
    Psgd__V1__ListPresetsRequest p = PSGD__V1__LIST_PRESETS_REQUEST__INIT;
    Psgd__V1__GetServerInfoResponse *info;
    Psgd__V1__ListPresetsResponse *presets;
    coordinator_world w;
    ps_error error;
    bool has_lr = false;

    (void)state;
    cw_begin(&w, 0, 0);
    info = (Psgd__V1__GetServerInfoResponse *)cw_call(&w, "GetServerInfo", &q.base, &error);
    assert_non_null(info);
    assert_string_equal(info->version, PS_VERSION);
    assert_string_equal(info->address, w.address);
    for (size_t i = 0; i < info->n_plugins; i++) {
        if (strcmp(info->plugins[i]->kind, "optimizer") == 0 &&
            strcmp(info->plugins[i]->name, "adam") == 0) {
            has_lr = strcmp(info->plugins[i]->params[0]->name, "lr") == 0;
        }
    }
    assert_true(has_lr);
    psgd__v1__get_server_info_response__free_unpacked(info, NULL);
    presets = (Psgd__V1__ListPresetsResponse *)cw_call(&w, "ListPresets", &p.base, &error);
    assert_non_null(presets);
    assert_true(presets->n_presets > 0);
    for (size_t i = 0; i < presets->n_presets; i++) {
        assert_non_null(presets->presets[i]->spec);
    }
    psgd__v1__list_presets_response__free_unpacked(presets, NULL);
    cw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_goes_through_all_states_and_leaves_its_files),
        cmocka_unit_test(the_servers_weights_become_one_model),
        cmocka_unit_test(files_are_reclaimed_whole_and_in_part),
        cmocka_unit_test(reclaims_that_make_no_sense_are_refused),
        cmocka_unit_test(logs_are_followed_until_the_job_is_over),
        cmocka_unit_test(a_repeated_request_is_one_job),
        cmocka_unit_test(everything_wrong_with_a_spec_is_said_at_once),
        cmocka_unit_test(a_job_waits_for_nodes_and_says_for_which),
        cmocka_unit_test(a_job_is_cancelled_and_forgotten),
        cmocka_unit_test(a_failed_node_fails_the_job_and_leaves_its_report),
        cmocka_unit_test(a_node_may_not_write_over_the_coordinator_s_files),
        cmocka_unit_test(a_node_that_cannot_write_its_files_fails_the_job_with_the_reason),
        cmocka_unit_test(a_named_node_that_is_held_by_somebody_else_is_busy),
        cmocka_unit_test(a_node_that_nobody_knows_is_dialled_by_its_address),
        cmocka_unit_test(a_stopped_node_is_named),
        cmocka_unit_test(a_restarted_coordinator_takes_up_what_runs),
        cmocka_unit_test(a_crash_leaves_no_litter),
        cmocka_unit_test(events_are_resumed_from_a_sequence_number),
        cmocka_unit_test(lists_come_in_pages),
        cmocka_unit_test(the_server_says_what_it_can_do),
    };

    ps_rpc_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
