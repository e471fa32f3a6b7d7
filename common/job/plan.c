/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h. */
#include "common/job/plan.h"

#include "common/base/address.h"
#include "common/base/files.h"
#include "common/base/nearest.h"
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/job/plan_impl.h"
#include "common/job/preset.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRESETS_MAX = 256, /* an unknown name is compared with at most so many presets */
    NAMES_SHOWN = 40,  /* an error lists presets until their names have so many bytes */
    WORKERS_MAX = 256,
    BLOCK_SIZE_MAX = 65536,
    TITLE_MAX_BYTES = 64,
    JOB_ID_BYTES = 96,
    NODES_MAX = 2048,
    DAY_MS = 86400000
};
static const uint64_t bandwidth_default = 12500000, bandwidth_min = 1000,
                      bandwidth_max = UINT64_C(1000000000000);

static bool is_title(const char *title)
{
    return ps_plain_name_is_valid(title, TITLE_MAX_BYTES) && title[0] != '.';
}

static void check_scalars(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;
    uint32_t least;

    if (spec->title[0] == '\0') {
        ps_spec_set(&spec->title, "psgd");
    }
    if (!is_title(spec->title)) {
        ps_check_bad(check, "spec.title",
                     "is \"%s\"; 1 to %d of A-Z a-z 0-9 . _ - are allowed, no dot in front",
                     PS_SHORT(spec->title, 80), TITLE_MAX_BYTES);
    }
    ps_check_u32(check, "spec.workers", &spec->workers, 1, 1, WORKERS_MAX);
    if (spec->workers_max > 0 && spec->worker_processes > 0 &&
        spec->workers_max != spec->worker_processes) {
        ps_check_bad(check, "spec.workers_max",
                     "is %u, and worker_processes is %u; give one of them", spec->workers_max,
                     spec->worker_processes);
    } else if (spec->workers_max > spec->workers) {
        ps_check_bad(check, "spec.workers_max", "is %u; 1 to %u (workers) are allowed",
                     spec->workers_max, spec->workers);
    } else if (spec->workers_max > 0) {
        spec->worker_processes = spec->workers_max;
    }
    ps_check_u32(check, "spec.worker_processes", &spec->worker_processes, spec->workers, 1,
                 spec->workers);
    ps_check_u32(check, "spec.worker_threads", &spec->worker_threads, 1, 1, PS_TEAM_MAX);
    if (plan->mesh != NULL) {
        spec->pservers = 0;
    } else {
        least = spec->compute != NULL ? 0 : 1; /* the coordinator reduces, too */
        ps_check_u32(check, "spec.pservers", &spec->pservers, least, least, PS_PSERVERS_MAX);
    }
    ps_check_u32(check, "spec.block_size", &spec->block_size, 64, 1, BLOCK_SIZE_MAX);
    ps_check_u64(check, "spec.network_bandwidth", &spec->network_bandwidth, bandwidth_default,
                 bandwidth_min, bandwidth_max);
}

const char *ps_init_from_job(const char *init_from)
{
    return strncmp(init_from, "job:", 4) == 0 ? init_from + 4 : NULL;
}

