/* SPDX-License-Identifier: Apache-2.0 */
/* job_message.h - building and changing messages whose memory is malloc's, so that
 * protobuf_c_message_free_unpacked(m, NULL) frees them whole. Pure.
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

/* Sets a member of that type, making it if it is NULL. */
void ps_time_set(Google__Protobuf__Timestamp **member, int64_t wall_us);

/* A deep copy. */
ProtobufCMessage *ps_message_copy(const ProtobufCMessage *message);

/* A QUEUED job of a copy of `spec`. */
Psgd__V1__Job *ps_job_create(const Psgd__V1__JobSpec *spec, int64_t wall_us);

/* Replaces the placements by the members that have an id or an address. */
void ps_job_place(Psgd__V1__Job *job, const ps_member *members, size_t count);

/* Fills members (n_placements at most) with what the job's placements say and returns how many
 * there are: workers that carry several ranks are one member. */
size_t ps_job_members(const Psgd__V1__Job *job, ps_member *members);

/* Sets one metric of the result. */
void ps_job_set_result(Psgd__V1__Job *job, const char *metric, double value);

/* Lists a complete file; one of the same name is replaced. */
void ps_job_add_artifact(Psgd__V1__Job *job, const char *name, Psgd__V1__ArtifactKind kind,
                         uint64_t size, const char *sha256, const char *node_id);

Psgd__V1__Progress *ps_job_progress(Psgd__V1__Job *job); /* made if it is not there */

/* The word for a kind in manifest.json: "model". Reading it: false if it is none. */
const char *ps_artifact_kind_name(Psgd__V1__ArtifactKind kind);
bool ps_artifact_kind_find(const char *name, Psgd__V1__ArtifactKind *kind);

bool ps_state_is_final(Psgd__V1__JobState state);
const char *ps_state_name(Psgd__V1__JobState state);  /* "RUNNING" */
const char *ps_phase_text(Psgd__V1__NodePhase phase); /* "RUNNING" */

#endif
