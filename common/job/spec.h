/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - copies, changes and merges JobSpec messages.
 *
 * All specs here come from malloc, as protobuf-c unpacks them, and end in ps_spec_free. Pure; any
 * thread.
 */
#ifndef PS_COMMON_JOB_SPEC_H
#define PS_COMMON_JOB_SPEC_H

#include "common/base/status.h"

#include "psgd/v1/spec.pb-c.h"

/* Called for each wrong field. `field` is its path, which begins with "spec"; `text` says the value
 * and what is allowed. */
typedef void ps_violate_fn(void *arg, const char *field, const char *text);

/* Returns a copy; the caller frees it by ps_spec_free. */
Psgd__V1__JobSpec *ps_spec_copy(const Psgd__V1__JobSpec *spec);

/* Frees a spec with its members. NULL is allowed. */
void ps_spec_free(Psgd__V1__JobSpec *spec);

/* Creates, empty, those of these messages that are unset: model, data, optimizer, codec, timeouts,
 * recovery, and the choices of the job, but not those in lists and not optimizer.local. Messages
 * that only some jobs have, as stop_at or checkpoint, stay unset. */
void ps_spec_complete(Psgd__V1__JobSpec *spec);

/* Moves fields from `under` to `spec` that `spec` leaves unset: 0 or empty, as in proto3. Three are
 * not merged, so that `spec` keeps its own: a list that has elements; the numbers of a choice that
 * names another plugin, unless both are assignments with the number `redundancy`; all of a data set
 * with another name, or a model with another preset. A model given by its layers takes only the
 * loss from `under`, and one given by its variables (foreign) takes nothing. */
void ps_spec_underlay(Psgd__V1__JobSpec *spec, Psgd__V1__JobSpec *under);

/* Replaces a string of a message by a copy of `text`, and frees the old one. */
void ps_spec_set(char **field, const char *text);

/* Adds what the spec's preset sets and the spec leaves out, but for the epochs of a preset where
 * the spec has max_steps or max_seconds. Does nothing if no preset has that name. */
void ps_spec_apply_preset(Psgd__V1__JobSpec *spec);

/* Returns whether the update of the job lets workers step by optimizer.local; its preset counts. */
bool ps_spec_steps_locally(const Psgd__V1__JobSpec *spec);

/* Returns false if the job's exchange is one among workers, else true; its preset counts. */
bool ps_spec_has_servers(const Psgd__V1__JobSpec *spec);

/* Returns whether an assignment of this name has the number `redundancy`. Such assignments share
 * it: whoever names another one keeps the copies of a block. */
bool ps_assign_has_redundancy(const char *name);

/* Frees a choice with its members. NULL is allowed. */
void ps_choice_free(Psgd__V1__Choice *choice);

/* Returns the spec of a preset's JSON; the caller frees it by ps_spec_free. Aborts on wrong JSON:
 * a test reads all presets. */
Psgd__V1__JobSpec *ps_spec_of_preset(const char *json);

#endif
