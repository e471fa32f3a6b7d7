/* SPDX-License-Identifier: Apache-2.0 */
/* init.c - see init.h. */
#include "services/coordinator/init.h"

#include "common/artifact/weights.h"
#include "services/coordinator/artifacts.h"
#include "services/coordinator/message.h"

#include <stdio.h>
#include <string.h>

static bool is_model(const Psgd__V1__Artifact *artifact, const char *ending)
{
    size_t n = strlen(artifact->name), end = strlen(ending);

    return artifact->kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL && n > end &&
           strcmp(artifact->name + n - end, ending) == 0;
}

/* The servers' model before a worker's, which a codec may have rounded. */
static const Psgd__V1__Artifact *model_of(const Psgd__V1__Job *job)
{
    static const char *const endings[] = {"-N(ps).safetensors", ".safetensors"};

    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        for (size_t i = 0; i < job->n_artifacts; i++) {
            if (is_model(job->artifacts[i], endings[e])) {
                return job->artifacts[i];
            }
        }
    }
    return NULL;
}

static ps_status find_of_job(ps_coordinator *c, const char *job_id, char path[PS_INIT_PATH_MAX])
{
    const ps_live *live = ps_coordinator_find(c, job_id);
    char folder[PS_FOLDER_MAX];
    ps_record record = {0};
    const Psgd__V1__Artifact *model;
    ps_status st;

    if (live) {
        return ps_fail(PS_FAILED_PRECONDITION, "job %.60s is %s; one that is over is expected",
                       job_id, ps_state_name(live->record.job->state));
    }
    st = ps_registry_load(c->registry, job_id, &record);
    if (!ps_is_ok(&st)) {
        return st;
    }
    model = model_of(record.job);
    if (!model) {
        st = ps_fail(PS_FAILED_PRECONDITION, "job %.60s, which is %s, has left no model", job_id,
                     ps_state_name(record.job->state));
    } else {
        st = ps_artifacts_folder(folder, c->conf.data_dir, job_id);
    }
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, PS_INIT_PATH_MAX, folder, model->name);
    }
    ps_record_fini(&record);
    return st;
}

ps_status ps_init_find(ps_coordinator *c, const ps_plan *plan, char path[PS_INIT_PATH_MAX])
{
    const char *from = plan->spec->init_from, *job_id = ps_init_from_job(from);

    path[0] = '\0';
    if (from[0] == '\0') {
        return ps_ok();
    }
    if (job_id) {
        return find_of_job(c, job_id, path);
    }
    if (!c->conf.data_path || c->conf.data_path[0] == '\0') {
        return ps_fail(PS_NOT_FOUND, "the coordinator has no --data-path (PSGD_DATA)");
    }
    return ps_path_below(path, PS_INIT_PATH_MAX, c->conf.data_path, from);
}

ps_status ps_init_check(ps_coordinator *c, const ps_plan *plan)
{
    char path[PS_INIT_PATH_MAX];
    ps_status st = ps_init_find(c, plan, path);

    if (!ps_is_ok(&st) || path[0] == '\0') {
        return st;
    }
    return ps_weights_check(path, plan->layout.variables, plan->layout.variable_count);
}
