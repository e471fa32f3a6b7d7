/* SPDX-License-Identifier: Apache-2.0 */
/* train_world.c - see train_world.h. */
#include "tests/support/train_world.h"

#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/train/merge.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/data_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ps_dataset *tw_glyphs;
ps_dataset *tw_other;

static const char *unless(const char *choices, const char *name, const char *text)
{
    return strstr(choices, name) != NULL ? "" : text;
}

void tw_begin(train_world *w, uint32_t workers, uint32_t servers, const char *choices)
{
    static const uint32_t one[TW_SERVERS_MAX] = {1, 1, 1};

    tw_begin_threads(w, workers, servers, one, choices);
}

void tw_begin_threads(train_world *w, uint32_t workers, uint32_t servers, const uint32_t *threads,
                      const char *choices)
{
    char json[2048], glyphs[128];
    ps_dataset *data = strstr(choices, "\"data\"") != NULL ? tw_other : tw_glyphs;

    memset(w, 0, sizeof *w);
    w->worker_count = workers;
    w->server_count = servers;
    w->folder = temp_dir_create();
    snprintf(glyphs, sizeof glyphs,
             ", \"data\": {\"name\": \"glyphs\", \"train_limit\": %d, \"test_limit\": %d}",
             TW_TRAIN, TW_TEST);
    snprintf(
        json, sizeof json,
        "{\"title\": \"t\", \"workers\": %u, \"pservers\": %u, \"seed\": 1%s%s%s%s%s%s}", workers,
        servers, unless(choices, "\"data\"", glyphs), unless(choices, "epochs", ", \"epochs\": 3"),
        unless(choices, "model", ", \"model\": {\"widths\": [32]}"),
        unless(choices, "optimizer",
               ", \"optimizer\": {\"rule\": {\"name\": \"adam\", \"params\": {\"lr\": 0.003}}}"),
        unless(choices, "block_size", ", \"block_size\": 20"), choices);
    dp_job_init(&w->job, json);
    for (uint32_t i = 0; i < servers; i++) {
        ps_status st = ps_placement_set_threads(&w->job.placement, i, threads[i]);

        assert_string_equal(st.text, "");
    }
    side_start(&w->serving);
    side_start(&w->working);
    for (uint32_t i = 0; i < servers; i++) {
        dp_server_start(&w->servers[i], &w->serving, &w->job, i, 0);
    }
    for (uint32_t i = 0; i < workers; i++) {
        trainee *t = &w->workers[i];
        ps_status st;

        flag_init(&t->done);
        flag_init(&t->closed);
        dp_worker_session(&w->job, i, &t->session);
        t->session.data = data;
        snprintf(t->session.folder, sizeof t->session.folder, "%s", w->folder.path);
        st = ps_trainer_create(&(ps_trainer_conf){.job_id = t->session.job_id,
                                                  .folder = t->session.folder,
                                                  .rank = i,
                                                  .plan = t->session.plan,
                                                  .data = data,
                                                  .weights = t->session.weights},
                               &t->trainer);
        assert_string_equal(st.text, "");
    }
}

typedef struct opening {
    train_world *w;
    trainee *t;
    /* checked on the test's thread, because cmocka's assertions may fail only there */
    ps_status status;
} opening;

static void post_done(void *arg)
{
    trainee *t = arg;

    ps_loop_post(t->loop, &t->done.event);
}

static void open_worker(void *arg)
{
    opening *o = arg;

    o->t->exchange = ps_rank_connect(o->w->working.loop, &o->t->session, 1,
                                     ps_trainer_grad(o->t->trainer), false);
    o->t->loop = o->w->working.loop;
    o->status = o->t->state != NULL
                    ? ps_trainer_load(o->t->trainer, o->t->exchange, o->t->state, o->t->state_bytes)
                    : ps_ok();
    if (ps_is_ok(&o->status)) {
        ps_wire_client_start(o->t->exchange);
        o->status = ps_trainer_start(o->t->trainer, o->t->exchange, post_done, o->t);
    }
}

void tw_start(train_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        opening o = {.w = w, .t = &w->workers[i]};

        side_run(&w->working, open_worker, &o);
        assert_string_equal(o.status.text, "");
    }
}

static void close_worker(void *arg)
{
    trainee *t = arg;

    ps_wire_client_stop(t->exchange, &t->closed.event);
}

