/* SPDX-License-Identifier: Apache-2.0 */
/* check_exchange.c - the exchange of a job, and what a mesh excludes: nobody but the workers
 * merges there. */
#include "common/job/plan_impl.h"

#include "common/base/xalloc.h"

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
        .parts = plan->mesh_parts,
        .part_count = plan->layout.variable_count,
        .seed = plan->spec->seed,
        .window_us = window_ms * 1000,
    };
}

/* Refuses policies other than bsp, and updates that need servers: in a mesh every worker waits for
 * all others, and only contributions that are added up travel. Also refuses redundancy with updates
 * that send one sum a worker, and workers without a block. */
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

/* Fills plan->mesh_parts. Returns false if a variable has no codec; the error was reported before.
 */
static bool make_parts(ps_plan *plan)
{
    const ps_layout *layout = &plan->layout;

    plan->mesh_parts = ps_xcalloc(layout->variable_count, sizeof *plan->mesh_parts);
    for (uint32_t v = 0; v < layout->variable_count; v++) {
        const ps_variable *var = &layout->variables[v];

        if (plan->up[v].codec == NULL || plan->down[v].codec == NULL) {
            return false;
        }
        plan->mesh_parts[v] = (ps_mesh_part){
            .name = var->name,
            .at = var->at,
            .n = var->size,
            .step = layout->slices[layout->first_slice[v]].n, /* the last slice may be shorter */
            .up = {plan->up[v].codec, plan->up[v].params},
            .down = {plan->down[v].codec, plan->down[v].params},
        };
    }
    return true;
}

/* Refuses codecs down other than plain f32 in an exchange that sends no complete sums. */
static void check_down(ps_check *check, const ps_plan *plan)
{
    for (uint32_t v = 0; !plan->mesh->sends_sums && v < plan->layout.variable_count; v++) {
        const ps_codec_choice *down = &plan->down[v];

        if (!ps_codec_is_plain(down->codec, &down->params)) {
            ps_check_bad(check, "spec.codec.down.name",
                         "is \"%s\" or compressed for %s; with exchange %s nothing comes down: f32 "
                         "is allowed",
                         down->codec->name, plan->layout.variables[v].name, plan->mesh->name);
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
    if (plan->layout.slice_count == 0 || plan->table_count > 0 || plan->assignment == NULL ||
        plan->update == NULL) {
        return; /* another error was reported; ps_check_tables reports those of sparse tables */
    }
    if (!make_parts(plan)) {
        return;
    }
    check_down(check, plan);
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
