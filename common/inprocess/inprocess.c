/* SPDX-License-Identifier: Apache-2.0 */
/* inprocess.c - see inprocess.h: creates, starts and stops a job. */
#include "common/inprocess/inprocess_impl.h"

#include "common/artifact/weights.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/plan.h"
#include "common/train/merge.h"
#include "common/wire/wire_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static ps_status load_data(ps_inprocess_job *run)
{
    const ps_data_conf *conf = &run->plan->data_conf;
    char folder[1024] = "";
    ps_status st = ps_ok();

    if (ps_data_file_count(conf) > 0) {
        if (run->conf.data_path == NULL || run->conf.data_path[0] == '\0') {
            return ps_fail(PS_NOT_FOUND, "data set %s: say where it is: --data-path or PSGD_DATA",
                           conf->source->name);
        }
        st = ps_path_below(folder, sizeof folder, run->conf.data_path, ps_data_folder(conf));
    }
    return ps_is_ok(&st) ? ps_data_load(conf, folder, run->conf.folder, &run->data) : st;
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

/* Writes the path of the model file that `from` names. Fails if it names a job or a checkpoint,
 * since only a coordinator has those. */
static ps_status find_init(const ps_inprocess_job *run, const char *from, char path[PATH_BYTES])
{
    char job[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    if (ps_init_from_checkpoint(from, job, &step)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s is of a coordinator: psgd resume goes on from it; here a path is "
                       "allowed",
                       PS_SHORT(from, 60));
    }
    if (ps_init_from_job(from) != NULL) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "%s is a job of a coordinator; here a path is allowed", PS_SHORT(from, 60));
    }
    if (run->conf.data_path == NULL || run->conf.data_path[0] == '\0') {
        return ps_fail(PS_NOT_FOUND, "it is below the data path: --data-path or PSGD_DATA");
    }
    return ps_path_below(path, PATH_BYTES, run->conf.data_path, from);
}

/* Reads the rows from which sparse tables start. */
static ps_status read_tables(ps_inprocess_job *run)
{
    char *const *from, found[PS_TABLE_INITS][PATH_BYTES];
    const char *paths[PS_TABLE_INITS];
    size_t count = ps_table_inits(run->plan, &from);
    ps_status st = ps_ok();

    if (count == 0) {
        return st;
    }
    for (size_t i = 0; ps_is_ok(&st) && i < count; i++) {
        st = find_init(run, from[i], found[i]);
        paths[i] = found[i];
    }
    if (ps_is_ok(&st)) {
        st = ps_merge_read_tables(ps_store_tables(run->parts.part[0].store), paths, count, false);
    }
    return ps_wrap(st, "init_tables");
}

static ps_status read_weights(const ps_inprocess_job *run, float *block)
{
    const ps_layout *layout = &run->plan->layout;
    char path[PATH_BYTES];
    ps_status st = find_init(run, run->plan->spec->init_from, path);

    if (ps_is_ok(&st)) {
        st = ps_weights_read(path, layout->stored, layout->stored_count, block);
    }
    return ps_wrap(st, "init_from");
}

/* Makes the weights of clock 0 as a coordinator would: reads them from init_from if the job names
 * it, else draws them. */
static ps_status make_weights(const ps_inprocess_job *run, float **out)
{
    size_t count = run->plan->layout.param_count;
    float *block = calloc(count, sizeof *block);
    ps_status st;

    if (block == NULL) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu parameters", count);
    }
    st = run->plan->spec->init_from[0] != '\0' ? read_weights(run, block)
                                               : draw_weights(run->plan, block);
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

static ps_wire_attempt attempt_of(const ps_inprocess_job *run)
{
    return (ps_wire_attempt){.job_id = run->conf.job_id,
                             .attempt = 1,
                             .worker_count = run->worker_count,
                             .layout_hash = run->plan->layout.hash};
}

/* Creates a worker's exchange through the server. */
static void connect(ps_inprocess_job *run, inprocess_worker *w)
{
    ps_direct_conf direct = {
        .hub = &run->hub,
        .rank = w->rank,
        .resume = take_turn,
        .rest = give_turn,
        .yield = pass_turn,
        .arg = &w->turn,
        .spin_us = run->has_turns ? 0 : PS_TURNS_SPIN_US,
    };
    ps_wire_client_conf conf = {
        .plan = run->plan,
        .placement = &run->placement,
        .attempt = attempt_of(run),
        .rank = w->rank,
        .incarnation = 1,
        .transport = ps_direct_transport_create(&direct),
        /* A worker may have to wait for all others, which take turns on one thread. */
        .patience_us =
            (int64_t)run->plan->spec->timeouts->step_ms * 1000 * run->plan->spec->workers,
        .weights = w->weights,
        .grad = ps_trainer_grad(w->trainer),
    };

    w->turn = (ps_turn){.turns = run->has_turns ? &run->turns : NULL};
    w->transport = conf.transport;
    w->exchange = ps_wire_client_create(&conf);
    ps_direct_transport_attend(w->transport, ps_exchange_gate(w->exchange));
    ps_wire_client_start(w->exchange);
}

