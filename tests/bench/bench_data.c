/* SPDX-License-Identifier: Apache-2.0 */
/* bench_data.c - what samples and evaluation cost beside the training they are for.
 *
 *     PSGD_DATA=FOLDER bench_data [WORD]
 *
 * For each job (whose name has the word): a step (forward, backward, optimizer), gathering its
 * samples through the job's transforms, its part of an epoch's order; and of the evaluation after
 * each epoch the whole of it and what it is beside its forward pass (gathering, loss, metrics), as
 * its part of each of the epoch's steps, and what a forward pass of as many samples as a step has
 * takes of one. In microseconds of one thread's processor time, the best
 * of rounds in which all are measured in turn, as others use the machine too. PSGD_DATA names the
 * folder of the data sets; jobs whose files are not there are left out, and said so. One job is of
 * images that lie in a file as they are too many; the program writes and removes them.
 *
 * Where a step is short, steps alone and steps that gather their block are also measured in turn,
 * as they pass and in the training thread's processor time. From a file blocks are read ahead by
 * another thread, which costs a step nothing where a processor is free; `gather` is then what both
 * would cost one thread.
 */
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/data/ahead.h"
#include "common/job/look.h"
#include "common/job/plan.h"
#include "common/rpc/pbjson.h"
#include "common/train/evaluation.h"

#include "tests/bench/disk_images.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 7, TURN_US = 50000 };

/* Where a step is so short that its block matters both are also measured together, in turns of some
 * thirty steps: of so many rounds some meet no other process on either of two processors. */
enum { SMALL_STEP_US = 1000, TOGETHER_ROUNDS = 70, TOGETHER_TURN_US = 10000 };

typedef struct job {
    const char *name, *json;
} job;

#define ADULT                                                                                      \
    "{\"name\": \"csv\", \"folder\": \"ctr\", \"files\": [\"adult.csv\"], \"columns\": "           \
    "[{\"name\": \"age\"}, {\"name\": \"hr_per_week\"}, {\"name\": \"education\", \"kind\": "      \
    "\"vocabulary\"}, {\"name\": \"occupation\", \"kind\": \"vocabulary\"}, {\"name\": "           \
    "\"country\", \"kind\": \"hashed\"}, {\"name\": \"income\", \"kind\": \"label\"}]}"
#define NORMALISED(name) "{\"name\": \"" name "\", \"transforms\": [{\"name\": \"normalise\"}]}"
#define TEXT(name) "{\"name\": \"" name "\", \"files\": [\"tinyshakespeare.txt\"]}"
#define JOB(data, model, block)                                                                    \
    "{\"data\": " data ", \"model\": {\"preset\": \"" model "\"}, \"block_size\": " block "}"

static const job jobs[] = {
    {"one dense layer, mnist",
     "{\"data\": {\"name\": \"mnist\"}, \"model\": {\"layers\": [{\"kind\": \"dense\", \"params\": "
     "{\"units\": 10}}]}, \"block_size\": 64}"},
    {"mlp, mnist", JOB("{\"name\": \"mnist\"}", "mlp", "64")},
    {"mlp, mnist, normalised", JOB(NORMALISED("mnist"), "mlp", "64")},
    {"mlp, glyphs, normalised", JOB(NORMALISED("glyphs"), "mlp", "64")},
    {"mlp, simlin", "{\"data\": {\"name\": \"simlin\"}, \"model\": {\"preset\": \"mlp\", \"loss\": "
                    "\"mse\"}, \"block_size\": 64}"},
    {"cnn, mnist, normalised", JOB(NORMALISED("mnist"), "cnn", "32")},
    {"alexnet, cifar10, normalised", JOB(NORMALISED("cifar10"), "alexnet", "32")},
    {"alexnet, cifar10, crop and flip",
     JOB("{\"name\": \"cifar10\", \"transforms\": [{\"name\": \"crop\"}, {\"name\": \"flip\"}]}",
         "alexnet", "32")},
    {"resnet14, cifar10, normalised", JOB(NORMALISED("cifar10"), "resnet14", "32")},
    {"resnet18, cifar10, normalised", JOB(NORMALISED("cifar10"), "resnet18", "32")},
    {"resnet20, cifar10, normalised", JOB(NORMALISED("cifar10"), "resnet20", "32")},
    {"ngram, text", JOB(TEXT("ngram"), "ngram", "32")},
    {"skipgram, text", JOB(TEXT("skipgram"), "skipgram", "32")},
    {"wide_deep, adult.csv", JOB(ADULT, "wide_deep", "32")},
};

