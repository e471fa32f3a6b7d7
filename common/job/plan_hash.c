/* SPDX-License-Identifier: Apache-2.0 */
/* plan_hash.c - a hash of everything in a plan that decides the bits of a job.
 *
 * It covers the resolved names and numbers of plugins, not the specification. So two programs
 * that resolve a specification differently get different hashes. Halvings of the learning rate are
 * left out, because a job goes on from its checkpoint with more of them.
 */
#include "common/base/bytes.h"
#include "common/job/plan.h"

#include "common/job/table_numbers.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

static void add_bytes(XXH3_state_t *hash, const void *bytes, size_t len)
{
    (void)XXH3_64bits_update(hash, bytes, len);
}

static void add_number(XXH3_state_t *hash, uint64_t x)
{
    uint8_t bytes[8];

    ps_put_u64(bytes, x);
    add_bytes(hash, bytes, sizeof bytes);
}

static void add_real(XXH3_state_t *hash, double x)
{
    uint8_t bytes[8];

    ps_put_f64(bytes, x);
    add_bytes(hash, bytes, sizeof bytes);
}

/* Adds a plugin with its numbers. The length of the name and the count of numbers make the bytes
 * unambiguous. `name` NULL: there is no plugin. */
static void add_choice(XXH3_state_t *hash, const char *name, const ps_param *table,
                       const ps_params *params)
{
    size_t count = 0;

    if (name == NULL) {
        add_number(hash, UINT64_MAX);
        return;
    }
    add_number(hash, strlen(name));
    add_bytes(hash, name, strlen(name));
    while (table != NULL && table[count].name != NULL) {
        add_real(hash, params->v[count++]);
    }
    add_number(hash, count);
}

static void add_descent(XXH3_state_t *hash, const ps_descent *descent)
{
    const ps_optim *optim = descent->optim;
    const ps_schedule *schedule = descent->schedule;

    add_choice(hash, optim != NULL ? optim->name : NULL, optim != NULL ? optim->params : NULL,
               &descent->params);
    add_choice(hash, schedule != NULL ? schedule->name : NULL,
               schedule != NULL ? schedule->params : NULL, &descent->schedule_params);
    add_number(hash, descent->total_steps);
    add_real(hash, descent->l1);
    add_real(hash, descent->l2);
}

static void add_data(XXH3_state_t *hash, const ps_plan *plan)
{
    const ps_feed_conf *feed = &plan->feed_conf;

    add_choice(hash, plan->data->name, plan->data->params, &plan->data_conf.params);
    add_number(hash, plan->train_count);
    add_number(hash, plan->test_count);
    add_number(hash, plan->facts.features);
    for (uint32_t i = 0; i < feed->transform_count; i++) {
        add_choice(hash, feed->transforms[i].transform->name, feed->transforms[i].transform->params,
                   &feed->transforms[i].params);
    }
    add_choice(hash, plan->assign->name, plan->assign->params, &plan->assign_params);
    add_number(hash, plan->assignment->block_count);
    for (uint32_t w = 0; w < plan->spec->workers; w++) {
        add_number(hash, plan->assignment->held_count[w]);
        for (uint32_t i = 0; i < plan->assignment->held_count[w]; i++) {
            add_number(hash, plan->assignment->held[w][i]);
        }
    }
}

static void add_model(XXH3_state_t *hash, const ps_plan *plan)
{
    add_number(hash, plan->layout.hash);
    add_choice(hash, plan->loss->name, NULL, NULL);
    add_number(hash, plan->spec->programs);
    add_number(hash, plan->spec->model->n_foreign);
    for (size_t i = 0; i < plan->spec->model->n_foreign; i++) {
        const Psgd__V1__ForeignVariable *var = plan->spec->model->foreign[i];

        add_real(hash, var->uniform);
        add_real(hash, var->normal);
        add_real(hash, var->constant);
    }
    for (size_t i = 0; i < plan->layer_count; i++) {
        add_choice(hash, plan->layers[i].layer->kind, plan->layers[i].layer->params,
                   &plan->layers[i].params);
    }
    add_number(hash, plan->table_count);
    for (uint32_t t = 0; t < plan->table_count; t++) {
        add_number(hash, plan->tables[t].variable);
        add_number(hash, plan->tables[t].rows);
        add_number(hash, plan->tables[t].width);
    }
    for (size_t i = 0; i < PS_PARAM_MAX; i++) {
        add_real(hash, plan->table_params.v[i]);
    }
    for (size_t m = 0; m < plan->metric_count; m++) {
        add_choice(hash, plan->metrics[m].metric->name, plan->metrics[m].metric->params,
                   &plan->metrics[m].params);
    }
}

static void add_training(XXH3_state_t *hash, const ps_plan *plan)
{
    const ps_mesh *mesh = plan->mesh;

    add_number(hash, plan->optim_on_server);
    add_number(hash, (uint64_t)plan->spec->optimizer->maximise);
    add_descent(hash, &plan->descent);
    add_descent(hash, &plan->local_descent);
    add_choice(hash, plan->compensation_schedule != NULL ? plan->compensation_schedule->name : NULL,
               plan->compensation_schedule != NULL ? plan->compensation_schedule->params : NULL,
               &plan->compensation_schedule_params);
    add_choice(hash, plan->clip->name, plan->clip->params, &plan->clip_params);
    add_choice(hash, plan->update->name, plan->update->params, &plan->update_params);
    add_choice(hash, plan->policy->name, plan->policy->params, &plan->policy_params);
    add_choice(hash, plan->straggler->name, plan->straggler->params, &plan->straggler_params);
    add_choice(hash, mesh != NULL ? mesh->name : NULL, ps_mesh_params, &plan->mesh_params);
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        add_choice(hash, plan->up[v].codec->name, plan->up[v].codec->params, &plan->up[v].params);
        add_choice(hash, plan->down[v].codec->name, plan->down[v].codec->params,
                   &plan->down[v].params);
    }
    add_number(hash, plan->spec->workers);
    add_number(hash, plan->spec->seed);
    add_number(hash, plan->spec->block_size);
    add_number(hash, plan->total_steps);
    add_number(hash, plan->total_clocks);
    add_number(hash, plan->spec->stop_at != NULL ? 1 + plan->stop_metric : 0);
    add_real(hash, plan->spec->stop_at != NULL ? plan->spec->stop_at->value : 0);
}

static void add_compute(XXH3_state_t *hash, const ps_plan *plan)
{
    const Psgd__V1__ComputeSpec *spec = plan->spec->compute;

    add_number(hash, ps_script_id(plan->compute));
    for (size_t i = 0; i < PS_PARAM_MAX; i++) {
        add_real(hash, plan->compute_params.v[i]);
    }
    add_number(hash, (uint64_t)spec->from);
    add_number(hash, (uint64_t)spec->to);
    add_number(hash, spec->partitions);
    add_number(hash, plan->spec->seed);
}

uint64_t ps_plan_hash(const ps_plan *plan)
{
    XXH3_state_t *hash = XXH3_createState();
    uint64_t digest;

    assert(hash != NULL);
    (void)XXH3_64bits_reset(hash);
    add_data(hash, plan);
    if (plan->compute != NULL) {
        add_compute(hash, plan);
    } else {
        add_model(hash, plan);
        add_training(hash, plan);
    }
    digest = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return digest;
}
