/* SPDX-License-Identifier: Apache-2.0 */
/* test_rank_parked.c - ranks that are parked wherever they are, and saved there with what they have
 * sent, go on with the same bits from servers' state at the clock that is under way: every update
 * and codec of which ps_plan_carries. So do ranks that have ended. Real trainers, real
 * servers. */
#include "tests/support/cmocka_all.h"

#include "common/base/clock.h"
#include "tests/support/kept_bytes.h"
#include "tests/support/plan_rig.h"
#include "tests/support/train_world.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, PARK_US = 60000000 };

/* A life that was parked. */
typedef struct parked {
    kept_bytes stores[TW_SERVERS_MAX], ranks[WORKERS];
    float *weights; /* all, at `clock` */
    uint64_t clock;
    uint64_t step; /* of the last rank: with clocks of one step, its contributions to those from
                    * `clock` on are sent again */
    uint32_t servers;
} parked;

static void parked_fini(parked *p)
{
    for (uint32_t i = 0; i < TW_SERVERS_MAX; i++) {
        free(p->stores[i].data);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        free(p->ranks[i].data);
    }
    free(p->weights);
}

typedef struct parking {
    train_world *w;
    parked *p;
    bool is_done;
    ps_status status; /* for the thread of the test, on which alone a test fails */
} parking;

/* On the loop of workers: parks all ranks. */
static void park(void *arg)
{
    parking *x = arg;

    x->is_done = true;
    for (uint32_t i = 0; i < WORKERS; i++) {
        x->is_done = ps_gate_park(ps_exchange_gate(x->w->workers[i].exchange)) && x->is_done;
    }
}

/* The same. */
static void save_ranks(void *arg)
{
    parking *x = arg;

    for (uint32_t i = 0; i < WORKERS && ps_is_ok(&x->status); i++) {
        trainee *t = &x->w->workers[i];

        x->status =
            ps_trainer_save_parked(t->trainer, t->exchange, kept_bytes_add, &x->p->ranks[i]);
        x->p->step = ps_trainer_get_progress(t->trainer).step;
    }
}

static void stop_ranks(void *arg)
{
    parking *x = arg;

    for (uint32_t i = 0; i < WORKERS; i++) {
        ps_gate_stop(ps_exchange_gate(x->w->workers[i].exchange));
    }
}

/* On the loop of servers: saves them at p->clock; is_done: all of them can be. */
static void save_servers_at(void *arg)
{
    parking *x = arg;
    uint64_t clock = x->p->clock;

    x->is_done = true;
    for (uint32_t i = 0; i < x->p->servers; i++) {
        x->is_done = x->is_done && ps_store_has_at(x->w->servers[i].store, clock);
    }
    for (uint32_t i = 0; x->is_done && i < x->p->servers; i++) {
        const ps_placement *placement = &x->w->job.placement;
        const ps_store *store = x->w->servers[i].store;

        x->status = ps_store_save_at(store, clock, kept_bytes_add, &x->p->stores[i]);
        for (uint32_t k = 0; k < placement->owned_count[i]; k++) {
            ps_store_copy_slice_at(store, k, clock,
                                   x->p->weights +
                                       placement->layout->slices[placement->owned[i][k]].at);
        }
    }
}

/* The same at the oldest clock that is not complete. What is on its way may bring them further. */
static void save_servers(void *arg)
{
    parking *x = arg;

    x->p->clock = UINT64_MAX;
    for (uint32_t i = 0; i < x->p->servers; i++) {
        uint64_t of_server = ps_store_clock(x->w->servers[i].store);

        x->p->clock = of_server < x->p->clock ? of_server : x->p->clock;
    }
    save_servers_at(x);
}

static bool is_over(train_world *w)
{
    bool is = false; /* of one rank: it cannot be parked any more */

    for (uint32_t i = 0; i < WORKERS; i++) {
        is = is || ps_trainer_get_progress(w->workers[i].trainer).step == w->job.plan->total_steps;
    }
    return is;
}

/* Trains until rank 0 has taken so many steps and a little more, cuts a server off in half of the
 * cases, and parks. Returns false if the
 * job was over before. */
