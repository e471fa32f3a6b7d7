/* SPDX-License-Identifier: Apache-2.0 */
/* check_exchange.c - the exchange of a job, and what goes together with one among
 * workers: there nobody but them merges, and a packet holds values of several variables. */
#include "common/job/check.h"

#include "common/codec/wrap.h"

#include <stdio.h>
#include <string.h>

void ps_check_exchange(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;

    if (ps_check_choice(check, "spec.exchange", &ps_kind_exchange, spec->exchange, "pserver",
                        &plan->mesh_params)) {
        plan->mesh = ps_mesh_find(spec->exchange->name);
    }
}

ps_mesh_conf ps_plan_mesh(const ps_plan *plan, uint32_t self)
{
    int64_t window_ms = (int64_t)plan->mesh_params.v[PS_MESH_WINDOW_MS];

    if (window_ms == 0) {
        window_ms = plan->spec->timeouts->step_ms / 2;
    }
    return (ps_mesh_conf){
        .mesh = plan->mesh,
        .assignment = plan->by_worker != NULL ? plan->by_worker : plan->assignment,
        .self = self,
        .n = plan->layout.param_count,
        .codec = plan->up[0].codec,
        .params = plan->up[0].params,
        .seed = plan->spec->seed,
        .window_us = window_ms * 1000,
    };
}

/* Everybody waits for everybody, and only gradients, increments or the like travel. */
static void check_method(ps_check *check, const ps_plan *plan)
{
    const ps_assignment *a = plan->assignment;
    const ps_update *update = plan->update;
    const char *mesh = plan->mesh->name;

    if (plan->policy != NULL && plan->policy != ps_consistency_find("bsp")) {
        ps_check_bad(check, "spec.consistency.name",
                     "is \"%s\"; exchange %s sums what all workers bring to a step: bsp is allowed",
                     plan->policy->name, mesh);
    }
    if (update != NULL && (update->broadcasts || update->delay != NULL)) {
        ps_check_bad(check, "spec.update.name",
                     "is \"%s\", which needs servers; exchange %s has none: updates that they "
                     "only sum are allowed",
                     update->name, mesh);
    }
    if (update != NULL && a != NULL && a->redundancy > 1 && !update->per_block) {
        ps_check_bad(check, "spec.assignment.params.redundancy",
                     "is %u; update %s sends one sum a worker: with exchange %s 1 is allowed",
                     a->redundancy, update->name, mesh);
    }
    for (uint32_t w = 0; a != NULL && w < a->workers; w++) {
        if (a->held_count[w] == 0) {
            ps_check_bad(check, "spec.assignment",
                         "gives worker %u no block; exchange %s hears of all workers", w, mesh);
        }
    }
}

/* Cells are cut without regard to variables, and nothing is kept from one step to the next. */
static void check_up(ps_check *check, const ps_plan *plan)
{
    const Psgd__V1__CodecSpec *spec = plan->spec->codec;
    const ps_codec *up = ps_codec_find(spec->up->name), *down = ps_codec_find(spec->down->name);
    ps_params params = plan->up[0].params;
    char path[PS_FIELD_MAX];

    if (down != NULL && (!down->is_identity || !ps_codec_is_plain(down, &plan->down[0].params))) {
        ps_check_bad(check, "spec.codec.down.name",
                     "is \"%s\" or compressed; with exchange %s no weights travel: f32 is allowed",
                     down->name, plan->mesh->name);
    }
    if (spec->n_variables > 0) {
        ps_check_bad(check, "spec.codec.variables",
                     "has %zu entries; packets of exchange %s hold values of several variables: "
                     "none are allowed",
                     spec->n_variables, plan->mesh->name);
        return;
    }
    if (up == NULL || plan->up[0].codec != up) {
        return;
    }
    for (int i = PS_WRAP_ROWS; i < PS_WRAP_COUNT; i++) {
        if (ps_wrap_of(up, &params, i) != 0) {
            snprintf(path, sizeof path, "spec.codec.up.params.%s",
                     up->params[up->own + (size_t)i].name);
            ps_check_bad(check, path, "is %g; exchange %s does not know variables: 0 is allowed",
                         ps_wrap_of(up, &params, i), plan->mesh->name);
        }
    }
    if (up->state != NULL) {
        ps_check_bad(check, "spec.codec.up.name",
                     "is \"%s\", which keeps state of each variable; exchange %s does not know "
                     "them: a codec without is allowed",
                     up->name, plan->mesh->name);
    }
}

static void check_state(ps_check *check, const ps_plan *plan)
{
    const char *up = plan->spec->codec->up->name;

    for (uint32_t v = 0; plan->spec->codec->n_variables == 0 && v < plan->layout.variable_count;
         v++) {
        if (plan->layout.variables[v].is_state && plan->up[v].codec != ps_codec_find(up)) {
            ps_check_bad(
                check, "spec.codec.up.name",
                "is \"%s\"; running statistics, as %s, share its packets in exchange %s: an "
                "unbiased codec is allowed",
                up, plan->layout.variables[v].name, plan->mesh->name);
            return;
        }
    }
}

void ps_check_mesh(ps_check *check, ps_plan *plan)
{
    const ps_params each_alone = {.v = {1}};
    uint32_t window_ms, step_ms = plan->spec->timeouts->step_ms;
    ps_mesh_conf conf;
    ps_status st;

    if (plan->mesh == NULL) {
        return;
    }
    window_ms = (uint32_t)plan->mesh_params.v[PS_MESH_WINDOW_MS];
    if (window_ms > step_ms) {
        ps_check_bad(check, "spec.exchange.params.window_ms",
                     "is %u; at most timeouts.step_ms, %u, is allowed", window_ms, step_ms);
    }
    check_method(check, plan);
    if (plan->layout.variable_count == 0 || plan->up == NULL || plan->up[0].codec == NULL ||
        plan->assignment == NULL || plan->update == NULL) {
        return; /* something else is wrong */
    }
    check_up(check, plan);
    check_state(check, plan);
    if (!plan->update->per_block) {
        st = ps_assign_find("iid")->make(plan->spec->workers, &each_alone, &plan->by_worker);
        if (!ps_is_ok(&st)) {
            ps_check_bad(check, "spec.workers", "%s", st.text);
            return;
        }
    }
    conf = ps_plan_mesh(plan, 0);
    st = plan->mesh->check != NULL ? plan->mesh->check(&conf) : ps_ok();
    if (!ps_is_ok(&st)) {
        ps_check_bad(check, "spec.exchange.name", "is \"%s\"; %s", plan->mesh->name, st.text);
    }
}
