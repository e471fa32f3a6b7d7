/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c - see kinds.h: one adapter a kind. */
#include "common/job/kinds.h"

#include "common/codec/codec.h"
#include "common/codec/feedback.h"
#include "common/consistency/consistency.h"
#include "common/data/assign.h"
#include "common/data/columns.h"
#include "common/data/dataset.h"
#include "common/data/transform.h"
#include "common/job/table_numbers.h"
#include "common/mesh/mesh.h"
#include "common/metric/metric.h"
#include "common/nn/layer.h"
#include "common/nn/loss.h"
#include "common/nn/network.h"
#include "common/optim/clip.h"
#include "common/optim/optim.h"
#include "common/optim/schedule.h"
#include "common/straggler/straggler.h"
#include "common/update/update.h"

#include <stdio.h>

/* The function that `each` of a kind calls for every plugin, and its argument. */
typedef struct caller {
    ps_plugin_fn *fn;
    void *arg;
} caller;

static void pass(const caller *c, const char *name, const char *summary, const ps_param *params)
{
    const ps_plugin plugin = {.name = name, .summary = summary, .params = params};

    c->fn(&plugin, c->arg);
}

static void pass_assignment(const ps_assign *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_assignment(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_assign_each(pass_assignment, &c);
}
const ps_kind ps_kind_assignment = {.name = "assignment", .each = each_assignment};

static void pass_clip(const ps_clip *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_clip(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_clip_each(pass_clip, &c);
}
const ps_kind ps_kind_clip = {.name = "clip", .each = each_clip};

/* Passes a codec to the caller. Appends to its summary what holds with its default numbers: the
 * bits a value, whether it is biased, summable or only for gradients, and its state. */
static void pass_codec(const ps_codec *x, void *arg)
{
    ps_params params = ps_params_default(x->params);
    ps_codec_facts facts = ps_codec_facts_of(x, &params);
    size_t floats = ps_feedback_floats(x, &params, PS_CODEC_VALUES);
    double bits = ps_codec_bits(x, &params);
    char text[256], state[64] = "no state";

    if (floats > 0) {
        snprintf(state, sizeof state, "state %.3g float%s a value",
                 (double)floats / PS_CODEC_VALUES, floats == PS_CODEC_VALUES ? "" : "s");
    }
    snprintf(text, sizeof text, "%s; %s%.4g bit%s a value, %s, %s, %s%s", x->summary,
             ps_codec_depends_on_data(x, &params) ? "at most " : "", bits, bits == 1 ? "" : "s",
             facts.is_unbiased ? "unbiased" : "biased",
             facts.is_summable ? "summable" : "not summable", state,
             facts.is_sparse ? ", for gradients only" : "");
    pass(arg, x->name, text, x->params);
}
static void each_codec(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_codec_each(pass_codec, &c);
}
const ps_kind ps_kind_codec = {.name = "codec", .each = each_codec};

static void pass_column(const ps_column *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_column(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_column_each(pass_column, &c);
}
const ps_kind ps_kind_column = {.name = "column", .each = each_column};

static void pass_consistency(const ps_consistency *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_consistency(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_consistency_each(pass_consistency, &c);
}
const ps_kind ps_kind_consistency = {.name = "consistency", .each = each_consistency};

static void pass_data(const ps_data_source *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_data(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_data_source_each(pass_data, &c);
}
const ps_kind ps_kind_data = {.name = "data", .each = each_data};

/* Passes a mesh of common/mesh. each_exchange itself passes `pserver`, which is none. */
static void pass_mesh(const ps_mesh *x, void *arg)
{
    pass(arg, x->name, x->summary, ps_mesh_params);
}
static void each_exchange(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    pass(&c, "pserver", "through parameter servers: workers push to them and pull from them", NULL);
    ps_mesh_each(pass_mesh, &c);
}
const ps_kind ps_kind_exchange = {.name = "exchange", .each = each_exchange};

static void pass_layer(const ps_layer *x, void *arg)
{
    pass(arg, x->kind, x->summary, x->params);
}
static void each_layer(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_layer_each(pass_layer, &c);
}
const ps_kind ps_kind_layer = {.name = "layer", .each = each_layer};

static void pass_loss(const ps_loss *x, void *arg)
{
    pass(arg, x->name, x->summary, NULL);
}
static void each_loss(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_loss_each(pass_loss, &c);
}
const ps_kind ps_kind_loss = {.name = "loss", .each = each_loss};

static void pass_metric(const ps_metric *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_metric(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_metric_each(pass_metric, &c);
}
const ps_kind ps_kind_metric = {.name = "metric", .each = each_metric};

static void pass_network(const ps_network *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_network(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    /* mlp is not in common/nn: check_model.c builds it from fields of the job. */
    pass(&c, "mlp", "dense layers of `widths` units with `activation` between them", NULL);
    ps_network_each(pass_network, &c);
}
const ps_kind ps_kind_network = {.name = "network", .each = each_network};

static void pass_optimizer(const ps_optim *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_optimizer(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_optim_each(pass_optimizer, &c);
}
const ps_kind ps_kind_optimizer = {.name = "optimizer", .each = each_optimizer};

static void pass_schedule(const ps_schedule *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_schedule(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_schedule_each(pass_schedule, &c);
}
const ps_kind ps_kind_schedule = {.name = "schedule", .each = each_schedule};

static void pass_straggler(const ps_straggler *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_straggler(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_straggler_each(pass_straggler, &c);
}
const ps_kind ps_kind_straggler = {.name = "straggler", .each = each_straggler};

static void pass_table(const ps_table_choice *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_table(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_table_choice_each(pass_table, &c);
}
const ps_kind ps_kind_table = {.name = "table", .each = each_table};

static void pass_transform(const ps_transform *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_transform(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_transform_each(pass_transform, &c);
}
const ps_kind ps_kind_transform = {.name = "transform", .each = each_transform};

static void pass_update(const ps_update *x, void *arg)
{
    pass(arg, x->name, x->summary, x->params);
}
static void each_update(ps_plugin_fn *fn, void *arg)
{
    caller c = {fn, arg};

    ps_update_each(pass_update, &c);
}
const ps_kind ps_kind_update = {.name = "update", .each = each_update};

// clang-format off
const ps_kind *const ps_kinds[] = {
    &ps_kind_assignment,
    &ps_kind_clip,
    &ps_kind_codec,
    &ps_kind_column,
    &ps_kind_consistency,
    &ps_kind_data,
    &ps_kind_exchange,
    &ps_kind_layer,
    &ps_kind_loss,
    &ps_kind_metric,
    &ps_kind_network,
    &ps_kind_optimizer,
    &ps_kind_schedule,
    &ps_kind_straggler,
    &ps_kind_table,
    &ps_kind_transform,
    &ps_kind_update,
};
// clang-format on
const size_t ps_kind_count = sizeof ps_kinds / sizeof ps_kinds[0];