void tw_join(train_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        trainee *t = &w->workers[i];

        flag_wait(&t->done);
        t->stats = ps_exchange_get_stats(t->exchange);
        if (t->ended != NULL) {
            t->ended(t->ended_arg, i);
        }
        side_run(&w->working, close_worker, t);
        flag_wait(&t->closed);
        t->result = ps_trainer_result(t->trainer);
        t->progress = ps_trainer_get_progress(t->trainer);
    }
}

void tw_end(train_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        if (w->workers[i].exchange != NULL) {
            ps_wire_client_destroy(w->workers[i].exchange);
        }
        ps_trainer_destroy(w->workers[i].trainer);
        dp_session_fini(&w->workers[i].session);
        flag_fini(&w->workers[i].done);
        flag_fini(&w->workers[i].closed);
    }
    for (uint32_t i = 0; i < w->server_count; i++) {
        dp_server_stop(&w->servers[i]);
        dp_server_fini(&w->servers[i]);
    }
    side_stop(&w->serving);
    side_stop(&w->working);
    dp_job_fini(&w->job);
    temp_dir_destroy(&w->folder);
}

void tw_must_be_done(const train_world *w)
{
    for (uint32_t i = 0; i < w->worker_count; i++) {
        assert_string_equal(w->workers[i].result.text, "");
    }
}

/* Gathers the weights from all servers. */
float *tw_served(train_world *w)
{
    float *block = ps_xcalloc(w->job.plan->layout.param_count, sizeof *block);

    for (uint32_t i = 0; i < w->server_count; i++) {
        dp_server_weights(&w->servers[i], block);
    }
    return block;
}

/* Writes the rows of all ids, as a pull gives them, and their number, of all servers, to `to`. */
static void take_rows(train_world *w, uint32_t ids, size_t width, float *to)
{
    uint64_t made = 0;

    for (uint32_t s = 0; s < w->server_count; s++) {
        made += ps_table_count(ps_tables_at(ps_store_tables(w->servers[s].store), 0)).rows;
    }
    to[ids * width] = (float)made;
    for (uint64_t id = 0; id < ids; id++) {
        uint32_t server = ps_merge_part_of(w->job.plan, &w->job.placement, 0, id);
        ps_status st =
            ps_tables_pull(ps_store_tables(w->servers[server].store), &id, 1, to + id * width);

        assert_string_equal(st.text, "");
    }
}

float *tw_left(train_world *w, size_t *n)
{
    const ps_plan *plan = w->job.plan;
    bool grows = plan->table_keys > 0;
    size_t count = plan->layout.param_count, width = 0;
    uint32_t ids = grows ? plan->tables[0].rows : 0;
    float *left = tw_served(w);

    for (uint32_t i = 0; grows && i < plan->table_count; i++) {
        width += plan->tables[i].width;
    }
    *n = (count + (grows ? ids * width + 1 : 0)) * sizeof *left;
    left = ps_xrealloc(left, *n);
    if (grows) {
        take_rows(w, ids, width, left + count);
    }
    return left;
}

float *tw_train_once(uint32_t workers, uint32_t servers, const char *choices, size_t *n)
{
    train_world w;
    float *left;

    tw_begin(&w, workers, servers, choices);
    tw_start(&w);
    tw_join(&w);
    tw_must_be_done(&w);
    left = tw_left(&w, n);
    tw_end(&w);
    return left;
}

void tw_must_train_alike(const char *one, uint32_t one_servers, const char *other,
                         uint32_t other_servers, uint32_t workers)
{
    size_t n, m;
    float *a = tw_train_once(workers, one_servers, one, &n);
    float *b = tw_train_once(workers, other_servers, other, &m);

    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

void tw_put_far(ps_dataset *data, bool is_far)
{
    data->split[PS_TRAIN]->is_far = is_far;
}

int tw_draw_glyphs(void **state)
{
    ps_status st = data_rig_load("glyphs", NULL, TW_TRAIN, TW_TEST, &tw_glyphs);

    (void)state;
    return ps_is_ok(&st) ? 0 : -1;
}

int tw_drop_glyphs(void **state)
{
    (void)state;
    ps_dataset_destroy(tw_glyphs);
    return 0;
}
