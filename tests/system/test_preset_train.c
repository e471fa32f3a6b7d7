/* SPDX-License-Identifier: Apache-2.0 */
/* test_preset_train.c - every preset learns: a whole job in one process, as `psgd train`
 * runs it, its network and its set made small. */
#include "tests/support/cmocka_all.h"

#include "tests/support/temp_dir.h"

#include "common/base/log.h"
#include "common/inprocess/inprocess.h"
#include "common/job/preset.h"
#include "common/job/spec.h"

#include <math.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

enum { JSON_BYTES = 512, LINE_BYTES = 256 };

static void on_over(void *arg)
{
    sem_post(arg);
}

static ps_plan *plan_of(const ps_preset *preset)
{
    bool has_table = strstr(preset->json, "\"table\"") != NULL; /* glyphs have no ids */
    bool has_match = strstr(preset->json, "\"match\"") != NULL; /* of another network's variable */
    char json[JSON_BYTES];
    Psgd__V1__JobSpec *spec;
    ps_plan *plan = NULL;
    ps_status st;

    /* 300 steps of each worker: as many as two rounds of 150. */
    snprintf(json, sizeof json,
             "{\"preset\":\"%s\",\"title\":\"t\",\"seed\":1,\"workers\":2,\"pservers\":2,"
             "\"epochs\":20,\"block_size\":32,\"model\":{%s\"widths\":[32]},"
             "\"data\":{\"name\":\"glyphs\",\"train_limit\":1000,\"test_limit\":200}%s}",
             preset->name, has_table ? "\"preset\":\"mlp\",\"table\":{\"name\":\"none\"}," : "",
             has_match ? ",\"codec\":{\"variables\":[{\"match\":\"dense*\"}]}" : "");
    spec = ps_spec_of_preset(json);
    st = ps_plan_create(spec, NULL, NULL, &plan);
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", preset->name, st.text);
    }
    return plan;
}

/* Of worker 0, before anything is learned. */
static double first_loss(const temp_dir *folder)
{
    char line[2][LINE_BYTES];
    double loss = 0;
    FILE *file = fopen(temp_dir_file(folder, "TR-t-N(0).csv"), "re");

    assert_non_null(file);
    assert_non_null(fgets(line[0], LINE_BYTES, file));
    assert_true(strncmp(line[0], "time_s,epoch,batch,step,loss,", 29) == 0);
    assert_non_null(fgets(line[1], LINE_BYTES, file));
    assert_int_equal(sscanf(line[1], "%*f,%*u,%*u,%*u,%lf,", &loss), 1);
    fclose(file);
    return loss;
}

/* The least of the evaluations. Without waiting for each other, workers may be timed so that what
 * was learnt swings for a while. */
static double best_loss(const temp_dir *folder)
{
    char line[LINE_BYTES];
    double loss, best = INFINITY;
    FILE *file = fopen(temp_dir_file(folder, "EV-t-N(0).csv"), "re");

    assert_non_null(file);
    assert_non_null(fgets(line, LINE_BYTES, file));
    assert_true(strncmp(line, "epoch,step,loss,", 16) == 0);
    while (fgets(line, LINE_BYTES, file) != NULL) {
        assert_int_equal(sscanf(line, "%*u,%*u,%lf,", &loss), 1);
        best = fmin(best, loss);
    }
    fclose(file);
    return best;
}

static void must_learn(const ps_preset *preset, void *arg)
{
    temp_dir folder = temp_dir_create();
    ps_plan *plan = plan_of(preset);
    ps_inprocess_job *local = NULL;
    const Psgd__V1__Job *job;
    double first, best;
    sem_t over;
    ps_status st;

    assert_int_equal(sem_init(&over, 0, 0), 0);
    st = ps_inprocess_job_create(&(ps_inprocess_job_conf){.plan = plan,
                                                          .job_id = preset->name,
                                                          .folder = folder.path,
                                                          .threads = 2,
                                                          .done = on_over,
                                                          .arg = &over},
                                 &local);
    assert_string_equal(st.text, "");
    st = ps_inprocess_job_start(local);
    assert_string_equal(st.text, "");
    while (sem_wait(&over) != 0) {
    }
    st = ps_inprocess_job_finish(local);
    assert_string_equal(st.text, "");
    job = ps_inprocess_job_now(local);
    assert_string_equal(job->result[0]->key, "loss");
    first = first_loss(&folder);
    best = best_loss(&folder);
    if (!(best < 0.9 * first) || !isfinite(job->result[0]->value)) {
        fail_msg("%s: losses of %.3f, then %.3f, in the end %.3f", preset->name, first, best,
                 job->result[0]->value);
    }
    ps_inprocess_job_destroy(local);
    ps_plan_destroy(plan);
    sem_destroy(&over);
    temp_dir_destroy(&folder);
    ++*(size_t *)arg;
}

static void every_preset_learns(void **state)
{
    size_t count = 0;

    (void)state;
    ps_log_set_quiet(true);
    ps_preset_each(must_learn, &count);
    assert_true(count > 40);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_preset_learns),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
