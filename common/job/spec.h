/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - a JobSpec as memory: copied, changed, laid over another.
 *
 * For common/job, and whoever changes a copy of one. All specs here are malloc's,
 * as protobuf-c unpacks them, and end in ps_spec_free.
 */
#ifndef PS_COMMON_JOB_SPEC_H
#define PS_COMMON_JOB_SPEC_H

#include "common/base/status.h"

#include "psgd/v1/job.pb-c.h"

Psgd__V1__JobSpec *ps_spec_copy(const Psgd__V1__JobSpec *spec);
void ps_spec_free(Psgd__V1__JobSpec *spec); /* NULL is allowed */

/* Every message that is not there is made, empty. */
void ps_spec_complete(Psgd__V1__JobSpec *spec);

/* What `spec` leaves out is taken from `under`, which loses it. A choice of
 * another name, or a list, is kept or taken as a whole. */
void ps_spec_underlay(Psgd__V1__JobSpec *spec, Psgd__V1__JobSpec *under);

/* Replaces a string of a message. */
void ps_spec_set(char **field, const char *text);

/* What a preset's JSON gives is laid under the spec; without a preset of that
 * name nothing happens. */
void ps_spec_apply_preset(Psgd__V1__JobSpec *spec);

/* Returns whether the workers of the job step by optimizer.local; its preset counts. */
bool ps_spec_steps_locally(const Psgd__V1__JobSpec *spec);

/* Returns whether the job's exchange goes through servers; its preset counts. */
bool ps_spec_has_servers(const Psgd__V1__JobSpec *spec);

/* Returns whether an assignment of this name has the number `redundancy`. Such assignments share
 * it: whoever names another one keeps the copies of a block. */
bool ps_assign_has_redundancy(const char *name);

void ps_choice_free(Psgd__V1__Choice *choice); /* NULL is allowed */

/* The spec of a preset. Aborts if the table is wrong: a test sees to that. */
Psgd__V1__JobSpec *ps_spec_of_preset(const char *json);

#endif