static bool live_to(const char *choices, uint32_t servers, uint64_t step, int64_t more_us,
                    parked *p)
{
    train_world w;
    parking x = {.w = &w, .p = p};
    bool was_parked;

    *p = (parked){.servers = servers};
    tw_begin(&w, WORKERS, servers, choices);
    p->weights = ps_xcalloc(w.job.plan->layout.param_count + 1u, sizeof *p->weights);
    tw_start(&w);
    while (ps_trainer_get_progress(w.workers[0].trainer).step < step) {
        (void)sched_yield();
    }
    for (int64_t until_us = ps_clock_us() + more_us; ps_clock_us() < until_us;) {
        (void)sched_yield();
    }
    if (more_us % 2 == 1) { /* what is not sent to it by now never will be */
        dp_server_break(&w.servers[servers - 1]);
    }
    for (int64_t until_us = ps_clock_us() + PARK_US; !x.is_done && !is_over(&w);) {
        assert_true(ps_clock_us() < until_us);
        side_run(&w.working, park, &x);
        (void)sched_yield();
    }
    was_parked = x.is_done;
    x.is_done = !was_parked;
    while (!x.is_done) {
        side_run(&w.serving, save_servers, &x);
    }
    must(x.status, "save a server");
    if (was_parked) {
        side_run(&w.working, save_ranks, &x);
    }
    must(x.status, "save a rank");
    side_run(&w.working, stop_ranks, &x);
    tw_join(&w);
    tw_end(&w);
    return was_parked;
}

typedef struct loading {
    ps_store *store;
    const parked *p;
    ps_status status; /* as that of parking */
} loading;

static void load(void *arg)
{
    loading *l = arg;

    for (uint32_t i = 0; i < l->p->servers && ps_is_ok(&l->status); i++) {
        l->status = ps_store_load(l->store, l->p->stores[i].data, l->p->stores[i].len);
    }
    l->status = ps_is_ok(&l->status) ? ps_store_load_end(l->store) : l->status;
}

/* Goes on from there, on other servers; returns the weights of the end, to be freed. */
static float *live_on(const char *choices, uint32_t servers, const parked *p, size_t *n)
{
    train_world w;
    float *weights;

    tw_begin(&w, WORKERS, servers, choices);
    for (uint32_t i = 0; i < servers; i++) {
        loading l = {.store = w.servers[i].store, .p = p};

        side_run(w.servers[i].on, load, &l);
        must(l.status, "load a server");
    }
    *n = w.job.plan->layout.param_count * sizeof *weights;
    for (uint32_t i = 0; i < WORKERS; i++) {
        trainee *t = &w.workers[i];

        memcpy(t->session.weights, p->weights, *n);
        ps_trainer_destroy(t->trainer);
        must(ps_trainer_create(&(ps_trainer_conf){.job_id = t->session.job_id,
                                                  .folder = t->session.folder,
                                                  .rank = i,
                                                  .plan = t->session.plan,
                                                  .data = t->session.data,
                                                  .weights = t->session.weights,
                                                  .first_clock = p->clock},
                               &t->trainer),
             "create");
        t->state = p->ranks[i].data;
        t->state_bytes = p->ranks[i].len;
    }
    tw_start(&w);
    tw_join(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        must(w.workers[i].result, choices);
        assert_int_equal(w.workers[i].progress.step, w.job.plan->total_steps);
    }
    weights = tw_served(&w);
    tw_end(&w);
    return weights;
}

/* Trains to the end, and saves ranks that have ended, with servers at the clock before it. */
static void live_to_the_end(const char *choices, uint32_t servers, parked *p)
{
    train_world w;
    parking x = {.w = &w, .p = p};

    *p = (parked){.servers = servers};
    tw_begin(&w, WORKERS, servers, choices);
    p->weights = ps_xcalloc(w.job.plan->layout.param_count + 1u, sizeof *p->weights);
    p->clock = w.job.plan->total_clocks - 1;
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_true(ps_trainer_has_ended(w.workers[i].trainer));
    }
    side_run(&w.serving, save_servers_at, &x);
    must(x.status, "save a server");
    assert_true(x.is_done);
    side_run(&w.working, save_ranks, &x);
    must(x.status, "save a rank");
    tw_end(&w);
}

