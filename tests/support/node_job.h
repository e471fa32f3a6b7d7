/* SPDX-License-Identifier: Apache-2.0 */
/* node_job.h - a small job for a node_world, and the steps to get it running. */
#ifndef PS_TESTS_SUPPORT_NODE_JOB_H
#define PS_TESTS_SUPPORT_NODE_JOB_H

#include "tests/support/node_world.h"
#include "tests/support/patience.h"

#include <stdlib.h>
#include <sys/stat.h>

#define NODE_JOB(more)                                                                             \
    "{\"data\":{\"name\":\"glyphs\",\"train_limit\":256,"                                          \
    "\"test_limit\":64},\"model\":{\"widths\":[40]},\"pservers\":2" more "}"

static const char *const small_job = NODE_JOB("");

typedef struct job {
    ps_plan *plan;
    float *weights;
    nw_packages packages;
} job;

/* Makes a job from JSON with the packages for a worker of rank 0, or for a server of rank 0. */
static inline job job_for(Psgd__V1__NodeRole role, const char *json, const char *job_id,
                          uint32_t attempt)
{
    job j = {.plan = nw_plan(json)};

    j.weights = nw_weights(j.plan);
    j.packages = nw_packages_of(j.plan, role, 0, job_id, attempt, j.weights);
    return j;
}

static inline job job_of(const char *json, const char *job_id, uint32_t attempt)
{
    return job_for(PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER, json, job_id, attempt);
}

static inline job worker_job_of(const char *json, const char *job_id, uint32_t attempt)
{
    return job_for(PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER, json, job_id, attempt);
}

static inline void job_fini(job *j)
{
    ps_plan_destroy(j->plan);
    free(j->weights);
}

static inline bool is_idle(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_IDLE;
}
static inline bool is_running(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING && w->ran > 0;
}
static inline bool is_finished(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FINISHED;
}
static inline bool is_failed(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_FAILED;
}
static inline bool is_reserved(node_world *w)
{
    return w->coordinator[0].phase == PSGD__V1__NODE_PHASE__NODE_PHASE_RESERVED;
}
static inline bool is_ready(node_world *w)
{
    return w->coordinator[0].ready != NULL;
}

static inline bool has_folder(const node_world *w, const char *name)
{
    struct stat info;
    char path[256];

    snprintf(path, sizeof path, "%s/%s", w->dir.path, name);
    return stat(path, &info) == 0;
}

static inline void reserve_for(node_world *w, const char *job_id, uint32_t attempt, uint32_t ms)
{
    ps_error error;

    if (!nw_can_commit(w, job_id, attempt, 0, ms, &error)) {
        fail_msg("not reserved: %s", error.status.text);
    }
}

static inline void reserve(node_world *w, const char *job_id, uint32_t attempt)
{
    reserve_for(w, job_id, attempt, PS_TEST_PATIENCE_S * 1000);
}

static inline void prepare(node_world *w, const job *j)
{
    nw_precommit_result result;

    reserve(w, j->packages.job_id, j->packages.attempt);
    nw_precommit(w, &j->packages, &result);
    assert_string_equal(result.error.status.text, "");
    assert_true(result.sealed);
}

static inline void start(node_world *w, const job *j)
{
    ps_error error;

    prepare(w, j);
    nw_do_commit(w, j->packages.job_id, j->packages.attempt, &error);
    assert_string_equal(error.status.text, "");
}

#endif
