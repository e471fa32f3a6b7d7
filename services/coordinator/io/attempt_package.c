/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_package.c - makes the content of the packages of PreCommit, as tasks. */
#include "services/coordinator/io/attempt_package.h"

#include "common/artifact/weights.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/data/learn.h"
#include "common/job/spec.h"
#include "services/coordinator/io/checkpoint_place.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most initial weights of an attempt: 2 GiB of the coordinator's memory. With more, it fails. */
static const size_t values_max = (size_t)1 << 29;

/* Writes the folder of the data set; "" if the data set has no files. Returns NOT_FOUND if it has
 * files and the coordinator has no data path. */
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

uint64_t ps_package_data_bytes(const ps_package *package, uint32_t workers)
{
    bool are_shared = package->conf.plan->assignment->is_by_file;
    uint64_t bytes = 0;

    for (size_t i = 0; i < package->files.count; i++) {
        bytes += package->files.at[i].size * (are_shared && i < package->files.train ? 1 : workers);
    }
    for (size_t i = 0; i < package->learned.count; i++) {
        bytes += package->learned.at[i].size * workers;
    }
    return bytes;
}

void ps_package_files_of(const ps_package *package, uint32_t first, uint32_t count,
                         ps_data_files *out)
{
    ps_data_share share = ps_plan_share(package->conf.plan, first, count);

    ps_data_files_share(&package->files, &share, out);
    for (size_t i = 0; share.count < share.of && i < package->learned.count; i++) {
        const ps_learned_part *part = &package->learned.at[i];
        ps_data_file file = {.size = part->size};

        snprintf(file.name, sizeof file.name, "%s", part->name);
        memcpy(file.sha256, part->sha256, sizeof file.sha256);
        ps_data_files_add_learned(out, &file);
    }
    ps_data_files_sum(out);
}

/* Checks that a file of a job still has the SHA-256 that the coordinator stored; "": none was
 * stored. */
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

/* Finds the files of spec.init_from and spec.init_tables. Checks the SHA-256 of those that the
 * coordinator has stored. */
static ps_status find_inits(ps_package *p)
{
    const ps_plan *plan = p->conf.plan;
    ps_status st = ps_init_find(&p->conf.where, plan, p->init_path, p->init_sha256);

    p->reason = "INIT_REFUSED";
    if (ps_is_ok(&st)) {
        st = check_sum(p->init_path, p->init_sha256);
    }
    if (ps_is_ok(&st)) {
        st = ps_init_find_checkpoint(&p->conf.where, plan, true, &p->servers, &p->ranks,
                                     &p->first_clock);
    }
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "init_from");
    }
    st = ps_init_find_tables(&p->conf.where, plan, &p->tables);
    for (size_t i = 0; ps_is_ok(&st) && i < p->tables.count; i++) {
        st = check_sum(p->tables.paths[i], p->tables.sha256[i]);
    }
    return ps_wrap(st, plan->spec->n_init_tables > 0 ? "init_tables" : "init_from");
}

/* Sets spec.init_from to `from`, which it frees, and forgets the files that were found for the
 * earlier value. */
static void start_from(ps_package *p, char *from)
{
    Psgd__V1__JobSpec *spec = p->conf.plan->spec;

    ps_spec_set(&spec->init_from, from);
    free(from);
    ps_init_tables_fini(&p->tables);
    ps_init_tables_fini(&p->servers);
    ps_init_tables_fini(&p->ranks);
    p->first_clock = 0;
}

/* Finds the files to go on from: those of the newest checkpoint of the job's own that is whole and
 * not after conf.rollback_limit, or of its oldest. If there is a limit, removes the checkpoints
 * after that one. Fails if there is none that is whole; the plan then is as before. */
static ps_status find_own(ps_package *p)
{
    Psgd__V1__JobSpec *spec = p->conf.plan->spec;
    char *given = ps_xstrdup(spec->init_from);
    size_t tables = spec->n_init_tables;
    uint64_t *steps = NULL;
    ps_status st = ps_fail(PS_NOT_FOUND, "the job has no checkpoint");

    for (size_t i = ps_checkpoint_list(p->conf.folder, &steps); i-- > 0 && !ps_is_ok(&st);) {
        ps_strbuf from = {0};

        if (steps[i] > p->conf.rollback_limit && i > 0) {
            continue;
        }
        ps_strbuf_printf(&from, "checkpoint:%s@%" PRIu64, p->conf.job_id, steps[i]);
        start_from(p, ps_strbuf_take(&from));
        spec->n_init_tables = 0;
        st = find_inits(p);
        if (!ps_is_ok(&st)) {
            ps_log(PS_LOG_WARN, "job", "%s: cannot go on from step %" PRIu64 ": %s", p->conf.job_id,
                   steps[i], st.text);
            spec->n_init_tables = tables;
            start_from(p, ps_xstrdup(given));
        } else if (p->conf.rollback_limit != UINT64_MAX) {
            ps_checkpoint_go_back(p->conf.folder, steps[i]);
        }
    }
    for (size_t i = 0; ps_is_ok(&st) && i < tables; i++) {
        free(spec->init_tables[i]);
    }
    if (ps_is_ok(&st) && tables > 0) {
        free(spec->init_tables);
        spec->init_tables = NULL;
    }
    free(steps);
    free(given);
    return st;
}

