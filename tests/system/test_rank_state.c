/* SPDX-License-Identifier: Apache-2.0 */
/* test_rank_state.c - ranks that are saved at a clock, and read into fresh trainers and exchanges,
 * go on with the same bits: every update that bsp allows, whatever the codec keeps. Real trainers,
 * real servers; the servers' stores are saved and read anew at the same clock. */
#include "tests/support/cmocka_all.h"

#include "tests/support/kept_bytes.h"
#include "tests/support/plan_rig.h"
#include "tests/support/train_world.h"
#include "tests/support/words.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2 };

/* A life that ended at a clock: files of its stores and ranks. */
typedef struct end {
    kept_bytes stores[TW_SERVERS_MAX], ranks[TW_WORKERS_MAX];
    uint32_t servers;
    float *weights; /* of the servers: a rank without state of its own begins with them */
} end;

static void end_fini(end *e)
{
    free(e->weights);
    for (uint32_t i = 0; i < TW_SERVERS_MAX; i++) {
        free(e->stores[i].data);
    }
    for (uint32_t i = 0; i < TW_WORKERS_MAX; i++) {
        free(e->ranks[i].data);
    }
}

typedef struct saver {
    train_world *w;
    end *e;
} saver;

static void save_rank(void *arg, uint32_t rank)
{
    const saver *s = arg;
    trainee *t = &s->w->workers[rank];
    ps_status st = ps_trainer_result(t->trainer);

    if (ps_is_ok(&st)) {
        must(ps_trainer_save(t->trainer, t->exchange, kept_bytes_add, &s->e->ranks[rank]), "save");
    }
}

/* Trains from the beginning to a clock and keeps what there is. */
static void live_to(const char *choices, uint32_t servers, uint64_t clock, end *e)
{
    train_world w;
    saver s = {&w, e};

    *e = (end){.servers = servers};
    tw_begin(&w, WORKERS, servers, choices);
    for (uint32_t i = 0; i < WORKERS; i++) {
        ps_trainer_stop_at(w.workers[i].trainer, clock);
        w.workers[i].ended = save_rank;
        w.workers[i].ended_arg = &s;
    }
    tw_start(&w);
    tw_join(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        must(w.workers[i].result, choices);
    }
    for (uint32_t i = 0; i < servers; i++) {
        dp_server_stop(&w.servers[i]);
        must(ps_store_save(w.servers[i].store, kept_bytes_add, &e->stores[i]), choices);
    }
    e->weights = tw_served(&w);
    tw_end(&w);
}

/* What a server loads. */
typedef struct loading {
    ps_store *store;
    const end *e;
    ps_status st;
} loading;

/* On the loop's thread, which owns the store. */
static void load(void *arg)
{
    loading *l = arg;

    l->st = ps_ok();
    for (uint32_t i = 0; i < l->e->servers && ps_is_ok(&l->st); i++) {
        l->st = ps_store_load(l->store, l->e->stores[i].data, l->e->stores[i].len);
    }
    if (ps_is_ok(&l->st)) {
        l->st = ps_store_load_end(l->store);
    }
}

/* Makes servers and ranks that have what was saved. */
static void begin_again(train_world *w, const char *choices, uint32_t servers, const end *e)
{
    tw_begin(w, WORKERS, servers, choices);
    for (uint32_t i = 0; i < servers; i++) {
        loading l = {.store = w->servers[i].store, .e = e};

        side_run(w->servers[i].on, load, &l);
        must(l.st, choices);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        memcpy(w->workers[i].session.weights, e->weights,
               w->job.plan->layout.param_count * sizeof *e->weights);
        w->workers[i].state = e->ranks[i].data;
        w->workers[i].state_bytes = e->ranks[i].len;
    }
}

/* Goes on from there, on other servers, to the end of the job. Returns what tw_left returns. */
static float *live_on(const char *choices, uint32_t servers, const end *e, size_t *n)
{
    train_world w;
    float *left;

    begin_again(&w, choices, servers, e);
    tw_start(&w);
    tw_join(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        must(w.workers[i].result, choices);
        assert_int_equal(w.workers[i].progress.step, w.job.plan->total_steps);
    }
    left = tw_left(&w, n);
    tw_end(&w);
    return left;
}

static void must_go_on(const char *choices, uint64_t clock)
{
    size_t n, m;
    float *whole = tw_train_once(WORKERS, 1, choices, &n), *halves;
    end e;

    live_to(choices, 2, clock, &e);
    halves = live_on(choices, 3, &e, &m);
    assert_int_equal(n, m);
    if (memcmp(whole, halves, n) != 0) {
        fail_msg("%s: saved at clock %llu it ends in other bits", choices,
                 (unsigned long long)clock);
    }
    free(whole);
    free(halves);
    end_fini(&e);
}