static ps_status make_exchange(ps_inprocess_job *run, inprocess_worker *w)
{
    ps_inprocess_mesh_conf mesh = {
        .plan = run->plan,
        .rank = w->rank,
        .mail = run->mail,
        .turns = run->has_turns ? &run->turns : NULL,
        .weights = w->weights,
        .grad = ps_trainer_grad(w->trainer),
    };

    if (run->mail != NULL) {
        return ps_inprocess_mesh_create(&mesh, &w->exchange);
    }
    connect(run, w);
    return ps_ok();
}

static void gone(ps_event *self, bool ok)
{
    (void)self;
    (void)ok;
}

static void drop_exchange(inprocess_worker *w)
{
    /* ps_wire_client_stop fires `done` before it returns, because all runs on this thread. */
    ps_event done = {.fire = gone};

    if (w->exchange != NULL && w->transport != NULL) {
        ps_direct_transport_attend(w->transport, NULL);
        ps_wire_client_stop(w->exchange, &done);
        ps_wire_client_destroy(w->exchange);
    } else if (w->exchange != NULL) {
        ps_inprocess_mesh_destroy(w->exchange);
    }
}

/* Creates a worker. The last one takes over *weights, which becomes NULL; the others get copies. */
static ps_status make_worker(ps_inprocess_job *run, uint32_t rank, float **weights)
{
    inprocess_worker *w = &run->workers[rank];
    size_t bytes = run->plan->layout.param_count * sizeof **weights;
    ps_trainer_conf conf = {
        .job_id = run->conf.job_id,
        .folder = run->conf.folder,
        .rank = rank,
        .plan = run->plan,
        .data = run->data,
        .beginning = inprocess_look_for_end,
        .arg = w,
    };
    ps_status st;

    w->run = run;
    w->rank = rank;
    if (rank + 1 == run->worker_count) {
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
    return ps_wrap(make_exchange(run, w), "worker %u", rank);
}

static void make_server(ps_inprocess_job *run, const float *weights)
{
    const ps_plan *plan = run->plan;
    ps_wire_attempt attempt = attempt_of(run);

    ps_placement_init(&run->placement, &plan->layout, 1, 0);
    snprintf(run->placement.servers[0].node_id, PS_ENDPOINT_ID_MAX, "servers");
    ps_wire_parts_init_shared(&run->parts, plan, &run->placement, weights,
                              ps_merge_tables(plan, NULL, 0));
    run->server = ps_wire_server_create(NULL, 0, NULL, NULL);
    ps_wire_server_open(run->server, plan, &run->placement, &attempt, 0, &run->parts);
    ps_direct_hub_init(&run->hub, run->server, run->worker_count);
}

/* Refuses to run a job that asks for checkpoints or rollbacks: only a coordinator stores
 * checkpoints.
 */
static ps_status check_checkpoint(const ps_inprocess_job *run)
{
    const Psgd__V1__CheckpointSpec *spec = run->plan->spec->checkpoint;
    bool is_run = run->conf.folder != NULL; /* without a folder only the job's plan is shown */

    if (is_run && run->plan->spec->recovery->on_divergence ==
                      PSGD__V1__DIVERGENCE_ACTION__DIVERGENCE_ACTION_ROLLBACK) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "spec.recovery.on_divergence: a job in one process cannot roll back; submit "
                       "it to a coordinator, or leave on_divergence out");
    }

    return !is_run || spec == NULL || (spec->every_steps == 0 && spec->every_seconds == 0)
               ? ps_ok()
               : ps_fail(PS_FAILED_PRECONDITION,
                         "spec.checkpoint: a job in one process takes none; submit it to a "
                         "coordinator, or leave checkpoint out");
}

