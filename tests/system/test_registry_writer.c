/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_writer.c - changes of the registry are stored in order, many at a time. */
#include "services/coordinator/io/registry_writer.h"

#include "common/base/container_of.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/registry_sqlite.h"
#include "tests/support/side.h"
#include "tests/support/temp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 100 };

typedef struct world {
    side s;
    temp_dir dir;
    ps_registry *registry;
    ps_writer *writer;
    flag answered;
    pthread_mutex_t gate; /* the first change waits for it */
    size_t applied, answers, early;
} world;

typedef struct change {
    ps_change change;
    world *w;
    char title[32];
    size_t index, applied_as, answered_as; /* the last time; from 1 */
    unsigned times;
    bool waits, fails, is_last, was_alone;
    char id[128];
} change;

static ps_status apply(ps_change *base, ps_registry *r)
{
    change *c = PS_CONTAINER_OF(base, change, change);
    Psgd__V1__JobSpec spec = PSGD__V1__JOB_SPEC__INIT;
    ps_record record = {.sequence = 1};
    ps_status st;

    if (c->waits) {
        pthread_mutex_lock(&c->w->gate);
        pthread_mutex_unlock(&c->w->gate);
    }
    c->times++;
    c->applied_as = ++c->w->applied;
    if (c->fails) {
        return ps_fail(PS_INVALID_ARGUMENT, "a fault of its own");
    }
    record.job = ps_job_create(&spec, 0);
    st = ps_registry_add(r, &record, c->title, "", "content");
    snprintf(c->id, sizeof c->id, "%s", record.job->id);
    ps_record_fini(&record);
    return st;
}

static void done(ps_change *base)
{
    change *c = PS_CONTAINER_OF(base, change, change);

    c->answered_as = ++c->w->answers;
    if (c->is_last) {
        flag_raise(&c->w->answered);
    }
}

static void init(change *c, world *w, size_t index)
{
    *c = (change){.change = {.apply = apply, .done = done}, .w = w, .index = index};
    snprintf(c->title, sizeof c->title, "job%zu", index);
}

static void create(void *arg)
{
    world *w = arg;
    ps_status st = ps_writer_create(w->s.loop, w->registry, &w->writer);

    assert_int_equal(st.code, PS_OK);
}

static void destroy(void *arg)
{
    ps_writer_destroy(((world *)arg)->writer);
}

static void begin(world *w)
{
    ps_status st;

    memset(w, 0, sizeof *w);
    w->dir = temp_dir_create();
    st = ps_registry_open_sqlite(w->dir.path, &w->registry);
    assert_string_equal(st.text, "");
    pthread_mutex_init(&w->gate, NULL);
    flag_init(&w->answered);
    side_start(&w->s);
    side_run(&w->s, create, w);
}

static void end(world *w)
{
    side_stop(&w->s);
    flag_fini(&w->answered);
    pthread_mutex_destroy(&w->gate);
    ps_registry_close(w->registry);
    temp_dir_destroy(&w->dir);
}

typedef struct batch {
    world *w;
    change *all;
    size_t count;
} batch;

static void submit_all(void *arg)
{
    const batch *b = arg;

    for (size_t i = 0; i < b->count; i++) {
        ps_writer_submit(b->w->writer, &b->all[i].change);
    }
}

/* Submits them while the first one is being stored, and waits for all. */
static void store(world *w, change *all, size_t count)
{
    all[0].waits = true;
    all[count - 1].is_last = true;
    pthread_mutex_lock(&w->gate);
    side_run(&w->s, submit_all, &(batch){w, all, count});
    pthread_mutex_unlock(&w->gate);
    flag_wait(&w->answered);
}

static bool is_stored(ps_registry *r, const char *id)
{
    ps_record record = {0};
    ps_status st = ps_registry_load(r, id, &record);

    ps_record_fini(&record);
    return ps_is_ok(&st);
}

static void what_waits_is_stored_in_order_as_one_transaction(void **state)
{
    static change all[MANY];
    uint64_t before;
    world w;

    (void)state;
    begin(&w);
    before = ps_registry_database(w.registry)->stamp.changes;
    for (size_t i = 0; i < MANY; i++) {
        init(&all[i], &w, i);
    }
    store(&w, all, MANY);
    side_run(&w.s, destroy, &w);
    assert_true(ps_registry_database(w.registry)->stamp.changes == before + 2); /* 1 and 99 */
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(all[i].change.status.code, PS_OK);
        assert_int_equal(all[i].applied_as, i + 1);
        assert_int_equal(all[i].answered_as, i + 1);
        assert_true(is_stored(w.registry, all[i].id));
    }
    end(&w);
}

static void the_fault_of_one_is_not_the_others(void **state)
{
    change all[6];
    world w;

    (void)state;
    begin(&w);
    for (size_t i = 0; i < 6; i++) {
        init(&all[i], &w, i);
    }
    all[3].fails = true;
    store(&w, all, 6);
    side_run(&w.s, destroy, &w);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(all[i].change.status.code, i == 3 ? PS_INVALID_ARGUMENT : PS_OK);
        assert_int_equal(all[i].answered_as, i + 1);
        assert_int_equal(is_stored(w.registry, i == 3 ? "job3" : all[i].id), i != 3);
    }
    assert_int_equal(all[0].times, 1);
    assert_int_equal(all[1].times, 2); /* with the others, then by itself */
    assert_int_equal(all[4].times, 1); /* behind the fault, so by itself alone */
    end(&w);
}

static ps_status apply_alone(ps_change *base, ps_registry *r)
{
    change *c = PS_CONTAINER_OF(base, change, change);
    uint64_t before = ps_registry_database(r)->stamp.changes;
    ps_status st = apply(base, r);

    c->was_alone = ps_registry_database(r)->stamp.changes == before + 1; /* committed at once */
    return st;
}

static void a_change_that_is_alone_has_its_own_transaction(void **state)
{
    change all[5];
    uint64_t before;
    world w;

    (void)state;
    begin(&w);
    before = ps_registry_database(w.registry)->stamp.changes;
    for (size_t i = 0; i < 5; i++) {
        init(&all[i], &w, i);
    }
    all[2].change.apply = apply_alone;
    all[2].change.is_alone = true;
    store(&w, all, 5);
    side_run(&w.s, destroy, &w);
    assert_true(all[2].was_alone);
    assert_int_equal(all[2].applied_as, 3);
    assert_true(ps_registry_database(w.registry)->stamp.changes == before + 4); /* 0; 1; 2; 3, 4 */
    end(&w);
}

static void submit_and_destroy(void *arg)
{
    const batch *b = arg;

    submit_all(arg);
    ps_writer_destroy(b->w->writer);
    b->w->early = b->w->answers;
}

static void what_waits_when_it_is_destroyed_is_stored_and_answered(void **state)
{
    change all[10];
    world w;

    (void)state;
    begin(&w);
    for (size_t i = 0; i < 10; i++) {
        init(&all[i], &w, i);
    }
    all[9].is_last = true;
    side_run(&w.s, submit_and_destroy, &(batch){&w, all, 10});
    flag_wait(&w.answered);
    assert_int_equal(w.early, 0); /* answers come later, from the loop */
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(all[i].change.status.code, PS_OK);
        assert_int_equal(all[i].answered_as, i + 1);
        assert_true(is_stored(w.registry, all[i].id));
    }
    end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_is_stored_in_order_as_one_transaction),
        cmocka_unit_test(the_fault_of_one_is_not_the_others),
        cmocka_unit_test(a_change_that_is_alone_has_its_own_transaction),
        cmocka_unit_test(what_waits_when_it_is_destroyed_is_stored_and_answered),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
