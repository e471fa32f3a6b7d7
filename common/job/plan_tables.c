/* SPDX-License-Identifier: Apache-2.0 */
/* plan_tables.c - what a plan says of tables: what follows from a fixed vocabulary, initial files,
 * sizes of messages, names of files. */
#include "common/base/files.h"
#include "common/job/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint32_t ps_plan_table_files(const ps_plan *plan)
{
    return plan->table_rows != NULL ? plan->table_count : 0;
}

uint32_t ps_plan_first_rows(const ps_plan *plan, uint32_t table)
{
    return plan->table_rows != NULL ? 0 : plan->tables[table].rows;
}

size_t ps_table_inits(const ps_plan *plan, char *const **out)
{
    const Psgd__V1__JobSpec *spec = plan->spec;
    bool is_of_job = spec->n_init_tables == 0 && ps_init_from_job(spec->init_from) != NULL;

    *out = is_of_job ? (char *const *)&spec->init_from : (char *const *)spec->init_tables;
    return plan->table_rows == NULL ? 0 : is_of_job ? 1 : spec->n_init_tables;
}

size_t ps_table_keys_of_message(const ps_plan *plan)
{
    /* an encoding may take 8 bytes more than its float32 values */
    size_t width = 0, most, room = 8 * (PS_ROW_GROUPS_MAX + plan->table_count + 64);
    size_t groups = PS_ROW_GROUPS_MAX / (plan->table_count + !plan->table_count);

    for (uint32_t i = 0; i < plan->table_count; i++) {
        width += plan->table_rows != NULL ? plan->tables[i].width : 0;
        width = plan->tables[i].width > width ? plan->tables[i].width : width;
    }
    most = ((1 << 20) - room) / (width * sizeof(float));
    most = most < PS_TABLE_KEYS ? most : PS_TABLE_KEYS;
    return plan->table_rows == NULL || groups >= PS_SHARDS || most < groups ? most : groups;
}

void ps_table_file_name(const ps_plan *plan, uint32_t table, uint32_t rank, char *name, size_t cap)
{
    snprintf(name, cap, "MODEL-%s-N(ps%u).table%u" PS_TABLE_FILE_ENDING, plan->spec->title, rank,
             table);
}

void ps_table_saved_name(const ps_plan *plan, uint32_t table, uint32_t rank, uint64_t step,
                         char *name, size_t cap)
{
    size_t n;

    ps_table_file_name(plan, table, rank, name, cap);
    n = strlen(name);
    snprintf(name + n, cap - n, ".step%" PRIu64, step);
}

bool ps_table_is_saved_name(const ps_plan *plan, uint32_t table, uint32_t rank, const char *name)
{
    char whole[PS_NAME_MAX + 1];
    size_t n;

    ps_table_file_name(plan, table, rank, whole, sizeof whole);
    n = strlen(whole);
    return strncmp(name, whole, n) == 0 && strncmp(name + n, ".step", 5) == 0 &&
           name[n + 5] != '\0' && strspn(name + n + 5, "0123456789") == strlen(name + n + 5);
}
