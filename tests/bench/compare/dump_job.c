/* SPDX-License-Identifier: Apache-2.0 */
/* dump_job.c - what a job starts from, for another program to train on.
 *
 *     dump_job JOB.json DATA_PATH FOLDER
 *
 * Writes into FOLDER, everything little-endian and row-major:
 *
 *     facts.json    shapes, counts, and the variables with their places
 *     weights.f32   the initial block
 *     {train,test}.x.f32, {train,test}.y.f32
 *                   samples (count, features) and targets (count, target_width),
 *                   as transforms leave them in the first epoch
 *     order.u32     the samples of each epoch (epochs, train_count)
 *
 * So compare.py lets PyTorch see what psgd sees, number by number.
 */
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/data/feed.h"
#include "common/job/look.h"
#include "common/job/plan.h"
#include "common/rpc/error.h"
#include "common/rpc/pbjson.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1000 };

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "dump_job: %s\n", st.text);
        exit(1);
    }
}

static void say(void *arg, const char *field, const char *text)
{
    (void)arg;
    fprintf(stderr, "dump_job: %s: %s\n", field, text);
}

static FILE *create(const char *folder, const char *name)
{
    char path[1024];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    return file;
}

static void put(FILE *file, const void *bytes, size_t size)
{
    if (size > 0 && fwrite(bytes, size, 1, file) != 1) {
        perror("write");
        exit(1);
    }
}

static void finish(FILE *file)
{
    if (fclose(file) != 0) {
        perror("close");
        exit(1);
    }
}

static Psgd__V1__JobSpec *read_spec(const char *path, const char *data_path)
{
    json_error_t where;
    json_t *json = json_load_file(path, 0, &where);
    ProtobufCMessage *message = NULL;
    Psgd__V1__JobSpec *looked = NULL;
    ps_error error = {.status = ps_ok()};

    if (json == NULL) {
        fprintf(stderr, "dump_job: %s:%d: %s\n", path, where.line, where.text);
        exit(1);
    }
    must(ps_pb_from_json(&psgd__v1__job_spec__descriptor, json, "spec", &error, &message));
    json_decref(json);
    must(ps_look((Psgd__V1__JobSpec *)message, data_path, &looked));
    protobuf_c_message_free_unpacked(message, NULL);
    return looked;
}

static void dump_facts(const ps_plan *plan, const char *folder)
{
    json_t *variables = json_array();
    json_t *facts =
        json_pack("{s:i, s:[i,i,i], s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "features",
                  (int)plan->facts.features, "shape", (int)plan->facts.shape[0],
                  (int)plan->facts.shape[1], (int)plan->facts.shape[2], "classes",
                  (int)plan->facts.classes, "target_width", (int)plan->facts.target_width, "ids",
                  (int)plan->facts.ids, "vocabulary", (int)plan->facts.vocabulary, "train_count",
                  (int)plan->train_count, "test_count", (int)plan->test_count, "batches_per_epoch",
                  (int)plan->batches_per_epoch, "parameters", (json_int_t)plan->layout.param_count);
    FILE *file = create(folder, "facts.json");

    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];
        json_t *shape = json_array();

        for (uint32_t d = 0; d < var->shape.rank; d++) {
            json_array_append_new(shape, json_integer(var->shape.dim[d]));
        }
        json_array_append_new(variables,
                              json_pack("{s:s, s:o, s:I, s:b}", "name", var->name, "shape", shape,
                                        "at", (json_int_t)var->at, "is_state", (int)var->is_state));
    }
    json_object_set_new(facts, "variables", variables);
    if (json_dumpf(facts, file, JSON_INDENT(1)) != 0) {
        perror("facts.json");
        exit(1);
    }
    finish(file);
    json_decref(facts);
}

static void dump_samples(const ps_plan *plan, const ps_feed *feed, ps_split split,
                         const char *folder)
{
    bool is_train = split == PS_TRAIN;
    FILE *xs = create(folder, is_train ? "train.x.f32" : "test.x.f32");
    FILE *ys = create(folder, is_train ? "train.y.f32" : "test.y.f32");
    size_t features = plan->facts.features, width = plan->facts.target_width;
    float *x = ps_xcalloc(CHUNK * features, sizeof *x), *y = ps_xcalloc(CHUNK * width, sizeof *y);
    uint32_t count = is_train ? plan->train_count : plan->test_count;

    for (uint32_t at = 0; at < count; at += CHUNK) {
        uint32_t n = count - at < CHUNK ? count - at : CHUNK;

        ps_feed_gather(feed, 0, split, NULL, at, n, x, y);
        put(xs, x, n * features * sizeof *x);
        put(ys, y, n * width * sizeof *y);
    }
    must(ps_feed_status(feed));
    finish(xs);
    finish(ys);
    free(x);
    free(y);
}

static void dump_orders(const ps_plan *plan, const ps_feed *feed, const char *folder)
{
    uint32_t count = ps_plan_order_count(plan), *order = ps_xcalloc(count, sizeof *order);
    FILE *file = create(folder, "order.u32");

    for (uint32_t epoch = 0; epoch < plan->spec->epochs; epoch++) {
        ps_feed_order(feed, epoch, order, count);
        put(file, order, count * sizeof *order);
    }
    finish(file);
    free(order);
}

static void dump_weights(const ps_plan *plan, const char *folder)
{
    float *block = ps_xcalloc(plan->layout.param_count, sizeof *block);
    FILE *file = create(folder, "weights.f32");
    ps_model *model = NULL;

    must(ps_plan_model(plan, 1, &model));
    ps_model_init(model, plan->spec->seed, block);
    put(file, block, plan->layout.param_count * sizeof *block);
    finish(file);
    ps_model_destroy(model);
    free(block);
}

int main(int argc, char **argv)
{
    Psgd__V1__JobSpec *spec;
    ps_dataset *data = NULL;
    ps_feed *feed = NULL;
    ps_plan *plan = NULL;
    char folder[1024];

    if (argc != 4) {
        fprintf(stderr, "usage: dump_job JOB.json DATA_PATH FOLDER\n");
        return 2;
    }
    spec = read_spec(argv[1], argv[2]);
    must(ps_plan_create(spec, say, NULL, &plan));
    psgd__v1__job_spec__free_unpacked(spec, NULL);
    must(ps_path_join(folder, sizeof folder, argv[2], ps_data_folder(&plan->data_conf)));
    must(ps_data_load(&plan->data_conf, folder, argv[3], &data));
    must(ps_plan_feed(plan, data, 0, &feed));
    dump_facts(plan, argv[3]);
    dump_samples(plan, feed, PS_TRAIN, argv[3]);
    dump_samples(plan, feed, PS_TEST, argv[3]);
    dump_orders(plan, feed, argv[3]);
    dump_weights(plan, argv[3]);
    ps_feed_destroy(feed);
    ps_dataset_destroy(data);
    ps_plan_destroy(plan);
    return 0;
}
