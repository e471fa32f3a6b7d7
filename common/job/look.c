/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - see look.h. */
#include "common/job/look.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/data/assign.h"
#include "common/data/columns.h"
#include "common/data/dataset.h"
#include "common/data/file_list.h"
#include "common/job/check_conf.h"
#include "common/job/numbers.h"
#include "common/job/spec.h"

#include <limits.h>
#include <stdlib.h>

/* Applies the preset to the spec and makes *conf, that of its data set. Returns false if the data
 * set is wrong, or if its source has no function `look`, which learns limits and numbers from the
 * files. */
static bool resolve(Psgd__V1__JobSpec *spec, ps_data_conf *conf)
{
    ps_check check = {.count = 0};

    ps_spec_apply_preset(spec);
    ps_spec_complete(spec);
    return ps_check_data_conf(&check, spec->data, conf) && conf->source->look != NULL;
}

bool ps_look_is_needed(const Psgd__V1__JobSpec *spec)
{
    Psgd__V1__JobSpec *copy = ps_spec_copy(spec);
    ps_data_conf *conf = ps_xmalloc(sizeof *conf);
    bool is_needed = resolve(copy, conf);

    free(conf);
    ps_spec_free(copy);
    return is_needed;
}

/* Writes to the spec the limits and numbers that ps_data_look has put into `conf`. */
static void keep(Psgd__V1__DataSpec *spec, const ps_data_conf *conf)
{
    spec->train_limit = conf->train_limit;
    spec->test_limit = conf->test_limit;
    ps_numbers_store(&spec->base, conf->source->params, &conf->params);
    for (uint32_t c = 0; c < conf->column_count; c++) {
        const ps_data_column *column = &conf->columns[c];

        ps_numbers_store(&spec->columns[c]->base, column->kind->params, &column->params);
    }
}

/* Checks that every worker has a file, if the job assigns files to workers. */
static ps_status check_files(const Psgd__V1__JobSpec *spec, const char *folder,
                             const ps_data_conf *conf)
{
    const ps_assign *assign = ps_assign_find(spec->assignment->name);
    ps_file_list list = {.train = 0};
    ps_status st;

    if (assign == NULL || !assign->is_by_file || !conf->source->takes_files || spec->workers == 0) {
        return ps_ok();
    }
    st = ps_file_list_open(conf, folder, &list);
    if (ps_is_ok(&st)) {
        st = ps_file_list_check_numbers(&list, spec->workers);
    }
    ps_file_list_close(&list);
    return st;
}

static ps_status look(const char *data_path, Psgd__V1__JobSpec *job, ps_data_conf *conf)
{
    Psgd__V1__DataSpec *spec = job->data;
    char folder[PATH_MAX];
    ps_status st;

    if (data_path == NULL || data_path[0] == '\0') {
        return ps_fail(PS_NOT_FOUND, "data set %s: there is no --data-path (PSGD_DATA)",
                       conf->source->name);
    }
    st = ps_path_below(folder, sizeof folder, data_path, ps_data_folder(conf));
    if (ps_is_ok(&st)) {
        st = check_files(job, folder, conf);
    }
    if (ps_is_ok(&st)) {
        st = ps_data_look(folder, conf);
    }
    if (ps_is_ok(&st)) {
        keep(spec, conf);
    }
    return st;
}

ps_status ps_look(const Psgd__V1__JobSpec *spec, const char *data_path, Psgd__V1__JobSpec **out)
{
    Psgd__V1__JobSpec *copy = ps_spec_copy(spec), *full = ps_spec_copy(spec);
    ps_data_conf *conf = ps_xmalloc(sizeof *conf);
    ps_status st = ps_ok();
    bool is_whole = false;

    if (resolve(full, conf)) {
        st = look(data_path, full, conf);
        is_whole = st.code != PS_NOT_FOUND || !conf->source->is_usual_unseen;
    }
    if (!is_whole) {
        st = ps_ok(); /* the spec stays as given; ps_plan_create reports what is wrong with it */
        ps_spec_free(full);
        full = copy;
        copy = NULL;
    }
    free(conf);
    ps_spec_free(copy);
    if (!ps_is_ok(&st)) {
        ps_spec_free(full);
        return st;
    }
    *out = full;
    return ps_ok();
}
