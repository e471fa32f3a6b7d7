/* SPDX-License-Identifier: Apache-2.0 */
/* make_onnx.c FOLDER - writes models with drawn weights as ONNX files, and beside
 * each what goes in and what our engine makes of it, for check_onnx.py and
 * check_onnx.mjs: CASE.onnx, CASE.input, CASE.logits (float32), and cases.json. */
#include "common/artifact/onnx.h"
#include "common/base/draw.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"
#include "common/nn/network.h"
#include "common/rpc/pbjson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, SEED = 20, LARGE_CHANNELS = 3, LARGE_SIDE = 227 };

static const char large[] = "alexnet227";

/* Every network there is, then lists that have every other kind of layer, in shapes
 * where a wrong attribute shows. */
static const char *const cases[][2] = {
    {"mlp", "{\"model\":{\"preset\":\"mlp\",\"widths\":[64,32]}}"},
    {"mlp_relu", "{\"model\":{\"preset\":\"mlp\",\"widths\":[64],\"activation\":\"relu\"}}"},
    {"mlp_sigmoid", "{\"model\":{\"preset\":\"mlp\",\"widths\":[64],\"activation\":\"sigmoid\"}}"},
    {"linear", "{\"model\":{\"preset\":\"linear\"}}"},
    {"cnn", "{\"model\":{\"preset\":\"cnn\"}}"},
    {"alexnet", "{\"model\":{\"preset\":\"alexnet\"},"
                "\"data\":{\"name\":\"cifar10\",\"trainLimit\":1000,\"testLimit\":1000}}"},
    {"resnet", "{\"model\":{\"preset\":\"resnet\"},"
               "\"data\":{\"name\":\"cifar10\",\"trainLimit\":1000,\"testLimit\":1000}}"},
    {"resnet14", "{\"model\":{\"preset\":\"resnet14\"},"
                 "\"data\":{\"name\":\"cifar10\",\"trainLimit\":1000,\"testLimit\":1000}}"},
    {"resnet18", "{\"model\":{\"preset\":\"resnet18\"},"
                 "\"data\":{\"name\":\"cifar10\",\"trainLimit\":1000,\"testLimit\":1000}}"},
    {"resnet20", "{\"model\":{\"preset\":\"resnet20\"},"
                 "\"data\":{\"name\":\"cifar10\",\"trainLimit\":1000,\"testLimit\":1000}}"},
    {"ngram", "{\"model\":{\"preset\":\"ngram\"},\"data\":{\"name\":\"ngram\",\"files\":[\"a.txt\"]"
              ",\"testFiles\":[\"b.txt\"],\"trainLimit\":1000,"
              "\"testLimit\":1000,\"params\":{\"words\":70}}}"},
    {"skipgram", "{\"model\":{\"preset\":\"skipgram\"},\"data\":{\"name\":\"skipgram\",\"files\":["
                 "\"a.txt\"],\"testFiles\":[\"b.txt\"],"
                 "\"trainLimit\":1000,\"testLimit\":1000,\"params\":{\"words\":70}}}"},
    {"wide_deep", "{\"model\":{\"preset\":\"wide_deep\"},\"data\":{\"name\":\"criteo\",\"files\":["
                  "\"a.txt\"],\"testFiles\":[\"b.txt\"],"
                  "\"trainLimit\":1000,\"testLimit\":1000,\"params\":{\"buckets\":90}}}"},
    {"windows", "{\"model\":{\"layers\":["
                "{\"kind\":\"conv2d\",\"params\":{\"filters\":5,\"kernel\":5,\"stride\":2,"
                "\"padding\":1,\"bias\":0}},"
                "{\"kind\":\"batch_norm\",\"params\":{\"epsilon\":0.01}},"
                "{\"kind\":\"leaky_relu\",\"params\":{\"slope\":0.2}},"
                "{\"kind\":\"avgpool2d\",\"params\":{\"kernel\":3,\"stride\":2,\"padding\":1}},"
                "{\"kind\":\"conv2d\",\"params\":{\"filters\":6,\"kernel\":2}},"
                "{\"kind\":\"maxpool2d\",\"params\":{\"kernel\":3,\"stride\":1,\"padding\":1}},"
                "{\"kind\":\"tanh\"},"
                "{\"kind\":\"global_avgpool\"},"
                "{\"kind\":\"dense\",\"params\":{\"units\":10}}]}}"},
    {"graph", "{\"model\":{\"layers\":["
              "{\"name\":\"a\",\"kind\":\"conv2d\",\"params\":{\"filters\":4,\"stride\":3}},"
              "{\"name\":\"b\",\"kind\":\"relu\"},"
              "{\"name\":\"c\",\"kind\":\"conv2d\",\"params\":{\"filters\":4,\"padding\":1}},"
              "{\"name\":\"s\",\"kind\":\"add\",\"inputs\":[\"a\",\"b\",\"c\"]},"
              "{\"name\":\"l\",\"kind\":\"slice\",\"inputs\":[\"s\"],"
              "\"params\":{\"first\":1,\"count\":2}},"
              "{\"name\":\"t\",\"kind\":\"concat\",\"inputs\":[\"l\",\"a\",\"c\"]},"
              "{\"name\":\"f\",\"kind\":\"flatten\"},"
              "{\"name\":\"d\",\"kind\":\"dense\",\"params\":{\"units\":6}},"
              "{\"name\":\"e\",\"kind\":\"slice\",\"inputs\":[\"f\"],\"params\":{\"first\":600}},"
              "{\"name\":\"g\",\"kind\":\"concat\",\"inputs\":[\"d\",\"e\"]},"
              "{\"name\":\"h\",\"kind\":\"dense\",\"params\":{\"units\":10}}]}}"},
    {"shapes", "{\"model\":{\"layers\":["
               "{\"kind\":\"dense\",\"params\":{\"units\":36}},"
               "{\"kind\":\"batch_norm\"},"
               "{\"kind\":\"sigmoid\"},"
               "{\"kind\":\"reshape\",\"params\":{\"channels\":4,\"rows\":3,\"columns\":3}},"
               "{\"kind\":\"channel_dropout\"},"
               "{\"kind\":\"softmax\"},"
               "{\"kind\":\"flatten\"},"
               "{\"kind\":\"linear\"},"
               "{\"kind\":\"dense\",\"params\":{\"units\":10}},"
               "{\"kind\":\"hard_tanh\"},"
               "{\"kind\":\"softmax\"},"
               "{\"kind\":\"dropout\"}]}}"},
};