/* Of images that the program writes: more than are kept in memory. */
static const job on_disk = {"mlp, 240,000 images on disk",
                            JOB("{\"name\": \"mnist\"}", "mlp", "64")};

typedef struct world {
    ps_plan *plan;
    ps_dataset *data;
    ps_feed *feed;
    ps_model *model;
    float *w, *g, *state, *x, *targets;
    uint32_t *order;
    uint64_t turn, batch, next_wanted;
    ps_ahead *ahead;
    ps_score score;
    ps_evaluation evaluation;
} world;

static void must(const ps_status *st, const char *what)
{
    if (!ps_is_ok(st)) {
        fprintf(stderr, "%s: %s\n", what, st->text);
        exit(1);
    }
}

/* False: its files are not there. */
static bool open_job(world *at, const job *j, const char *root)
{
    ps_error error = {.status = ps_ok()};
    ProtobufCMessage *spec = NULL;
    Psgd__V1__JobSpec *full = NULL;
    json_t *tree = json_loads(j->json, 0, NULL);
    char folder[PATH_MAX];
    ps_status st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "job", &error, &spec);

    json_decref(tree);
    must(&st, j->name);
    st = ps_look((Psgd__V1__JobSpec *)spec, root, &full);
    protobuf_c_message_free_unpacked(spec, NULL);
    if (st.code == PS_NOT_FOUND) {
        printf("%-32s left out: %s\n", j->name, st.text);
        return false;
    }
    must(&st, j->name);
    st = ps_plan_create(full, NULL, NULL, &at->plan);
    psgd__v1__job_spec__free_unpacked(full, NULL);
    must(&st, j->name);
    snprintf(folder, sizeof folder, "%s/%s", root, ps_data_folder(&at->plan->data_conf));
    st = ps_data_load(&at->plan->data_conf, folder, NULL, &at->data);
    must(&st, j->name);
    st = ps_plan_feed(at->plan, at->data, 0, &at->feed);
    must(&st, j->name);
    return true;
}

static void world_init(world *at, const char *name)
{
    const ps_plan *plan = at->plan;
    size_t n = plan->layout.param_count;
    size_t batch =
        plan->spec->block_size > PS_EVALUATION_BATCH ? plan->spec->block_size : PS_EVALUATION_BATCH;
    ps_status st = ps_plan_model(plan, batch, &at->model);

    must(&st, name);
    at->w = ps_xaligned_alloc(n * sizeof(float));
    at->g = ps_xaligned_alloc(n * sizeof(float));
    at->state = ps_xcalloc(n * plan->optim->slots, sizeof(float));
    at->x = ps_xaligned_alloc(batch * plan->facts.features * sizeof(float));
    at->targets = ps_xaligned_alloc(batch * plan->facts.target_width * sizeof(float));
    at->order = ps_xcalloc(ps_plan_order_count(plan), sizeof *at->order);
    ps_model_init(at->model, 1, at->w);
    ps_feed_order(at->feed, 0, at->order, ps_plan_order_count(plan));
    ps_evaluation_init(&at->evaluation, plan);
}

static void world_fini(world *at)
{
    ps_evaluation_fini(&at->evaluation);
    free(at->w);
    free(at->g);
    free(at->state);
    free(at->x);
    free(at->targets);
    free(at->order);
    ps_model_destroy(at->model);
    ps_feed_destroy(at->feed);
    ps_dataset_destroy(at->data);
    ps_plan_destroy(at->plan);
}

