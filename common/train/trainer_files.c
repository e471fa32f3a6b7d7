/* SPDX-License-Identifier: Apache-2.0 */
/* trainer_files.c - see trainer.h: reports and the model file. */
#include "common/train/trainer_impl.h"

#include "common/artifact/safetensors.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

static ps_status path_of(const ps_trainer *t, const char *prefix, const char *suffix, char *path,
                         size_t cap)
{
    char name[160], rank[16];

    snprintf(rank, sizeof rank, "%u", t->conf.rank);
    ps_artifact_name(name, sizeof name, prefix, t->plan->spec->title, rank, suffix);
    if ((size_t)snprintf(path, cap, "%s/%s", t->conf.folder, name) >= cap) {
        return ps_fail(PS_INVALID_ARGUMENT, "path too long: %s", name);
    }
    return ps_ok();
}

ps_status ps_trainer_open_reports(ps_trainer *t)
{
    char path[768];
    ps_status st = path_of(t, "TR", ".csv", path, sizeof path);

    if (ps_is_ok(&st)) {
        st = ps_report_open_train(path, &t->train_report);
    }
    if (ps_is_ok(&st)) {
        st = path_of(t, "EV", ".csv", path, sizeof path);
    }
    return ps_is_ok(&st) ? ps_report_open_eval(path, &t->eval_report) : st;
}

static ps_status close_report(ps_report **report)
{
    ps_report *r = *report;

    *report = NULL;
    return r == NULL ? ps_ok() : ps_report_close(r);
}

ps_status ps_trainer_close_reports(ps_trainer *t)
{
    ps_status train = close_report(&t->train_report), eval = close_report(&t->eval_report);

    return ps_is_ok(&train) ? eval : train;
}

ps_status ps_trainer_write_model(ps_trainer *t)
{
    const ps_layout *layout = &t->plan->layout;
    ps_tensor *tensors = ps_xcalloc(layout->variable_count, sizeof *tensors);
    char path[768], step_text[24];
    ps_meta meta[] = {
        {"job", t->conf.job_id}, {"step", step_text}, {"title", t->plan->spec->title}};
    ps_status st = path_of(t, "MODEL", ".safetensors", path, sizeof path);

    snprintf(step_text, sizeof step_text, "%llu", (unsigned long long)t->clock);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];

        tensors[v] =
            (ps_tensor){.name = var->name, .rank = var->shape.rank, .data = t->weights + var->at};
        for (uint32_t d = 0; d < var->shape.rank; d++) {
            tensors[v].dim[d] = var->shape.dim[d];
        }
    }
    if (ps_is_ok(&st)) {
        st = ps_safetensors_write(path, tensors, layout->variable_count, meta,
                                  sizeof meta / sizeof meta[0]);
    }
    free(tensors);
    return st;
}
