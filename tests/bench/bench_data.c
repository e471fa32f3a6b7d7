/* SPDX-License-Identifier: Apache-2.0 */
/* bench_data.c - what samples cost beside the training they are for.
 *
 * For each job: the time of a step (forward, backward, optimizer, one core), of gathering
 * its samples through the job's transforms, and of its part of an epoch's order; the last two
 * as a share of the first. PSGD_DATA names the folder of the data sets; jobs whose files are not
 * there are left out, and said so.
 */
#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/job/look.h"
#include "common/job/plan.h"
#include "common/rpc/pbjson.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, ROUND_US = 300000 };

typedef struct job {
    const char *name, *json;
} job;

static const job jobs[] = {
    {"mnist, mlp", "{\"data\": {\"name\": \"mnist\"}, \"block_size\": 64}"},
    {"mnist, mlp, normalised",
     "{\"data\": {\"name\": \"mnist\", \"transforms\": [{\"name\": \"normalise\"}]}, "
     "\"block_size\": 64}"},
    {"cifar10, alexnet", "{\"data\": {\"name\": \"cifar10\"}, \"model\": {\"preset\": "
                         "\"alexnet\"}, \"block_size\": 32}"},
    {"cifar10, alexnet, crop and flip",
     "{\"data\": {\"name\": \"cifar10\", \"transforms\": [{\"name\": \"crop\"}, {\"name\": "
     "\"flip\"}]}, \"model\": {\"preset\": \"alexnet\"}, \"block_size\": 32}"},
    {"text, ngram",
     "{\"data\": {\"name\": \"ngram\", \"files\": [\"tinyshakespeare.txt\"]}, \"model\": "
     "{\"preset\": \"ngram\"}, \"block_size\": 32}"},
    {"text, skipgram",
     "{\"data\": {\"name\": \"skipgram\", \"files\": [\"tinyshakespeare.txt\"]}, \"model\": "
     "{\"preset\": \"skipgram\"}, \"block_size\": 32}"},
    {"adult.csv, wide_deep",
     "{\"data\": {\"name\": \"csv\", \"folder\": \"ctr\", \"files\": [\"adult.csv\"], \"columns\": "
     "[{\"name\": \"age\"}, {\"name\": \"hr_per_week\"}, {\"name\": \"education\", \"kind\": "
     "\"vocabulary\"}, {\"name\": \"occupation\", \"kind\": \"vocabulary\"}, {\"name\": "
     "\"country\", \"kind\": \"hashed\"}, {\"name\": \"income\", \"kind\": \"label\"}]}, "
     "\"model\": {\"preset\": \"wide_deep\"}, \"block_size\": 32}"},
};

typedef struct world {
    ps_plan *plan;
    ps_dataset *data;
    ps_feed *feed;
    ps_model *model;
    float *w, *g, *state, *x, *targets;
    uint32_t *order;
    uint64_t turn;
    ps_score score;
} world;

static void must(const ps_status *st, const char *what)
{
    if (!ps_is_ok(st)) {
        fprintf(stderr, "%s: %s\n", what, st->text);
        exit(1);
    }
}

/* False: its files are not there. */
static bool open_job(world *at, const job *j, const char *root, double *load_s)
{
    ps_error error = {.status = ps_ok()};
    ProtobufCMessage *spec = NULL;
    Psgd__V1__JobSpec *full = NULL;
    json_t *tree = json_loads(j->json, 0, NULL);
    char folder[PATH_MAX];
    int64_t start;
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
    start = ps_clock_us();
    st = ps_data_load(&at->plan->data_conf, folder, NULL, &at->data);
    *load_s = (double)(ps_clock_us() - start) * 1e-6;
    must(&st, j->name);
    st = ps_plan_feed(at->plan, at->data, &at->feed);
    must(&st, j->name);
    return true;
}

static void world_init(world *at, const char *name)
{
    const ps_plan *plan = at->plan;
    size_t n = plan->layout.param_count, batch = plan->spec->block_size;
    ps_status st = ps_plan_model(plan, batch, &at->model);

    must(&st, name);
    at->w = ps_xaligned_alloc(n * sizeof(float));
    at->g = ps_xaligned_alloc(n * sizeof(float));
    at->state = ps_xcalloc(n * plan->optim->slots, sizeof(float));
    at->x = ps_xaligned_alloc(batch * plan->facts.features * sizeof(float));
    at->targets = ps_xaligned_alloc(batch * plan->facts.target_width * sizeof(float));
    at->order = ps_xcalloc(plan->train_count, sizeof *at->order);
    ps_model_init(at->model, 1, at->w);
    ps_feed_order(at->feed, 0, at->order);
}

static void world_fini(world *at)
{
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

static void step(world *at)
{
    const ps_plan *plan = at->plan;
    uint32_t size = plan->spec->block_size;
    ps_targets targets = plan->facts.classes > 0
                             ? ps_targets_classes(at->targets)
                             : ps_targets_values(at->targets, plan->facts.target_width);

    ps_model_train(at->model, at->w, at->x, targets, size, 1.0f / (float)size, false, at->g, NULL,
                   &at->score);
    plan->optim->step(&plan->optim_params, ++at->turn, at->g, at->state, at->w,
                      plan->layout.param_count);
}

static void order(world *at)
{
    ps_feed_order(at->feed, at->turn++, at->order);
}

/* Microseconds a call: the best of a few rounds, as others use the machine too. */
static double time_of(world *at, void (*fn)(world *at))
{
    double best = 0;

    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = ps_clock_us(), now = start;
        double us;
        uint64_t calls = 0;

        while (now - start < ROUND_US) {
            fn(at);
            calls++;
            now = ps_clock_us();
        }
        us = (double)(now - start) / (double)calls;
        best = round == 0 || us < best ? us : best;
    }
    return best;
}

int main(void)
{
    const char *root = getenv("PSGD_DATA");

    printf("%-32s %9s %9s %9s %9s %7s\n", "job", "load s", "step us", "gather us", "order us",
           "share");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        world at = {.turn = 0};
        double load_s = 0, step_us, gather_us, order_us;

        if (root == NULL || !open_job(&at, &jobs[i], root, &load_s)) {
            continue;
        }
        world_init(&at, jobs[i].name);
        gather(&at);
        step_us = time_of(&at, step);
        gather_us = time_of(&at, gather);
        order_us = time_of(&at, order) / at.plan->batches_per_epoch;
        printf("%-32s %9.2f %9.1f %9.2f %9.2f %6.1f%%\n", jobs[i].name, load_s, step_us, gather_us,
               order_us, 100 * (gather_us + order_us) / step_us);
        world_fini(&at);
    }
    return 0;
}
