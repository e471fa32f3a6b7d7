/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - see local.h: making, starting, stopping. */
#include "common/local/local_impl.h"

#include "common/artifact/weights.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/rowset.h"
#include "common/base/xalloc.h"
#include "common/job/table.h"
#include "common/train/merge.h"
#include "common/wire/wire_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static ps_status load_data(ps_local_job *local)
{
    const ps_data_conf *conf = &local->plan->data_conf;
    char folder[1024] = "";
    ps_status st = ps_ok();

    if (ps_data_file_count(conf) > 0) {
        if (local->conf.data_path == NULL || local->conf.data_path[0] == '\0') {
            return ps_fail(PS_NOT_FOUND, "data set %s: say where it is: --data-path or PSGD_DATA",
                           conf->source->name);
        }
        st = ps_path_below(folder, sizeof folder, local->conf.data_path, ps_data_folder(conf));
    }
    return ps_is_ok(&st) ? ps_data_load(conf, folder, local->conf.folder, &local->data) : st;
}

static ps_status draw_weights(const ps_plan *plan, float *block)
{
    ps_model *model = NULL;
    ps_status st = ps_plan_model(plan, 1, &model);

    if (ps_is_ok(&st)) {
        ps_model_init(model, plan->spec->seed, block);
    }
    ps_model_destroy(model);
    return st;
}

enum { PATH_BYTES = 1024 };

/* A file that the job starts from. */
static ps_status find_init(const ps_local_job *local, const char *from, char path[PATH_BYTES])
{
    if (ps_init_from_job(from) != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%.60s is a job of a coordinator; here a path is allowed", from);
    }
    if (local->conf.data_path == NULL || local->conf.data_path[0] == '\0') {
        return ps_fail(PS_NOT_FOUND, "it is below the data path: --data-path or PSGD_DATA");
    }
    return ps_path_below(path, PATH_BYTES, local->conf.data_path, from);
}

/* The rows that sparse tables start from. */
static ps_status read_tables(ps_local_job *local)
{
    char *const *from, found[PS_TABLE_INITS][PATH_BYTES];
    const char *paths[PS_TABLE_INITS];
    size_t count = ps_table_inits(local->plan, &from);
    ps_status st = ps_ok();

    if (count == 0) {
        return st;
    }
    for (size_t i = 0; ps_is_ok(&st) && i < count; i++) {
        st = find_init(local, from[i], found[i]);
        paths[i] = found[i];
    }
    if (ps_is_ok(&st)) {
        st = ps_merge_read_tables(local->parts.part[0].tables, paths, count, false);
    }
    return ps_wrap(st, "init_tables");
}

static ps_status read_weights(const ps_local_job *local, float *block)
{
    const ps_layout *layout = &local->plan->layout;
    char path[PATH_BYTES];
    ps_status st = find_init(local, local->plan->spec->init_from, path);

    if (ps_is_ok(&st)) {
        st = ps_weights_read(path, layout->stored, layout->stored_count, block);
    }
    return ps_wrap(st, "init_from");
}

/* The weights of clock 0, as the coordinator would send them. */
static ps_status make_weights(const ps_local_job *local, float **out)
{
    size_t count = local->plan->layout.param_count;
    float *block = calloc(count, sizeof *block);
    ps_status st;

    if (block == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu parameters", count);
    }
    st = local->plan->spec->init_from[0] != '\0' ? read_weights(local, block)
                                                 : draw_weights(local->plan, block);
    if (ps_is_ok(&st)) {
        *out = block;
    } else {
        free(block);
    }
    return st;
}

static void take_turn(void *arg)
{
    ps_turn_take(arg);
}

static void give_turn(void *arg)
{
    ps_turn_give(arg);
}

static void pass_turn(void *arg)
{
    ps_turn_pass(arg);
}

static ps_wire_attempt attempt_of(const ps_local_job *local)
{
    return (ps_wire_attempt){.job_id = local->conf.job_id,
                             .attempt = 1,
                             .worker_count = local->worker_count,
                             .layout_hash = local->plan->layout.hash};
}

