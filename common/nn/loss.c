/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c - the registry: a const array made of common/nn/list.h. */
#include "common/nn/loss.h"

#include <string.h>

#define PS_LOSS(name) extern const ps_loss ps_loss_##name;
#include "common/nn/list.h"
#undef PS_LOSS

static const ps_loss *const losses[] = {
#define PS_LOSS(name) &ps_loss_##name,
#include "common/nn/list.h"
#undef PS_LOSS
};

enum { LOSS_COUNT = sizeof losses / sizeof losses[0] };

const ps_loss *ps_loss_find(const char *name)
{
    for (size_t i = 0; i < LOSS_COUNT; i++) {
        if (strcmp(losses[i]->name, name) == 0) {
            return losses[i];
        }
    }
    return NULL;
}

void ps_loss_each(void (*fn)(const ps_loss *loss, void *arg), void *arg)
{
    for (size_t i = 0; i < LOSS_COUNT; i++) {
        fn(losses[i], arg);
    }
}

ps_status ps_loss_fits(const ps_loss *loss, uint32_t classes, size_t width, size_t outputs)
{
    if (classes == 0) {
        if (!loss->takes_values) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "%s needs classes, and the targets are %zu values a sample", loss->name,
                           width);
        }
        return outputs == width ? ps_ok()
                                : ps_fail(PS_INVALID_ARGUMENT,
                                          "%zu outputs, and the targets are %zu values a sample",
                                          outputs, width);
    }
    if (outputs == classes || (outputs == 1 && classes == 2 && loss->takes_one_output)) {
        return ps_ok();
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%zu outputs, and %s over %u classes needs one each%s",
                   outputs, loss->name, classes,
                   classes == 2 && loss->takes_one_output ? ", or one for both" : "");
}
