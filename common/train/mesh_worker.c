/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_worker.c - see mesh_worker.h. */
#include "common/train/mesh_worker.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GATE_SPARE_US = 10000000 };

static ps_status check_report(void *arg, uint32_t worker, uint64_t clock, const uint8_t *bytes,
                              size_t len);

/* Returns whether the gate is open, so whether the exchange is still wanted. ps_mesh_release calls
 * it, on any thread; the gate is freed after the machine. */
static bool is_wanted(void *arg)
{
    ps_mesh_worker *w = arg;

    return ps_gate_is_open(&w->gate);
}

static void init_gate(ps_mesh_worker *w, int64_t window_us)
{
    ps_status st;

    ps_placement_init(&w->one, &w->plan->layout, 1, 0);
    st = ps_placement_set_server(&w->one, 0, "the other workers", "-");
    assert(ps_is_ok(&st));
    /* The machine must fail before the gate's wait times out, because only the machine's error
     * names the missing worker. */
    ps_gate_init(&w->gate, &w->one, 2 * window_us + GATE_SPARE_US);
}

/* Allocates the memory whose size the job chooses, so this can fail: the sum, copies of
 * contributions (only if there are several), and the stepper. */
static ps_status take_memory(ps_mesh_worker *w)
{
    size_t n = w->plan->layout.param_count;

    w->sum = calloc(n, sizeof *w->sum);
    w->copies = w->held > 1 ? calloc(n * w->held, sizeof *w->copies) : NULL;
    if (w->sum == NULL || (w->held > 1 && w->copies == NULL)) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %u blocks of %zu parameters",
                       w->held + 1, n);
    }
    w->given = ps_xcalloc((size_t)w->held * w->plan->layout.variable_count, sizeof *w->given);
    w->blocks = ps_xcalloc(w->held, sizeof *w->blocks);
    for (uint32_t i = 0; i < w->held; i++) {
        w->blocks[i] = w->copies != NULL ? w->copies + i * n : (float *)(void *)w->grad->data;
    }
    return ps_stepper_init(&w->stepper, w->plan);
}

ps_status ps_mesh_worker_init(ps_mesh_worker *w, const ps_mesh_worker_conf *conf)
{
    ps_mesh_conf mesh = ps_plan_mesh(conf->plan, conf->rank);
    ps_status st;

    mesh.window_us = conf->window_us;
    mesh.has_reports = conf->has_reports;
    mesh.check_report = check_report;
    mesh.is_wanted = is_wanted;
    mesh.arg = w;
    *w = (ps_mesh_worker){
        .plan = conf->plan,
        .self = conf->rank,
        .check_said = conf->check_said,
        .arg = conf->arg,
        .weights = conf->weights,
        .grad = ps_buf_ref(conf->grad),
        .held = mesh.assignment->held_count[conf->rank],
    };
    pthread_mutex_init(&w->mutex, NULL);
    init_gate(w, conf->window_us);
    st = take_memory(w);
    return ps_is_ok(&st) ? ps_mesh_create(&mesh, &w->mesh) : st;
}

void ps_mesh_worker_fini(ps_mesh_worker *w)
{
    ps_mesh_destroy(w->mesh);
    ps_stepper_fini(&w->stepper);
    ps_gate_fini(&w->gate);
    ps_buf_unref(w->grad);
    ps_buf_unref(w->said);
    ps_placement_fini(&w->one);
    free(w->sum);
    free(w->copies);
    free(w->blocks);
    free(w->given);
    pthread_mutex_destroy(&w->mutex);
}

size_t ps_mesh_worker_memory(const ps_mesh_worker *w)
{
    size_t blocks = 1 + (w->copies != NULL ? w->held : 0);

    return blocks * w->plan->layout.param_count * sizeof(float) + ps_stepper_memory(&w->stepper) +
           ps_mesh_memory(w->mesh);
}

void ps_mesh_worker_save(const ps_mesh_worker *w, uint32_t variable, ps_state_out *out)
{
    ps_stepper_save(&w->stepper, variable, out);
    ps_mesh_save(w->mesh, variable, out);
}

void ps_mesh_worker_load(ps_mesh_worker *w, uint32_t variable, ps_state_in *in)
{
    ps_stepper_load(&w->stepper, variable, in);
    ps_mesh_load(w->mesh, variable, in);
}

void ps_mesh_worker_start_at(ps_mesh_worker *w, uint64_t clock)
{
    assert(!w->has_begun && !w->is_running);
    w->next = clock;
    ps_mesh_start_at(w->mesh, clock);
}

/* ---- Contributions ---- */

/* Returns the index of a block among this worker's contributions to a step. */
static uint32_t index_of(const ps_mesh_worker *w, uint32_t block)
{
    const ps_assignment *a = w->plan->assignment;
    uint32_t i = 0;

    while (w->plan->update->per_block && a->held[w->self][i] != block) {
        i++;
    }
    assert(i < w->held);
    return i;
}

bool ps_mesh_worker_is_new(const ps_mesh_worker *w, uint64_t clock)
{
    return !w->has_begun || w->clock != clock;
}