/* The exchange through the server. */
static void connect(ps_local_job *local, local_worker *w)
{
    ps_direct_conf direct = {
        .hub = &local->hub,
        .rank = w->rank,
        .resume = take_turn,
        .rest = give_turn,
        .yield = pass_turn,
        .arg = &w->turn,
        .spin_us = local->has_turns ? 0 : PS_TURNS_SPIN_US,
    };
    ps_wire_client_conf conf = {
        .plan = local->plan,
        .placement = &local->placement,
        .attempt = attempt_of(local),
        .rank = w->rank,
        .incarnation = 1,
        .transport = ps_direct_transport_create(&direct),
        /* All may have to wait for one thread. */
        .patience_us =
            (int64_t)local->plan->spec->timeouts->step_ms * 1000 * local->plan->spec->workers,
        .weights = w->weights,
        .grad = ps_trainer_grad(w->trainer),
    };

    w->turn = (ps_turn){.turns = local->has_turns ? &local->turns : NULL};
    w->transport = conf.transport;
    w->exchange = ps_wire_client_create(&conf);
    ps_direct_transport_attend(w->transport, ps_exchange_gate(w->exchange));
    ps_wire_client_start(w->exchange);
}

static ps_status make_exchange(ps_local_job *local, local_worker *w)
{
    ps_local_mesh_conf mesh = {
        .plan = local->plan,
        .rank = w->rank,
        .mail = local->mail,
        .turns = local->has_turns ? &local->turns : NULL,
        .weights = w->weights,
        .grad = ps_trainer_grad(w->trainer),
    };

    if (local->mail != NULL) {
        return ps_local_mesh_create(&mesh, &w->exchange);
    }
    connect(local, w);
    return ps_ok();
}

static void gone(ps_event *self, bool ok)
{
    (void)self;
    (void)ok;
}

static void drop_exchange(local_worker *w)
{
    ps_event done = {.fire = gone}; /* it fires before stop returns: there is no other thread */

    if (w->exchange != NULL && w->transport != NULL) {
        ps_direct_transport_attend(w->transport, NULL);
        ps_wire_client_stop(w->exchange, &done);
    } else if (w->exchange != NULL) {
        ps_local_mesh_destroy(w->exchange);
    }
}

/* The last worker takes the block, the others have copies. */
static ps_status make_worker(ps_local_job *local, uint32_t rank, float **weights)
{
    local_worker *w = &local->workers[rank];
    size_t bytes = local->plan->layout.param_count * sizeof **weights;
    ps_trainer_conf conf = {
        .job_id = local->conf.job_id,
        .folder = local->conf.folder,
        .rank = rank,
        .plan = local->plan,
        .data = local->data,
    };
    ps_status st;

    w->local = local;
    w->rank = rank;
    if (rank + 1 == local->worker_count) {
        w->weights = *weights;
        *weights = NULL;
    } else {
        w->weights = malloc(bytes);
    }
    if (w->weights == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "worker %u: no memory for %zu bytes of weights", rank,
                       bytes);
    }
    if (*weights != NULL) {
        memcpy(w->weights, *weights, bytes);
    }
    conf.weights = w->weights;
    st = ps_trainer_create(&conf, &w->trainer);
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "worker %u", rank);
    }
    return ps_wrap(make_exchange(local, w), "worker %u", rank);
}

static void make_server(ps_local_job *local, const float *weights)
{
    const ps_plan *plan = local->plan;
    ps_wire_attempt attempt = attempt_of(local);

    ps_placement_init(&local->placement, &plan->layout, 1, 0);
    snprintf(local->placement.servers[0].node_id, PS_ENDPOINT_ID_MAX, "servers");
    ps_wire_parts_init(&local->parts, plan, &local->placement, 0, PS_WIRE_PARTS_MAX, weights, true,
                       plan->table_count > 0 ? ps_merge_tables(plan, NULL, 0) : NULL);
    local->server = ps_wire_server_create(NULL, 0, NULL, NULL);
    ps_wire_server_open(local->server, plan, &local->placement, &attempt, 0, &local->parts);
    ps_direct_hub_init(&local->hub, local->server, local->worker_count);
}

