/* SPDX-License-Identifier: Apache-2.0 */
/* tracked.c - see tracked.h. */
#include "common/tracker/tracked.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"

#include <stdio.h>
#include <stdlib.h>

/* least time between two values of progress that trackers get; only the last may come sooner */
static const int64_t progress_us = 1000000;

int64_t ps_tracked_ms(const Google__Protobuf__Timestamp *time)
{
    return time != NULL ? time->seconds * 1000 + time->nanos / 1000000 : ps_clock_wall_us() / 1000;
}

void ps_tracked_note(const char *note, size_t index, char path[PS_TRACKED_NOTE_BYTES])
{
    snprintf(path, PS_TRACKED_NOTE_BYTES, "%s.%zu", note, index);
}

ps_status ps_tracked_begin(ps_tracked *tracked, ps_tracker *tracker, const Psgd__V1__Job *job,
                           const char *note, unsigned skipped)
{
    size_t n = job->spec->n_tracker;
    json_t *spec = ps_pb_to_json(&job->spec->base, PS_PB_DEFAULTS);
    ps_track_conf conf = {
        .job = {.id = job->id,
                .title = job->spec->title,
                .owner = job->owner,
                .start_ms = ps_tracked_ms(job->start_time ? job->start_time : job->create_time)},
        .spec = spec};
    ps_status st = ps_ok();

    *tracked = (ps_tracked){.count = n < PS_TRACKERS_MAX ? n : PS_TRACKERS_MAX};
    for (size_t i = 0; ps_is_ok(&st) && i < tracked->count; i++) {
        char path[PS_TRACKED_NOTE_BYTES];

        conf.index = i;
        conf.url = job->spec->tracker[i];
        if (note != NULL) {
            ps_tracked_note(note, i, path);
            conf.note = path;
            conf.sequence = ps_track_read_note(path);
        }
        if ((skipped >> i & 1) == 0) {
            st = ps_track_begin(tracker, &conf, &tracked->tracks[i]);
        }
    }
    json_decref(spec);
    return st;
}

static void add(ps_mlflow_metric *list, size_t *count, const ps_mlflow_metric *at, const char *name,
                double value)
{
    list[*count] = *at;
    snprintf(list[*count].key, sizeof list[*count].key, "%s", name);
    list[(*count)++].value = value;
}

static void send_all(const ps_tracked *tracked, const ps_mlflow_metric *list, size_t count)
{
    for (size_t i = 0; i < tracked->count; i++) {
        if (tracked->tracks[i] != NULL) {
            ps_track_metrics(tracked->tracks[i], list, count);
        }
    }
}

void ps_tracked_progress(ps_tracked *tracked, const Psgd__V1__Progress *p, bool is_last)
{
    ps_mlflow_metric at = {.step = p->step, .wall_ms = ps_clock_wall_us() / 1000}, *list;
    size_t n = 0;

    if (p->step == tracked->told_step ||
        (!is_last && ps_clock_us() - tracked->told_us < progress_us)) {
        return;
    }
    tracked->told_us = ps_clock_us();
    tracked->told_step = p->step;
    list = ps_xcalloc(8 + p->n_program_metrics, sizeof *list);
    add(list, &n, &at, "train/loss", p->loss);
    add(list, &n, &at, "train/accuracy", p->accuracy);
    add(list, &n, &at, "samples_per_second", p->samples_per_second);
    add(list, &n, &at, "bytes_up", (double)p->bytes_up);
    add(list, &n, &at, "bytes_down", (double)p->bytes_down);
    add(list, &n, &at, "seconds_waiting", p->seconds_waiting);
    add(list, &n, &at, "epoch", p->epoch);
    add(list, &n, &at, "workers_alive", p->workers_alive);
    for (size_t i = 0; i < p->n_program_metrics; i++) {
        char name[PS_MLFLOW_METRIC_BYTES];

        snprintf(name, sizeof name, "train/%.50s", p->program_metrics[i]->key);
        add(list, &n, &at, name, p->program_metrics[i]->value);
    }
    send_all(tracked, list, n);
    free(list);
}

void ps_tracked_result(const ps_tracked *tracked, ps_track *to, const Psgd__V1__Job *job,
                       uint64_t sequence, int64_t wall_ms)
{
    ps_mlflow_metric at = {.step = job->result_step, .wall_ms = wall_ms, .sequence = sequence};
    ps_mlflow_metric *list = ps_xcalloc(job->n_result + 1, sizeof *list);
    size_t n = 0;

    for (size_t i = 0; i < job->n_result; i++) {
        char name[PS_MLFLOW_METRIC_BYTES];

        snprintf(name, sizeof name, "test/%.50s", job->result[i]->key);
        add(list, &n, &at, name, job->result[i]->value);
    }
    if (to != NULL) {
        ps_track_metrics(to, list, n);
    } else {
        send_all(tracked, list, n);
    }
    free(list);
}

void ps_tracked_end(ps_tracked *tracked, const Psgd__V1__Job *job, const char *folder)
{
    const char **files = ps_xcalloc(job->n_artifacts + 1, sizeof *files);
    ps_track_end how = {
        .how = job->state == PSGD__V1__JOB_STATE__JOB_STATE_DONE        ? PS_MLFLOW_FINISHED
               : job->state == PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED ? PS_MLFLOW_KILLED
                                                                        : PS_MLFLOW_FAILED,
        .end_ms = ps_tracked_ms(job->end_time),
        .folder = folder,
        .files = files};

    for (size_t i = 0; i < job->n_artifacts; i++) {
        files[how.file_count++] = job->artifacts[i]->name;
    }
    for (size_t i = 0; i < tracked->count; i++) {
        if (tracked->tracks[i] != NULL) {
            ps_track_end_run(tracked->tracks[i], &how);
        }
    }
    free(files);
}
