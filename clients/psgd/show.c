/* SPDX-License-Identifier: Apache-2.0 */
/* show.c - see show.h. */
#include "clients/psgd/show.h"

#include "common/base/printable.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE_BYTES = 1200 };

const char *ps_show_enum(const ProtobufCEnumDescriptor *type, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);
    const ProtobufCEnumValue *zero = protobuf_c_enum_descriptor_get_value(type, 0);

    if (v == NULL) {
        return "?";
    }
    /* The zero value is PREFIX_UNSPECIFIED, so its name has the prefix. */
    return v->name + strlen(zero->name) - strlen("UNSPECIFIED");
}

const char *ps_show_state(Psgd__V1__JobState state)
{
    return ps_show_enum(&psgd__v1__job_state__descriptor, (int)state);
}

bool ps_show_is_over(Psgd__V1__JobState state)
{
    return state == PSGD__V1__JOB_STATE__JOB_STATE_DONE ||
           state == PSGD__V1__JOB_STATE__JOB_STATE_FAILED ||
           state == PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED;
}

void ps_show_state_line(const Psgd__V1__Job *job, char *text, size_t cap)
{
    const char *state = ps_show_state(job->state);
    bool has_reason = job->reason[0] != '\0' && strcmp(job->reason, state) != 0;
    bool has_message = job->message[0] != '\0';
    char all[LINE_BYTES];

    snprintf(all, sizeof all, "%s%s%s%s%s", state, has_reason ? ": " : "",
             has_reason ? job->reason : "", has_message ? ": " : "", job->message);
    ps_shorten(text, cap, all);
    ps_printable(text);
}

double ps_show_seconds(const Google__Protobuf__Timestamp *time)
{
    return time == NULL ? 0 : (double)time->seconds + time->nanos * 1e-9;
}

const char *ps_show_time(const Google__Protobuf__Timestamp *time, char text[PS_SHOW_BYTES])
{
    time_t seconds;
    struct tm tm;

    if (time == NULL) {
        return "-";
    }
    seconds = (time_t)time->seconds;
    if (localtime_r(&seconds, &tm) == NULL ||
        strftime(text, PS_SHOW_BYTES, "%Y-%m-%d %H:%M:%S", &tm) == 0) {
        return "?";
    }
    return text;
}

/* Appends a metric to text (cap), of which n bytes are written, and returns the new n. */
static size_t add_metric(char *text, size_t n, size_t cap, const char *name, double value)
{
    char metric[PS_SHOW_METRIC_BYTES];
    int len = n < cap ? snprintf(text + n, cap - n, "%s%s", n > 0 ? "  " : "",
                                 ps_show_metric(name, value, 4, metric))
                      : 0;

    return n + (size_t)len;
}

void ps_show_result(const Psgd__V1__Job *job, char *text, size_t cap)
{
    size_t n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < job->n_result; i++) {
        n = add_metric(text, n, cap, job->result[i]->key, job->result[i]->value);
    }
}

void ps_show_trained(const Psgd__V1__Job *job, char *text, size_t cap)
{
    const Psgd__V1__Progress *p = job->progress;
    size_t n;

    text[0] = '\0';
    if (job->state != PSGD__V1__JOB_STATE__JOB_STATE_DONE || p == NULL || p->epoch == 0 ||
        (job->n_result > 0 && p->n_program_metrics == 0)) {
        return;
    }
    n = add_metric(text, 0, cap, "loss", p->loss);
    if (!isnan(p->accuracy)) {
        n = add_metric(text, n, cap, "accuracy", p->accuracy);
    }
    for (size_t i = 0; i < p->n_program_metrics && i < PS_SHOW_METRICS; i++) {
        n = add_metric(text, n, cap, p->program_metrics[i]->key, p->program_metrics[i]->value);
    }
}

void ps_show_results(const Psgd__V1__Job *job)
{
    char text[PS_SHOW_PROGRESS_BYTES];

    ps_show_result(job, text, sizeof text);
    if (text[0] != '\0') {
        printf("result    %s\n", text);
    }
    ps_show_trained(job, text, sizeof text);
    if (text[0] != '\0') {
        printf("trained   %s\n", text);
    }
}

