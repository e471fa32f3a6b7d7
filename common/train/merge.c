/* SPDX-License-Identifier: Apache-2.0 */
/* merge.c - see merge.h. */
#include "common/train/merge.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/job/table_numbers.h"
#include "common/store/tables_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static ps_delay delay_of(const ps_plan *plan)
{
    ps_delay delay = {0};

    if (plan->update->delay != NULL) {
        plan->update->delay(&plan->update_params, &delay.lambda, &delay.decay);
    }
    return delay;
}

/* Returns the codec of a variable's gradients when a shard receives them. A variable that is sent
 * as a matrix is decoded before that, to float32. */
static ps_codec_choice came_as(const ps_plan *plan, uint32_t variable)
{
    ps_codec_choice up = plan->up[variable];

    if (plan->by_matrix[variable]) {
        up.codec = ps_codec_find("f32");
        up.params = ps_params_default(up.codec->params);
    }
    return up;
}

/* Makes the configuration of a store of these slices. The caller frees conf.slices. */
static ps_store_conf store_conf(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                                const float *weights, ps_tables *tables)
{
    const ps_assignment *a = plan->assignment;
    bool per_block = plan->update->per_block;
    ps_store_slice *list = ps_xcalloc((size_t)count + 1, sizeof *list);
    ps_store_conf conf = {
        .workers = plan->spec->workers,
        .contributors = per_block ? a->block_count : plan->spec->workers,
        .held_count = per_block ? a->held_count : NULL,
        .held = per_block ? (const uint32_t *const *)a->held : NULL,
        .policy = plan->policy,
        .policy_params = plan->policy_params,
        .descent = plan->optim_on_server ? plan->descent : (ps_descent){0},
        .merge_scale = plan->update->merge_scale(&plan->update_facts),
        .seed = plan->spec->seed,
        .delay = delay_of(plan),
        .broadcasts = plan->update->broadcasts,
        .slice_count = count,
        .slices = list,
        .weights = weights,
        .tables = tables,
        .workers_have_rows = ps_plan_ranks_have_rows(plan),
        .job = ps_plan_hash(plan),
    };

    for (uint32_t i = 0; i < count; i++) {
        const ps_slice *slice = &plan->layout.slices[slices[i]];
        const ps_variable *var = &plan->layout.variables[slice->variable];
        const ps_codec_choice *down = &plan->down[slice->variable];
        ps_codec_choice up = came_as(plan, slice->variable);
        /* number of the slice's table, which has a fixed vocabulary because tables that grow have
         * no slices; PS_NO_TABLE: the variable is dense */
        uint32_t t = plan->table_of[slice->variable];

        list[i] = (ps_store_slice){
            .index = slice->index,
            .n = slice->n,
            .up = up.codec,
            .up_params = up.params,
            .down = down->codec,
            .down_params = down->params,
            .is_state = var->is_state,
        };
        if (t != PS_NO_TABLE) {
            list[i].row = plan->tables[t].width;
            list[i].table = t;
            list[i].first_row = (slice->at - var->at) / plan->tables[t].width;
        }
    }
    return conf;
}

static ps_tables *fixed_tables(const ps_plan *plan, const uint32_t *slices, uint32_t count);

ps_store *ps_merge_store(const ps_plan *plan, const uint32_t *slices, uint32_t count,
                         const float *weights, ps_tables *tables)
{
    ps_store_conf conf = store_conf(plan, slices, count, weights,
                                    tables != NULL ? tables : fixed_tables(plan, slices, count));
    ps_store *store = ps_store_create(&conf);

    free((void *)(uintptr_t)conf.slices);
    return store;
}

bool ps_merge_may_overtake(const ps_plan *plan)
{
    return plan->policy->leaves_behind ||
           (plan->update->per_block && plan->update_facts.redundancy > 1 &&
            plan->policy->is_deterministic);
}

/* ---- Tables ---- */

/* Which parts of servers have which rows of tables. */
typedef struct rows_place {
    uint32_t (*part_of)(const ps_plan *plan, const ps_placement *placement, uint32_t table,
                        uint64_t key);
    bool (*has_rows)(const ps_plan *plan, const ps_placement *placement, uint32_t part);
    bool is_followed; /* each worker has all rows, and servers send it those that change */
} rows_place;

static uint32_t part_of_shard(const ps_plan *plan, const ps_placement *placement, uint32_t table,
                              uint64_t key)
{
    (void)plan;
    (void)table;
    return placement->first_part[placement->server_of_shard[ps_table_shard_of(key)]];
}

