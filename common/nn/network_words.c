/* SPDX-License-Identifier: Apache-2.0 */
/* network_words.c - networks over ids: of words, and of hashed categories together with numbers. */
#include "common/nn/network.h"

#include <math.h>
#include <stdio.h>

#define WIDTH_LINE(of)                                                                             \
    {                                                                                              \
        .name = "width", .value = (of), .min = 1, .max = 4096, .is_integer = true,                 \
        .help = "values of each id's vector"                                                       \
    }
#define ROWS_LINE                                                                                  \
    {                                                                                              \
        .name = "rows", .value = 0, .min = 0, .max = 1 << 24, .is_integer = true,                  \
        .help = "ids that there can be; 0: as many as the data set has"                            \
    }

/* Writes the number of rows of the tables: `rows`, or if that is 0 the size of the data set's
 * vocabulary. Fails if the data set has no ids, or more ids than `rows`. */
static ps_status rows_of(const ps_network_build *net, double rows, uint32_t *out)
{
    const ps_network_facts *facts = net->facts;

    if (facts->ids == 0 || facts->vocabulary == 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "needs ids, and the data set has none");
    }
    if (rows != 0.0 && rows < facts->vocabulary) {
        return ps_fail(PS_INVALID_ARGUMENT, "%.0f rows, and the data set's ids go to %u", rows,
                       facts->vocabulary - 1);
    }
    *out = rows != 0.0 ? (uint32_t)rows : facts->vocabulary;
    return ps_ok();
}

static ps_layer_spec *add_table(ps_network_build *net, const char *name, uint32_t rows,
                                double width, ps_init_rule init, double scale)
{
    ps_layer_spec *spec = ps_network_add(net, "embedding", name);

    ps_network_set(spec, "rows", rows);
    ps_network_set(spec, "width", width);
    ps_network_set(spec, "init", init);
    ps_network_set(spec, "init_scale", scale);
    return spec;
}

enum { NGRAM_WIDTH, NGRAM_HIDDEN, NGRAM_DROPOUT, NGRAM_ROWS };

static const ps_param ngram_params[] = {
    WIDTH_LINE(32),
    {.name = "hidden",
     .value = 256,
     .min = 1,
     .max = 65536,
     .is_integer = true,
     .help = "units of the hidden layer"},
    {.name = "dropout",
     .value = 0.5,
     .min = 0,
     .max = 0.99,
     .help = "probability that a hidden value is left out"},
    ROWS_LINE,
    {.name = NULL},
};

static void add_normal_dense(ps_network_build *net, const char *name, double units, double scale)
{
    ps_layer_spec *spec = ps_network_add(net, "dense", name);

    ps_network_set(spec, "units", units);
    ps_network_set(spec, "init", PS_INIT_RULE_NORMAL);
    ps_network_set(spec, "init_scale", scale);
}

/* Builds the network. Standard deviations of initial weights are those of Paddle's word2vec
 * example: 0.001 for the table, 1 / sqrt(256) for the hidden layer, 1 / sqrt(hidden units) for the
 * output. */
static ps_status build_ngram(ps_network_build *net)
{
    const double *numbers = net->params.v;
    uint32_t rows = 0;
    ps_status st = rows_of(net, numbers[NGRAM_ROWS], &rows);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (net->facts->ids != net->facts->features) {
        return ps_fail(PS_INVALID_ARGUMENT, "needs ids alone, and %u of %u features are numbers",
                       net->facts->features - net->facts->ids, net->facts->features);
    }
    (void)add_table(net, "words", rows, numbers[NGRAM_WIDTH], PS_INIT_RULE_NORMAL, 0.001);
    (void)ps_network_add(net, "flatten", NULL);
    add_normal_dense(net, "hidden", numbers[NGRAM_HIDDEN], 0.0625);
    (void)ps_network_add(net, "sigmoid", NULL);
    ps_network_set(ps_network_add(net, "dropout", NULL), "rate", numbers[NGRAM_DROPOUT]);
    add_normal_dense(net, "next", net->facts->outputs, 1.0 / sqrt(numbers[NGRAM_HIDDEN]));
    return ps_ok();
}

const ps_network ps_network_ngram = {
    .name = "ngram",
    .summary = "the next word from the ones before it: a shared sparse embedding, a hidden layer, "
               "all words (Bengio et al. 2003)",
    .params = ngram_params,
    .build = build_ngram,
};

enum { SKIPGRAM_WIDTH, SKIPGRAM_ROWS };

static const ps_param skipgram_params[] = {
    WIDTH_LINE(100),
    ROWS_LINE,
    {.name = NULL},
};

/* Builds the network. Initial weights are those of word2vec: the words' vectors uniform from -0.5 /
 * width to 0.5 / width, the neighbours' zero. */
