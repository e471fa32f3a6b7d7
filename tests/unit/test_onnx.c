/* SPDX-License-Identifier: Apache-2.0 */
/* test_onnx.c - every layer has its form in ONNX; files appear whole or not at all.
 * What is in them is read by foreign programs: tests/interop/check_onnx.py and .mjs. */
#include "common/artifact/onnx.h"

#include "tests/support/temp_dir.h"

#include <string.h>
#include <unistd.h>

static void expect_form(const ps_layer *layer, void *arg)
{
    (void)arg;
    if (!ps_onnx_has_layer(layer->kind)) {
        fail_msg("layers of kind %s have no form in common/artifact/onnx_layers.c", layer->kind);
    }
}

static void every_kind_of_layer_has_its_form(void **state)
{
    (void)state;
    ps_layer_each(expect_form, NULL);
    assert_false(ps_onnx_has_layer("no such layer"));
}

static ps_status unknown_plan(ps_layer_plan *plan)
{
    plan->out = plan->in;
    return ps_ok();
}

/* A model of one layer, a view. */
static ps_model *model_of(const ps_layer *layer)
{
    ps_layer_spec spec = {.layer = layer, .name = "only"};
    ps_model *model = NULL;
    ps_status st = ps_model_create(&spec, 1, (ps_shape){1, {3}}, ps_loss_find("mse"), 1, &model);

    assert_string_equal(st.text, "");
    return model;
}

static void a_layer_without_one_is_named_and_no_file_made(void **state)
{
    const ps_layer unknown = {.kind = "unknown", .plan = unknown_plan};
    temp_dir dir = temp_dir_create();
    const char *path = temp_dir_file(&dir, "m.onnx");
    ps_model *model = model_of(&unknown);
    ps_status st = ps_onnx_write(path, model, NULL, "t", NULL, 0);

    (void)state;
    assert_int_equal(st.code, PS_FAILED_PRECONDITION);
    assert_string_equal(st.text, "layer only: no ONNX for layers of kind unknown");
    assert_int_equal(access(path, F_OK), -1);
    ps_model_destroy(model);
    temp_dir_destroy(&dir);
}

static void a_failed_write_is_told(void **state)
{
    ps_model *model = model_of(ps_layer_find("linear"));
    ps_status st = ps_onnx_write("/proc/nowhere/m.onnx", model, NULL, "t", NULL, 0);

    (void)state;
    assert_int_equal(st.code, PS_NOT_FOUND);
    ps_model_destroy(model);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_layer_has_its_form),
        cmocka_unit_test(a_layer_without_one_is_named_and_no_file_made),
        cmocka_unit_test(a_failed_write_is_told),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
