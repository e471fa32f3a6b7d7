/* SPDX-License-Identifier: Apache-2.0 */
/* plan_impl.h - the steps of ps_plan_create, which check parts of a specification and resolve them.
 * Private to plan*.c and check_*.c.
 *
 * Functions that return bool return false after a report. Several depend on what others have
 * resolved: plan.c calls them in order.
 */
#ifndef PS_COMMON_JOB_PLAN_IMPL_H
#define PS_COMMON_JOB_PLAN_IMPL_H

#include "common/job/check.h"
#include "common/job/plan.h"

/* Checks spec.code, and opens it for the plan and the check. Before every choice. */
void ps_check_code(ps_check *check, ps_plan *plan);

/* Return a plugin by name: a script's or a built-in one; NULL: there is none. */
const ps_codec *ps_plan_codec(const ps_plan *plan, const char *name);
const ps_consistency *ps_plan_consistency(const ps_plan *plan, const char *name);
const ps_metric *ps_plan_metric(const ps_plan *plan, const char *name);
const ps_schedule *ps_plan_schedule(const ps_plan *plan, const char *name);
const ps_transform *ps_plan_transform(const ps_plan *plan, const char *name);

/* Checks the data set's shapes and limits. Fills plan->data_conf, data, facts and the counts. */
bool ps_check_data(ps_check *check, ps_plan *plan);

/* Checks the transforms, also against the assignment, which is resolved before. Fills
 * plan->feed_conf, and updates plan->facts where a transform changes samples. */
bool ps_check_transforms(ps_check *check, ps_plan *plan);

/* Checks layers and loss. Fills plan->layers, layer_count and loss. `facts` is NULL if the data set
 * is wrong; sizes are then not checked. */
bool ps_check_model(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* Models that users' programs compute. Names the data set of such a job if it has no name; before
 * its preset is applied. */
void ps_name_foreign_data(Psgd__V1__JobSpec *spec);
/* Checks that the data set is theirs and no other's; before the data. */
void ps_check_foreign_data(ps_check *check, const ps_plan *plan);
/* Checks the variables, and that nothing else of the model is given. Fills plan->loss, which nobody
 * computes. */
bool ps_check_foreign_variables(ps_check *check, ps_plan *plan);
/* Checks spec.programs, and sets it for such models. After the scalars. */
void ps_check_programs(ps_check *check, ps_plan *plan);
/* Reports what such models, and jobs with programs, cannot have. After everything else; does
 * nothing for others. */
void ps_check_foreign(ps_check *check, const ps_plan *plan);
/* Creates the model of the variables, without layers. */
PS_MUST_USE ps_status ps_plan_foreign_model(const ps_plan *plan, ps_model **out);

/* Jobs that compute. Names the data set of such a job if it has no name; before its preset is
 * applied. */
void ps_name_compute_data(Psgd__V1__JobSpec *spec);
/* Checks that such a job has a data set that code can read, and others have none of those. */
void ps_check_compute_data(ps_check *check, const ps_plan *plan);
/* Checks spec.compute and finds its code; reports what only training has. Fills the plan's compute,
 * compute_params and what every plan has. */
void ps_check_compute(ps_check *check, ps_plan *plan);
/* Removes from the specification of such a job the defaults of what it does not have. */
void ps_blank_training(Psgd__V1__JobSpec *spec);

/* Checks the metrics. After the model. */
void ps_check_metrics(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* Checks max_steps, max_seconds and epochs, and sets total_steps. Call it after batches_per_epoch
 * is set; 0 there means that it is unknown. */
void ps_check_bounds(ps_check *check, ps_plan *plan);

/* Checks stop_at. After the metrics. */
void ps_check_stop(ps_check *check, ps_plan *plan);

/* Checks whether evaluations can be split, if the spec asks for it. After everything else. */
void ps_check_split(ps_check *check, const ps_plan *plan);

/* Checks spec.model.table. If tables are on the servers, sets the rows of each embedding to the
 * most ids that a batch can have. Before sizes are checked. */
bool ps_check_table(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* Fills plan->tables. After the layout. */
void ps_check_tables_laid(ps_plan *plan);

/* Makes a sparse variable a table with a fixed vocabulary. Returns false if the job's tables grow.
 */
bool ps_check_table_fixed(ps_plan *plan, uint32_t variable);

/* Reports combinations with tables on servers that cannot work. After everything else. */
void ps_check_tables(ps_check *check, const ps_plan *plan);

/* Returns the number of a metric by its name: 0: the loss, i + 1: plan->metrics[i]; 0 after a
 * complaint. Writes whether less is better. */
size_t ps_check_metric(ps_check *check, const ps_plan *plan, const char *field, const char *name,
                       bool *is_cost);

/* Checks spec.trace and fills in its defaults. */
void ps_check_trace(ps_check *check, const ps_plan *plan);

/* Checks spec.tracker. */
void ps_check_trackers(ps_check *check, const ps_plan *plan);

/* Checks spec.checkpoint. After everything else. */
void ps_check_checkpoint(ps_check *check, ps_plan *plan);

/* Checks spec.recovery and fills in its defaults. After everything else. */
void ps_check_recovery(ps_check *check, ps_plan *plan);

/* Checks what a job or its tables start from: "job:ID", or a path below the data path; the job also
 * "checkpoint:ID@STEP". */
void ps_check_init(ps_check *check, const char *field, const char *from, bool may_be_empty);

/* Checks the update and its local rule, and sets the optimizer's defaults that the update changes.
 * Before the optimizer. */
void ps_check_update(ps_check *check, ps_plan *plan);

/* Checks schedule, penalties and clipping. Fills plan->descent, local_descent, clip and
 * clip_params. After ps_check_local. */
void ps_check_descent(ps_check *check, ps_plan *plan);

/* Reports combinations with local steps that cannot work, and sets total_clocks for every update.
 * After everything else. */
void ps_check_local(ps_check *check, ps_plan *plan);

/* Checks the name and numbers of the exchange. Fills plan->mesh and mesh_params. Before everything
 * else, because it decides whether there are servers. */
void ps_check_exchange(ps_check *check, ps_plan *plan);

/* Reports combinations with a mesh that cannot work. After everything else. */
void ps_check_mesh(ps_check *check, ps_plan *plan);

/* Checks the codecs, also those of single variables. After the layout, whose variables they name.
 */
void ps_check_codecs(ps_check *check, ps_plan *plan);

#endif