/* Is it a job under bsp with these servers? Else the update needs more than its name. */
static bool is_job(const char *choices)
{
    char json[2048];
    Psgd__V1__JobSpec *spec;
    ps_plan *plan = NULL;
    ps_status st;

    snprintf(json, sizeof json, "{\"title\": \"t\", \"workers\": %d, \"pservers\": 2%s}", WORKERS,
             choices);
    spec = spec_of(json);
    st = ps_plan_create(spec, NULL, NULL, &plan);
    free_spec(spec);
    ps_plan_destroy(plan);
    return ps_is_ok(&st);
}

#define SHORT ", \"epochs\": 1, \"block_size\": 50" /* 20 steps of two workers */

static void live_with_update(const ps_update *update, void *arg)
{
    static const char *const rests[] = {
        ", \"optimizer\": {}",
        ", \"optimizer\": {}, \"codec\": {\"up\": {\"name\": \"sign\", \"params\": "
        "{\"error_feedback\": 1}}, "
        "\"down\": {\"name\": \"int8\", \"params\": {\"error_feedback\": 1}}}",
        ", \"optimizer\": {\"side\": \"WORKER\", \"rule\": {\"name\": \"momentum\"}}",
        ", \"optimizer\": {\"clip\": {\"name\": \"norm\"}}, "
        "\"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": 1, "
        "\"momentum\": 0.5}}}",
    };
    uint32_t *lives = arg;

    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        char choices[1024];

        snprintf(choices, sizeof choices, SHORT ", \"update\": {\"name\": \"%s\"}%s", update->name,
                 rests[i]);
        if (is_job(choices)) {
            must_go_on(choices, update->local != NULL ? 2 : 7);
            ++*lives;
        }
    }
}

static void each_update_goes_on_with_the_same_bits(void **state)
{
    uint32_t lives = 0;

    (void)state;
    ps_update_each(live_with_update, &lives);
    print_message("%u lives\n", lives);
    assert_true(lives > 30);
}

static void whatever_a_codec_keeps_goes_on(void **state)
{
    static const char *const ups[] = {
        "\"int8\", \"params\": {\"difference\": 1}",
        "\"int8\", \"params\": {\"difference\": 1, \"lazy\": 0.5}",
        "\"f16\", \"params\": {\"momentum\": 0.9}",
        "\"dgc\"",
        "\"onebit\"",
        "\"threelc\"",
        "\"powersgd\", \"params\": {\"rank\": 2}",
        "\"qsgd\", \"params\": {\"error_feedback\": 1, \"lossless\": 1}",
    };

    static const char *const downs[] = {"\"int8\"",
                                        "\"int8\", \"params\": {\"error_feedback\": 1}"};

    (void)state;
    for (size_t i = 0; i < sizeof downs / sizeof downs[0]; i++) { /* ranks pull weights once more */
        char choices[1024];

        snprintf(choices, sizeof choices, SHORT ", \"codec\": {\"down\": {\"name\": %s}}",
                 downs[i]);
        must_go_on(choices, 9);
    }
    for (size_t i = 0; i < sizeof ups / sizeof ups[0]; i++) {
        char choices[1024];

        snprintf(choices, sizeof choices, SHORT ", \"codec\": {\"up\": {\"name\": %s}}", ups[i]);
        if (!is_job(choices)) {
            fail_msg("%s is no job", choices);
        }
        must_go_on(choices, 9);
    }
}

/* At the beginning, at the end of an epoch, and at the end of the job. */
static void any_clock_will_do(void **state)
{
    static const char choices[] =
        ", \"epochs\": 2, \"block_size\": 50, \"eval_every_steps\": 7, "
        "\"codec\": {\"up\": {\"name\": \"sign\", \"params\": {\"error_feedback\": 1}}}";

    (void)state;
    must_go_on(choices, 0);
    must_go_on(choices, 20);
    must_go_on(choices, 21);
    must_go_on(choices, 40);
}

/* Rows that a worker holds are those of one round: at a clock it has none. What the servers have of
 * them is admission, ages and the outer rule's state. */
static void rounds_with_sparse_tables_go_on(void **state)
{
    static const char table[] =
        ", \"table\": {\"name\": \"sparse\", \"params\": {\"admit_count\": 2, \"tick\": 2, "
        "\"decay\": 0.9, \"unseen_max\": 2}}";
    static const char *const rests[] = {
        "\"localsgd\", \"params\": {\"steps\": 3}}",
        "\"post_local\", \"params\": {\"steps\": 3, \"start\": 2}}",
        "\"parameter_average\", \"params\": {\"steps\": 3}}",
        "\"delta\", \"params\": {\"steps\": 3}}",
        "\"geo_sum_lag\", \"params\": {\"steps\": 3}}",
        "\"localsgd\", \"params\": {\"steps\": 3}}, \"optimizer\": {\"local\": {\"name\": "
        "\"adam\"}, \"rule\": {\"name\": \"nesterov\", \"params\": {\"lr\": 0.7}}}, "
        "\"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": 1}}, "
        "\"variables\": [{\"match\": \"words.*\", \"up\": {\"name\": \"f16\"}}]}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rests / sizeof rests[0]; i++) {
        char choices[1024], update[600];

        snprintf(update, sizeof update, ", \"update\": {\"name\": %s%s", rests[i],
                 strstr(rests[i], "optimizer") != NULL ? "" : ", \"optimizer\": {}");
        snprintf(choices, sizeof choices, "%s", words_job(1000, table, update));
        must_go_on(choices, 5);
    }
}