bool ps_init_from_checkpoint(const char *init_from, char job_id[PS_CHECKPOINT_JOB_MAX],
                             uint64_t *step)
{
    static const char prefix[] = "checkpoint:";
    const char *id = init_from + sizeof prefix - 1, *at, *digits;
    size_t n;

    if (strncmp(init_from, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    job_id[0] = '\0';
    *step = UINT64_MAX;
    at = strrchr(id, '@');
    n = at != NULL ? (size_t)(at - id) : 0;
    digits = at != NULL ? at + 1 : "";
    if (n == 0 || n >= PS_CHECKPOINT_JOB_MAX || strspn(digits, "0123456789") != strlen(digits) ||
        strlen(digits) < 1 || strlen(digits) > 13) {
        return true;
    }
    memcpy(job_id, id, n);
    job_id[n] = '\0';
    *step = 0;
    for (; *digits != '\0'; digits++) {
        *step = *step * 10 + (uint64_t)(*digits - '0');
    }
    return true;
}

static bool is_job_id(const char *id)
{
    return ps_plain_name_is_valid(id, JOB_ID_BYTES - 1);
}

void ps_check_init(ps_check *check, const char *field, const char *from, bool may_be_empty)
{
    const char *job = ps_init_from_job(from);
    char id[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    /* Only init_from may be empty or name a checkpoint (may_be_empty); init_tables may not. */
    if (may_be_empty && ps_init_from_checkpoint(from, id, &step)) {
        if (!is_job_id(id)) {
            ps_check_bad(check, field, "is \"%s\"; \"checkpoint:ID@STEP\" is allowed",
                         PS_SHORT(from, 80));
        }
        return;
    }
    if (!(from[0] == '\0' ? may_be_empty : job != NULL ? is_job_id(job) : ps_path_is_safe(from))) {
        ps_check_bad(check, field,
                     "is \"%s\"; \"job:ID\" is allowed, or a path below the data path of "
                     "letters, digits and . _ ( ) - with / between names",
                     PS_SHORT(from, 80));
    }
}

static void check_timeouts(ps_check *check, Psgd__V1__TimeoutSpec *t)
{
    ps_check_u32(check, "spec.timeouts.can_commit_ms", &t->can_commit_ms, 5000, 100, 600000);
    ps_check_u32(check, "spec.timeouts.pre_commit_floor_ms", &t->pre_commit_floor_ms, 30000, 100,
                 600000);
    ps_check_u32(check, "spec.timeouts.pre_commit_cap_ms", &t->pre_commit_cap_ms, 600000, 100,
                 DAY_MS);
    ps_check_u32(check, "spec.timeouts.ready_ms", &t->ready_ms, 10000, 100, 600000);
    ps_check_u32(check, "spec.timeouts.lease_ms", &t->lease_ms, 10000, 500, 600000);
    ps_check_u32(check, "spec.timeouts.step_ms", &t->step_ms, 120000, 1000, DAY_MS);
    ps_check_u32(check, "spec.timeouts.collect_ms", &t->collect_ms, 120000, 1000, DAY_MS);
    if (t->pre_commit_floor_ms > t->pre_commit_cap_ms) {
        ps_check_bad(check, "spec.timeouts.pre_commit_floor_ms",
                     "is %u; at most pre_commit_cap_ms, %u, is allowed", t->pre_commit_floor_ms,
                     t->pre_commit_cap_ms);
    }
}

static void check_assignment(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;
    ps_status st;

    if (!ps_check_choice(check, "spec.assignment", &ps_kind_assignment, spec->assignment, "iid",
                         &plan->assign_params)) {
        return;
    }
    plan->assign = ps_assign_find(spec->assignment->name);
    if (spec->workers > WORKERS_MAX) {
        return;
    }
    st = plan->assign->make(spec->workers, &plan->assign_params, &plan->assignment);
    if (!ps_is_ok(&st)) {
        bool copies = ps_param_find(plan->assign->params, "redundancy") >= 0;

        ps_check_bad(check, copies ? "spec.assignment.params.redundancy" : "spec.assignment.params",
                     "%s", st.text);
    }
}

static void check_choices(ps_check *check, ps_plan *plan)
{
    Psgd__V1__JobSpec *spec = plan->spec;

    ps_check_update(check, plan);
    if (ps_check_choice(check, "spec.optimizer.rule", &ps_kind_optimizer, spec->optimizer->rule,
                        "adam", &plan->optim_params)) {
        plan->optim = ps_optim_find(spec->optimizer->rule->name);
    }
    if (spec->optimizer->side == PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_UNSPECIFIED) {
        spec->optimizer->side = PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_SERVER;
    }
    if (spec->optimizer->side != PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_SERVER &&
        spec->optimizer->side != PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_WORKER) {
        ps_check_bad(check, "spec.optimizer.side", "is %d; allowed: SERVER, WORKER",
                     (int)spec->optimizer->side);
    }
    plan->optim_on_server =
        spec->optimizer->side == PSGD__V1__OPTIMIZER_SIDE__OPTIMIZER_SIDE_SERVER;
    if (ps_check_choice(check, "spec.consistency", &ps_kind_consistency, spec->consistency, "bsp",
                        &plan->policy_params)) {
        plan->policy = ps_plan_consistency(plan, spec->consistency->name);
    }
    if (ps_check_choice(check, "spec.straggler", &ps_kind_straggler, spec->straggler, "none",
                        &plan->straggler_params)) {
        plan->straggler = ps_straggler_find(spec->straggler->name);
    }
}

/* Checks numbers of the straggler and the policy, whose bounds depend on the number of workers and
 * of contributors. */
static void check_counts(ps_check *check, const ps_plan *plan)
{
    ps_status st = ps_ok();

    if (plan->straggler != NULL && plan->straggler->check != NULL) {
        st = plan->straggler->check(&plan->straggler_params, plan->spec->workers);
    }
    if (!ps_is_ok(&st)) {
        ps_check_bad(check, "spec.straggler.params", "do not fit: %s", st.text);
    }

    if (plan->policy == NULL || plan->policy->check == NULL || plan->assignment == NULL ||
        plan->update == NULL) {
        return;
    }
    st = plan->policy->check(&plan->policy_params, plan->update->per_block
                                                       ? plan->assignment->block_count
                                                       : plan->spec->workers);
    if (!ps_is_ok(&st)) {
        ps_check_bad(check, "spec.consistency.params", "do not fit: %s", st.text);
    }
}

static void check_nodes(ps_check *check, const Psgd__V1__JobSpec *spec)
{
    uint32_t workers = 0, pservers = 0;
    char field[PS_FIELD_MAX];

    if (spec->n_nodes > NODES_MAX) {
        ps_check_bad(check, "spec.nodes", "has %zu entries; at most %d are allowed", spec->n_nodes,
                     NODES_MAX);
        return;
    }
    for (size_t i = 0; i < spec->n_nodes; i++) {
        const Psgd__V1__NodeAddress *node = spec->nodes[i];
        ps_address address;
        ps_status st = ps_address_parse(node->address, "", 0, &address);

        workers += node->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
        pservers += node->role == PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER;
        snprintf(field, sizeof field, "spec.nodes[%zu].role", i);
        if (node->role != PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER &&
            node->role != PSGD__V1__NODE_ROLE__NODE_ROLE_PSERVER) {
            ps_check_bad(check, field, "is %d; allowed: WORKER, PSERVER", (int)node->role);
        }
        snprintf(field, sizeof field, "spec.nodes[%zu].address", i);
        if (!ps_is_ok(&st) || address.host[0] == '\0' || address.port == 0 ||
            strlen(node->address) >= PS_NODE_ADDRESS_MAX) {
            ps_check_bad(check, field, "is \"%s\"; host:port is allowed",
                         PS_SHORT(node->address, 80));
        }
        for (size_t k = 0; k < i; k++) {
            if (strcmp(spec->nodes[k]->address, node->address) == 0) {
                ps_check_bad(check, field, "is %s; nodes[%zu] has it too",
                             PS_SHORT(node->address, 80), k);
                break;
            }
        }
    }
    if (spec->n_nodes > 0 && workers < spec->worker_processes) {
        ps_check_bad(check, "spec.nodes", "names %u workers; the job needs %u", workers,
                     spec->worker_processes);
    }
    if (spec->n_nodes > 0 && pservers == 0 && spec->pservers > 0) {
        ps_check_bad(check, "spec.nodes",
                     "names no server, and the workers of this job exchange through servers: add "
                     "one (\"PS\" in a worker.json), or choose an exchange among workers, as "
                     "--exchange ring or --preset plain");
    } else if (spec->n_nodes > 0 && pservers < spec->pservers) {
        ps_check_bad(check, "spec.nodes", "names %u pservers; the job needs %u", pservers,
                     spec->pservers);
    }
}

/* Reports choices that are valid alone and cannot work together. Sets the plan's batches_per_epoch,
 * and its steps by ps_check_bounds. */
static void check_together(ps_check *check, ps_plan *plan)
{
    const Psgd__V1__JobSpec *spec = plan->spec;
    uint32_t r = plan->assignment != NULL ? plan->assignment->redundancy : 1;
    uint64_t batch;

    if (plan->assignment != NULL && plan->data != NULL && spec->block_size <= BLOCK_SIZE_MAX) {
        batch = ps_assignment_step(plan->assignment, spec->block_size);
        plan->batches_per_epoch = (uint32_t)(plan->train_count / batch);
        if (plan->batches_per_epoch == 0) {
            ps_check_bad(check, "spec.block_size",
                         "is %u; with %u blocks a step takes %" PRIu64
                         " samples, and the training set has %u",
                         spec->block_size, plan->assignment->block_count, batch, plan->train_count);
        }
    }
    ps_check_bounds(check, plan);
    if (r > 1 && plan->update != NULL && plan->update->per_block && plan->policy != NULL &&
        !plan->policy->is_deterministic) {
        ps_check_bad(check, "spec.consistency.name",
                     "is \"%s\"; with redundancy %u and update %s, where a block counts once "
                     "whoever brings it, only bsp is allowed",
                     plan->policy->name, r, plan->update->name);
    }
    check_counts(check, plan);
    if (r > 1 && plan->optim != NULL && plan->optim->slots > 0 && !plan->optim_on_server) {
        ps_check_bad(check, "spec.optimizer.side",
                     "is WORKER; with redundancy %u a rule with state, as %s, would differ "
                     "between holders of a block: SERVER is allowed",
                     r, plan->optim->name);
    }
}

typedef struct preset_names {
    ps_strbuf shown;
    const char *all[PRESETS_MAX];
    size_t count;
} preset_names;

static void add_name(const ps_preset *preset, void *arg)
{
    preset_names *names = arg;

    if (names->shown.len < NAMES_SHOWN) {
        ps_strbuf_printf(&names->shown, "%s%s", names->shown.len == 0 ? "" : ", ", preset->name);
    }
    if (names->count < PRESETS_MAX) {
        names->all[names->count++] = preset->name;
    }
}

static void apply_preset(ps_check *check, ps_plan *plan)
{
    const char *name = plan->spec->preset;

    if (name[0] != '\0' && ps_preset_find(name) == NULL) {
        preset_names names = {0};
        const char *meant;

        ps_preset_each(add_name, &names);
        meant = ps_nearest(name, names.all, names.count);
        ps_check_bad(
            check, "spec.preset", "is \"%s\"%s%s%s; allowed: %s and others, psgd presets lists all",
            PS_SHORT(name, 64), meant != NULL ? "; did you mean \"" : "",
            meant != NULL ? meant : "", meant != NULL ? "\"?" : "", ps_strbuf_text(&names.shown));
        ps_strbuf_fini(&names.shown);
    }
    ps_spec_apply_preset(plan->spec);
}

/* Checks a job with code of its own instead of training (JobSpec.compute). */
static void check_computing(ps_check *check, ps_plan *plan)
{
    check_scalars(check, plan);
    check_timeouts(check, plan->spec->timeouts);
    ps_check_compute(check, plan);
    (void)ps_check_data(check, plan);
    check_assignment(check, plan);
    check_nodes(check, plan->spec);
    ps_check_trackers(check, plan);
    ps_check_recovery(check, plan);
    ps_blank_training(plan->spec);
}

/* Checks a job that trains. */
static void check_training(ps_check *check, ps_plan *plan)
{
    ps_check_exchange(check, plan);
    check_scalars(check, plan);
    check_timeouts(check, plan->spec->timeouts);
    ps_check_programs(check, plan);
    ps_check_foreign_data(check, plan);
    (void)ps_check_data(check, plan);
    check_assignment(check, plan);
    (void)ps_check_transforms(check, plan);
    (void)ps_check_model(check, plan, plan->data != NULL ? &plan->facts : NULL);
    ps_check_metrics(check, plan, plan->data != NULL ? &plan->facts : NULL);
    ps_check_stop(check, plan);
    check_choices(check, plan);
    ps_check_codecs(check, plan);
    check_nodes(check, plan->spec);
    ps_check_init(check, "spec.init_from", plan->spec->init_from, true);
    check_together(check, plan);
    ps_check_local(check, plan);
    ps_check_mesh(check, plan);
    ps_check_descent(check, plan);
    ps_check_split(check, plan);
    ps_check_tables(check, plan);
    ps_check_trace(check, plan);
    ps_check_trackers(check, plan);
    ps_check_checkpoint(check, plan);
    ps_check_recovery(check, plan);
    ps_check_foreign(check, plan);
}

ps_status ps_plan_create(const Psgd__V1__JobSpec *spec, ps_violate_fn *violate, void *arg,
                         ps_plan **out)
{
    ps_check check = {.violate = violate, .arg = arg, .given = spec};
    ps_plan *plan = ps_xcalloc(1, sizeof *plan);

    plan->spec = ps_spec_copy(spec);
    ps_name_foreign_data(plan->spec);
    ps_name_compute_data(plan->spec);
    apply_preset(&check, plan);
    ps_spec_complete(plan->spec);
    ps_check_code(&check, plan);
    ps_check_compute_data(&check, plan);
    (plan->spec->compute != NULL ? check_computing : check_training)(&check, plan);
    if (check.count > 0) {
        ps_plan_destroy(plan);
        if (check.count == 1) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s", check.first);
        }
        return ps_fail(PS_INVALID_ARGUMENT, "%zu fields are wrong, first %s", check.count,
                       check.first);
    }
    plan->update_facts = (ps_update_facts){
        .workers = plan->spec->workers,
        .block_size = plan->spec->block_size,
        .block_count = plan->assignment->block_count,
        .redundancy = plan->assignment->redundancy,
    };
    *out = plan;
    return ps_ok();
}

void ps_plan_destroy(ps_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    ps_layout_fini(&plan->layout);
    if (plan->assignment != NULL) {
        ps_assignment_destroy(plan->assignment);
    }
    free(plan->mesh_parts);
    if (plan->by_worker != NULL) {
        ps_assignment_destroy(plan->by_worker);
    }
    free(plan->layers);
    free(plan->up);
    free(plan->down);
    free(plan->by_matrix);
    free(plan->tables);
    free(plan->table_rows);
    free(plan->table_of);
    for (size_t i = 0; i < plan->script_count; i++) {
        ps_script_close(plan->scripts[i]);
    }
    ps_spec_free(plan->spec);
    free(plan);
}

bool ps_plan_is_data(const ps_plan *plan, const Psgd__V1__DataSpec *data)
{
    const Psgd__V1__DataSpec *own = plan->spec->data;
    size_t n = psgd__v1__data_spec__get_packed_size(own);
    uint8_t *a, *b;
    bool is_same;

    if (psgd__v1__data_spec__get_packed_size(data) != n) {
        return false;
    }
    a = ps_xmalloc(n);
    b = ps_xmalloc(n);
    psgd__v1__data_spec__pack(own, a);
    psgd__v1__data_spec__pack(data, b);
    is_same = memcmp(a, b, n) == 0;
    free(a);
    free(b);
    return is_same;
}

/* Returns whether each worker goes through its samples in an order of its own, instead of one order
 * of all samples that workers share. */
static bool has_own_order(const ps_plan *plan)
{
    return plan->assignment->is_whole || plan->assignment->is_by_file;
}

uint32_t ps_plan_order_count(const ps_plan *plan)
{
    return plan->assignment->is_by_file ? plan->batches_per_epoch * plan->spec->block_size
                                        : plan->train_count;
}

uint64_t ps_plan_order_place(const ps_plan *plan, uint64_t batch, uint32_t block)
{
    uint64_t at = has_own_order(plan) ? batch : batch * plan->assignment->block_count + block;

    return at * plan->spec->block_size;
}

ps_data_share ps_plan_share(const ps_plan *plan, uint32_t first, uint32_t count)
{
    return plan->assignment->is_by_file
               ? (ps_data_share){.of = plan->spec->workers, .first = first, .count = count}
               : plan->data_conf.share;
}

ps_status ps_plan_feed(const ps_plan *plan, const ps_dataset *data, uint32_t rank, ps_feed **out)
{
    ps_feed_conf conf = plan->feed_conf;

    conf.worker = has_own_order(plan) ? rank : 0;
    return ps_feed_create(data, &conf, out);
}

ps_status ps_plan_model(const ps_plan *plan, size_t batch, ps_model **out)
{
    const ps_data_facts *facts = &plan->facts;
    bool is_row = facts->shape[1] == 1 && (facts->shape[0] == 1 || facts->shape[2] == 1);
    ps_shape in = {.rank = 3, .dim = {facts->shape[0], facts->shape[1], facts->shape[2]}};

    if (ps_plan_is_foreign(plan)) {
        return ps_plan_foreign_model(plan, out);
    }
    if (is_row) {
        in = (ps_shape){.rank = 1, .dim = {facts->features}};
    }

    return ps_model_create(plan->layers, plan->layer_count, in, plan->loss, batch, out);
}

/* Bytes in the packages for a node, beside spec and weights, rounded up: of a message's frame, the
 * placement of a server or rank, a virtual shard's server, a variable's name and shape, and a
 * slice's number. */
enum {
    FRAME_BYTES = 64,
    PLACEMENT_BYTES = 256,
    SHARD_BYTES = 2,
    VARIABLE_BYTES = 384,
    SLICE_BYTES = 5
};

uint64_t ps_plan_package_bytes(const ps_plan *plan, uint64_t slices, uint64_t values)
{
    uint64_t bytes = psgd__v1__job_spec__get_packed_size(plan->spec) + 8 * FRAME_BYTES;

    bytes += (uint64_t)PLACEMENT_BYTES * (plan->spec->workers + plan->spec->pservers);
    bytes +=
        (uint64_t)SHARD_BYTES * PS_SHARDS + (uint64_t)VARIABLE_BYTES * plan->layout.variable_count;
    return bytes + slices * SLICE_BYTES + values * sizeof(float) +
           (values * sizeof(float) / (1 << 20) + 1) * FRAME_BYTES;
}

int64_t ps_plan_pre_commit_us(const ps_plan *plan, uint64_t bytes)
{
    const Psgd__V1__TimeoutSpec *t = plan->spec->timeouts;
    double us = (double)bytes / (double)plan->spec->network_bandwidth * 2e6 + 1e6;
    int64_t floor_us = (int64_t)t->pre_commit_floor_ms * 1000;
    int64_t cap_us = (int64_t)t->pre_commit_cap_ms * 1000;

    if (us >= (double)cap_us) {
        return cap_us;
    }
    return us <= (double)floor_us ? floor_us : (int64_t)us;
}