static ps_status build_skipgram(ps_network_build *net)
{
    double width = net->params.v[SKIPGRAM_WIDTH];
    const ps_network_facts *facts = net->facts;
    ps_layer_spec *spec;
    uint32_t rows = 0, centre;
    ps_status st = rows_of(net, net->params.v[SKIPGRAM_ROWS], &rows);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (facts->ids != facts->features || facts->features < 2 ||
        facts->outputs != facts->features - 1) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "needs a word and its possible neighbours, an output for each of these; "
                       "%u features, %u of them ids, and %u outputs",
                       facts->features, facts->ids, facts->outputs);
    }
    ps_network_set(ps_network_add(net, "slice", "centre"), "count", 1);
    (void)add_table(net, "words", rows, width, PS_INIT_RULE_UNIFORM, 0.5 / width);
    centre = (uint32_t)net->count;
    spec = ps_network_add(net, "slice", "candidates");
    ps_network_set(spec, "first", 1);
    ps_network_read(spec, 0);
    (void)add_table(net, "neighbours", rows, width, PS_INIT_RULE_CONSTANT, 0);
    ps_network_read_both(ps_network_add(net, "dots", NULL), centre, (uint32_t)net->count);
    return ps_ok();
}

const ps_network ps_network_skipgram = {
    .name = "skipgram",
    .summary = "whether words are neighbours: a word, a true neighbour and drawn ones, their "
               "products as logits (Mikolov et al. 2013, negative sampling)",
    .params = skipgram_params,
    .loss = "binary_cross_entropy",
    .build = build_skipgram,
};

enum { WIDE_WIDTH, WIDE_HIDDEN, WIDE_LAYERS, WIDE_ROWS };

static const ps_param wide_deep_params[] = {
    WIDTH_LINE(10),
    {.name = "hidden",
     .value = 400,
     .min = 1,
     .max = 65536,
     .is_integer = true,
     .help = "units of each layer of the deep part"},
    {.name = "layers",
     .value = 3,
     .min = 1,
     .max = 32,
     .is_integer = true,
     .help = "hidden layers of the deep part"},
    ROWS_LINE,
    {.name = NULL},
};

/* Adds the deep part of wide_deep. `numbers` is the layer of the numeric features; it is not read
 * if there are none. Returns the number of the part's last layer. */
static uint32_t add_deep(ps_network_build *net, uint32_t rows, uint32_t numbers, uint32_t outputs)
{
    uint32_t given = net->facts->features - net->facts->ids;
    ps_layer_spec *spec = ps_network_add(net, "slice", "ids");

    ps_network_set(spec, "first", given);
    ps_network_read(spec, 0);
    (void)add_table(net, "embedding", rows, net->params.v[WIDE_WIDTH], PS_INIT_RULE_NORMAL, 0.01);
    (void)ps_network_add(net, "flatten", NULL);
    if (given > 0) {
        ps_network_read_both(ps_network_add(net, "concat", NULL), (uint32_t)net->count, numbers);
    }
    for (uint32_t i = 0; i < (uint32_t)net->params.v[WIDE_LAYERS]; i++) {
        char name[16];

        snprintf(name, sizeof name, "deep%u", i + 1);
        ps_network_set(ps_network_add(net, "dense", name), "units", net->params.v[WIDE_HIDDEN]);
        (void)ps_network_add(net, "relu", NULL);
    }
    ps_network_set(ps_network_add(net, "dense", "deep_out"), "units", outputs);
    return (uint32_t)net->count;
}

static ps_status build_wide_deep(ps_network_build *net)
{
    const ps_network_facts *facts = net->facts;
    uint32_t outputs = facts->classes == 2 ? 1 : facts->outputs, rows = 0, numbers, deep;
    ps_layer_spec *spec;
    ps_status st = rows_of(net, net->params.v[WIDE_ROWS], &rows);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (facts->ids == facts->features) { /* there is no wide part without numbers */
        (void)add_deep(net, rows, 0, outputs);
        return ps_ok();
    }
    spec = ps_network_add(net, "slice", "numbers");
    ps_network_set(spec, "count", facts->features - facts->ids);
    numbers = (uint32_t)net->count;
    deep = add_deep(net, rows, numbers, outputs);
    spec = ps_network_add(net, "dense", "wide");
    ps_network_set(spec, "units", outputs);
    ps_network_read(spec, numbers);
    ps_network_read_both(ps_network_add(net, "add", NULL), deep, (uint32_t)net->count);
    return ps_ok();
}

const ps_network ps_network_wide_deep = {
    .name = "wide_deep",
    .summary = "numbers and ids: a sparse embedding and three dense layers beside a linear part of "
               "the numbers (Cheng et al. 2016)",
    .params = wide_deep_params,
    .loss = "binary_cross_entropy",
    .build = build_wide_deep,
};