static int by_name(const void *a, const void *b)
{
    const Psgd__V1__Artifact *const *x = a, *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

void ps_show_files(const Psgd__V1__Job *job)
{
    const Psgd__V1__Artifact **files;
    char size[PS_SHOW_BYTES];
    size_t width = 0;

    if (job->n_artifacts == 0) {
        return;
    }
    files = ps_xcalloc(job->n_artifacts, sizeof *files);
    for (size_t i = 0; i < job->n_artifacts; i++) {
        size_t n = strlen(job->artifacts[i]->name);

        files[i] = job->artifacts[i];
        width = n > width ? n : width;
    }
    qsort(files, job->n_artifacts, sizeof *files, by_name);
    puts("files");
    for (size_t i = 0; i < job->n_artifacts; i++) {
        printf("  %-*s  %s\n", (int)width, PS_PLAIN(files[i]->name, 255),
               ps_show_size(files[i]->size, size));
    }
    free(files);
}

/* Shows the specification as a job file, in JSON, which is YAML too. */
static void show_spec(const Psgd__V1__Job *job)
{
    json_t *json;
    char *text;

    if (job->spec == NULL) {
        return;
    }
    json = ps_pb_to_json(&job->spec->base, PS_PB_TERSE);
    text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15) | JSON_ENSURE_ASCII);
    if (text != NULL) {
        printf("specification\n%s\n", text);
    }
    free(text);
    json_decref(json);
}

/* Returns whether the job has a placement of the same part on the same node. */
static bool has_placement(const Psgd__V1__Job *job, const Psgd__V1__Placement *wanted)
{
    for (size_t i = 0; i < job->n_placements; i++) {
        const Psgd__V1__Placement *p = job->placements[i];

        if (p->role == wanted->role && p->rank == wanted->rank &&
            strcmp(p->node_id, wanted->node_id) == 0) {
            return true;
        }
    }
    return false;
}

void ps_show_nodes(const Psgd__V1__Job *job, const Psgd__V1__Job *before)
{
    const char *label = "nodes    ";

    for (size_t i = 0; i < job->n_placements; i++) {
        const Psgd__V1__Placement *p = job->placements[i];
        bool has_version = p->version[0] != '\0';

        if (before != NULL && has_placement(before, p)) {
            continue;
        }
        printf("%s %s %u: %s at %s%s%s\n", label,
               p->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? "worker" : "pserver", p->rank,
               PS_PLAIN(p->node_id, 255), PS_PLAIN(p->address, 255), has_version ? ", psgd " : "",
               PS_PLAIN(p->version, 40));
        label = "         ";
    }
    fflush(stdout);
}

static const char *node_of(const Psgd__V1__Job *job, uint32_t rank)
{
    for (size_t i = 0; i < job->n_placements; i++) {
        if (job->placements[i]->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER &&
            job->placements[i]->rank == rank) {
            return job->placements[i]->node_id;
        }
    }
    return "";
}

void ps_show_worker(const Psgd__V1__Job *job, const Psgd__V1__WorkerProgress *worker, char *text,
                    size_t cap)
{
    char number[PS_SHOW_BYTES];
    size_t n =
        (size_t)snprintf(text, cap, "  worker %u %s  step %llu  loss %s", worker->rank,
                         PS_SHORT(node_of(job, worker->rank), 80), (unsigned long long)worker->step,
                         ps_show_number(worker->loss, 4, number));

    /* NaN: the job does not predict classes, or a program has not reported an accuracy */
    if (!isnan(worker->accuracy) && n < cap) {
        n += (size_t)snprintf(text + n, cap - n, "  acc %.3f", worker->accuracy);
    }
    for (size_t i = 0; i < worker->n_program_metrics && i < PS_SHOW_METRICS; i++) {
        n = add_metric(text, n, cap, worker->program_metrics[i]->key,
                       worker->program_metrics[i]->value);
    }
    if (n < cap) {
        snprintf(text + n, cap - n, "  waited %.1f s%s%s", worker->seconds_waiting,
                 worker->waiting_for[0] != '\0' ? ", now for " : "",
                 PS_SHORT(worker->waiting_for, 80));
    }
    ps_printable(text);
}

