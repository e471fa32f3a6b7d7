/* SPDX-License-Identifier: Apache-2.0 */
/* job_message.c - builds and changes messages that lie in malloc's memory. */
#include "services/coordinator/domain/job_message.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ps_text_set(char **member, const char *text)
{
    char *old = *member;

    *member = text[0] != '\0' ? ps_xstrdup(text) : (char *)protobuf_c_empty_string;
    if (old != protobuf_c_empty_string) {
        free(old);
    }
}

void ps_time_set(Google__Protobuf__Timestamp **member, int64_t wall_us)
{
    if (!*member) {
        *member = ps_xmalloc(sizeof **member);
        google__protobuf__timestamp__init(*member);
    }
    (*member)->seconds = wall_us / 1000000;
    (*member)->nanos = (int32_t)(wall_us % 1000000) * 1000;
}

ProtobufCMessage *ps_message_copy(const ProtobufCMessage *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = ps_xmalloc(n);
    ProtobufCMessage *copy;

    protobuf_c_message_pack(message, bytes);
    copy = protobuf_c_message_unpack(message->descriptor, NULL, n, bytes);
    free(bytes);
    assert(copy); /* the bytes were packed here */
    return copy;
}

Psgd__V1__Job *ps_job_create(const Psgd__V1__JobSpec *spec, int64_t wall_us)
{
    Psgd__V1__Job *job = ps_xmalloc(sizeof *job);

    psgd__v1__job__init(job);
    job->spec = (Psgd__V1__JobSpec *)ps_message_copy(&spec->base);
    job->state = PSGD__V1__JOB_STATE__JOB_STATE_QUEUED;
    ps_time_set(&job->create_time, wall_us);
    return job;
}

void ps_job_place(Psgd__V1__Job *job, const ps_member *members, size_t count)
{
    size_t ranks = 0, n = 0;

    for (size_t i = 0; i < count; i++) {
        ranks += members[i].rank_count;
    }
    for (size_t i = 0; i < job->n_placements; i++) {
        psgd__v1__placement__free_unpacked(job->placements[i], NULL);
    }
    free(job->placements);
    job->n_placements = ranks;
    job->placements = ps_xmalloc(ranks * sizeof *job->placements);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < members[i].rank_count; k++) {
            Psgd__V1__Placement *p = ps_xmalloc(sizeof *p);

            psgd__v1__placement__init(p);
            ps_text_set(&p->node_id, members[i].id);
            ps_text_set(&p->address, members[i].address);
            p->role = members[i].role;
            p->rank = members[i].rank + k;
            p->threads = members[i].threads;
            ps_text_set(&p->version, members[i].version);
            job->placements[n++] = p;
        }
    }
}

size_t ps_job_members(const Psgd__V1__Job *job, ps_member *members)
{
    size_t count = 0;

    for (size_t i = 0; i < job->n_placements; i++) {
        const Psgd__V1__Placement *p = job->placements[i];
        ps_member *last = count > 0 ? &members[count - 1] : NULL;

        if (last && last->role == p->role && strcmp(last->address, p->address) == 0 &&
            p->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER &&
            p->rank == last->rank + last->rank_count) {
            last->rank_count++;
            continue;
        }
        members[count] =
            (ps_member){.role = p->role, .rank = p->rank, .rank_count = 1, .threads = p->threads};
        snprintf(members[count].id, sizeof members[count].id, "%s", p->node_id);
        snprintf(members[count].address, sizeof members[count].address, "%s", p->address);
        snprintf(members[count].version, sizeof members[count].version, "%s", p->version);
        count++;
    }
    return count;
}

void ps_job_set_result(Psgd__V1__Job *job, const char *metric, double value)
{
    Psgd__V1__Job__ResultEntry *entry;

    for (size_t i = 0; i < job->n_result; i++) {
        if (strcmp(job->result[i]->key, metric) == 0) {
            job->result[i]->value = value;
            return;
        }
    }
    entry = ps_xmalloc(sizeof *entry);
    psgd__v1__job__result_entry__init(entry);
    ps_text_set(&entry->key, metric);
    entry->value = value;
    job->result = ps_xrealloc(job->result, (job->n_result + 1) * sizeof *job->result);
    job->result[job->n_result++] = entry;
}