static ps_status make_all(ps_local_job *local)
{
    const ps_plan *plan = local->plan;
    float *weights = NULL;
    ps_status st = make_weights(local, &weights);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (plan->mesh != NULL) {
        local->mail = ps_local_mail_create(local->worker_count);
    } else {
        make_server(local, weights);
        st = read_tables(local);
    }
    if (local->conf.threads < local->worker_count) {
        ps_turns_init(&local->turns, local->conf.threads);
        local->has_turns = true;
    }
    for (uint32_t i = 0; i < local->worker_count && ps_is_ok(&st); i++) {
        st = make_worker(local, i, &weights);
    }
    free(weights);
    return st;
}

ps_status ps_local_job_create(const ps_local_job_conf *conf, ps_local_job **out)
{
    ps_local_job *local = ps_xcalloc(1, sizeof *local);
    ps_status st = conf->folder != NULL ? ps_dir_make(conf->folder) : ps_ok();

    assert(conf->threads >= 1);
    local->conf = *conf;
    local->plan = conf->plan;
    local->state = PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT;
    local->worker_count = conf->plan->spec->workers;
    local->workers = ps_xcalloc(local->worker_count, sizeof *local->workers);
    if (ps_is_ok(&st) && conf->folder != NULL) {
        st = local_log_begin(local);
    }
    if (ps_is_ok(&st)) {
        st = load_data(local);
    }
    if (ps_is_ok(&st)) {
        st = make_all(local);
    }
    if (!ps_is_ok(&st)) {
        ps_local_job_destroy(local);
        return st;
    }
    *out = local;
    return ps_ok();
}

void ps_local_job_destroy(ps_local_job *local)
{
    if (local == NULL) {
        return;
    }
    for (uint32_t i = 0; i < local->worker_count; i++) {
        ps_trainer_destroy(local->workers[i].trainer);
        drop_exchange(&local->workers[i]);
        free(local->workers[i].weights);
    }
    local_log_end(local);
    if (local->server != NULL) {
        ps_wire_server_close(local->server, "the job is over");
        ps_wire_server_destroy(local->server);
    }
    ps_direct_hub_fini(&local->hub);
    ps_wire_parts_fini(&local->parts);
    ps_placement_fini(&local->placement);
    ps_local_mail_destroy(local->mail);
    if (local->has_turns) {
        ps_turns_fini(&local->turns);
    }
    ps_dataset_destroy(local->data);
    free(local->workers);
    free(local->files);
    free(local->file_ptrs);
    free(local);
}

/* Of the servers, beside weights, state and sums of a clock: what common/store/shard.h says of
 * rows, and the sum that is kept of them with one worker too. */
static size_t memory_of_rows(const ps_plan *plan)
{
    size_t bytes = 0;

    for (uint32_t v = 0; v < plan->layout.variable_count; v++) {
        const ps_variable *var = &plan->layout.variables[v];

        if (plan->by_rows[v]) {
            bytes += (size_t)var->shape.dim[0] * 12;
            bytes += plan->policy->closes == NULL
                         ? 0
                         : ps_rowset_bytes(var->shape.dim[0]) +
                               (plan->spec->workers > 1 ? 0 : var->size * sizeof(float));
        }
    }
    return bytes;
}