static ps_status make_all(ps_inprocess_job *run)
{
    const ps_plan *plan = run->plan;
    float *weights = NULL;
    ps_status st = check_checkpoint(run);

    if (ps_is_ok(&st)) {
        st = make_weights(run, &weights);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (plan->mesh != NULL) {
        run->mail = ps_inprocess_mail_create(run->worker_count);
    } else {
        make_server(run, weights);
        st = read_tables(run);
    }
    if (run->conf.threads < run->worker_count) {
        ps_turns_init(&run->turns, run->conf.threads);
        run->has_turns = true;
    }
    for (uint32_t i = 0; i < run->worker_count && ps_is_ok(&st); i++) {
        st = make_worker(run, i, &weights);
    }
    free(weights);
    return st;
}

ps_status ps_inprocess_job_create(const ps_inprocess_job_conf *conf, ps_inprocess_job **out)
{
    ps_inprocess_job *run = ps_xcalloc(1, sizeof *run);
    ps_status st = conf->folder != NULL ? ps_dir_make(conf->folder) : ps_ok();

    assert(conf->threads >= 1);
    run->conf = *conf;
    run->plan = conf->plan;
    run->state = PSGD__V1__JOB_STATE__JOB_STATE_PRE_COMMIT;
    run->worker_count = conf->plan->spec->workers;
    run->limit_us = INT64_MAX;
    pthread_mutex_init(&run->mutex, NULL);
    run->workers = ps_xcalloc(run->worker_count, sizeof *run->workers);
    if (ps_is_ok(&st) && conf->folder != NULL) {
        st = inprocess_log_begin(run);
    }
    if (ps_is_ok(&st)) {
        st = load_data(run);
    }
    if (ps_is_ok(&st)) {
        st = make_all(run);
    }
    if (!ps_is_ok(&st)) {
        ps_inprocess_job_destroy(run);
        return st;
    }
    *out = run;
    return ps_ok();
}

void ps_inprocess_job_destroy(ps_inprocess_job *run)
{
    if (run == NULL) {
        return;
    }
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_trainer_destroy(run->workers[i].trainer);
        drop_exchange(&run->workers[i]);
        free(run->workers[i].weights);
    }
    inprocess_log_end(run);
    if (run->server != NULL) {
        ps_wire_server_close(run->server, "the job is over");
        ps_wire_server_destroy(run->server);
    }
    ps_direct_hub_fini(&run->hub);
    ps_wire_parts_fini(&run->parts);
    ps_placement_fini(&run->placement);
    ps_inprocess_mail_destroy(run->mail);
    if (run->has_turns) {
        ps_turns_fini(&run->turns);
    }
    ps_dataset_destroy(run->data);
    pthread_mutex_destroy(&run->mutex);
    free(run->workers);
    free(run->files);
    free(run->file_ptrs);
    free(run);
}

/* Returns the bytes that servers need for rows that exist from the start, beside values, state and
 * sums of a clock: the heads of the rows, and two bits of each row for every worker. */
static size_t memory_of_rows(const ps_plan *plan)
{
    uint32_t slots = plan->optim_on_server ? (uint32_t)plan->optim->slots : 0;
    size_t bytes = 0;

    for (uint32_t i = 0; i < plan->table_count; i++) {
        uint32_t width = plan->tables[i].width, rows = ps_plan_first_rows(plan, i);
        size_t values = (size_t)width * (1 + slots) * sizeof(float);

        bytes += rows * (ps_table_row_bytes(width, slots) - values);
        bytes += (size_t)rows / 4 * plan->spec->workers;
    }
    return bytes;
}

ps_inprocess_job_memory ps_inprocess_job_get_memory(const ps_inprocess_job *run)
{
    const ps_plan *plan = run->plan;
    size_t block = plan->layout.param_count * sizeof(float), kept = 1;
    ps_inprocess_job_memory sum = {0};

    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_train_memory one = ps_trainer_memory(run->workers[i].trainer);

        sum.workers.weights += one.weights;
        sum.workers.gradients += one.gradients;
        sum.workers.optimizer += one.optimizer;
        sum.workers.activations += one.activations;
        sum.workers.samples += one.samples;
        sum.workers.rounds += one.rounds;
        if (run->mail != NULL) {
            sum.servers += ps_inprocess_mesh_memory(run->workers[i].exchange);
        } else {
            sum.feedback += ps_wire_client_feedback(run->workers[i].exchange);
        }
    }
    kept += plan->optim_on_server ? plan->optim->slots : 0;
    kept += plan->policy->closes != NULL && run->worker_count > 1; /* the open sum */
    sum.servers += run->server != NULL ? kept * block + memory_of_rows(plan) : 0;
    return sum;
}

