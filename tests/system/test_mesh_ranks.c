/* SPDX-License-Identifier: Apache-2.0 */
/* test_mesh_ranks.c - ranks of a mesh that are saved at a clock, and read into fresh trainers and
 * exchanges, go on with the same bits. Real trainers that exchange within the process. */
#include "tests/support/cmocka_all.h"

#include "tests/support/dataplane.h"
#include "tests/support/kept_bytes.h"
#include "tests/support/plan_rig.h"
#include "tests/support/temp_dir.h"
#include "tests/support/train_world.h"

#include "common/base/xalloc.h"
#include "common/inprocess/inprocess_mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

typedef struct rank {
    float *weights;
    ps_trainer *trainer;
    ps_exchange *exchange;
    flag done;
} rank;

/* The training thread's last act. */
static void on_done(void *arg)
{
    rank *r = arg;

    ps_inprocess_mesh_leave(r->exchange);
    flag_raise(&r->done);
}

static void make_rank(rank *r, uint32_t i, const dp_job *job, ps_inprocess_mail *mail,
                      const char *folder)
{
    size_t n = job->plan->layout.param_count;
    ps_trainer_conf trainer = {
        .job_id = "job-1", .folder = folder, .rank = i, .plan = job->plan, .data = tw_glyphs};
    ps_inprocess_mesh_conf mesh = {.plan = job->plan, .rank = i, .mail = mail};

    flag_init(&r->done);
    r->weights = ps_xcalloc(n, sizeof *r->weights);
    memcpy(r->weights, job->weights, n * sizeof *r->weights);
    trainer.weights = mesh.weights = r->weights;
    must(ps_trainer_create(&trainer, &r->trainer), "trainer");
    mesh.grad = ps_trainer_grad(r->trainer);
    must(ps_inprocess_mesh_create(&mesh, &r->exchange), "exchange");
}

/* Trains from the states in `from` (NULL: from the beginning) to `stop_at`, and writes the states
 * to `to` unless that is NULL. Returns the weights of rank 0, to be freed. */
static float *live(const char *json, const kept_bytes *from, uint64_t stop_at, kept_bytes *to,
                   size_t *n)
{
    rank ranks[RANKS];
    dp_job job;
    temp_dir dir = temp_dir_create();
    ps_inprocess_mail *mail = ps_inprocess_mail_create(RANKS);
    float *weights;

    dp_job_init(&job, json);
    for (uint32_t i = 0; i < RANKS; i++) {
        make_rank(&ranks[i], i, &job, mail, dir.path);
        ps_trainer_stop_at(ranks[i].trainer, stop_at);
        if (from != NULL) {
            must(ps_trainer_load(ranks[i].trainer, ranks[i].exchange, from[i].data, from[i].len),
                 "load");
        }
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        must(ps_trainer_start(ranks[i].trainer, ranks[i].exchange, on_done, &ranks[i]), "start");
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        flag_wait(&ranks[i].done);
        must(ps_trainer_result(ranks[i].trainer), json);
    }
    for (uint32_t i = 0; i < RANKS && to != NULL; i++) {
        must(ps_trainer_save(ranks[i].trainer, ranks[i].exchange, kept_bytes_add, &to[i]), "save");
    }
    weights = ranks[0].weights;
    *n = job.plan->layout.param_count * sizeof *weights;
    for (uint32_t i = 0; i < RANKS; i++) {
        assert_memory_equal(weights, ranks[i].weights, *n);
        ps_trainer_destroy(ranks[i].trainer);
        ps_inprocess_mesh_destroy(ranks[i].exchange);
        flag_fini(&ranks[i].done);
    }
    for (uint32_t i = 1; i < RANKS; i++) {
        free(ranks[i].weights);
    }
    ps_inprocess_mail_destroy(mail);
    dp_job_fini(&job);
    temp_dir_destroy(&dir);
    return weights;
}