ps_local_job_memory ps_local_job_get_memory(const ps_local_job *local)
{
    const ps_plan *plan = local->plan;
    size_t block = plan->layout.param_count * sizeof(float), kept = 1;
    ps_local_job_memory sum = {0};

    for (uint32_t i = 0; i < local->worker_count; i++) {
        ps_train_memory one = ps_trainer_memory(local->workers[i].trainer);

        sum.workers.weights += one.weights;
        sum.workers.gradients += one.gradients;
        sum.workers.optimizer += one.optimizer;
        sum.workers.activations += one.activations;
        sum.workers.samples += one.samples;
        sum.workers.rounds += one.rounds;
        if (local->mail != NULL) {
            sum.servers += ps_local_mesh_memory(local->workers[i].exchange);
        } else {
            sum.feedback += ps_wire_client_feedback(local->workers[i].exchange);
        }
    }
    kept += plan->optim_on_server ? plan->optim->slots : 0;
    kept += plan->policy->closes != NULL && local->worker_count > 1; /* the sum of a clock */
    sum.servers += local->server != NULL ? kept * block + memory_of_rows(plan) : 0;
    return sum;
}

/* On the trainer's thread. */
static void on_done(void *arg)
{
    local_worker *w = arg;
    ps_local_job *local = w->local;
    ps_status st = ps_trainer_result(w->trainer);

    if (!ps_is_ok(&st) && st.code != PS_CANCELLED) {
        ps_log(PS_LOG_ERROR, "local", "worker %u: %s", w->rank, st.text);
        ps_local_job_stop(local); /* the others would wait for it */
    }
    if (local->mail != NULL) {
        ps_local_mesh_leave(w->exchange);
    } else {
        ps_turn_give(&w->turn);
    }
    if (atomic_fetch_sub(&local->running, 1) == 1) {
        local->conf.done(local->conf.arg);
    }
}

static void nobody(void *arg)
{
    (void)arg;
}

ps_status ps_local_job_start(ps_local_job *local)
{
    ps_status st = ps_ok();
    uint32_t started = 0;

    assert(local->conf.folder != NULL);
    ps_log(PS_LOG_INFO, "local", "job %s: %u workers, %u servers, %zu parameters, %llu steps",
           local->conf.job_id, local->worker_count, local->plan->spec->pservers,
           local->plan->layout.param_count, (unsigned long long)local->plan->total_steps);
    local->state = PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
    local->began_wall_us = ps_clock_wall_us();
    local->rate[0].us = local->rate[1].us = ps_clock_us();
    atomic_store(&local->running, local->worker_count + 1);
    while (started < local->worker_count && ps_is_ok(&st)) {
        local_worker *w = &local->workers[started];

        st = ps_trainer_start(w->trainer, w->exchange, on_done, w);
        started += ps_is_ok(&st);
    }
    if (!ps_is_ok(&st)) {
        local->conf.done = nobody;
        ps_local_job_stop(local);
        atomic_fetch_sub(&local->running, local->worker_count - started);
    }
    if (atomic_fetch_sub(&local->running, 1) == 1) {
        local->conf.done(local->conf.arg); /* they were faster than we */
    }
    return st;
}

void ps_local_job_stop(ps_local_job *local)
{
    for (uint32_t i = 0; i < local->worker_count; i++) {
        ps_gate_stop(ps_exchange_gate(local->workers[i].exchange));
    }
}

/* The first failure in the order of ranks; that it was stopped only if nothing else was. */
static ps_status result_of(const ps_local_job *local)
{
    ps_status all = ps_ok();

    for (uint32_t i = 0; i < local->worker_count; i++) {
        ps_status st = ps_trainer_result(local->workers[i].trainer);

        if (!ps_is_ok(&st) && (ps_is_ok(&all) || all.code == PS_CANCELLED)) {
            all = st.code == PS_CANCELLED && !ps_is_ok(&all) ? all : st;
        }
    }
    return all;
}

ps_status ps_local_job_finish(ps_local_job *local)
{
    ps_status st;

    local->result = result_of(local);
    local->ended_wall_us = ps_clock_wall_us();
    local->state = ps_is_ok(&local->result)             ? PSGD__V1__JOB_STATE__JOB_STATE_DONE
                   : local->result.code == PS_CANCELLED ? PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED
                                                        : PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    st = local_write_files(local);
    if (!ps_is_ok(&st) && ps_is_ok(&local->result)) {
        local->result = st;
        local->state = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    }
    return local->result;
}