static bool is_first_part(const ps_plan *plan, const ps_placement *placement, uint32_t part)
{
    (void)plan;
    return placement->parts[part].thread == 0;
}

/* Tables that grow: the first part of each server has all rows of that server. */
static const rows_place by_shard = {.part_of = part_of_shard, .has_rows = is_first_part};

static uint32_t part_of_slice(const ps_plan *plan, const ps_placement *placement, uint32_t table,
                              uint64_t key)
{
    const ps_plan_table *t = &plan->tables[table];

    return placement->part_of[plan->layout.first_slice[t->variable] +
                              (uint32_t)key / t->slice_rows]; /* a key is below 2^24 */
}

static bool has_slices(const ps_plan *plan, const ps_placement *placement, uint32_t part)
{
    const ps_part *p = &placement->parts[part];
    bool has = false;

    for (uint32_t i = 0; i < p->owned_count && !has; i++) {
        has = plan->table_of[plan->layout.slices[p->owned[i]].variable] != PS_NO_TABLE;
    }
    return has;
}

/* Tables with a fixed vocabulary: each part has the rows of its slices. */
static const rows_place by_slice = {
    .part_of = part_of_slice, .has_rows = has_slices, .is_followed = true};

static const rows_place *place_of(const ps_plan *plan)
{
    return ps_plan_table_files(plan) > 0 ? &by_shard : &by_slice;
}

uint32_t ps_merge_part_of(const ps_plan *plan, const ps_placement *placement, uint32_t table,
                          uint64_t key)
{
    return place_of(plan)->part_of(plan, placement, table, key);
}

bool ps_merge_rows_are_followed(const ps_plan *plan)
{
    return place_of(plan)->is_followed;
}

bool ps_merge_rows_are_asked_for(const ps_plan *plan)
{
    return plan->table_count > 0 && !ps_merge_rows_are_followed(plan);
}

bool ps_merge_has_rows(const ps_plan *plan, const ps_placement *placement, uint32_t part)
{
    return place_of(plan)->has_rows(plan, placement, part);
}

/* Returns the settings of a table that do not depend on whether it grows or has a fixed vocabulary.
 * `owned` marks the virtual shards whose rows the table has. */
static ps_table_conf common_conf(const ps_plan *plan, uint32_t table, const bool *owned)
{
    const ps_optim *optim = plan->optim_on_server ? plan->descent.optim : &ps_table_as_is;
    ps_table_conf conf = ps_table_conf_default(plan->tables[table].width, optim);

    conf.table = table;
    conf.seed = plan->spec->seed;
    conf.optim_params = plan->descent.params;
    conf.key_end = plan->tables[table].rows;
    conf.owned = owned;
    return conf;
}

/* Creates the tables with a fixed vocabulary, still without rows, for the virtual shards of these
 * slices. Returns NULL if no slice belongs to a table. */
static ps_tables *fixed_tables(const ps_plan *plan, const uint32_t *slices, uint32_t count)
{
    ps_table_conf *tables = ps_xcalloc(plan->table_count + 1u, sizeof *tables);
    ps_tables_conf conf = {.table_count = plan->table_count, .tables = tables};
    bool owned[PS_SHARDS] = {false}, has_any = false;
    ps_tables *made = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const ps_slice *slice = &plan->layout.slices[slices[i]];

        if (plan->table_of[slice->variable] != PS_NO_TABLE) {
            owned[slice->shard] = has_any = true;
        }
    }
    for (uint32_t i = 0; i < plan->table_count; i++) {
        tables[i] = common_conf(plan, i, owned);
        tables[i].slice_rows = plan->tables[i].slice_rows;
        tables[i].first_slice = plan->layout.first_slice[plan->tables[i].variable];
        tables[i].unseen_max = 0; /* rows of a fixed vocabulary are never removed */
        tables[i].rows_max = UINT32_MAX - 1;
        conf.keys_max = tables[i].key_end > conf.keys_max ? plan->tables[i].rows : conf.keys_max;
    }
    if (has_any) {
        made = ps_tables_create(&conf);
    }
    free(tables);
    return made;
}

