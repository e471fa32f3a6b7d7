/* SPDX-License-Identifier: Apache-2.0 */
/* left_files.c - see left_files.h. */
#include "services/coordinator/io/left_files.h"

#include "common/artifact/events.h"
#include "common/artifact/report.h"
#include "common/artifact/round_record.h"
#include "common/artifact/safetensors.h"
#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/data/vocabulary.h"
#include "common/job/checkpoint_clocks.h"
#include "common/job/plan.h"
#include "common/node/joblog.h"
#include "common/script/result.h"
#include "common/store/table_file.h"
#include "common/trace/trace_file.h"
#include "common/wire/kept_pushes.h"
#include "common/wire/rank_reports.h"
#include "common/wire/wire_parts.h"

#include <stdio.h>
#include <string.h>

enum {
    ROW_BYTES = 256,       /* most bytes of a line of a report beside its metrics */
    VALUE_BYTES = 128,     /* most bytes of a metric in a line, with its name */
    STATE_BLOCKS = 32,     /* most copies of all weights in a file of state */
    SLICE_BYTES = 4096,    /* most bytes of the state of a slice beside its values */
    FRAME_BYTES = 1 << 20, /* most bytes of a file beside its lines, rows or values */
    ROW_SLOTS = 8          /* most values that an optimizer keeps for each value of a row */
};

/* Returns the most bytes of a TR, EV or TB file: a line for each step, and one for each evaluation,
 * of which there are at most one for each step and one for each epoch. */
static uint64_t curve_bytes(const ps_plan *plan)
{
    uint64_t rows = 2 * plan->total_steps + plan->spec->epochs;

    if (plan->rounds_vary) { /* one worker may take all steps of every round */
        rows *= plan->update->local->steps(&plan->update_params, 0);
    }
    return FRAME_BYTES + rows * (ROW_BYTES + VALUE_BYTES * plan->metric_count);
}

/* Returns the most bytes of a rank's record of rounds: an entry for each clock, and one for steps
 * that belong to no clock. */
static uint64_t rounds_bytes(const ps_plan *plan)
{
    return PS_ROUND_HEAD_BYTES +
           (plan->total_clocks + 1) * ps_round_entry_bytes(plan->metric_count);
}

static uint64_t model_bytes(const ps_plan *plan)
{
    uint64_t values = 0;

    for (uint32_t i = 0; i < plan->layout.stored_count; i++) {
        values += plan->layout.stored[i].size;
    }
    return PS_SAFETENSORS_HEADER_MAX + FRAME_BYTES + values * sizeof(float);
}

/* Returns the most bytes of a VOCAB file: a line for each word; 0 for data sets without words. */
static uint64_t word_bytes(const ps_plan *plan)
{
    return plan->data->takes_vocabulary ? (uint64_t)plan->facts.vocabulary * (PS_WORD_BYTES_MAX + 1)
                                        : 0;
}

static uint64_t table_bytes(const ps_plan_table *table)
{
    uint64_t row = 64 + (uint64_t)table->width * sizeof(float) * (1 + ROW_SLOTS);
    uint64_t bytes = FRAME_BYTES + table->rows * row;

    return bytes < PS_TABLE_FILE_MAX ? bytes : PS_TABLE_FILE_MAX;
}

/* A kind of file that a worker leaves for each of its ranks. */
typedef struct rank_file {
    const char *prefix, *suffix;
    Psgd__V1__ArtifactKind kind;
    uint64_t (*bytes)(const ps_plan *plan);
} rank_file;