static void gather(world *at)
{
    uint32_t size = at->plan->spec->block_size;
    uint32_t batch = (uint32_t)(at->turn++ % at->plan->batches_per_epoch);

    ps_feed_gather(at->feed, 1, PS_TRAIN, at->order + (size_t)batch * size, 0, size, at->x,
                   at->targets);
}

static ps_targets targets_of(const world *at)
{
    const ps_data_facts *facts = &at->plan->facts;

    return facts->classes > 0 ? ps_targets_classes(at->targets)
                              : ps_targets_values(at->targets, facts->target_width);
}

static void step(world *at)
{
    const ps_plan *plan = at->plan;
    uint32_t size = plan->spec->block_size;

    ps_model_train(at->model, at->w, at->x, targets_of(at), size, 1.0f / (float)size, false, at->g,
                   NULL, &at->score);
    plan->optim->step(&plan->optim_params, ++at->turn, at->g, at->w, at->state, at->w,
                      plan->layout.param_count);
}

static void order(world *at)
{
    ps_feed_order(at->feed, at->turn++, at->order, ps_plan_order_count(at->plan));
}

/* The next batch of the test set. */
static uint32_t gather_test(world *at)
{
    uint32_t count = at->plan->test_count, first, n;

    first = (uint32_t)(at->turn++ * PS_EVALUATION_BATCH % count);
    n = count - first < PS_EVALUATION_BATCH ? count - first : PS_EVALUATION_BATCH;
    ps_feed_gather(at->feed, 0, PS_TEST, NULL, first, n, at->x, at->targets);
    return n;
}

static void evaluate(world *at)
{
    uint32_t n = gather_test(at);

    at->score.loss_sum =
        ps_evaluation_add(&at->evaluation, at->model, at->w, at->x, targets_of(at), n);
    if (at->evaluation.samples > at->plan->test_count) {
        ps_evaluation_clear(&at->evaluation);
    }
}

/* The same batches, forward alone. */
static void predict(world *at)
{
    (void)ps_model_predict(at->model, at->w, at->x, PS_EVALUATION_BATCH);
}

static double now_us(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Microseconds a call, over a turn. */
static double time_of(world *at, void (*fn)(world *at), clockid_t clock, double turn_us)
{
    double start = now_us(clock), now = start;
    uint64_t calls = 0;

    while (now - start < turn_us) {
        fn(at);
        calls++;
        now = now_us(clock);
    }
    return (now - start) / (double)calls;
}

enum { STEP, GATHER, ORDER, EVALUATE, PREDICT, KINDS };

static void measure(world *at, double best[KINDS])
{
    static void (*const kinds[KINDS])(world *) = {step, gather, order, evaluate, predict};

    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t k = 0; k < KINDS; k++) {
            double us = time_of(at, kinds[k], CLOCK_THREAD_CPUTIME_ID, TURN_US);

            best[k] = round == 0 || us < best[k] ? us : best[k];
        }
    }
}

static void print_row(const world *at, const char *name, const double best[KINDS])
{
    double steps = at->plan->batches_per_epoch;
    double batches = (double)at->plan->test_count / PS_EVALUATION_BATCH;
    double data = best[GATHER] + best[ORDER] / steps;
    double whole = best[EVALUATE] * batches / steps, forward = best[PREDICT] * batches / steps;
    double beside = whole > forward ? whole - forward : 0;
    double of_sample = best[PREDICT] / PS_EVALUATION_BATCH * at->plan->spec->block_size;

    printf("%-32s %9.1f %9.2f %9.2f %6.1f%% %10.2f %6.1f%% %6.2f%% %6.0f%%\n", name, best[STEP],
           best[GATHER], best[ORDER] / steps, 100 * data / best[STEP], whole,
           100 * whole / best[STEP], 100 * beside / best[STEP], 100 * of_sample / best[STEP]);
    fflush(stdout);
}

