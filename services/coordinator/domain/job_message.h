/* SPDX-License-Identifier: Apache-2.0 */
/* job_message.h - builds and changes messages that lie in malloc's memory, so that
 * protobuf_c_message_free_unpacked(m, NULL) frees them completely. Pure.
 */
#ifndef PS_COORDINATOR_JOB_MESSAGE_H
#define PS_COORDINATOR_JOB_MESSAGE_H

#include "services/coordinator/domain/commit.h"

#include "psgd/v1/coordinator.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Replaces a string member by a copy of `text`. */
void ps_text_set(char **member, const char *text);

/* Sets a member to a time; creates it if it is NULL. */
void ps_time_set(Google__Protobuf__Timestamp **member, int64_t wall_us);

/* Returns a deep copy. */
ProtobufCMessage *ps_message_copy(const ProtobufCMessage *message);

/* Creates a QUEUED job with a copy of `spec`. */
Psgd__V1__Job *ps_job_create(const Psgd__V1__JobSpec *spec, int64_t wall_us);

/* Replaces the job's placements by the members, one for each rank. An id or address that is not
 * known yet is "". */
void ps_job_place(Psgd__V1__Job *job, const ps_member *members, size_t count);

/* Fills members (at most n_placements) from the job's placements. Returns their number. A worker
 * process with several ranks becomes one member. */
size_t ps_job_members(const Psgd__V1__Job *job, ps_member *members);

/* Sets one metric of the result. */
void ps_job_set_result(Psgd__V1__Job *job, const char *metric, double value);

/* Removes all metrics that programs have reported. */
void ps_progress_clear_program_metrics(Psgd__V1__Progress *progress);

/* Adds a metric that a program has reported. The progress must not have it yet. */
void ps_progress_add_program_metric(Psgd__V1__Progress *progress, const char *name, double value);

/* Adds a complete file to the job's list, or replaces the one of this name. */
void ps_job_add_artifact(Psgd__V1__Job *job, const char *name, Psgd__V1__ArtifactKind kind,
                         uint64_t size, const char *sha256, const char *node_id);

Psgd__V1__Progress *ps_job_progress(Psgd__V1__Job *job); /* creates the progress if there is none */

/* Return the word for a kind of file in manifest.json, such as "model"; and find the kind for a
 * word, or return false if there is none. */
const char *ps_artifact_kind_name(Psgd__V1__ArtifactKind kind);
bool ps_artifact_kind_find(const char *name, Psgd__V1__ArtifactKind *kind);

bool ps_state_is_final(Psgd__V1__JobState state);
const char *ps_state_name(Psgd__V1__JobState state);  /* "RUNNING" */
const char *ps_phase_text(Psgd__V1__NodePhase phase); /* "RUNNING" */

/* Writes the job's specification with the present numbers of workers and servers. Other members are
 * shared with the job, which owns them. */
void ps_job_spec_now(const Psgd__V1__Job *job, Psgd__V1__JobSpec *out);

#endif