void ps_progress_clear_program_metrics(Psgd__V1__Progress *progress)
{
    for (size_t i = 0; i < progress->n_program_metrics; i++) {
        protobuf_c_message_free_unpacked(&progress->program_metrics[i]->base, NULL);
    }
    progress->n_program_metrics = 0;
}

void ps_progress_add_program_metric(Psgd__V1__Progress *progress, const char *name, double value)
{
    Psgd__V1__Progress__ProgramMetricsEntry *entry = ps_xmalloc(sizeof *entry);
    size_t n = progress->n_program_metrics++;

    psgd__v1__progress__program_metrics_entry__init(entry);
    ps_text_set(&entry->key, name);
    entry->value = value;
    progress->program_metrics =
        ps_xrealloc(progress->program_metrics, (n + 1) * sizeof *progress->program_metrics);
    progress->program_metrics[n] = entry;
}

void ps_job_add_artifact(Psgd__V1__Job *job, const char *name, Psgd__V1__ArtifactKind kind,
                         uint64_t size, const char *sha256, const char *node_id)
{
    Psgd__V1__Artifact *a = NULL;

    for (size_t i = 0; i < job->n_artifacts && !a; i++) {
        if (strcmp(job->artifacts[i]->name, name) == 0) {
            a = job->artifacts[i];
        }
    }
    if (!a) {
        a = ps_xmalloc(sizeof *a);
        psgd__v1__artifact__init(a);
        ps_text_set(&a->name, name);
        job->artifacts =
            ps_xrealloc(job->artifacts, (job->n_artifacts + 1) * sizeof *job->artifacts);
        job->artifacts[job->n_artifacts++] = a;
    }
    a->kind = kind;
    a->size = size;
    ps_text_set(&a->sha256, sha256);
    ps_text_set(&a->node_id, node_id);
}

Psgd__V1__Progress *ps_job_progress(Psgd__V1__Job *job)
{
    if (!job->progress) {
        job->progress = ps_xmalloc(sizeof *job->progress);
        psgd__v1__progress__init(job->progress);
    }
    return job->progress;
}

static const struct {
    Psgd__V1__ArtifactKind kind;
    const char *name;
} kinds[] = {
    {PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY, "summary"},
    {PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG, "log"},
    {PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_REPORT, "report"},
    {PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL, "model"},
    {PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_EVENTS, "events"},
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

const char *ps_artifact_kind_name(Psgd__V1__ArtifactKind kind)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (kinds[i].kind == kind) {
            return kinds[i].name;
        }
    }
    return kinds[0].name;
}

bool ps_artifact_kind_find(const char *name, Psgd__V1__ArtifactKind *kind)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

bool ps_state_is_final(Psgd__V1__JobState state)
{
    return state == PSGD__V1__JOB_STATE__JOB_STATE_DONE ||
           state == PSGD__V1__JOB_STATE__JOB_STATE_FAILED ||
           state == PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED;
}

/* Returns the name of an enum's value without `prefix`, which all its values have; "UNKNOWN" if
 * there is no such value. */
static const char *enum_name(const ProtobufCEnumDescriptor *type, int value, const char *prefix)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, value);

    return v ? v->name + strlen(prefix) : "UNKNOWN";
}

const char *ps_state_name(Psgd__V1__JobState state)
{
    return enum_name(&psgd__v1__job_state__descriptor, (int)state, "JOB_STATE_");
}

const char *ps_phase_text(Psgd__V1__NodePhase phase)
{
    return enum_name(&psgd__v1__node_phase__descriptor, (int)phase, "NODE_PHASE_");
}

void ps_job_spec_now(const Psgd__V1__Job *job, Psgd__V1__JobSpec *out)
{
    *out = *job->spec;
    if (job->scaled_processes > 0) {
        out->worker_processes = job->scaled_processes;
    }
    if (job->scaled_pservers > 0) {
        out->pservers = job->scaled_pservers;
    }
}