/* Returns 1; 0: the job was over before. */
static uint32_t must_go_on(const char *choices, const float *whole, uint64_t step, int64_t more_us)
{
    size_t n;
    parked p;
    float *halves;

    if (!live_to(choices, 2, step, more_us, &p)) {
        parked_fini(&p);
        return 0;
    }
    halves = live_on(choices, 3, &p, &n);
    if (memcmp(whole, halves, n) != 0) {
        fail_msg("%s: parked at clock %llu it ends in other bits", choices,
                 (unsigned long long)p.clock);
    }
    free(halves);
    parked_fini(&p);
    return 1;
}

/* A server is cut off while ranks rest before they send: it is sent nothing before its streams are
 * opened again, which is later (redial.h). */
static void what_is_not_sent_any_more_is_kept(void **state)
{
    static const char *const jobs[] = {"\"dgc\"", "\"powersgd\""};

    (void)state;
    for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
        char choices[1024];
        uint32_t owed = 0;
        float *whole;
        size_t n;
        parked p;

        snprintf(choices, sizeof choices,
                 ", \"max_steps\": 12, \"block_size\": 50, \"straggler\": {\"name\": \"fixed\", "
                 "\"params\": {\"rank\": -1, \"ms\": 30}}, \"codec\": {\"up\": {\"name\": %s}}",
                 jobs[j]);
        whole = tw_train_once(WORKERS, 1, choices, &n);
        for (uint64_t step = 2; step < 8; step++) {
            float *halves;

            assert_true(live_to(choices, 2, step, 5001, &p));
            owed += p.step == p.clock + 1; /* the server has nothing of what was computed last */
            halves = live_on(choices, 3, &p, &n);
            assert_memory_equal(halves, whole, n);
            free(halves);
            parked_fini(&p);
        }
        free(whole);
        assert_true(owed > 0);
    }
}

static bool carries(const char *choices)
{
    char json[2048];
    Psgd__V1__JobSpec *spec;
    ps_plan *plan = NULL;
    ps_status st;
    bool is;

    snprintf(json, sizeof json,
             "{\"title\": \"t\", \"workers\": %d, \"pservers\": 2, \"model\": {\"widths\": [32]}, "
             "\"data\": {\"name\": \"glyphs\", \"train_limit\": %d, \"test_limit\": %d}%s}",
             WORKERS, TW_TRAIN, TW_TEST, choices);
    spec = spec_of(json);
    st = ps_plan_create(spec, NULL, NULL, &plan);
    is = ps_is_ok(&st) && ps_plan_carries(plan);
    free_spec(spec);
    ps_plan_destroy(plan);
    return is;
}

/* 60 steps of two workers; evaluations, so that some are parked there. */
#define SHORT                                                                                      \
    ", \"epochs\": 3, \"block_size\": 50, \"eval_every_steps\": 3, \"recovery\": "                 \
    "{\"on_worker_loss\": \"LOSS_ACTION_RESTART\"}"

static void live_with_update(const ps_update *update, void *arg)
{
    static const char *const rests[] = {
        ", \"optimizer\": {}",
        ", \"optimizer\": {}, \"codec\": {\"up\": {\"name\": \"sign\", \"params\": "
        "{\"error_feedback\": 1}}}",
        ", \"optimizer\": {\"side\": \"WORKER\", \"rule\": {\"name\": \"momentum\"}}",
        ", \"optimizer\": {\"clip\": {\"name\": \"norm\"}}, "
        "\"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": 1, "
        "\"momentum\": 0.5}}}",
    };
    uint32_t *lives = arg;

    for (uint32_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        char choices[1024];
        float *whole;
        size_t n;

        snprintf(choices, sizeof choices, SHORT ", \"update\": {\"name\": \"%s\"}%s", update->name,
                 rests[i]);
        if (!carries(choices)) {
            continue;
        }
        whole = tw_train_once(WORKERS, 1, choices, &n);
        *lives += must_go_on(choices, whole, 1 + (*lives * 7 + i) % 23, *lives * 977 % 5000);
        free(whole);
    }
}

