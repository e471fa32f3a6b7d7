/* SPDX-License-Identifier: Apache-2.0 */
/* check_checkpoint.c - see plan_impl.h: spec.checkpoint, and a checkpoint that a job goes on from.
 */
#include "common/job/plan_impl.h"

#include "common/base/shorten.h"
#include "common/codec/feedback.h"
#include "common/codec/parts.h"

#include <inttypes.h>
#include <string.h>

enum {
    KEEP_DEFAULT = 3,
    KEPT_HEAD_BYTES = 128, /* for the head of a kept encoding, estimated */
    KEPT_KEY_BYTES = 12,   /* for id, shows and clicks of a kept row, estimated */
    /* for a group of rows: the head of its encoding, and what the encoding takes more than a part
     * of a longer one; estimated */
    KEPT_GROUP_BYTES = 32
};
static const uint64_t steps_max = UINT64_C(1000000000000);
static const double seconds_min = 1, seconds_max = 1e9;

bool ps_plan_is_in_step(const ps_plan *plan)
{
    return plan->mesh != NULL || plan->policy->is_deterministic;
}

bool ps_plan_gives_exact_weights(const ps_plan *plan)
{
    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        if (!plan->update->broadcasts && !plan->down[v].codec->is_identity) {
            return false;
        }
    }
    return true;
}

static bool keeps_something(const ps_codec_choice *choice)
{
    return ps_feedback_floats(choice->codec, &choice->params, 1) > 0;
}

/* Returns whether a rank's weights of the variable are what a codec has made of rows at many
 * clocks, so that servers cannot give them once more: each row was sent after its last change, and
 * encoded together with other rows that had changed. */
static bool has_rows_of_its_own(const ps_plan *plan, uint32_t variable)
{
    return plan->table_of[variable] != PS_NO_TABLE && plan->table_keys == 0 &&
           !plan->down[variable].codec->is_identity;
}

/* Returns whether all that a rank keeps from one clock to the next follows from the sums of all
 * ranks, or can be pulled from servers. */
static bool ranks_keep_nothing(const ps_plan *plan)
{
    bool any =
        !plan->optim_on_server || plan->update->local != NULL || plan->spec->program_state_mib > 0;

    for (uint32_t v = 0; v < plan->layout.variable_count && !any; v++) {
        any = keeps_something(&plan->up[v]) || has_rows_of_its_own(plan, v) ||
              (plan->mesh != NULL && plan->mesh->sends_sums && keeps_something(&plan->down[v]));
    }
    return !any;
}

/* Returns whether several workers hold a block, of which the first one to bring it counts. On
 * servers a worker that is slower may be overtaken: it then skips steps. */
static bool shares_blocks(const ps_plan *plan)
{
    return plan->update->per_block && plan->assignment->redundancy > 1;
}

const char *ps_plan_checkpoint_lacks(const ps_plan *plan)
{
    if (plan->spec->compute != NULL) {
        return "it computes partitions, whose records are stored one by one";
    }
    if (!ps_plan_is_in_step(plan) && plan->policy->closes != NULL) {
        return "only consistency bsp, asp, ssp, dssp, stale_scaled and lag_discard are allowed";
    }
    /* Such a rank may be overtaken at the clock of the checkpoint. Its weights are then later ones,
     * so that its file must not have any. */
    if (plan->mesh == NULL && shares_blocks(plan) && !ranks_keep_nothing(plan)) {
        return "with redundancy above 1 the optimizer on the servers, weights of a fixed "
               "vocabulary's rows as f32 and programs without state are expected";
    }
    if (plan->rounds_vary) {
        return "rounds of the same length on every worker are expected: at_most 0 of the update";
    }
    return NULL;
}

const char *ps_plan_move_lacks(const ps_plan *plan)
{
    return ps_plan_is_in_step(plan) ? ps_plan_checkpoint_lacks(plan)
                                    : "only consistency bsp is allowed";
}

/* Returns whether the job has servers that can be saved at a clock at which all ranks are. */
static bool is_in_step_on_servers(const ps_plan *plan)
{
    return plan->mesh == NULL && ps_plan_move_lacks(plan) == NULL;
}

