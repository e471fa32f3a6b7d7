/* SPDX-License-Identifier: Apache-2.0 */
/* test_candidates.c - which coordinator is called after a failure. Times are in microseconds. */
#include "common/rpc/candidates.h"
#include "tests/support/cmocka_all.h"

#include <stdio.h>

#define MS INT64_C(1000)

typedef struct world {
    ps_candidates c;
    int64_t now_us;
} world;

static world world_of(const char *list)
{
    world w = {.now_us = 1000 * 1000 * MS};

    ps_candidates_init(&w.c, list);
    return w;
}

static ps_next fails(world *w, ps_code code, const char *reason, const char *leader)
{
    ps_error error;

    ps_error_init(&error, ps_fail(code, "failed"), reason);
    if (leader[0] != '\0') {
        ps_error_meta(&error, "leader", "%s", leader);
    }
    return ps_candidates_failed(&w->c, &error, w->now_us);
}

/* The present coordinator refuses connections. */
static ps_next is_gone(world *w)
{
    return fails(w, PS_UNAVAILABLE, "NOT_CONNECTED", "");
}

/* The present coordinator let the call wait in vain for this long. */
static ps_next is_silent(world *w, int64_t waited_us)
{
    w->now_us += waited_us;
    return fails(w, PS_DEADLINE_EXCEEDED, "", "");
}

/* The present coordinator does not lead; "": it names none. */
static ps_next follows(world *w, const char *leader)
{
    return fails(w, PS_UNAVAILABLE, "NOT_LEADER", leader);
}

static void assert_at(const world *w, const char *address)
{
    assert_string_equal(ps_candidates_address(&w->c), address);
}

static void a_leader_that_is_named_is_called_at_once(void **state)
{
    world w = world_of("a:1,b:2,c:3");

    (void)state;
    assert_at(&w, "a:1");
    assert_int_equal(follows(&w, "c:3"), PS_NEXT_NOW);
    assert_at(&w, "c:3");
    assert_int_equal(follows(&w, "d:4"), PS_NEXT_NOW); /* outside the list */
    assert_at(&w, "d:4");
    assert_true(ps_candidates_know(&w.c, "d:4"));
    w.now_us += 200 * MS;
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_at(&w, "a:1");
}

static void while_nobody_leads_the_follower_is_asked(void **state)
{
    world w = world_of("a:1,b:2");

    (void)state;
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_at(&w, "b:2");
    assert_int_equal(follows(&w, "a:1"), PS_NEXT_SOON);
    assert_at(&w, "b:2");
    w.now_us += 150 * MS;
    assert_int_equal(follows(&w, "a:1"), PS_NEXT_SOON);
    assert_at(&w, "b:2");
    w.now_us += 150 * MS; /* the leader that is named may be back */
    assert_int_equal(follows(&w, "a:1"), PS_NEXT_NOW);
    assert_at(&w, "a:1");
    w.now_us += 1 * MS;
    assert_int_equal(is_gone(&w), PS_NEXT_SOON); /* b has answered just now */
    assert_at(&w, "b:2");
}

/* A redirection to b leaves a as the next one. */
static void the_next_one_is_not_the_present_one(void **state)
{
    world w = world_of("a:1,b:2");

    (void)state;
    assert_int_equal(follows(&w, "b:2"), PS_NEXT_NOW);
    w.now_us += 200 * MS;
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_at(&w, "a:1");
    assert_int_equal(follows(&w, "b:2"), PS_NEXT_SOON);
    assert_at(&w, "a:1");
}

static void one_that_let_a_call_wait_is_left_alone_for_longer(void **state)
{
    world w = world_of("a:1,b:2");

    (void)state;
    assert_int_equal(is_silent(&w, 1500 * MS), PS_NEXT_NOW);
    for (int64_t left_us = 2000 * MS; left_us > 0; left_us -= 100 * MS) {
        assert_at(&w, "b:2");
        assert_int_equal(follows(&w, "a:1"), PS_NEXT_SOON);
        w.now_us += 100 * MS;
    }
    assert_int_equal(follows(&w, "a:1"), PS_NEXT_NOW);
    assert_at(&w, "a:1");
}

static void one_that_cannot_say_who_leads_is_left_for_another(void **state)
{
    world w = world_of("a:1,b:2,c:3");

    (void)state;
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_int_equal(follows(&w, ""), PS_NEXT_NOW);
    assert_at(&w, "c:3"); /* not a, which has just failed */
    assert_int_equal(follows(&w, ""), PS_NEXT_SOON);
    assert_at(&w, "b:2");
}

static void when_all_are_gone_each_has_its_turn(void **state)
{
    world w = world_of("a:1,b:2,c:3");

    (void)state;
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_at(&w, "b:2");
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_at(&w, "c:3");
    assert_int_equal(is_gone(&w), PS_NEXT_SOON);
    assert_at(&w, "a:1");
    assert_int_equal(is_gone(&w), PS_NEXT_SOON);
    assert_at(&w, "b:2");
}

static void one_alone_may_name_others(void **state)
{
    world w = world_of("a:1");

    (void)state;
    assert_false(ps_candidates_has_others(&w.c));
    assert_int_equal(is_gone(&w), PS_NEXT_NONE);
    assert_int_equal(follows(&w, ""), PS_NEXT_SOON);
    w.now_us += 400 * MS;
    assert_int_equal(follows(&w, "b:2"), PS_NEXT_NOW);
    assert_at(&w, "b:2");
    assert_true(ps_candidates_has_others(&w.c));
    w.now_us += 400 * MS;
    assert_int_equal(is_gone(&w), PS_NEXT_NOW);
    assert_at(&w, "a:1");
    assert_int_equal(follows(&w, "b:2"), PS_NEXT_SOON);
    assert_at(&w, "a:1");
}

static void what_is_no_loss_changes_nothing(void **state)
{
    world w = world_of("a:1,b:2");

    (void)state;
    assert_int_equal(fails(&w, PS_NOT_FOUND, "", ""), PS_NEXT_NONE);
    assert_int_equal(fails(&w, PS_INVALID_ARGUMENT, "NOT_LEADER", "b:2"), PS_NEXT_NONE);
    assert_at(&w, "a:1");
    assert_int_equal(follows(&w, "no address"), PS_NEXT_NOW); /* as if it named none */
    assert_at(&w, "b:2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_that_is_named_is_called_at_once),
        cmocka_unit_test(while_nobody_leads_the_follower_is_asked),
        cmocka_unit_test(the_next_one_is_not_the_present_one),
        cmocka_unit_test(one_that_let_a_call_wait_is_left_alone_for_longer),
        cmocka_unit_test(one_that_cannot_say_who_leads_is_left_for_another),
        cmocka_unit_test(when_all_are_gone_each_has_its_turn),
        cmocka_unit_test(one_alone_may_name_others),
        cmocka_unit_test(what_is_no_loss_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