static ps_table_conf growing_conf(const ps_plan *plan, uint32_t table, const bool *owned)
{
    const double *numbers = plan->table_params.v;
    ps_table_conf conf = common_conf(plan, table, owned);

    conf.init_bound = plan->tables[table].init_bound;
    conf.admission = numbers[PS_TABLE_ADMIT_COUNT] > 1         ? PS_ADMIT_COUNT
                     : numbers[PS_TABLE_ADMIT_PROBABILITY] < 1 ? PS_ADMIT_PROBABILITY
                                                               : PS_ADMIT_ALL;
    conf.admit_probability = numbers[PS_TABLE_ADMIT_PROBABILITY];
    conf.admit_count = (uint32_t)numbers[PS_TABLE_ADMIT_COUNT];
    conf.decay = (float)numbers[PS_TABLE_DECAY];
    conf.unclicked = (float)numbers[PS_TABLE_UNCLICKED];
    conf.clicked = (float)numbers[PS_TABLE_CLICKED];
    conf.least_score = (float)numbers[PS_TABLE_LEAST_SCORE];
    conf.unseen_max = (uint32_t)numbers[PS_TABLE_UNSEEN];
    conf.rows_max = (uint64_t)numbers[PS_TABLE_ROWS];
    conf.values_only = numbers[PS_TABLE_KEEPS_STATE] == 0;
    conf.saves_changes = numbers[PS_TABLE_SAVES_CHANGES] != 0;
    return conf;
}

/* Creates the tables that grow, for the virtual shards of a server; if placement is NULL, for all
 * virtual shards. values_only: their files need not have the optimizer's state, even if the job
 * keeps it. */
static ps_tables *make_tables(const ps_plan *plan, const ps_placement *placement, uint32_t server,
                              bool values_only)
{
    ps_table_conf *tables = ps_xcalloc(plan->table_count, sizeof *tables);
    bool owned[PS_SHARDS];
    ps_tables_conf conf = {
        .table_count = plan->table_count,
        .tables = tables,
        .keys_max = plan->table_keys,
        .tick = (uint64_t)plan->table_params.v[PS_TABLE_TICK],
    };
    ps_tables *made;

    for (uint32_t i = 0; i < PS_SHARDS; i++) {
        owned[i] = placement == NULL || placement->server_of_shard[i] == server;
    }
    for (uint32_t i = 0; i < plan->table_count; i++) {
        tables[i] = growing_conf(plan, i, owned);
        tables[i].values_only = tables[i].values_only || values_only;
    }
    made = ps_tables_create(&conf);
    free(tables);
    return made;
}

ps_tables *ps_merge_tables(const ps_plan *plan, const ps_placement *placement, uint32_t server)
{
    return ps_plan_table_files(plan) > 0 ? make_tables(plan, placement, server, false) : NULL;
}

ps_tables *ps_merge_values(const ps_plan *plan)
{
    return make_tables(plan, NULL, 0, true);
}

static ps_status read_head(ps_tables_files *files, const char *path)
{
    uint8_t head[PS_TABLE_HEAD_BYTES];
    int fd = -1;
    ps_status st = ps_file_open(path, &fd, NULL);
    ssize_t n;

    if (!ps_is_ok(&st)) {
        return st;
    }
    n = read(fd, head, sizeof head);
    st = n < 0 ? ps_fail_errno(errno, "read") : ps_tables_files_see(files, head, (size_t)n);
    close(fd);
    return ps_wrap(st, "%s", PS_PATH_SHOWN(path));
}

static ps_status read_whole(ps_tables_files *files, const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    ps_status st = ps_file_read(path, PS_TABLE_FILE_MAX, &bytes, &n);

    if (ps_is_ok(&st)) {
        st = ps_wrap(ps_tables_files_take(files, (const uint8_t *)bytes, n), "%s",
                     PS_PATH_SHOWN(path));
    }
    free(bytes);
    return st;
}

ps_status ps_merge_read_tables(ps_tables *tables, const char *const *paths, size_t count,
                               bool heads_only)
{
    ps_tables_files *files = ps_tables_files_create(tables);
    ps_status st = ps_ok();

    for (size_t i = 0; ps_is_ok(&st) && i < count; i++) {
        st = heads_only ? read_head(files, paths[i]) : read_whole(files, paths[i]);
    }
    if (ps_is_ok(&st)) {
        st = ps_tables_files_end(files);
    }
    ps_tables_files_destroy(files);
    return st;
}

ps_table_kind ps_merge_table_kind(const ps_plan *plan)
{
    char *const *from;

    return plan->table_params.v[PS_TABLE_SAVES_CHANGES] != 0 && ps_table_inits(plan, &from) > 0
               ? PS_TABLE_CHANGES
               : PS_TABLE_WHOLE;
}