static ps_plan *plan_of(const char *json)
{
    ProtobufCMessage *spec = NULL;
    ps_error error = {.status = ps_ok()};
    json_t *tree = json_loads(json, 0, NULL);
    ps_plan *plan = NULL;
    ps_status st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &spec);

    if (ps_is_ok(&st)) {
        st = ps_plan_create((const Psgd__V1__JobSpec *)spec, NULL, NULL, &plan);
        psgd__v1__job_spec__free_unpacked((Psgd__V1__JobSpec *)spec, NULL);
    }
    json_decref(tree);
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "%s: %s\n", json, st.text);
        exit(1);
    }
    return plan;
}

/* Weights as they begin; what begins as zeros or ones is moved, variances stay
 * positive. */
static float *weights_of(const ps_model *model)
{
    float *block = ps_xcalloc(ps_model_param_count(model), sizeof *block);

    ps_model_init(model, SEED, block);
    for (size_t v = 0; v < ps_model_variable_count(model); v++) {
        const ps_variable *variable = ps_model_variable(model, v);
        uint64_t key = ps_draw_key(SEED, PS_DRAW_TEST, 1 + v, 0, 0);
        bool is_moved = variable->shape.rank == 1 || variable->init.kind == PS_INIT_CONSTANT;

        for (size_t i = 0; is_moved && i < variable->size; i++) {
            block[variable->at + i] += 0.5f * (float)ps_draw_unit(key, i);
        }
    }
    return block;
}

static void check(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "make_onnx: %s\n", st.text);
        exit(1);
    }
}

static void write_values(const char *folder, const char *name, const char *ending,
                         const float *values, size_t n)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    check(ps_file_write(path, values, n * sizeof *values));
}

/* The shape of a batch. */
static json_t *shape_json(const ps_shape *shape)
{
    json_t *list = json_pack("[i]", BATCH);

    for (uint32_t d = 0; d < shape->rank; d++) {
        json_array_append_new(list, json_integer(shape->dim[d]));
    }
    return list;
}

