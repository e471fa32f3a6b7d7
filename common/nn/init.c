/* SPDX-License-Identifier: Apache-2.0 */
/* init.c - see init.h. */
#include "common/nn/init.h"

#include "common/base/draw.h"

#include <math.h>

ps_init ps_init_of_weight(double rule, double scale, double fan_in, double fan_out)
{
    switch ((ps_init_rule)rule) {
    case PS_INIT_RULE_HE:
        return (ps_init){PS_INIT_NORMAL, (float)sqrt(2.0 / fan_in)};
    case PS_INIT_RULE_PYTORCH:
        return (ps_init){PS_INIT_UNIFORM, (float)(1.0 / sqrt(fan_in))};
    case PS_INIT_RULE_NORMAL:
        return (ps_init){PS_INIT_NORMAL, (float)fabs(scale)};
    case PS_INIT_RULE_CONSTANT:
        return (ps_init){PS_INIT_CONSTANT, (float)scale};
    case PS_INIT_RULE_UNIFORM:
        return (ps_init){PS_INIT_UNIFORM, (float)fabs(scale)};
    case PS_INIT_RULE_GLOROT:
    case PS_INIT_RULES:
        break;
    }
    return (ps_init){PS_INIT_UNIFORM, (float)sqrt(6.0 / (fan_in + fan_out))};
}

ps_init ps_init_of_bias(double rule, double fan_in)
{
    if ((ps_init_rule)rule == PS_INIT_RULE_PYTORCH) {
        return (ps_init){PS_INIT_UNIFORM, (float)(1.0 / sqrt(fan_in))};
    }
    return (ps_init){PS_INIT_CONSTANT, 0.0f};
}

void ps_init_fill(const ps_init *init, uint64_t seed, size_t variable, float *values, size_t n)
{
    uint64_t key = ps_draw_key(seed, PS_DRAW_INIT, variable, 0, 0);
    double scale = (double)init->scale;

    for (size_t i = 0; i < n; i++) {
        double value = scale;

        if (init->kind == PS_INIT_UNIFORM) {
            value = (2.0 * ps_draw_unit(key, i) - 1.0) * scale;
        } else if (init->kind == PS_INIT_NORMAL) {
            value = ps_draw_normal(key, i) * scale;
        }
        values[i] = (float)value;
    }
}
