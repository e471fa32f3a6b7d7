/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry.c - jobs on disk: what is stored is there again. */
#include "services/coordinator/io/registry_sqlite.h"

#include "services/coordinator/domain/job_message.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/temp_dir.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUED PSGD__V1__JOB_STATE__JOB_STATE_QUEUED
#define RUNNING PSGD__V1__JOB_STATE__JOB_STATE_RUNNING
#define DONE PSGD__V1__JOB_STATE__JOB_STATE_DONE

typedef struct world {
    temp_dir dir;
    ps_registry *r;
} world;

static void open_again(world *w)
{
    ps_status st;

    ps_registry_close(w->r);
    w->r = NULL;
    st = ps_registry_open_sqlite(w->dir.path, &w->r);
    if (!ps_is_ok(&st)) {
        fail_msg("open: %s", st.text);
    }
}

static int begin(void **state)
{
    world *w = calloc(1, sizeof *w);

    w->dir = temp_dir_create();
    open_again(w);
    *state = w;
    return 0;
}

static int end(void **state)
{
    world *w = *state;

    ps_registry_close(w->r);
    temp_dir_destroy(&w->dir);
    free(w);
    return 0;
}

static ps_record add(world *w, const char *title, const char *request_id, const char *content)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    ps_record record = {0};
    ps_status st;

    spec.title = (char *)title;
    spec.seed = 42;
    record.job = ps_job_create(&spec, 1234567890123456);
    st = ps_registry_add(w->r, &record, title, request_id, content);
    if (!ps_is_ok(&st)) {
        fail_msg("add: %s", st.text);
    }
    return record;
}

static void a_job_is_there_again_after_a_restart(void **state)
{
    world *w = *state;
    ps_record record = add(w, "alpha", "", "c"), again;
    ps_member members[2] = {{.rank_count = 1,
                             .id = "w1",
                             .address = "h:1",
                             .role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER},
                            {.rank_count = 1,
                             .id = "p1",
                             .address = "h:2",
                             .role = PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER}};
    ps_status st;
    char id[80];

    snprintf(id, sizeof id, "%s", record.job->id);
    record.job->state = RUNNING;
    record.job->attempt = 3;
    record.outcome = DONE;
    record.sequence = 17;
    ps_text_set(&record.job->reason, "SOME_REASON");
    ps_text_set(&record.job->message, "some words");
    ps_job_place(record.job, members, 2);
    ps_job_set_result(record.job, "accuracy", 0.5);
    ps_job_set_result(record.job, "accuracy", 0.75);
    ps_job_add_artifact(record.job, "summary.json", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY,
                        12, "abc", "");
    ps_job_progress(record.job)->step = 99;
    st = ps_registry_save(w->r, &record, NULL);
    assert_int_equal(st.code, PS_OK);
    open_again(w);
    st = ps_registry_load(w->r, id, &again);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(again.number, record.number);
    assert_int_equal(again.outcome, DONE);
    assert_int_equal(again.sequence, 17);
    assert_string_equal(again.job->id, id);
    assert_int_equal(again.job->state, RUNNING);
    assert_int_equal(again.job->attempt, 3);
    assert_string_equal(again.job->reason, "SOME_REASON");
    assert_string_equal(again.job->message, "some words");
    assert_int_equal(again.job->spec->seed, 42);
    assert_int_equal(again.job->create_time->seconds, 1234567890);
    assert_int_equal(again.job->n_placements, 2);
    assert_string_equal(again.job->placements[1]->node_id, "p1");
    assert_int_equal(again.job->n_result, 1);
    assert_float_equal(again.job->result[0]->value, 0.75, 0);
    assert_int_equal(again.job->n_artifacts, 1);
    assert_int_equal(again.job->progress->step, 99);
    ps_record_fini(&record);
    ps_record_fini(&again);
}