static void must_go_on(const char *json, uint64_t clock)
{
    kept_bytes states[RANKS] = {{0}};
    size_t n, m;
    float *whole = live(json, NULL, UINT64_MAX, NULL, &n);
    float *half = live(json, NULL, clock, states, &m), *rest;

    free(half);
    rest = live(json, states, UINT64_MAX, NULL, &m);
    assert_int_equal(n, m);
    if (memcmp(whole, rest, n) != 0) {
        fail_msg("%s: saved at clock %llu it ends in other bits", json, (unsigned long long)clock);
    }
    free(whole);
    free(rest);
    for (uint32_t i = 0; i < RANKS; i++) {
        free(states[i].data);
    }
}

static bool is_job(const char *json)
{
    Psgd__V1__JobSpec *spec = spec_of(json);
    ps_plan *plan = NULL;
    ps_status st = ps_plan_create(spec, NULL, NULL, &plan);

    free_spec(spec);
    ps_plan_destroy(plan);
    return ps_is_ok(&st);
}

static const char *job_of(char *json, size_t cap, const char *mesh, const char *choices)
{
    snprintf(json, cap,
             "{\"title\": \"t\", \"workers\": %d, \"pservers\": 0, \"seed\": 1, \"data\": "
             "{\"name\": \"glyphs\", \"train_limit\": %d, \"test_limit\": %d}, \"model\": "
             "{\"widths\": [32]}, \"epochs\": 1, \"block_size\": 50, \"exchange\": {\"name\": "
             "\"%s\"}%s}",
             RANKS, TW_TRAIN, TW_TEST, mesh, choices);
    return json;
}

static void live_in_mesh(const ps_mesh *mesh, void *arg)
{
    static const char *const choices[] = {
        "",
        ", \"optimizer\": {\"rule\": {\"name\": \"adam\"}}",
        ", \"optimizer\": {\"side\": \"WORKER\", \"rule\": {\"name\": \"momentum\"}}",
        ", \"codec\": {\"up\": {\"name\": \"sign\", \"params\": {\"error_feedback\": 1}}}",
        ", \"codec\": {\"up\": {\"name\": \"int8\", \"params\": {\"difference\": 1}}}",
        ", \"codec\": {\"up\": {\"name\": \"topk\", \"params\": {\"error_feedback\": 1, "
        "\"momentum\": 0.5}}}",
        ", \"codec\": {\"up\": {\"name\": \"int8\", \"params\": {\"error_feedback\": 1}}, "
        "\"down\": {\"name\": \"int8\", \"params\": {\"error_feedback\": 1}}}",
        ", \"codec\": {\"up\": {\"name\": \"dgc\"}}",
        ", \"codec\": {\"up\": {\"name\": \"onebit\"}}",
        ", \"assignment\": {\"name\": \"iid\", \"params\": {\"redundancy\": 2}}",
        ", \"update\": {\"name\": \"localsgd\"}",
        ", \"update\": {\"name\": \"diloco\"}",
    };
    uint32_t lives = 0;

    (void)arg;
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        char json[1024];

        if (is_job(job_of(json, sizeof json, mesh->name, choices[i]))) {
            must_go_on(json, strstr(choices[i], "update") != NULL ? 1 : 5);
            lives++;
        }
    }
    print_message("%s: %u lives\n", mesh->name, lives);
    assert_true(lives >= 4);
}

static void ranks_of_every_mesh_go_on_with_the_same_bits(void **state)
{
    (void)state;
    ps_mesh_each(live_in_mesh, NULL);
}

static void any_clock_will_do(void **state)
{
    char json[1024];

    (void)state;
    job_of(json, sizeof json, "ring",
           ", \"codec\": {\"up\": {\"name\": \"int8\", \"params\": {\"error_feedback\": 1}}}");
    must_go_on(json, 0);
    must_go_on(json, 1);
    must_go_on(json, 13); /* the end */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_every_mesh_go_on_with_the_same_bits),
        cmocka_unit_test(any_clock_will_do),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, tw_draw_glyphs, tw_drop_glyphs);
}
