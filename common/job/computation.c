/* SPDX-License-Identifier: Apache-2.0 */
/* computation.c - see computation.h. */
#include "common/job/computation.h"

#include "common/base/draw.h"

#include <stdio.h>
#include <string.h>

enum { RESULT_US = 600 * 1000 * 1000 };

void ps_compute_part(const ps_plan *plan, const ps_dataset *data, uint32_t part, ps_partition *out)
{
    const Psgd__V1__ComputeSpec *spec = plan->spec->compute;
    size_t bytes = 0;
    const char *text = ps_dataset_text(data, &bytes);

    *out = (ps_partition){.number = part + 1,
                          .count = spec->partitions,
                          .key = ps_draw_key(plan->spec->seed, PS_DRAW_PARTITION, part, 0, 0)};
    if (text != NULL) {
        ps_part_lines(text, bytes, part, spec->partitions, out);
    } else {
        ps_part_range(spec->from, spec->to, part, spec->partitions, out);
    }
}

ps_sandbox_budget ps_compute_budget(const ps_plan *plan)
{
    const Psgd__V1__ComputeSpec *spec = plan->spec->compute;

    return (ps_sandbox_budget){.instructions = spec->instructions,
                               .memory = (uint64_t)spec->memory_mib << 20,
                               .time_us = (uint64_t)(spec->seconds * 1e6)};
}

void ps_compute_result_name(const ps_plan *plan, char *name, size_t cap)
{
    snprintf(name, cap, "RESULT-%s.%s", plan->spec->title, plan->spec->compute->format);
}

ps_result_conf ps_compute_result(const ps_plan *plan, const char *folder)
{
    const Psgd__V1__ComputeSpec *spec = plan->spec->compute;

    return (ps_result_conf){.script = plan->compute,
                            .budget = ps_compute_budget(plan),
                            .numbers = plan->compute_params.v,
                            .folder = folder,
                            .parts = spec->partitions,
                            .servers = plan->spec->pservers,
                            .is_json = strcmp(spec->format, "json") == 0,
                            .columns = (const char *const *)spec->columns,
                            .column_count = spec->n_columns,
                            .within_us = RESULT_US};
}