static void ids_are_title_and_eight_letters_and_never_come_twice(void **state)
{
    enum { JOBS = 300 };
    world *w = *state;
    char ids[JOBS][32];

    for (size_t i = 0; i < JOBS; i++) {
        ps_record record = add(w, "t", "", "c");

        snprintf(ids[i], sizeof ids[i], "%s", record.job->id);
        assert_int_equal(strlen(ids[i]), 10);
        assert_memory_equal(ids[i], "t-", 2);
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(ids[i], ids[k]);
        }
        ps_record_fini(&record);
        if (i % 3 == 0) { /* not even those of jobs that are forgotten */
            ps_status st = ps_registry_remove(w->r, ids[i]);

            assert_int_equal(st.code, PS_OK);
        }
        if (i % 100 == 50) {
            open_again(w);
        }
    }
}

static void a_request_id_finds_its_job_and_content(void **state)
{
    world *w = *state;
    ps_record record = add(w, "a", "req-1", "hash-1");
    char id[96], content[PS_CONTENT_HASH_BYTES];
    ps_status st = ps_registry_find_request(w->r, "req-1", id, sizeof id, content);

    assert_int_equal(st.code, PS_OK);
    assert_string_equal(id, record.job->id);
    assert_string_equal(content, "hash-1");
    st = ps_registry_find_request(w->r, "req-2", id, sizeof id, content);
    assert_int_equal(st.code, PS_NOT_FOUND);
    st = ps_registry_remove(w->r, record.job->id);
    assert_int_equal(st.code, PS_OK);
    st = ps_registry_find_request(w->r, "req-1", id, sizeof id, content);
    assert_int_equal(st.code, PS_NOT_FOUND);
    ps_record_fini(&record);
}

static void what_is_not_there_is_not_found(void **state)
{
    world *w = *state;
    ps_record record;
    ps_status st = ps_registry_load(w->r, "none-xxxxxxxx", &record);

    assert_int_equal(st.code, PS_NOT_FOUND);
    st = ps_registry_remove(w->r, "none-xxxxxxxx");
    assert_int_equal(st.code, PS_NOT_FOUND);
}

typedef struct listing {
    size_t want, count;
    uint64_t numbers[16];
} listing;

static bool note(void *arg, ps_record *record)
{
    listing *l = arg;

    l->numbers[l->count++] = record->number;
    ps_record_fini(record);
    return l->count < l->want;
}

static void lists_are_newest_first_from_a_number_on_by_state(void **state)
{
    world *w = *state;
    listing l = {.want = 16};
    ps_status st;

    for (size_t i = 0; i < 6; i++) {
        ps_record record = add(w, "t", "", "c");

        record.job->state = i % 2 == 0 ? RUNNING : QUEUED;
        st = ps_registry_save(w->r, &record, NULL);
        assert_int_equal(st.code, PS_OK);
        ps_record_fini(&record);
    }
    st = ps_registry_each(w->r, 0, UINT32_MAX, note, &l);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(l.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(l.numbers[i], 6 - i);
    }
    l = (listing){.want = 2};
    st = ps_registry_each(w->r, 5, UINT32_MAX, note, &l);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(l.count, 2);
    assert_int_equal(l.numbers[0], 4);
    l = (listing){.want = 16};
    st = ps_registry_each(w->r, 0, 1u << RUNNING, note, &l);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(l.count, 3);
    assert_int_equal(l.numbers[0], 5);
}

static void put_event(world *w, ps_record *record, uint64_t sequence)
{
    Psgd__V1__WatchJobResponse event = PSGD__V1__WATCH_JOB_RESPONSE__INIT;
    ps_status st;

    event.sequence = sequence;
    event.kind = PSGD__V1__JOB_EVENT_KIND__JOB_EVENT_KIND_STATE;
    event.job = record->job;
    st = ps_registry_save(w->r, record, &event);
    assert_int_equal(st.code, PS_OK);
}

