/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_package.c - what PreCommit brings, made as a task. */
#include "services/coordinator/io/attempt_package.h"

#include "common/artifact/weights.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Values of a block that the coordinator draws in its own memory: 2 GiB. */
static const size_t values_max = (size_t)1 << 29;

/* Where its files are; NOT_FOUND without a data path. */
static ps_status find_folder(const ps_plan *plan, const char *data_path, char *folder, size_t cap)
{
    if (ps_data_file_count(&plan->data_conf) == 0) {
        folder[0] = '\0';
        return ps_ok();
    }
    if (!data_path || data_path[0] == '\0') {
        return ps_fail(PS_NOT_FOUND, "data set %s: the coordinator has no --data-path (PSGD_DATA)",
                       plan->data->name);
    }
    return ps_path_below(folder, cap, data_path, ps_data_folder(&plan->data_conf));
}

uint64_t ps_package_data_bytes(const ps_plan *plan, const char *data_path)
{
    char folder[1024];
    ps_status st = find_folder(plan, data_path, folder, sizeof folder);

    return ps_is_ok(&st) ? ps_data_bytes(&plan->data_conf, folder) : 0;
}

/* A file that the coordinator stored must be the one that it stored. */
static ps_status check_sum(const char *path, const char *sha256)
{
    char hex[PS_SHA256_HEX_BYTES];
    uint64_t size;
    ps_status st = sha256[0] != '\0' ? ps_sha256_of_file(path, hex, &size) : ps_ok();

    if (ps_is_ok(&st) && sha256[0] != '\0' && strcmp(hex, sha256) != 0) {
        st = ps_fail(PS_DATA_LOSS, "%s is damaged: its SHA-256 is not the stored one",
                     PS_PATH_SHOWN(path));
    }
    return st;
}

static ps_status check_inits(ps_package *p)
{
    ps_status st = check_sum(p->init_path, p->init_sha256);

    p->reason = "INIT_REFUSED";
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "init_from");
    }
    for (size_t i = 0; ps_is_ok(&st) && i < p->conf.table_count; i++) {
        st = check_sum(p->conf.table_paths[i], p->conf.table_sha256[i]);
    }
    return ps_wrap(st, "init_tables");
}

static ps_status make_weights(ps_package *p)
{
    const ps_layout *layout = &p->conf.plan->layout;
    size_t count = layout->param_count;
    ps_model *model = NULL;
    float *block;
    ps_status st;

    p->reason = "PACKAGE_FAILED";
    if (count > values_max) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the model has %zu parameters; %zu are allowed",
                       count, values_max);
    }
    p->weights = ps_buf_create(count * sizeof(float));
    p->weights->len = count * sizeof(float);
    block = (float *)(void *)p->weights->data;
    if (p->init_path[0] != '\0') {
        p->reason = "INIT_REFUSED";
        return ps_weights_read(p->init_path, layout->stored, layout->stored_count, block);
    }
    st = ps_plan_model(p->conf.plan, 1, &model);
    if (ps_is_ok(&st)) {
        ps_model_init(model, p->conf.plan->spec->seed, block);
    }
    ps_model_destroy(model);
    return st;
}

static ps_status describe_data(ps_package *p)
{
    ps_status st = find_folder(p->conf.plan, p->conf.data_path, p->folder, sizeof p->folder);

    if (ps_is_ok(&st)) {
        st = ps_data_describe_cached(p->conf.cache, &p->conf.plan->data_conf, p->folder, p->files,
                                     &p->file_count, p->sha256);
    }
    p->reason = st.code == PS_NOT_FOUND ? "DATA_MISSING" : "PACKAGE_FAILED";
    return st;
}

static void run(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->status = describe_data(p);
    if (ps_is_ok(&p->status)) {
        p->status = check_inits(p);
    }
    if (ps_is_ok(&p->status)) {
        p->status = make_weights(p);
    }
}

static void done(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->conf.ready(p->conf.arg, p);
}

ps_package *ps_package_create(ps_tasks *tasks, ps_strand *strand, const ps_package_conf *conf)
{
    ps_package *p = ps_xcalloc(1, sizeof *p);

    p->task.run = run;
    p->task.done = done;
    p->conf = *conf;
    p->conf.init_path = p->init_path = ps_xstrdup(conf->init_path);
    snprintf(p->init_sha256, sizeof p->init_sha256, "%s", conf->init_sha256);
    p->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    p->reason = "STOPPING";
    ps_tasks_submit(tasks, strand, &p->task);
    return p;
}

void ps_package_destroy(ps_package *package)
{
    if (!package) {
        return;
    }
    ps_buf_unref(package->weights);
    free(package->init_path);
    free(package);
}
