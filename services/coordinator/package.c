/* SPDX-License-Identifier: Apache-2.0 */
/* package.c - what PreCommit brings, made on the helper thread. */
#include "services/coordinator/package.h"

#include "common/base/container_of.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

/* Values of a block that the coordinator draws in its own memory: 2 GiB. */
static const size_t values_max = (size_t)1 << 29;

uint64_t ps_package_data_bytes(const ps_plan *plan)
{
    const ps_data_facts *facts = &plan->data->facts;

    if (!plan->data->files) {
        return 0;
    }
    return ((uint64_t)facts->train_count + facts->test_count) * (facts->features + 1) + 64;
}

static ps_status draw_weights(ps_package *p)
{
    size_t count = p->plan->layout.param_count;
    ps_model *model = NULL;
    ps_status st;

    if (count > values_max) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the model has %zu parameters; %zu are allowed",
                       count, values_max);
    }
    st = ps_plan_model(p->plan, 1, &model);
    if (!ps_is_ok(&st)) {
        return st;
    }
    p->weights = ps_buf_create(count * sizeof(float));
    ps_model_init(model, p->plan->spec->seed, (float *)(void *)p->weights->data);
    p->weights->len = count * sizeof(float);
    ps_model_destroy(model);
    return ps_ok();
}

static void run(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->status = ps_ok();
    if (p->plan->data->files) {
        if (!p->data_path || p->data_path[0] == '\0') {
            p->status =
                ps_fail(PS_NOT_FOUND, "data set %s: the coordinator has no --data-path (PSGD_DATA)",
                        p->plan->data->name);
        } else {
            snprintf(p->folder, sizeof p->folder, "%.900s/%.60s", p->data_path,
                     ps_data_folder(p->plan->data));
        }
    }
    if (ps_is_ok(&p->status)) {
        p->status = ps_data_describe_cached(p->cache, p->plan->data, p->folder, p->files,
                                            &p->file_count, p->sha256);
    }
    if (ps_is_ok(&p->status)) {
        p->status = draw_weights(p);
    }
}

static void done(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->ready(p->arg, p);
}

ps_package *ps_package_create(ps_work *work, ps_data_cache *cache, const char *data_path,
                              const ps_plan *plan, void (*ready)(void *arg, ps_package *package),
                              void *arg)
{
    ps_package *p = ps_xcalloc(1, sizeof *p);

    p->task.run = run;
    p->task.done = done;
    p->plan = plan;
    p->data_path = data_path;
    p->cache = cache;
    p->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    p->ready = ready;
    p->arg = arg;
    ps_work_submit(work, &p->task);
    return p;
}

void ps_package_destroy(ps_package *package)
{
    if (!package) {
        return;
    }
    ps_buf_unref(package->weights);
    free(package);
}
