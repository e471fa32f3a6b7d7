/* SPDX-License-Identifier: Apache-2.0 */
/* model_finite.c - finds the first value of a pass that is not finite; see
 * ps_model_find_nonfinite. */
#include "common/base/nonfinite.h"
#include "common/nn/model_impl.h"

static ps_status check_variables(const ps_model *model, const ps_placed *at, const float *weights)
{
    for (size_t v = at->first_variable; v < at->first_variable + at->plan.var_count; v++) {
        const ps_variable *var = &model->vars[v];
        size_t i = ps_first_nonfinite(weights + var->at, var->size);

        if (i < var->size) {
            return ps_fail(PS_INTERNAL, "value %zu of %s is %g", i, var->name,
                           (double)weights[var->at + i]);
        }
    }
    return ps_ok();
}

static ps_status check_layer(const ps_model *model, uint32_t index, const float *x, size_t n)
{
    const ps_placed *at = &model->layers[index];
    const float *y = ps_model_output_of(model, index, x);
    size_t size = ps_shape_size(&at->plan.out), i;
    ps_status st = ps_ok();

    if (at->layer->check != NULL) {
        st = at->layer->check(&at->plan, ps_model_output_of(model, at->inputs[0].from, x), n);
    }
    i = ps_first_nonfinite(y, n * size);
    if (ps_is_ok(&st) && i < n * size) {
        bool has_variables = at->plan.var_count > 0;

        st = ps_fail(PS_INTERNAL, "output %zu of sample %zu is %g%s%s", i % size, i / size,
                     (double)y[i], has_variables ? ", by " : "",
                     has_variables ? model->vars[at->first_variable].name : "");
    }
    return ps_is_ok(&st) ? st : ps_wrap(st, "layer %u (%s)", index, at->name);
}

ps_status ps_model_find_nonfinite(const ps_model *model, const float *weights, const float *x,
                                  size_t n)
{
    size_t in = ps_shape_size(&model->in), i = ps_first_nonfinite(x, n * in);
    ps_status st = ps_ok();

    if (i < n * in) {
        return ps_fail(PS_INTERNAL, "value %zu of sample %zu of the input is %g", i % in, i / in,
                       (double)x[i]);
    }
    for (uint32_t k = 0; ps_is_ok(&st) && k < model->layer_count; k++) {
        if (model->layers[k].root != k) {
            continue;
        }
        if (weights != NULL) {
            st = check_variables(model, &model->layers[k], weights);
        }
        if (ps_is_ok(&st)) {
            st = check_layer(model, k, x, n);
        }
    }
    return st;
}
