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

/* Checks spec.code, and opens its scripts for the plan and the check. Before every check of a
 * choice. */
void ps_check_code(ps_check *check, ps_plan *plan);

/* Return a plugin by name: one of the job's code or a built-in one; NULL: there is none. */
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

/* Checks layers, loss, model.table and sizes. Fills plan->layers, layer_count, loss, outputs,
 * layout and, if tables grow, the members of tables. `facts` is NULL if the data set is wrong;
 * sizes are then not checked, and outputs, layout and tables stay empty. */
bool ps_check_model(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* Names the data set of a job whose model users' programs compute (model.foreign), if it has no
 * name. Before its preset is applied. */
void ps_name_foreign_data(Psgd__V1__JobSpec *spec);
/* Checks that a job with model.foreign has the data set PS_DATA_FOREIGN, and that no other job has
 * it. Before ps_check_data. */
void ps_check_foreign_data(ps_check *check, const ps_plan *plan);
/* Checks the variables of model.foreign, and that nothing else of the model is given. Sets
 * plan->loss, which nobody computes. Returns false after a report. */
bool ps_check_foreign_variables(ps_check *check, ps_plan *plan);
/* Checks spec.programs, and sets it to all workers for a job with model.foreign. After the scalars,
 * such as spec.workers. */
void ps_check_programs(ps_check *check, ps_plan *plan);
/* Reports what jobs with model.foreign, and other jobs with programs, cannot have; does nothing for
 * other jobs. After all other checks. */
void ps_check_foreign(ps_check *check, const ps_plan *plan);
/* Creates a model without layers that has the variables of model.foreign. */
PS_MUST_USE ps_status ps_plan_foreign_model(const ps_plan *plan, ps_model **out);

/* Names the data set of a job that computes (spec.compute), if it has no name. Before presets are
 * applied. */
void ps_name_compute_data(Psgd__V1__JobSpec *spec);
/* Checks that a job that computes has a data set that its code can read, and that no other job has
 * one of those. */
void ps_check_compute_data(ps_check *check, const ps_plan *plan);
/* Checks spec.compute and finds its code; reports fields that only jobs that train may have. Sets
 * plan->compute, compute_params and the members that every plan has. */
void ps_check_compute(ps_check *check, ps_plan *plan);
/* Removes from the specification of a job that computes the defaults of fields that only training
 * has. */
void ps_blank_training(Psgd__V1__JobSpec *spec);

/* Checks the metrics. After the model. */
void ps_check_metrics(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* Checks max_steps, max_seconds and epochs, and sets total_steps. Call it after batches_per_epoch
 * is set; 0 there means that it is unknown. */
void ps_check_bounds(ps_check *check, ps_plan *plan);

/* Checks stop_at. After the metrics. */
void ps_check_stop(ps_check *check, ps_plan *plan);

/* Checks whether evaluations can be split, if the spec asks for it and no error was reported so
 * far. After choices and codecs. */
void ps_check_split(ps_check *check, const ps_plan *plan);

/* Checks spec.model.table. If tables are on the servers, sets the rows of each embedding to the
 * most ids that a batch can have. Before sizes are checked. */
bool ps_check_table(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* Fills plan->tables. After the layout. */
void ps_check_tables_laid(ps_plan *plan);

/* Makes a sparse variable a table with a fixed vocabulary. Returns false, and does nothing, if the
 * job's tables grow.
 */
bool ps_check_table_fixed(ps_plan *plan, uint32_t variable);

/* Checks init_tables, and reports combinations with tables that grow which cannot work. After
 * choices and codecs. */
void ps_check_tables(ps_check *check, const ps_plan *plan);

/* Returns the number of the metric `name`: 0: the loss, i + 1: plan->metrics[i]; 0 after a report.
 * Sets *is_cost to whether a smaller value is better. */
size_t ps_check_metric(ps_check *check, const ps_plan *plan, const char *field, const char *name,
                       bool *is_cost);

/* Checks spec.trace and fills in its defaults. */
void ps_check_trace(ps_check *check, const ps_plan *plan);

/* Checks spec.tracker. */
void ps_check_trackers(ps_check *check, const ps_plan *plan);

/* Checks spec.checkpoint, and whether the job can go on from a checkpoint that init_from names.
 * After choices, codecs and what local steps, meshes and tables exclude. */
void ps_check_checkpoint(ps_check *check, ps_plan *plan);

/* Checks spec.recovery, workers_min and workers_max, and fills in the defaults of spec.recovery.
 * After ps_check_checkpoint, or without training after the assignment. */
void ps_check_recovery(ps_check *check, ps_plan *plan);

/* Checks `from`, which a job (init_from) or its tables (init_tables) start from: "job:ID", or a
 * path below the data path. If may_be_empty, which is so for init_from, "" and "checkpoint:ID@STEP"
 * are allowed too. */
void ps_check_init(ps_check *check, const char *field, const char *from, bool may_be_empty);

/* Checks the update and its local rule, and sets the optimizer's defaults that the update changes.
 * Before the optimizer. */
void ps_check_update(ps_check *check, ps_plan *plan);

/* Checks schedule, penalties and clipping. Fills plan->descent, local_descent, clip and
 * clip_params. After ps_check_local. */
void ps_check_descent(ps_check *check, ps_plan *plan);

/* Reports combinations with local steps that cannot work, and sets total_clocks for every update.
 * After choices, codecs and ps_check_bounds. */
void ps_check_local(ps_check *check, ps_plan *plan);

/* Checks the name and numbers of the exchange. Fills plan->mesh and mesh_params. First of a job
 * that trains, because it decides whether there are servers. */
void ps_check_exchange(ps_check *check, ps_plan *plan);

/* Reports combinations with a mesh that cannot work. Fills plan->mesh_parts and by_worker. After
 * choices and codecs. */
void ps_check_mesh(ps_check *check, ps_plan *plan);

/* Checks the codecs, also those of single variables, and fits them to the variables. Fills
 * plan->up, down, by_matrix and table_of, and plan->tables if vocabularies are fixed. After the
 * layout, whose variables they name, and the update. */
void ps_check_codecs(ps_check *check, ps_plan *plan);

#endif