void ps_mesh_worker_claim(ps_mesh_worker *w, uint64_t clock, uint32_t block)
{
    pthread_mutex_lock(&w->mutex);
    if (ps_mesh_worker_is_new(w, clock)) {
        w->given_count = 0; /* the machine has taken all variables of the step before */
    }
    w->has_begun = true;
    w->clock = clock;
    w->in_hand = index_of(w, block);
    pthread_mutex_unlock(&w->mutex);
}

bool ps_mesh_worker_give(ps_mesh_worker *w, uint32_t first_variable, uint32_t count)
{
    const float *grad = (const float *)(const void *)w->grad->data;
    uint32_t variables = w->plan->layout.variable_count;
    bool is_all;

    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        const ps_variable *var = &w->plan->layout.variables[v];

        w->untold += var->size * sizeof *grad;
        if (w->copies != NULL) {
            memcpy(w->blocks[w->in_hand] + var->at, grad + var->at, var->size * sizeof *grad);
        }
    }
    pthread_mutex_lock(&w->mutex);
    for (uint32_t v = first_variable; v < first_variable + count; v++) {
        assert(w->given_count < w->held * variables);
        w->given[w->given_count++] = w->in_hand * variables + v;
    }
    is_all = w->given_count == w->held * variables;
    pthread_mutex_unlock(&w->mutex);
    if (!is_all && w->untold < PS_MESH_WORKER_GIVES) {
        return false;
    }
    w->untold = 0;
    return true;
}

void ps_mesh_worker_say(ps_mesh_worker *w, ps_buf *report, bool is_partial)
{
    ps_buf *said = NULL;

    /* else no report is sent, so the other workers have none for this clock */
    if (report->len < PS_MESH_REPORT_MAX) {
        said = ps_buf_create(1 + report->len);
        said->data[0] = is_partial;
        memcpy(said->data + 1, report->data, report->len);
        said->len = 1 + report->len;
    }
    ps_buf_unref(report);
    pthread_mutex_lock(&w->mutex);
    ps_buf_unref(w->said);
    w->said = said;
    pthread_mutex_unlock(&w->mutex);
}

/* Returns the report in bytes (len) that the ps_mesh_worker_say of another worker has made: one
 * byte with is_partial, then the report. Returns an empty one if there are fewer than 2 bytes. */
static ps_said unwrap(const uint8_t *bytes, size_t len)
{
    return len < 2 ? (ps_said){0}
                   : (ps_said){.bytes = bytes + 1, .len = len - 1, .is_partial = bytes[0] != 0};
}

ps_said ps_mesh_worker_said(const ps_mesh_worker *w, uint32_t worker)
{
    size_t len;
    const uint8_t *bytes = ps_mesh_report_of(w->mesh, worker, &len);

    return unwrap(bytes, len);
}

static ps_status check_report(void *arg, uint32_t worker, uint64_t clock, const uint8_t *bytes,
                              size_t len)
{
    const ps_mesh_worker *w = arg;
    ps_said said = unwrap(bytes, len);

    return w->check_said != NULL && said.len > 0 ? w->check_said(w->arg, worker, clock, &said)
                                                 : ps_ok();
}

/* ---- Steps ---- */

/* Takes the next variable that was given to the present step. With the last variable it also takes
 * the report (*said), which the caller then owns. Returns false if no variable is left. */
static bool take_given(ps_mesh_worker *w, uint32_t *which, ps_buf **said)
{
    uint32_t all = w->held * w->plan->layout.variable_count;
    bool any;

    pthread_mutex_lock(&w->mutex);
    any = w->has_begun && w->clock == w->next && w->taken < w->given_count;
    *which = any ? w->given[w->taken++] : 0;
    *said = NULL;
    if (any && w->taken == all) {
        *said = w->said;
        w->said = NULL;
    }
    pthread_mutex_unlock(&w->mutex);
    return any;
}

ps_status ps_mesh_worker_advance(ps_mesh_worker *w, int64_t now_us)
{
    uint32_t which, variables = w->plan->layout.variable_count;
    ps_status st = ps_ok();
    ps_buf *said;

    while (ps_is_ok(&st) && take_given(w, &which, &said)) {
        if (!w->is_running) {
            w->is_running = true;
            st = ps_mesh_begin(w->mesh, w->next, (const float *const *)w->blocks);
        }
        if (said != NULL) {
            ps_mesh_report(w->mesh, said);
        }
        if (ps_is_ok(&st)) {
            st = ps_mesh_ready(w->mesh, which / variables, which % variables, now_us);
        }
    }
    return ps_wrap(st, "step %llu", (unsigned long long)w->next);
}

bool ps_mesh_worker_finish(ps_mesh_worker *w)
{
    if (!w->is_running || !ps_mesh_is_done(w->mesh)) {
        return false;
    }
    ps_mesh_sum(w->mesh, w->sum);
    ps_stepper_step(&w->stepper, w->next, w->sum, w->weights);
    w->is_running = false;
    w->taken = 0;
    w->next++;
    ps_gate_delivered(&w->gate, 0, w->one.owned[0], w->one.owned_count[0], w->next, true);
    ps_gate_acked(&w->gate, 0);
    return true;
}