static void each_update_goes_on_where_it_is_with_the_same_bits(void **state)
{
    uint32_t lives = 0;

    (void)state;
    ps_update_each(live_with_update, &lives);
    print_message("%u lives\n", lives);
    assert_true(lives > 20);
}

static void any_place_will_do(void **state)
{
    static const char *const jobs[] = {
        SHORT ", \"optimizer\": {}, \"update\": {\"name\": \"losp\", \"params\": {\"steps\": 3}}",
        SHORT ", \"codec\": {\"up\": {\"name\": \"dgc\"}}",
        SHORT ", \"codec\": {\"up\": {\"name\": \"int8\", \"params\": {\"difference\": 1, "
              "\"lazy\": 0.1}}, \"down\": {\"name\": \"int8\"}}",
        SHORT ", \"codec\": {\"up\": {\"name\": \"dgc\"}, \"down\": {\"name\": \"int8\", "
              "\"params\": {\"error_feedback\": 1}}}",
        SHORT ", \"codec\": {\"up\": {\"name\": \"powersgd\"}}",
        SHORT ", \"optimizer\": {}, \"update\": {\"name\": \"dqlosp\"}, \"codec\": {\"up\": "
              "{\"name\": \"int8\"}, \"down\": {\"name\": \"int8\", \"params\": "
              "{\"error_feedback\": 1}}}",
    };

    (void)state;
    for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
        uint32_t lives = 0;
        size_t n;
        float *whole = tw_train_once(WORKERS, 1, jobs[j], &n), *halves;
        parked p;

        assert_true(carries(jobs[j]));
        for (uint32_t i = 0; i < 12; i++) {
            lives += must_go_on(jobs[j], whole, 1 + i * 2, i * 373 % 3000);
        }
        live_to_the_end(jobs[j], 2, &p);
        halves = live_on(jobs[j], 3, &p, &n);
        assert_memory_equal(halves, whole, n);
        parked_fini(&p);
        free(halves);
        free(whole);
        print_message("%zu: %u lives\n", j, lives);
        assert_true(lives > 6); /* of 12; the others were over before they could be parked */
    }
}

/* ---- Files that are not what they should be ---- */

static void must_be_refused(const char *choices, const parked *p, uint64_t first_clock,
                            const char *text)
{
    ps_exchange_ops ops = {0};
    ps_exchange nobody = {.ops = &ops};
    ps_trainer *trainer;
    train_world w;
    ps_status st;

    tw_begin(&w, WORKERS, 1, choices);
    must(ps_trainer_create(&(ps_trainer_conf){.job_id = "job",
                                              .folder = w.workers[0].session.folder,
                                              .plan = w.workers[0].session.plan,
                                              .data = w.workers[0].session.data,
                                              .weights = w.workers[0].session.weights,
                                              .first_clock = first_clock},
                           &trainer),
         "create");
    st = ps_trainer_load(trainer, &nobody, p->ranks[0].data, p->ranks[0].len);
    if (ps_is_ok(&st) || strstr(st.text, text) == NULL) {
        fail_msg("\"%s\" should say \"%s\"", st.text, text);
    }
    ps_trainer_destroy(trainer);
    tw_end(&w);
}

static void a_rank_that_does_not_fit_is_refused(void **state)
{
    static const char job[] = SHORT ", \"codec\": {\"up\": {\"name\": \"dgc\"}}";
    parked p;

    (void)state;
    assert_true(live_to(job, 1, 5, 0, &p));
    must_be_refused(job, &p, p.clock + 5, "the job begins at");
    must_be_refused(job, &p, p.clock,
                    "the job begins at"); /* an exchange that sends nothing again */
    parked_fini(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_update_goes_on_where_it_is_with_the_same_bits),
        cmocka_unit_test(any_place_will_do),
        cmocka_unit_test(what_is_not_sent_any_more_is_kept),
        cmocka_unit_test(a_rank_that_does_not_fit_is_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