static void events_come_in_order_from_a_number_on(void **state)
{
    world *w = *state;
    ps_record record = add(w, "a", "", "c"), other = add(w, "b", "", "c");
    Psgd__V1__WatchJobResponse *event;
    uint64_t at = 0;
    ps_status st;

    put_event(w, &record, 1);
    put_event(w, &other, 2);
    put_event(w, &record, 5);
    put_event(w, &record, 1005);
    open_again(w);
    for (size_t i = 0; i < 3; i++) {
        static const uint64_t want[] = {1, 5, 1005};

        st = ps_registry_next_event(w->r, record.number, at, &event);
        assert_int_equal(st.code, PS_OK);
        assert_non_null(event);
        assert_int_equal(event->sequence, want[i]);
        assert_int_equal(event->job->spec->seed, 42); /* state events are whole */
        at = event->sequence;
        psgd__v1__watch_job_response__free_unpacked(event, NULL);
    }
    st = ps_registry_next_event(w->r, record.number, at, &event);
    assert_int_equal(st.code, PS_OK);
    assert_null(event);
    st = ps_registry_next_event(w->r, record.number, UINT64_MAX, &event);
    assert_null(event);
    st = ps_registry_remove(w->r, record.job->id); /* takes its events along */
    assert_int_equal(st.code, PS_OK);
    st = ps_registry_next_event(w->r, record.number, 0, &event);
    assert_null(event);
    ps_record_fini(&record);
    ps_record_fini(&other);
}

static void old_events_give_way(void **state)
{
    world *w = *state;
    ps_record record = add(w, "a", "", "c");
    Psgd__V1__WatchJobResponse *event;
    ps_status st;

    for (uint64_t i = 1; i <= PS_REGISTRY_EVENTS_MAX + 5; i++) {
        put_event(w, &record, i);
    }
    st = ps_registry_next_event(w->r, record.number, 0, &event);
    assert_int_equal(st.code, PS_OK);
    assert_int_equal(event->sequence, 6);
    psgd__v1__watch_job_response__free_unpacked(event, NULL);
    ps_record_fini(&record);
}

static void a_batch_is_stored_whole_or_not_at_all(void **state)
{
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    world *w = *state;
    ps_record first, second = {0}, loaded;
    ps_status st = ps_registry_begin(w->r);

    assert_int_equal(st.code, PS_OK);
    first = add(w, "a", "same", "c");
    second.job = ps_job_create(&spec, 0);
    st = ps_registry_add(w->r, &second, "b", "same", "c"); /* the request id is taken */
    assert_int_not_equal(st.code, PS_OK);
    st = ps_registry_end(w->r, &st);
    assert_int_not_equal(st.code, PS_OK);
    st = ps_registry_load(w->r, first.job->id, &loaded);
    assert_int_equal(st.code, PS_NOT_FOUND);
    ps_record_fini(&first);
    first = add(w, "a", "same", "c"); /* it goes on as if nothing had been */
    st = ps_registry_load(w->r, first.job->id, &loaded);
    assert_int_equal(st.code, PS_OK);
    ps_record_fini(&loaded);
    ps_record_fini(&first);
    ps_record_fini(&second);
}

static void a_folder_has_one_process_at_a_time(void **state)
{
    world *w = *state;
    ps_registry *second = NULL;
    ps_status st = ps_registry_open_sqlite(w->dir.path, &second);

    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_null(second);
    assert_non_null(strstr(st.text, "another coordinator"));
}

static void a_newer_schema_is_left_alone(void **state)
{
    world *w = *state;
    char path[4200];
    sqlite3 *db;
    ps_status st;

    ps_registry_close(w->r);
    w->r = NULL;
    snprintf(path, sizeof path, "%s/jobs.db", w->dir.path);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    st = ps_registry_open_sqlite(w->dir.path, &w->r);
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_null(w->r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_job_is_there_again_after_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(ids_are_title_and_eight_letters_and_never_come_twice, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_request_id_finds_its_job_and_content, begin, end),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_not_found, begin, end),
        cmocka_unit_test_setup_teardown(lists_are_newest_first_from_a_number_on_by_state, begin,
                                        end),
        cmocka_unit_test_setup_teardown(events_come_in_order_from_a_number_on, begin, end),
        cmocka_unit_test_setup_teardown(old_events_give_way, begin, end),
        cmocka_unit_test_setup_teardown(a_batch_is_stored_whole_or_not_at_all, begin, end),
        cmocka_unit_test_setup_teardown(a_folder_has_one_process_at_a_time, begin, end),
        cmocka_unit_test_setup_teardown(a_newer_schema_is_left_alone, begin, end),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