/* ---- Ranks that are saved where the job ends ---- */

enum { GOAL_CLOCK = 7 };

/* Goes on from a checkpoint of job `from` at the clock at which stop_at was reached. No rank may
 * train beyond it. */
static void must_stay_at_the_goal(const char *choices, const char *from, uint32_t evaluations)
{
    char all[1024];
    train_world w;
    end e;

    snprintf(all, sizeof all, "%s, \"init_from\": \"checkpoint:%s@%d\"", choices, from, GOAL_CLOCK);
    live_to(choices, 2, GOAL_CLOCK, &e);
    begin_again(&w, all, 3, &e);
    tw_start(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        ps_gate *gate = ps_exchange_gate(w.workers[i].exchange);
        uint64_t held_at;

        while ((held_at = ps_gate_held_at(gate)) == 0) {
            (void)sched_yield();
        }
        if (held_at != GOAL_CLOCK) {
            fail_msg("%s: rank %u is held at clock %llu; it was saved at %d", all, i,
                     (unsigned long long)held_at, GOAL_CLOCK);
        }
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        ps_gate_end_at(ps_exchange_gate(w.workers[i].exchange), GOAL_CLOCK);
    }
    tw_join(&w);
    tw_must_be_done(&w);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(w.workers[i].progress.step, GOAL_CLOCK);
        assert_int_equal(w.workers[i].progress.evaluations, evaluations);
    }
    tw_end(&w);
    end_fini(&e);
}

static void a_rank_that_was_saved_where_stop_at_was_reached_stays_there(void **state)
{
    static const char *const jobs[] = {
        SHORT ", \"eval_every_steps\": 7, \"stop_at\": {\"metric\": \"loss\", \"value\": 1000}",
        SHORT ", \"eval_every_steps\": 7, \"stop_at\": {\"metric\": \"loss\", \"value\": 1000}, "
              "\"codec\": {\"up\": {\"name\": \"sign\", \"params\": {\"error_feedback\": 1}}}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        must_stay_at_the_goal(jobs[i], "job-1", 0); /* the job's reports have the evaluation */
        must_stay_at_the_goal(jobs[i], "another", 1);
    }
}

/* ---- Files that are not what they should be ---- */

static void must_be_refused(const char *choices, uint32_t rank, const kept_bytes *file,
                            const char *text)
{
    train_world w;
    ps_exchange_ops ops = {0};
    ps_exchange nobody = {.ops = &ops};
    ps_status st;

    tw_begin(&w, WORKERS, 1, choices);
    st = ps_trainer_load(w.workers[rank].trainer, &nobody, file->data, file->len);
    if (ps_is_ok(&st) || strstr(st.text, text) == NULL) {
        fail_msg("\"%s\" should say \"%s\"", st.text, text);
    }
    tw_end(&w);
}

/* Ranks have the optimizer's state, and so the file has variables. */
#define STATEFUL SHORT ", \"optimizer\": {\"side\": \"WORKER\", \"rule\": {\"name\": \"momentum\"}}"

static void a_file_that_is_cut_damaged_or_another_s_is_refused(void **state)
{
    end e;
    kept_bytes file;

    (void)state;
    live_to(STATEFUL, 1, 3, &e);
    file = e.ranks[0];
    must_be_refused(STATEFUL, 1, &file, "rank 0 of 4 variables; this is rank 1 of 4");
    must_be_refused(STATEFUL ", \"codec\": {\"up\": {\"name\": \"int8\"}}", 0, &file,
                    "this one computes");
    file.len -= 1;
    must_be_refused(STATEFUL, 0, &file, "cut");
    file.len = 10;
    must_be_refused(STATEFUL, 0, &file, "not a file that begins with PSGDRNK1");
    file.len = e.ranks[0].len;
    file.data[200] ^= 1;
    must_be_refused(STATEFUL, 0, &file, "checksum");
    end_fini(&e);
}

static int draw(void **state)
{
    return tw_draw_glyphs(state) != 0 ? -1 : words_write(state);
}

static int drop(void **state)
{
    (void)words_drop(state);
    return tw_drop_glyphs(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_update_goes_on_with_the_same_bits),
        cmocka_unit_test(whatever_a_codec_keeps_goes_on),
        cmocka_unit_test(any_clock_will_do),
        cmocka_unit_test(rounds_with_sparse_tables_go_on),
        cmocka_unit_test(a_rank_that_was_saved_where_stop_at_was_reached_stays_there),
        cmocka_unit_test(a_file_that_is_cut_damaged_or_another_s_is_refused),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, draw, drop);
}
