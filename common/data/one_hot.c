/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot.c - turns a class into one target value per class, 1 at its index and 0 elsewhere,
 * for losses that compare values. */
#include "common/data/transform.h"

enum { CLASSES_MAX = 65536 };

static ps_status plan(const ps_params *unused, ps_data_facts *facts)
{
    (void)unused;
    if (facts->classes == 0 || facts->classes > CLASSES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "samples have %u classes; 1 to %d are allowed",
                       facts->classes, CLASSES_MAX);
    }
    facts->target_width = facts->classes;
    facts->classes = 0;
    return ps_ok();
}

static void sample(const ps_transforming *at, ps_split split, uint64_t key, float *x,
                   float *targets)
{
    uint32_t label = (uint32_t)targets[0];

    (void)split;
    (void)key;
    (void)x;
    for (uint32_t c = 0; c < at->facts.classes; c++) {
        targets[c] = c == label ? 1.0f : 0.0f;
    }
}

const ps_transform ps_transform_one_hot = {
    .name = "one_hot",
    .summary = "a class becomes one target value per class: 1 at its index, 0 elsewhere",
    .plan = plan,
    .sample = sample,
};
