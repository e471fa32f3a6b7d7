/* SPDX-License-Identifier: Apache-2.0 */
/* check_compute.c - jobs that compute (JobSpec.compute): their code, partitions and budgets, and
 * that nothing is given that only training has. */
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/plan_impl.h"
#include "common/script/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PARTITIONS_DEFAULT = 16, COLUMN_BYTES = 64, MEMORY_MIB_DEFAULT = 64, MEMORY_MIB_MAX = 4096 };
static const double seconds_default = 60, seconds_min = 0.1, seconds_max = PS_PARTITION_SECONDS_MAX;
static const uint64_t instructions_default = UINT64_C(10000000000), instructions_min = 1000000,
                      instructions_max = UINT64_C(1000000000000000);

/* Gives a job that computes over a range, which is one without a data set, the source
 * PS_DATA_FOREIGN, of which psgd only counts samples. Does nothing for other jobs. */
void ps_name_compute_data(Psgd__V1__JobSpec *spec)
{
    if (spec->compute == NULL) {
        return;
    }
    if (spec->data == NULL) {
        spec->data = ps_xmalloc(sizeof *spec->data);
        psgd__v1__data_spec__init(spec->data);
    }
    if (spec->data->name[0] == '\0') {
        ps_spec_set(&spec->data->name, PS_DATA_FOREIGN);
    }
}

void ps_check_compute_data(ps_check *check, const ps_plan *plan)
{
    const char *name = plan->spec->data->name;

    if (plan->spec->compute == NULL) {
        if (strcmp(name, PS_DATA_TEXT) == 0) {
            ps_check_bad(check, "spec.data.name",
                         "is \"" PS_DATA_TEXT "\", which is only allowed with compute");
        }
    } else if (strcmp(name, PS_DATA_TEXT) != 0 && strcmp(name, PS_DATA_FOREIGN) != 0) {
        ps_check_bad(check, "spec.data.name",
                     "is \"%s\"; with compute only \"" PS_DATA_TEXT
                     "\" is allowed, or no data for a range",
                     PS_SHORT(name, 64));
    }
}

/* Reports an error if is_given is true for a field that only jobs that train may have. */
static void refuse(ps_check *check, const char *field, bool is_given)
{
    char path[PS_FIELD_MAX];

    if (is_given) {
        snprintf(path, sizeof path, "spec.%s", field);
        ps_check_bad(check, path, "is given together with compute, which does not train");
    }
}

/* Returns whether a message takes more bytes than `empty`, which has only what ps_spec_complete
 * fills in: the job then gives something in it. */
static bool has(const ProtobufCMessage *message, const ProtobufCMessage *empty)
{
    return protobuf_c_message_get_packed_size(message) > protobuf_c_message_get_packed_size(empty);
}

static void refuse_fields(ps_check *check, const Psgd__V1__JobSpec *spec,
                          const Psgd__V1__JobSpec *empty)
{
    const struct {
        const char *name;
        bool is_given;
    } fields[] = {
        {"model", spec->model != NULL && has(&spec->model->base, &empty->model->base)},
        {"assignment",
         spec->assignment != NULL && has(&spec->assignment->base, &empty->assignment->base)},
        {"optimizer",
         spec->optimizer != NULL && has(&spec->optimizer->base, &empty->optimizer->base)},
        {"update", spec->update != NULL && has(&spec->update->base, &empty->update->base)},
        {"consistency",
         spec->consistency != NULL && has(&spec->consistency->base, &empty->consistency->base)},
        {"codec", spec->codec != NULL && has(&spec->codec->base, &empty->codec->base)},
        {"straggler",
         spec->straggler != NULL && has(&spec->straggler->base, &empty->straggler->base)},
        {"exchange", spec->exchange != NULL && has(&spec->exchange->base, &empty->exchange->base)},
        {"stop_at", spec->stop_at != NULL},
        {"checkpoint", spec->checkpoint != NULL},
        {"trace", spec->trace != NULL},
        {"preset", spec->preset[0] != '\0'},
        {"epochs", spec->epochs > 0},
        {"block_size", spec->block_size > 0},
        {"init_from", spec->init_from[0] != '\0'},
        {"init_tables", spec->n_init_tables > 0},
        {"metrics", spec->n_metrics > 0},
        {"split_evaluation", spec->split_evaluation},
        {"eval_every_steps", spec->eval_every_steps > 0},
        {"max_steps", spec->max_steps > 0},
        {"max_seconds", spec->max_seconds > 0},
        {"worker_threads", spec->worker_threads > 1},
        {"workers_min", spec->workers_min > 0},
        {"workers_max", spec->workers_max > 0},
        {"programs", spec->programs > 0},
        {"program_state_mib", spec->program_state_mib > 0},
        {"program_metrics", spec->n_program_metrics > 0},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        refuse(check, fields[i].name, fields[i].is_given);
    }
}

/* Reports an error for each field of the spec that only jobs that train have. */
static void refuse_training(ps_check *check, const Psgd__V1__JobSpec *spec)
{
    const Psgd__V1__JobSpec nothing = PSGD__V1__JOB_SPEC__INIT;
    Psgd__V1__JobSpec *empty = ps_spec_copy(&nothing), *full = ps_spec_copy(spec);

    ps_spec_complete(empty);
    ps_spec_complete(full);
    refuse_fields(check, full, empty);
    ps_spec_free(empty);
    ps_spec_free(full);
}

