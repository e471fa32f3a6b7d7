/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - checks the fields of a specification and fills in their defaults. For common/job only.
 *
 * ps_check_bad reports and counts a wrong field. Checking then goes on, so that the user learns of
 * all wrong fields at once. Functions that return bool return false after a report. Several depend
 * on what others have resolved: plan.c calls them in order.
 */
#ifndef PS_COMMON_JOB_CHECK_H
#define PS_COMMON_JOB_CHECK_H

#include "common/job/kinds.h"
#include "common/job/plan.h"

enum { PS_FIELD_MAX = 96 }; /* bytes of a path */

typedef struct ps_check {
    ps_violate_fn *violate; /* (optional) */
    void *arg;
    const Psgd__V1__JobSpec *given; /* (optional) before its preset was laid under it */
    size_t count;
    char first[PS_FIELD_MAX + 512 + 2]; /* path and text of the first report, for a status */
} ps_check;

/* Reports a wrong field. The text says the value and what is allowed: "is 0; 1 to 64 are allowed".
 */
PS_PRINTF(3, 4) void ps_check_bad(ps_check *check, const char *field, const char *fmt, ...);

/* Replaces 0 by the default and checks that the value is within [min, max]. */
void ps_check_u32(ps_check *check, const char *field, uint32_t *value, uint32_t value_default,
                  uint32_t min, uint32_t max);
void ps_check_u64(ps_check *check, const char *field, uint64_t *value, uint64_t value_default,
                  uint64_t min, uint64_t max);

/* Replaces "" by the default and checks that a plugin of the kind has this name. */
bool ps_check_plugin(ps_check *check, const char *field, const ps_kind *kind, char **name,
                     const char *name_default);

/* Checks the numbers that `message` gives (its field `params`, see numbers.h) against the table of
 * a plugin. Writes *params in the order of the table, with defaults for those left out, and then
 * stores all of them in the message. The path of a number is "field.params.KEY". Returns false,
 * after an error for each wrong number, and leaves the message as it was. */
bool ps_check_numbers(ps_check *check, const char *field, const ps_param *table,
                      ProtobufCMessage *message, ps_params *params);

/* Checks name and numbers of a choice: ps_check_plugin and ps_check_numbers. */
bool ps_check_choice(ps_check *check, const char *field, const ps_kind *kind,
                     Psgd__V1__Choice *choice, const char *name_default, ps_params *params);

/* Checks the data set's specification: names, numbers, files and columns. Fills *conf. */
bool ps_check_data_conf(ps_check *check, Psgd__V1__DataSpec *spec, ps_data_conf *conf);

/* Checks the data set's shapes and limits. Fills plan->data_conf, data, facts and the counts. */
bool ps_check_data(ps_check *check, ps_plan *plan);

/* Checks the transforms, also against the assignment, which is resolved before. Fills
 * plan->feed_conf, and updates plan->facts where a transform changes samples. */
bool ps_check_transforms(ps_check *check, ps_plan *plan);

/* Checks layers and loss. Fills plan->layers, layer_count and loss. `facts` is NULL if the data set
 * is wrong; sizes are then not checked. */
bool ps_check_model(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

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

/* Reports combinations with tables on servers that cannot work. After everything else. */
void ps_check_tables(ps_check *check, const ps_plan *plan);

/* Checks what a job or its tables start from: "job:ID", or a path below the data path. */
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
