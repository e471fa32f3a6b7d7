/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.h - all plugins of this build, of all kinds, as one type.
 *
 * For code that treats all kinds alike: the check of a job's choices, and the list of plugins that
 * a server gives to its clients.
 */
#ifndef PS_COMMON_JOB_KINDS_H
#define PS_COMMON_JOB_KINDS_H

#include "common/base/param.h"

#include <stddef.h>

typedef struct ps_plugin {
    const char *name;
    const char *summary;
    const ps_param *params; /* NULL: takes none */
} ps_plugin;

typedef void ps_plugin_fn(const ps_plugin *plugin, void *arg);

typedef struct ps_kind {
    const char *name; /* "codec" */
    void (*each)(ps_plugin_fn *fn, void *arg);
} ps_kind;

extern const ps_kind ps_kind_assignment;
extern const ps_kind ps_kind_clip;
extern const ps_kind ps_kind_codec;
extern const ps_kind ps_kind_column;
extern const ps_kind ps_kind_consistency;
extern const ps_kind ps_kind_data;
extern const ps_kind ps_kind_exchange;
extern const ps_kind ps_kind_layer;
extern const ps_kind ps_kind_loss;
extern const ps_kind ps_kind_metric;
extern const ps_kind ps_kind_network;
extern const ps_kind ps_kind_optimizer;
extern const ps_kind ps_kind_schedule;
extern const ps_kind ps_kind_straggler;
extern const ps_kind ps_kind_table;
extern const ps_kind ps_kind_transform;
extern const ps_kind ps_kind_update;

/* All kinds, ordered by name. */
extern const ps_kind *const ps_kinds[];
extern const size_t ps_kind_count;

#endif