/* Finds the job's code of kind compute: the one that compute names, or the only one. Reports an
 * error if there is none, or several and no name. */
static void find_code(ps_check *check, ps_plan *plan)
{
    Psgd__V1__ComputeSpec *spec = plan->spec->compute;
    ps_script *found = NULL;
    size_t count = 0;

    for (size_t i = 0; i < plan->script_count; i++) {
        const ps_script_about *about = ps_script_about_of(plan->scripts[i]);

        if (strcmp(about->kind, "compute") == 0 &&
            (spec->code[0] == '\0' || strcmp(about->name, spec->code) == 0)) {
            found = plan->scripts[i];
            count++;
        }
    }
    if (count != 1) {
        ps_check_bad(check, "spec.compute.code",
                     "is \"%s\"; the name of one of the job's `code` of the kind compute is "
                     "allowed, of which %zu fit",
                     PS_SHORT(spec->code, 64), count);
        return;
    }
    plan->compute = found;
    ps_spec_set(&spec->code, ps_script_about_of(found)->name);
    (void)ps_check_numbers(check, "spec.compute", ps_script_about_of(found)->numbers, &spec->base,
                           &plan->compute_params);
}

static void check_partitions(ps_check *check, const ps_plan *plan)
{
    Psgd__V1__ComputeSpec *spec = plan->spec->compute;
    bool is_text = strcmp(plan->spec->data->name, PS_DATA_TEXT) == 0;
    bool has_range = spec->from != 0 || spec->to != 0;
    uint64_t most = PS_PARTITIONS_MAX, n;

    if (is_text && has_range) {
        ps_check_bad(check, "spec.compute.from",
                     "is %lld and `to` %lld; with data.name text neither is allowed",
                     (long long)spec->from, (long long)spec->to);
    } else if (has_range && spec->to < spec->from) {
        ps_check_bad(check, "spec.compute.to", "is %lld; at least `from`, %lld, is allowed",
                     (long long)spec->to, (long long)spec->from);
    } else if (has_range) {
        n = (uint64_t)spec->to - (uint64_t)spec->from;
        most = n < most ? n + 1 : most;
    }
    ps_check_u32(check, "spec.compute.partitions", &spec->partitions,
                 most < PARTITIONS_DEFAULT ? (uint32_t)most : PARTITIONS_DEFAULT, 1,
                 (uint32_t)most);
    if (!is_text && !has_range) {
        spec->from = 1;
        spec->to = spec->partitions;
    }
}

static void check_columns(ps_check *check, const Psgd__V1__ComputeSpec *spec)
{
    char field[PS_FIELD_MAX];

    if (spec->n_columns > 1 + 256) {
        ps_check_bad(check, "spec.compute.columns", "has %zu names; at most 257 are allowed",
                     spec->n_columns);
        return;
    }
    for (size_t i = 0; i < spec->n_columns; i++) {
        if (!ps_plain_name_is_valid(spec->columns[i], COLUMN_BYTES)) {
            snprintf(field, sizeof field, "spec.compute.columns[%zu]", i);
            ps_check_bad(check, field, "is \"%s\"; 1 to %d of A-Z a-z 0-9 . _ - are allowed",
                         PS_SHORT(spec->columns[i], 80), COLUMN_BYTES);
        }
    }
}

static void check_budget(ps_check *check, Psgd__V1__ComputeSpec *spec)
{
    if (spec->seconds == 0) {
        spec->seconds = seconds_default;
    }
    if (!(spec->seconds >= seconds_min && spec->seconds <= seconds_max)) {
        ps_check_bad(check, "spec.compute.seconds", "is %.15g; %.15g to %.15g are allowed",
                     spec->seconds, seconds_min, seconds_max);
    }
    ps_check_u32(check, "spec.compute.memory_mib", &spec->memory_mib, MEMORY_MIB_DEFAULT, 1,
                 MEMORY_MIB_MAX);
    ps_check_u64(check, "spec.compute.instructions", &spec->instructions, instructions_default,
                 instructions_min, instructions_max);
    if (spec->format[0] == '\0') {
        ps_spec_set(&spec->format, "csv");
    }
    if (strcmp(spec->format, "csv") != 0 && strcmp(spec->format, "json") != 0) {
        ps_check_bad(check, "spec.compute.format", "is \"%s\"; csv and json are allowed",
                     PS_SHORT(spec->format, 40));
    }
}

void ps_check_compute(ps_check *check, ps_plan *plan)
{
    Psgd__V1__ComputeSpec *spec = plan->spec->compute;

    refuse_training(check, check->given);
    find_code(check, plan);
    check_partitions(check, plan);
    check_columns(check, spec);
    check_budget(check, spec);
    /* asp, because partitions do not depend on each other: the job goes on with any one worker. */
    plan->policy = ps_consistency_find("asp");
    plan->update = ps_update_find("gradient");
    plan->total_steps = plan->total_clocks = spec->partitions;
    plan->batches_per_epoch = 1;
}

void ps_blank_training(Psgd__V1__JobSpec *spec)
{
    psgd__v1__choice__free_unpacked(spec->assignment, NULL);
    spec->assignment = NULL;
    spec->block_size = spec->worker_threads = 0;
    ps_spec_complete(spec);
}