void ps_show_recovery(const Psgd__V1__Recovery *r, char *text, size_t cap)
{
    unsigned long long repeated = r->step > r->from_step ? r->step - r->from_step : 0;
    char names[LINE_BYTES / 2] = "", all[LINE_BYTES], took[PS_SHOW_BYTES];
    size_t len = 0;

    ps_show_duration(r->seconds, took);

    for (size_t i = 0; i < r->n_node_ids && len < sizeof names; i++) {
        int n =
            snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "", r->node_ids[i]);

        len += n > 0 ? (size_t)n : 0;
    }
    if (r->is_survived) {
        snprintf(all, sizeof all, "went on without %s (%s) from step %llu", names, r->reason,
                 (unsigned long long)r->from_step);
    } else if (r->is_planned) {
        snprintf(all, sizeof all, "%s (%s): stood still for %s, %llu step%s repeated", r->message,
                 r->reason, took, repeated, repeated == 1 ? "" : "s");
    } else if (strcmp(r->reason, "DIVERGED") == 0) {
        snprintf(all, sizeof all,
                 "rolled back to step %llu, rate halved (%s), back after %s, %llu step%s "
                 "repeated",
                 (unsigned long long)r->from_step, r->reason, took, repeated,
                 repeated == 1 ? "" : "s");
    } else {
        snprintf(all, sizeof all, "recovered %s (%s), back after %s, %llu step%s repeated",
                 names[0] != '\0' ? names : "from a failure", r->reason, took, repeated,
                 repeated == 1 ? "" : "s");
    }
    ps_shorten(text, cap, all);
    ps_printable(text);
}

void ps_show_goodput(const Psgd__V1__Job *job)
{
    if (job->restarts + job->rollbacks > 0 && job->goodput > 0) {
        printf("goodput   %.0f %% of the time, %u restart%s, %u rollback%s\n", job->goodput * 100,
               job->restarts, job->restarts == 1 ? "" : "s", job->rollbacks,
               job->rollbacks == 1 ? "" : "s");
    }
}

void ps_show_tracker(const Psgd__V1__TrackerRun *run, char *text, size_t cap)
{
    char all[LINE_BYTES];

    snprintf(all, sizeof all, "tracker   %s%s%s%s%s", run->tracker,
             run->run_id[0] != '\0' ? ": run " : "", run->run_id,
             run->message[0] != '\0' ? ": " : "", run->message);
    ps_shorten(text, cap, all);
    ps_printable(text);
}

void ps_show_job(const Psgd__V1__Job *job)
{
    char text[PS_SHOW_PROGRESS_BYTES], time[PS_SHOW_BYTES];

    printf("job       %s\n", PS_PLAIN(job->id, 255));
    ps_show_state_line(job, text, sizeof text);
    printf("state     %s\n", text);
    printf("created   %s\n", ps_show_time(job->create_time, time));
    if (job->owner[0] != '\0') {
        printf("owner     %s\n", PS_PLAIN(job->owner, 80));
    }
    if (job->start_time != NULL && job->end_time != NULL) {
        printf("took      %.1f s\n",
               ps_show_seconds(job->end_time) - ps_show_seconds(job->start_time));
    }
    if (job->progress != NULL && job->progress->total_steps > 0 &&
        job->state != PSGD__V1__JOB_STATE__JOB_STATE_DONE) {
        ps_show_progress(job->progress, job->spec != NULL && job->spec->compute != NULL, 0, text,
                         sizeof text);
        printf("progress  %s\n", text);
    }
    ps_show_results(job);
    for (size_t i = 0; i < job->n_recoveries; i++) {
        if (job->recoveries[i]->seconds > 0 || job->recoveries[i]->is_survived) {
            ps_show_recovery(job->recoveries[i], text, sizeof text);
            printf("%s\n", text);
        }
    }
    ps_show_goodput(job);
    if (job->progress != NULL && job->progress->rows_met > 0) {
        printf("rows      %llu there, %llu admitted, %llu removed; %llu met\n",
               (unsigned long long)job->progress->rows,
               (unsigned long long)job->progress->rows_admitted,
               (unsigned long long)job->progress->rows_removed,
               (unsigned long long)job->progress->rows_met);
    }
    for (size_t i = 0; i < job->n_tracker_runs; i++) {
        ps_show_tracker(job->tracker_runs[i], text, sizeof text);
        printf("%s\n", text);
    }
    ps_show_nodes(job, NULL);
    ps_show_files(job);
    show_spec(job);
}

void ps_show_reply(ps_cli *cli, const Psgd__V1__Job *job)
{
    if (job == NULL) {
        fputs("psgd: the coordinator's answer has no job\n", stderr);
        ps_cli_end(cli, PS_EXIT_BUG);
        return;
    }
    if (cli->format == PS_FORMAT_TEXT) {
        ps_show_job(job);
    } else {
        ps_cli_json(cli, &job->base);
    }
    ps_cli_end(cli, PS_EXIT_OK);
}