static const rank_file rank_files[] = {
    {"TR", ".csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, curve_bytes},
    {"EV", ".csv", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, curve_bytes},
    {"TB", "/" PS_EVENTS_NAME, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS, curve_bytes},
    {"VOCAB", ".txt", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL, word_bytes},
    {"MODEL", ".safetensors", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL, model_bytes},
    {"MODEL", ".onnx", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL, model_bytes},
    {PS_ROUNDS_PREFIX, PS_ROUNDS_SUFFIX, PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT,
     rounds_bytes},
};

/* Returns whether a rank of the worker leaves a file of this kind and name, and writes that rank to
 * *rank. */
static bool is_of_worker(const ps_leaver *who, const rank_file *file, const char *name,
                         uint32_t *rank)
{
    for (uint32_t i = 0; i < who->rank_count; i++) {
        char mine[PS_NAME_MAX + 1], number[16];

        snprintf(number, sizeof number, "%u", who->rank + i);
        ps_artifact_name(mine, sizeof mine, file->prefix, who->plan->spec->title, number,
                         file->suffix);
        if (strcmp(name, mine) == 0) {
            *rank = who->rank + i;
            return true;
        }
    }
    return false;
}

static bool find_of_worker(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                           uint64_t *most)
{
    for (size_t f = 0; f < sizeof rank_files / sizeof rank_files[0]; f++) {
        uint32_t rank;

        if (rank_files[f].kind == kind && is_of_worker(who, &rank_files[f], name, &rank)) {
            *most = rank_files[f].bytes(who->plan);
            return true;
        }
    }
    return false;
}

bool ps_left_file_is_rounds(const ps_leaver *who, const char *name, uint32_t *rank)
{
    static const rank_file rounds = {.prefix = PS_ROUNDS_PREFIX, .suffix = PS_ROUNDS_SUFFIX};

    return !who->is_server && is_of_worker(who, &rounds, name, rank);
}

static bool find_of_server(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                           uint64_t *most)
{
    char mine[PS_NAME_MAX + 1];

    if (who->plan->compute != NULL) {
        *most = PS_REDUCED_MAX;
        return kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT &&
               strcmp(name, PS_REDUCED_FILE) == 0;
    }
    if (kind != PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL) {
        return false;
    }
    if (strcmp(name, PS_WEIGHTS_FILE) == 0) {
        *most = ps_placement_value_count(who->placement, who->rank) * sizeof(float);
        return true;
    }
    for (uint32_t t = 0; t < ps_plan_table_files(who->plan); t++) {
        ps_table_file_name(who->plan, t, who->rank, mine, sizeof mine);
        if (strcmp(name, mine) == 0 || ps_table_is_saved_name(who->plan, t, who->rank, name)) {
            *most = table_bytes(&who->plan->tables[t]);
            return true;
        }
    }
    return false;
}

bool ps_left_file_is_trace(const ps_leaver *who, const char *name)
{
    return !who->is_checkpoint && (who->is_trace || who->plan->spec->trace != NULL) &&
           strcmp(name, PS_TRACE_PART) == 0;
}

static bool find_trace(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                       uint64_t *most)
{
    /* A rank has two tracks: of the thread that trains, and of the one for messages. */
    uint64_t tracks = who->is_server ? PS_THREADS_MAX : 2 * (uint64_t)who->rank_count;

    *most = tracks * PS_TRACE_TRACK_BYTES;
    return kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT &&
           ps_left_file_is_trace(who, name);
}

/* Returns whether the node leaves this file of the attempt, and writes the most bytes that the file
 * may have to *most. The node's log may have any name. */
static bool find_of_attempt(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                            uint64_t *most)
{
    if (kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG) {
        *most = PS_JOBLOG_MAX;
        return true;
    }
    return find_trace(who, name, kind, most) ||
           (who->is_server ? find_of_server : find_of_worker)(who, name, kind, most);
}

/* Returns the most bytes of a file of state in a checkpoint: weights, optimizer, sums, residuals
 * and replicas of all values, and what servers keep of them for each worker; of a rank also its
 * reports, TR, EV and TB, and its record of rounds. */
static uint64_t state_bytes(const ps_leaver *who)
{
    uint64_t values = who->plan->layout.param_count,
             bytes = FRAME_BYTES + ps_plan_program_bytes(who->plan);

    bytes += who->is_server ? 0 : 3 * curve_bytes(who->plan) + rounds_bytes(who->plan);
    bytes += ps_plan_ranks_are_alike(who->plan) ? PS_RANK_REPORTS_MAX : 0;
    bytes += values * sizeof(float) * (STATE_BLOCKS + who->plan->spec->workers);
    bytes += (uint64_t)who->plan->layout.slice_count * SLICE_BYTES * (1 + who->plan->spec->workers);
    for (uint32_t t = 0; t < ps_plan_table_files(who->plan); t++) {
        bytes += 2 * table_bytes(&who->plan->tables[t]);
    }
    return bytes;
}

static bool find_of_checkpoint(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                               uint64_t *most)
{
    char mine[PS_CHECKPOINT_NAME_MAX];
    uint32_t count = who->is_server ? PS_THREADS_MAX : who->rank_count;

    if (kind != PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (who->is_server) {
            ps_checkpoint_store_name(mine, who->rank, i);
        } else {
            ps_checkpoint_rank_name(mine, who->rank + i);
        }
        if (strcmp(name, mine) == 0) {
            *most = state_bytes(who);
            return true;
        }
    }
    for (uint32_t rank = 0;
         who->is_server && ps_plan_can_rescue(who->plan) && rank < who->placement->rank_count;
         rank++) { /* of a rank: its reports, which the server of ps_wire_report_part keeps */
        ps_checkpoint_rank_name(mine, rank);
        if (strcmp(name, mine) == 0 &&
            who->placement->parts[ps_wire_report_part(who->placement)].server == who->rank) {
            *most = PS_RANK_REPORTS_MAX + FRAME_BYTES;
            return true;
        }
    }
    if (who->plan->mesh != NULL && who->rank == 0 && strcmp(name, PS_WEIGHTS_FILE) == 0) {
        *most = who->plan->layout.param_count * sizeof(float);
        return true;
    }
    return who->is_server && strcmp(name, PS_WEIGHTS_FILE) == 0 &&
           find_of_server(who, name, kind, most);
}

/* Returns whether the file is one that a worker gives after a loss, and writes the most bytes that
 * it may have to *most. It is the contributions that a rank has kept, or, if ranks have state, the
 * state of a rank, which may contain contributions. */
static bool find_kept(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                      uint64_t *most)
{
    char mine[PS_CHECKPOINT_NAME_MAX];

    *most = ps_kept_file_bytes(ps_plan_kept_bytes(who->plan));
    for (uint32_t i = 0; i < who->rank_count && !who->is_server && ps_plan_carries(who->plan);
         i++) {
        ps_checkpoint_rank_name(mine, who->rank + i);
        if (strcmp(name, mine) == 0) {
            *most += state_bytes(who);
            return kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL;
        }
    }
    for (uint32_t i = 0; i < who->rank_count && !who->is_server; i++) {
        ps_checkpoint_kept_name(mine, who->rank + i);
        if (strcmp(name, mine) == 0) {
            return kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL;
        }
    }
    return false;
}

ps_status ps_left_file_check(const ps_leaver *who, const char *name, Psgd__V1__ArtifactKind kind,
                             uint64_t size)
{
    uint64_t most;

    if (!(who->is_checkpoint ? find_of_checkpoint
          : who->is_kept     ? find_kept
          : who->is_trace    ? find_trace
                             : find_of_attempt)(who, name, kind, &most)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s %u leaves no file %s of kind %d",
                       who->is_server ? "server" : "worker", who->rank, PS_SHORT(name, 60),
                       (int)kind);
    }
    if (size > most) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: %llu bytes, at most %llu are allowed",
                       PS_SHORT(name, 60), (unsigned long long)size, (unsigned long long)most);
    }
    return ps_ok();
}