/* Returns whether the job has servers that can give their state as it was when the present clock
 * began, and accept contributions to that clock again. Not if workers skip steps: servers then lack
 * rows of their reports, and what workers keep has gaps. */
static bool repeats(const ps_plan *plan)
{
    return is_in_step_on_servers(plan) && !shares_blocks(plan);
}

bool ps_plan_ranks_have_state(const ps_plan *plan)
{
    return !is_in_step_on_servers(plan) || !ranks_keep_nothing(plan);
}

bool ps_plan_ranks_have_rows(const ps_plan *plan)
{
    bool any = false;

    for (uint32_t v = 0; v < plan->layout.variable_count && !any; v++) {
        any = has_rows_of_its_own(plan, v);
    }
    return any && is_in_step_on_servers(plan);
}

bool ps_plan_ranks_are_alike(const ps_plan *plan)
{
    return plan->mesh != NULL && ps_plan_move_lacks(plan) == NULL && !shares_blocks(plan) &&
           ranks_keep_nothing(plan);
}

uint64_t ps_plan_last_begin(const ps_plan *plan)
{
    return plan->total_clocks - (ps_plan_ranks_are_alike(plan) ? 0 : 1);
}

bool ps_plan_can_rescue(const ps_plan *plan)
{
    return (ps_plan_ranks_are_alike(plan) || (repeats(plan) && ranks_keep_nothing(plan))) &&
           plan->spec->recovery->on_worker_loss == PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT;
}

bool ps_plan_can_carry(const ps_plan *plan)
{
    const ps_assignment *a = plan->assignment;

    if (ps_plan_can_rescue(plan) || !repeats(plan) || plan->table_count > 0 ||
        plan->spec->recovery->on_server_loss != PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT) {
        return false;
    }
    for (uint32_t w = 0; plan->update->per_block && w < plan->spec->workers; w++) {
        if (a->held_count[w] > 1) { /* a rank could stand still amid its contributions to a clock */
            return false;
        }
    }
    return true;
}

bool ps_plan_carries(const ps_plan *plan)
{
    return ps_plan_can_carry(plan) && ps_plan_kept_bytes(plan) > 0;
}

bool ps_plan_rescues(const ps_plan *plan)
{
    return ps_plan_can_rescue(plan) || ps_plan_carries(plan);
}

/* Returns the number of clocks whose contributions a rank must have room for, at most all clocks:
 * two intervals of checkpoints (every_steps), because a checkpoint is stored some time after its
 * clock. Where the first rounds are shorter than later ones, those are counted, because more of
 * them are in an interval. Returns 1 if only every_seconds is given, since the interval in clocks
 * is unknown then, and all clocks if neither is given. */
static uint64_t kept_clocks(const ps_plan *plan)
{
    const Psgd__V1__CheckpointSpec *spec = plan->spec->checkpoint;
    const ps_local *local = plan->update->local;
    uint64_t most = plan->total_clocks, steps;

    if (spec != NULL && spec->every_steps > 0) {
        if (spec->every_steps >= plan->total_steps / 2) {
            return most;
        }
        steps = 2 * spec->every_steps;
        return local != NULL ? ps_local_clocks(local, &plan->update_params, steps) : steps;
    }
    return spec != NULL && spec->every_seconds > 0 ? 1 : most;
}

/* Returns the most bytes of an encoded slice. If its variable is sent whole, as a matrix, each
 * slice may be on another part of the servers. That part gets the rows of the first factor that
 * overlap the slice, and all of the second factor. */
static uint64_t kept_of_slice(const ps_plan *plan, const ps_slice *slice)
{
    const ps_codec_choice *up = &plan->up[slice->variable];
    const ps_variable *var = &plan->layout.variables[slice->variable];
    uint64_t columns, rank;

    if (!plan->by_matrix[slice->variable]) {
        return up->codec->size(&up->params, slice->n);
    }
    columns = var->size / var->shape.dim[0];
    rank = (uint64_t)up->params.v[ps_param_find(up->codec->params, "rank")];
    return rank * ((slice->n - 1) / columns + 2 + columns) * sizeof(float);
}