/* Handles the end of a worker, on its trainer's thread. Stops the whole job if the worker has
 * failed. The last worker to end reports the end of the job. */
static void on_done(void *arg)
{
    inprocess_worker *w = arg;
    ps_inprocess_job *run = w->run;
    ps_status st = ps_trainer_result(w->trainer);

    if (!ps_is_ok(&st) && st.code != PS_CANCELLED) {
        ps_log(PS_LOG_ERROR, "psgd", "worker %u: %s", w->rank, st.text);
        ps_inprocess_job_stop(run); /* the others would wait for this worker for ever */
    }
    if (run->mail != NULL) {
        ps_inprocess_mesh_leave(w->exchange);
    } else {
        ps_turn_give(&w->turn);
    }
    if (atomic_fetch_sub(&run->running, 1) == 1) {
        run->conf.done(run->conf.arg);
    }
}

static void nobody(void *arg)
{
    (void)arg;
}

ps_status ps_inprocess_job_start(ps_inprocess_job *run)
{
    ps_status st = ps_ok();
    uint32_t started = 0;

    assert(run->conf.folder != NULL);
    ps_log(PS_LOG_INFO, "psgd", "job %s: %u workers, %u servers, %zu parameters, %llu steps",
           run->conf.job_id, run->worker_count, run->plan->spec->pservers,
           run->plan->layout.param_count, (unsigned long long)run->plan->total_steps);
    run->state = PSGD__V1__JOB_STATE__JOB_STATE_RUNNING;
    run->began_wall_us = ps_clock_wall_us();
    run->rate[0].us = run->rate[1].us = ps_clock_us();
    if (run->plan->spec->max_seconds > 0) {
        run->limit_us = ps_clock_us() + (int64_t)(run->plan->spec->max_seconds * 1e6);
    }
    atomic_store(&run->running, run->worker_count + 1);
    while (started < run->worker_count && ps_is_ok(&st)) {
        inprocess_worker *w = &run->workers[started];

        st = ps_trainer_start(w->trainer, w->exchange, on_done, w);
        started += ps_is_ok(&st);
    }
    if (!ps_is_ok(&st)) {
        run->conf.done = nobody;
        ps_inprocess_job_stop(run);
        atomic_fetch_sub(&run->running, run->worker_count - started);
    }
    if (atomic_fetch_sub(&run->running, 1) == 1) {
        run->conf.done(run->conf.arg); /* the workers ended before this thread counted itself out */
    }
    return st;
}

ps_status ps_inprocess_job_write_initial(ps_inprocess_job *run)
{
    ps_status st = ps_trainer_write_model(run->workers[0].trainer);

    assert(run->conf.folder != NULL);
    run->began_wall_us = ps_clock_wall_us();
    return ps_is_ok(&st) ? ps_inprocess_job_finish(run) : st;
}

void ps_inprocess_job_stop(ps_inprocess_job *run)
{
    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_gate_stop(ps_exchange_gate(run->workers[i].exchange));
    }
}

/* Returns the first failure in the order of ranks. A worker's stop counts only if no worker failed
 * otherwise. */
static ps_status result_of(ps_inprocess_job *run)
{
    ps_status all = ps_ok();

    for (uint32_t i = 0; i < run->worker_count; i++) {
        ps_status st = ps_trainer_result(run->workers[i].trainer);

        if (!ps_is_ok(&st) && (ps_is_ok(&all) || all.code == PS_CANCELLED)) {
            all = st.code == PS_CANCELLED && !ps_is_ok(&all) ? all : st;
            run->has_diverged |= ps_trainer_has_diverged(run->workers[i].trainer);
        }
    }
    return all;
}

ps_status ps_inprocess_job_finish(ps_inprocess_job *run)
{
    ps_status st;

    run->result = result_of(run);
    run->ended_wall_us = ps_clock_wall_us();
    if (ps_is_ok(&run->result) && run->state == PSGD__V1__JOB_STATE__JOB_STATE_RUNNING) {
        inprocess_describe_end(run);
    }
    run->state = ps_is_ok(&run->result)             ? PSGD__V1__JOB_STATE__JOB_STATE_DONE
                 : run->result.code == PS_CANCELLED ? PSGD__V1__JOB_STATE__JOB_STATE_CANCELLED
                                                    : PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    st = inprocess_write_files(run);
    if (!ps_is_ok(&st) && ps_is_ok(&run->result)) {
        run->result = st;
        run->is_unstored = true;
        run->state = PSGD__V1__JOB_STATE__JOB_STATE_FAILED;
    }
    return run->result;
}