ps_status ps_package_fill(const ps_package *package, float *block)
{
    const ps_plan *plan = package->conf.plan;
    ps_model *model = NULL;
    ps_status st;

    if (plan->compute != NULL) {
        return ps_ok(); /* a job that computes has no weights */
    }
    if (package->init_path[0] != '\0') {
        return ps_weights_read(package->init_path, plan->layout.stored, plan->layout.stored_count,
                               block);
    }
    st = ps_plan_model(plan, 1, &model);
    if (ps_is_ok(&st)) {
        ps_model_init(model, plan->spec->seed, block);
    }
    ps_model_destroy(model);
    return st;
}

static ps_status make_weights(ps_package *p)
{
    size_t count = p->conf.plan->layout.param_count;

    p->reason = "PACKAGE_FAILED";
    if (count > values_max) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "the model has %zu parameters; %zu are allowed",
                       count, values_max);
    }
    p->weights = ps_buf_try_create(count * sizeof(float));
    if (!p->weights) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "the coordinator has no memory for the %zu parameters of the model; "
                       "--max-memory bounds what it takes",
                       count);
    }
    p->weights->len = count * sizeof(float);
    if (p->init_path[0] != '\0') {
        p->reason = "INIT_REFUSED";
    }
    return ps_package_fill(p, (float *)(void *)p->weights->data);
}

static ps_status describe_data(ps_package *p)
{
    ps_status st =
        find_folder(p->conf.plan, p->conf.where.data_path, p->data_folder, sizeof p->data_folder);

    if (ps_is_ok(&st)) {
        st = ps_data_describe_cached(p->conf.cache, &p->conf.plan->data_conf, p->data_folder,
                                     &p->files);
    }
    p->reason = st.code == PS_NOT_FOUND ? "DATA_MISSING" : "PACKAGE_FAILED";
    if (ps_is_ok(&st) && p->conf.plan->assignment->is_by_file &&
        p->conf.plan->spec->worker_processes > 1) {
        st = ps_data_learn(&p->conf.plan->data_conf, &p->conf.plan->feed_conf, p->data_folder,
                           p->conf.folder, &p->learned);
    }
    return st;
}

static void find(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);
    ps_status st = ps_dir_make(p->conf.folder);

    /* The job does not fail for that: the folder is made again when it is needed. */
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_ERROR, "job", "%s", st.text);
    }
    p->reason = "CHECKPOINTS_MISSING";
    p->status = ps_checkpoint_place_give(p->conf.checkpoint_dir, p->conf.folder, p->conf.job_id);
    if (!ps_is_ok(&p->status)) {
        return;
    }
    p->status = p->conf.goes_on ? find_own(p) : ps_fail(PS_NOT_FOUND, "a first attempt");
    p->is_own = ps_is_ok(&p->status);
    if (!p->is_own) {
        p->status = find_inits(p);
    }
    if (ps_is_ok(&p->status)) {
        p->status = describe_data(p);
    }
    if (ps_is_ok(&p->status)) {
        p->status = ps_init_check_data(&p->conf.where, p->conf.plan, p->files.sha256);
        p->reason = "INIT_REFUSED";
    }
}

static void found(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->conf.found(p->conf.arg, p);
}

static void make(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->status = make_weights(p);
}

static void made(ps_task *task)
{
    ps_package *p = PS_CONTAINER_OF(task, ps_package, task);

    p->conf.made(p->conf.arg, p);
}

ps_package *ps_package_create(const ps_package_conf *conf)
{
    ps_package *p = ps_xcalloc(1, sizeof *p);

    p->conf = *conf;
    return p;
}

static void submit(ps_package *p, ps_tasks *tasks, void (*run)(ps_task *task),
                   void (*done)(ps_task *task))
{
    p->task = (ps_task){.run = run, .done = done};
    p->status = ps_fail(PS_CANCELLED, "the coordinator is stopping");
    p->reason = "STOPPING";
    ps_tasks_submit(tasks, NULL, &p->task);
}

void ps_package_find(ps_package *package, ps_tasks *tasks)
{
    submit(package, tasks, find, found);
}

void ps_package_make(ps_package *package, ps_tasks *tasks)
{
    submit(package, tasks, make, made);
}

void ps_package_drop_weights(ps_package *package)
{
    ps_buf_unref(package->weights);
    package->weights = NULL;
}

void ps_package_destroy(ps_package *package)
{
    if (!package) {
        return;
    }
    ps_buf_unref(package->weights);
    ps_init_tables_fini(&package->tables);
    ps_init_tables_fini(&package->servers);
    ps_init_tables_fini(&package->ranks);
    ps_data_files_free(&package->files);
    ps_learned_parts_free(&package->learned);
    free(package);
}