/* Returns the most groups in which the rows of that many keys are encoded
 * (common/wire/row_groups.h). */
static uint64_t groups_of_rows(const ps_plan *plan, const ps_plan_table *table, uint64_t keys)
{
    const ps_codec_choice *up = &plan->up[table->variable];
    uint64_t most = ps_table_keys_of_message(plan), stretches = 1 + keys / most, groups;

    if (ps_codec_is_plain(up->codec, &up->params)) {
        return stretches;
    }
    groups =
        table->slice_rows == 0
            ? PS_SHARDS * stretches
            : (table->rows / table->slice_rows + 1) * (table->slice_rows / most + 1) + stretches;
    return groups < keys ? groups : keys;
}

/* Returns the most bytes that a rank keeps of the rows of one contribution. */
static uint64_t kept_of_rows(const ps_plan *plan)
{
    uint64_t bytes = 0;

    for (uint32_t t = 0; t < plan->table_count; t++) {
        const ps_plan_table *table = &plan->tables[t];
        const ps_codec_choice *up = &plan->up[table->variable];
        uint64_t keys = plan->table_keys, values;

        keys = keys > 0 && keys < table->rows ? keys : table->rows;
        values = keys * table->width;
        bytes += KEPT_HEAD_BYTES * (1 + values / PS_CODEC_VALUES) + keys * KEPT_KEY_BYTES +
                 KEPT_GROUP_BYTES * groups_of_rows(plan, table, keys) +
                 ps_parts_bytes(up->codec, &up->params, values);
    }
    return bytes;
}

/* Returns the most bytes that a rank keeps of all its contributions to one clock. */
static uint64_t kept_of_clock(const ps_plan *plan)
{
    uint64_t bytes = kept_of_rows(plan);
    uint32_t blocks = 1;

    for (uint32_t s = 0; s < plan->layout.slice_count; s++) {
        bytes += KEPT_HEAD_BYTES + kept_of_slice(plan, &plan->layout.slices[s]);
    }
    for (uint32_t w = 0; plan->update->per_block && w < plan->spec->workers; w++) {
        uint32_t held = plan->assignment->held_count[w];

        blocks = held > blocks ? held : blocks;
    }
    return bytes * blocks;
}

size_t ps_plan_kept_bytes(const ps_plan *plan)
{
    const Psgd__V1__RecoverySpec *spec = plan->spec->recovery;
    uint64_t most = (uint64_t)spec->replay_mib << 20, of_clock, clocks = kept_clocks(plan);
    bool carries = ps_plan_can_carry(plan);

    if (plan->mesh != NULL || (!ps_plan_can_rescue(plan) && !carries) ||
        (ps_plan_has_copies(plan) && !carries) ||
        spec->on_server_loss != PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT) {
        return 0;
    }
    of_clock = kept_of_clock(plan);
    if (ps_plan_has_copies(plan)) {
        return (size_t)(of_clock * PS_SENT_CLOCKS);
    }
    if (of_clock > most / (carries && clocks < PS_SENT_CLOCKS ? PS_SENT_CLOCKS : clocks)) {
        return 0;
    }
    return clocks == plan->total_clocks ? (size_t)(of_clock * clocks) : (size_t)most;
}

const char *ps_plan_copy_lacks(const ps_plan *plan)
{
    const Psgd__V1__LossAction repeat = PSGD__V1__LOSS_ACTION__LOSS_ACTION_REPEAT;

    if (plan->mesh != NULL) {
        return "the exchange is among workers, and there are no servers";
    }
    if (ps_plan_can_rescue(plan) || ps_plan_can_carry(plan)) {
        return NULL;
    }
    if (ps_plan_move_lacks(plan) != NULL) {
        return ps_plan_move_lacks(plan);
    }
    if (shares_blocks(plan)) {
        return "redundancy 1 is expected";
    }
    if (!ps_plan_ranks_have_state(plan)) {
        return "on_worker_loss REPEAT is expected";
    }
    if (plan->spec->recovery->on_server_loss != repeat) {
        return "on_server_loss REPEAT is expected";
    }
    if (plan->table_count > 0) {
        return "ranks have state (rounds of local steps, an optimizer on the workers, a codec that "
               "keeps something, or one of weights of a fixed vocabulary's rows), which is not "
               "allowed together with embeddings by rows";
    }
    return "ranks with state and several blocks each are not allowed";
}

