/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - fields of a specification, one at a time: checked, defaults filled in.
 *
 * For common/job alone. A wrong field is told to the checker and counted;
 * checking goes on, so that everything wrong is told at once.
 */
#ifndef PS_COMMON_JOB_CHECK_H
#define PS_COMMON_JOB_CHECK_H

#include "common/job/kinds.h"
#include "common/job/plan.h"

enum { PS_FIELD_MAX = 96 }; /* bytes of a path */

typedef struct ps_check {
    ps_violate_fn *violate; /* (optional) */
    void *arg;
    size_t count;
    char first[PS_FIELD_MAX + 512 + 2]; /* path and text of the first one, for a status */
} ps_check;

/* `text` says the value and what is allowed: "is 0; 1 to 64 are allowed". */
PS_PRINTF(3, 4) void ps_check_bad(ps_check *check, const char *field, const char *fmt, ...);

/* 0 becomes the default; must then be within [min, max]. */
void ps_check_u32(ps_check *check, const char *field, uint32_t *value, uint32_t value_default,
                  uint32_t min, uint32_t max);
void ps_check_u64(ps_check *check, const char *field, uint64_t *value, uint64_t value_default,
                  uint64_t min, uint64_t max);

/* "" becomes the default; must then be a plugin of the kind. */
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

/* The data set: names resolved, numbers and files checked, defaults filled in. */
bool ps_check_data_conf(ps_check *check, Psgd__V1__DataSpec *spec, ps_data_conf *conf);

/* Its shapes, and the limits; fills plan->data_conf, data, facts and the counts. */
bool ps_check_data(ps_check *check, ps_plan *plan);

/* The transforms, and whether they go with the assignment, which is resolved; fills
 * plan->feed_conf and, as some change what samples are, plan->facts. */
bool ps_check_transforms(ps_check *check, ps_plan *plan);

/* Model, loss and their layers; fills plan->layers, layer_count and loss.
 * `facts` is NULL when the data set is not known: then sizes are not checked. */
bool ps_check_model(ps_check *check, ps_plan *plan, const ps_data_facts *facts);

/* The metrics, after the model. */
void ps_check_metrics(ps_check *check, ps_plan *plan, const ps_data_facts *facts);
/* Whether evaluations can be split as the spec wants; after everything else. */
void ps_check_split(ps_check *check, const ps_plan *plan);

/* Whether embeddings' tables live on the servers: gives the layers as many rows as a batch can
 * have ids; before sizes are looked at. Then, of the layout; then, after everything else, what
 * they cannot go together with. */
bool ps_check_table(ps_check *check, ps_plan *plan, const ps_data_facts *facts);
void ps_check_tables_laid(ps_plan *plan);
void ps_check_tables(ps_check *check, const ps_plan *plan);

/* What a job or its tables start from: a job, or a path below the data path. */
void ps_check_init(ps_check *check, const char *field, const char *from, bool may_be_empty);

/* The update, its rule for local steps, and what it makes of the defaults of
 * the optimizer; before the optimizer. */
void ps_check_update(ps_check *check, ps_plan *plan);

/* Schedule, penalties and clipping; after ps_check_local. Fills plan->descent,
 * local_descent, clip and clip_params. */
void ps_check_descent(ps_check *check, ps_plan *plan);

/* What an update with local steps cannot go together with; after everything
 * else. Sets total_clocks, for all updates. */
void ps_check_local(ps_check *check, ps_plan *plan);

/* The exchange by name, before all else: it says whether there are servers. Fills plan->mesh and
 * mesh_params. */
void ps_check_exchange(ps_check *check, ps_plan *plan);
/* What an exchange among workers cannot go together with; after everything else. */
void ps_check_mesh(ps_check *check, ps_plan *plan);

/* The codecs, exceptions included; after the layout, whose variables they name. */
void ps_check_codecs(ps_check *check, ps_plan *plan);

#endif