/* What goes in: values in [-1, 1), ids below the vocabulary. */
static float *input_of(const ps_data_facts *facts)
{
    uint64_t key = ps_draw_key(SEED, PS_DRAW_TEST, 0, 0, 0);
    float *x = ps_xcalloc((size_t)BATCH * facts->features, sizeof *x);

    for (size_t i = 0; i < (size_t)BATCH * facts->features; i++) {
        bool is_id = i % facts->features >= facts->features - facts->ids;

        x[i] = is_id ? (float)ps_draw_below(key, i, facts->vocabulary)
                     : 2.0f * (float)ps_draw_unit(key, i) - 1.0f;
    }
    return x;
}

/* The files of a case, and its entry in the list. */
static json_t *write_case(const char *folder, const char *name, ps_model *model,
                          const ps_data_facts *facts)
{
    const ps_meta meta[] = {{"job", "onnx-12345678"}, {"step", "7"}};
    ps_model_layer last = ps_model_layer_at(model, ps_model_layer_count(model) - 1);
    size_t width = ps_shape_size(&last.plan->out);
    ps_shape in = ps_model_layer_at(model, 0).plan->in;
    float *block = weights_of(model), *x = input_of(facts);
    char path[512];

    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    check(ps_onnx_write(path, model, block, name, meta, 2));
    write_values(folder, name, "input", x, (size_t)BATCH * facts->features);
    write_values(folder, name, "logits", ps_model_predict(model, block, x, BATCH), BATCH * width);
    free(x);
    free(block);
    return json_pack("{s:s, s:o, s:o, s:I}", "name", name, "input", shape_json(&in), "logits",
                     shape_json(&last.plan->out), "parameters",
                     (json_int_t)ps_model_param_count(model));
}

static json_t *make_case(const char *folder, const char *name, const char *json)
{
    ps_plan *plan = plan_of(json);
    ps_model *model = NULL;
    json_t *entry;

    check(ps_plan_model(plan, BATCH, &model));
    entry = write_case(folder, name, model, &plan->facts);
    ps_model_destroy(model);
    ps_plan_destroy(plan);
    return entry;
}

/* A network for images that no data set here has. */
static json_t *make_large(const char *folder)
{
    const ps_data_facts facts = {.features = LARGE_CHANNELS * LARGE_SIDE * LARGE_SIDE};
    const ps_network_facts fit = {.features = facts.features, .classes = 10, .outputs = 10};
    const ps_network *network = ps_network_find(large);
    ps_layer_spec *specs = ps_xcalloc(PS_MODEL_LAYERS_MAX, sizeof *specs);
    ps_params params = ps_params_default(network->params);
    ps_model *model = NULL;
    json_t *entry;
    size_t count = 0;

    check(ps_network_specs(network, &fit, &params, specs, &count));
    check(ps_model_create(specs, count, (ps_shape){3, {LARGE_CHANNELS, LARGE_SIDE, LARGE_SIDE}},
                          ps_loss_find("softmax_cross_entropy"), BATCH, &model));
    entry = write_case(folder, large, model, &facts);
    ps_model_destroy(model);
    free(specs);
    return entry;
}

/* Fails where something that has a name is in no case: `needle` is how a case names it. */
static void expect_case(const char *what, const char *name, const char *needle)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strstr(cases[i][1], needle) != NULL) {
            return;
        }
    }
    fprintf(stderr, "make_onnx: no case has the %s %s; add one\n", what, name);
    exit(1);
}

static void expect_network(const ps_network *network, void *arg)
{
    char needle[128];

    (void)arg;
    snprintf(needle, sizeof needle, "\"preset\":\"%s\"", network->name);
    if (strcmp(network->name, large) != 0) {
        expect_case("network", network->name, needle);
    }
}

int main(int argc, char **argv)
{
    json_t *list = json_array();
    char path[512], *text;

    if (argc != 2) {
        fprintf(stderr, "usage: make_onnx FOLDER\n");
        return 2;
    }
    ps_network_each(expect_network, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_array_append_new(list, make_case(argv[1], cases[i][0], cases[i][1]));
    }
    json_array_append_new(list, make_large(argv[1]));
    snprintf(path, sizeof path, "%s/cases.json", argv[1]);
    text = json_dumps(list, JSON_INDENT(1));
    check(ps_file_write(path, text, strlen(text)));
    free(text);
    json_decref(list);
    return 0;
}