bool ps_plan_has_copies(const ps_plan *plan)
{
    return plan->spec->recovery->replicas > 1 && plan->spec->pservers > 1 &&
           ps_plan_copy_lacks(plan) == NULL;
}

/* Checks the checkpoint that spec.init_from names, if it names one. `lacks` is why the job cannot
 * go on from checkpoints, or NULL. */
static void check_init(ps_check *check, const ps_plan *plan, const char *lacks)
{
    char job[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    if (!ps_init_from_checkpoint(plan->spec->init_from, job, &step)) {
        return;
    }
    if (lacks != NULL) {
        ps_check_bad(check, "spec.init_from", "a job cannot go on from a checkpoint: %s", lacks);
    }
    if (plan->spec->n_init_tables > 0) {
        ps_check_bad(check, "spec.init_tables",
                     "has %zu files, and init_from a checkpoint, which has all rows; leave "
                     "init_tables out",
                     plan->spec->n_init_tables);
    }
}

/* Checks best_by and min_or_max, and sets plan->best_metric and best_is_cost if they are given. */
static void check_best(ps_check *check, ps_plan *plan, const Psgd__V1__CheckpointSpec *spec)
{
    bool is_min = strcmp(spec->min_or_max, "min") == 0;

    if (spec->best_by[0] != '\0') {
        plan->best_metric = ps_check_metric(check, plan, "spec.checkpoint.best_by", spec->best_by,
                                            &plan->best_is_cost);
    } else if (spec->min_or_max[0] != '\0') {
        ps_check_bad(check, "spec.checkpoint.min_or_max",
                     "is set, but best_by is not: set both, or leave both out");
    }
    if (spec->min_or_max[0] != '\0' && !is_min && strcmp(spec->min_or_max, "max") != 0) {
        ps_check_bad(check, "spec.checkpoint.min_or_max", "is \"%s\"; min or max is allowed",
                     PS_SHORT(spec->min_or_max, 40));
    } else if (spec->min_or_max[0] != '\0') {
        plan->best_is_cost = is_min;
    }
}

void ps_check_checkpoint(ps_check *check, ps_plan *plan)
{
    Psgd__V1__CheckpointSpec *spec = plan->spec->checkpoint;
    const char *lacks =
        check->count == 0 /* all plugins are known */ ? ps_plan_checkpoint_lacks(plan) : NULL;

    check_init(check, plan, lacks);
    if (spec == NULL) {
        return;
    }
    if (spec->every_steps > steps_max) {
        ps_check_bad(check, "spec.checkpoint.every_steps",
                     "is %" PRIu64 "; 1 to %" PRIu64 " are allowed, or 0 for none",
                     spec->every_steps, steps_max);
    }
    if (spec->every_seconds != 0 &&
        !(spec->every_seconds >= seconds_min && spec->every_seconds <= seconds_max)) {
        ps_check_bad(check, "spec.checkpoint.every_seconds",
                     "is %.15g; %.15g to %.15g are allowed, or 0 for none", spec->every_seconds,
                     seconds_min, seconds_max);
    }
    if (spec->keep_every > steps_max) {
        ps_check_bad(check, "spec.checkpoint.keep_every",
                     "is %" PRIu64 "; 1 to %" PRIu64 " are allowed, or 0 for none",
                     spec->keep_every, steps_max);
    }
    if (check->count == 0) { /* without errors so far, the metrics are known */
        check_best(check, plan, spec);
    }
    ps_check_u32(check, "spec.checkpoint.keep", &spec->keep, KEEP_DEFAULT, 1,
                 PS_CHECKPOINTS_KEPT_MAX);
    if (lacks != NULL) {
        ps_check_bad(check, "spec.checkpoint", "cannot be: %s", lacks);
    }
}