static const uint32_t *index_of(const world *at, uint64_t batch)
{
    return at->order + (size_t)(batch % at->plan->batches_per_epoch) * at->plan->spec->block_size;
}

/* As a trainer does it: the block in hand; from a file, while those that come next are read. */
static void step_with_block(world *at)
{
    uint32_t size = at->plan->spec->block_size;

    if (at->ahead == NULL) {
        gather(at);
        step(at);
        return;
    }
    (void)ps_ahead_take(at->ahead, 1, index_of(at, at->batch), size, at->x, at->targets);
    at->batch++;
    while (ps_ahead_want(at->ahead, 1, index_of(at, at->next_wanted), size)) {
        at->next_wanted++;
    }
    step(at);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_together(const char *what, double alone[], double ratio[])
{
    qsort(alone, TOGETHER_ROUNDS, sizeof *alone, by_value);
    qsort(ratio, TOGETHER_ROUNDS, sizeof *ratio, by_value);
    printf(
        "    with its block a step of %.1f us takes %s %.1f%% longer; a quarter of rounds %.1f%% "
        "or less\n",
        alone[TOGETHER_ROUNDS / 2], what, 100 * (ratio[TOGETHER_ROUNDS / 2] - 1),
        100 * (ratio[TOGETHER_ROUNDS / 4] - 1));
    fflush(stdout);
}

/* Medians of rounds, in each of which one follows the other. */
static void measure_together(world *at)
{
    static const clockid_t clocks[2] = {CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID};
    double alone[2][TOGETHER_ROUNDS], ratio[2][TOGETHER_ROUNDS];

    if (ps_feed_is_far(at->feed)) {
        ps_status st = ps_ahead_create(at->feed, at->plan->spec->block_size, &at->ahead);

        must(&st, "reading ahead");
    }
    for (size_t round = 0; round < TOGETHER_ROUNDS; round++) {
        for (size_t k = 0; k < 2; k++) {
            alone[k][round] = time_of(at, step, clocks[k], TOGETHER_TURN_US);
            ratio[k][round] =
                time_of(at, step_with_block, clocks[k], TOGETHER_TURN_US) / alone[k][round];
        }
    }
    ps_ahead_destroy(at->ahead);
    print_together("as they pass", alone[0], ratio[0]);
    print_together("of the training thread's processor time", alone[1], ratio[1]);
}

/* Measures a job whose data lie in `root`. */
static void measure_job(const job *j, const char *root)
{
    world at = {.next_wanted = 1};
    double best[KINDS];

    if (!open_job(&at, j, root)) {
        return;
    }
    world_init(&at, j->name);
    gather(&at);
    measure(&at, best);
    print_row(&at, j->name, best);
    if (best[STEP] < SMALL_STEP_US) {
        measure_together(&at);
    }
    world_fini(&at);
}

static void measure_on_disk(const job *j)
{
    char root[] = "/var/tmp/psgd-bench-XXXXXX";
    ps_status st;

    if (mkdtemp(root) == NULL) {
        perror(root);
        exit(1);
    }
    disk_images_write(root);
    measure_job(j, root);
    st = ps_dir_remove(root);
    must(&st, root);
}

int main(int argc, char **argv)
{
    const char *root = getenv("PSGD_DATA"), *word = argc > 1 ? argv[1] : "";

    printf("%-32s %9s %9s %9s %7s %10s %7s %7s %7s\n", "job", "step", "gather", "order", "share",
           "evaluation", "share", "beside", "forward");
    for (size_t i = 0; root != NULL && i < sizeof jobs / sizeof jobs[0]; i++) {
        if (strstr(jobs[i].name, word) != NULL) {
            measure_job(&jobs[i], root);
        }
    }
    if (strstr(on_disk.name, word) != NULL) {
        measure_on_disk(&on_disk);
    }
    return 0;
}
