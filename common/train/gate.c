/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - see gate.h. */
#include "common/train/gate.h"

#include "common/base/clock.h"
#include "common/base/xalloc.h"
#include "common/trace/trace.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void ps_gate_init(ps_gate *gate, const ps_placement *placement, int64_t patience_us)
{
    const ps_layout *layout = placement->layout;
    pthread_condattr_t attr;

    memset(gate, 0, sizeof *gate);
    gate->layout = layout;
    gate->placement = placement;
    gate->parts = placement->part_count;
    gate->patience_us = patience_us;
    gate->arrived = ps_xcalloc(layout->variable_count, sizeof *gate->arrived);
    gate->whole = ps_xcalloc(gate->parts, sizeof *gate->whole);
    gate->owes_ack = ps_xcalloc(gate->parts, sizeof *gate->owes_ack);
    gate->owes_rows = ps_xcalloc(gate->parts, sizeof *gate->owes_rows);
    pthread_mutex_init(&gate->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&gate->changed, &attr);
    pthread_condattr_destroy(&attr);
}

void ps_gate_fini(ps_gate *gate)
{
    pthread_cond_destroy(&gate->changed);
    pthread_mutex_destroy(&gate->mutex);
    free(gate->arrived);
    free(gate->whole);
    free(gate->owes_ack);
    free(gate->owes_rows);
}

static uint32_t slices_of(const ps_layout *layout, uint32_t variable)
{
    return layout->first_slice[variable + 1] - layout->first_slice[variable];
}

/* Returns whether all requested rows have arrived. The caller holds the mutex. */
static bool are_rows_there(const ps_gate *gate)
{
    for (uint32_t i = 0; i < gate->parts; i++) {
        if (gate->owes_rows[i]) {
            return false;
        }
    }
    return true;
}

static bool is_there(const ps_gate *gate, const ps_gate_want *w)
{
    if (w->acks) {
        return gate->unacked == 0;
    }
    if (w->rows) {
        return are_rows_there(gate);
    }
    for (uint32_t v = w->first; v < w->first + w->count; v++) {
        if (gate->arrived[v] < w->clock * slices_of(gate->layout, v)) {
            return false;
        }
    }
    return true;
}

/* Returns whether the part may still have to deliver something that `w` waits for. For weights:
 * whether it has slices of the variables and not all weights of the part have arrived for the
 * clock; its slices of these variables may have arrived nevertheless. The caller holds the
 * mutex. */
static bool owes(const ps_gate *gate, uint32_t part, const ps_gate_want *w)
{
    const ps_layout *layout = gate->layout;

    if (w->acks) {
        return gate->owes_ack[part];
    }
    if (w->rows) {
        return gate->owes_rows[part];
    }
    for (uint32_t s = layout->first_slice[w->first];
         gate->whole[part] < w->clock && s < layout->first_slice[w->first + w->count]; s++) {
        if (gate->placement->part_of[s] == part) {
            return true;
        }
    }
    return false;
}

/* Returns whether some part of the server may still have to deliver something that `w` waits for.
 * The caller holds the mutex. */
static bool server_owes(const ps_gate *gate, uint32_t server, const ps_gate_want *w)
{
    const uint32_t *first = &gate->placement->first_part[server];

    for (uint32_t p = first[0]; p < first[1]; p++) {
        if (owes(gate, p, w)) {
            return true;
        }
    }
    return false;
}

/* Writes the names of the servers that may still have to deliver what `w` waits for, as "ps-0,
 * ps-1". The caller holds the mutex. */
static void name_debtors(const ps_gate *gate, const ps_gate_want *w, char *text, size_t cap)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < gate->placement->server_count && n < cap; i++) {
        if (server_owes(gate, i, w)) {
            n += (size_t)snprintf(text + n, cap - n, "%s%s", n > 0 ? ", " : "",
                                  gate->placement->servers[i].node_id);
        }
    }
}

static void fail_locked(ps_gate *gate, const ps_status *why)
{
    if (ps_is_ok(&gate->failure)) {
        gate->failure = *why;
    }
    pthread_cond_broadcast(&gate->changed);
}

static void give_up(ps_gate *gate, const ps_gate_want *w)
{
    char who[72];
    ps_status st;

    gate->gave_up = true;
    name_debtors(gate, w, who, sizeof who);
    st = w->acks ? ps_fail(PS_DEADLINE_EXCEEDED, "no acknowledgement for %lld s from %s",
                           (long long)(gate->patience_us / 1000000), who)
                 : ps_fail(PS_DEADLINE_EXCEEDED, "step %llu: no %s for %lld s from %s",
                           (unsigned long long)w->clock, w->rows ? "rows" : "weights",
                           (long long)(gate->patience_us / 1000000), who);
    fail_locked(gate, &st);
}

void ps_gate_begin_at(ps_gate *gate, uint64_t clock)
{
    pthread_mutex_lock(&gate->mutex);
    for (uint32_t v = 0; v < gate->layout->variable_count; v++) {
        gate->arrived[v] = clock * slices_of(gate->layout, v);
    }
    for (uint32_t i = 0; i < gate->parts; i++) {
        gate->whole[i] = clock;
    }
    gate->begun = clock;
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_has_begun(ps_gate *gate, uint64_t clock)
{
    pthread_mutex_lock(&gate->mutex);
    gate->begun = gate->cuts_seen = clock;
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_set_hooks(ps_gate *gate, const ps_gate_hooks *hooks)
{
    gate->hooks = *hooks;
}

/* No nudge is lost: the trainer sets `sleeping` and then reads `nudges`, this function changes
 * `nudges` and then reads `sleeping`. At least one of the two sees the other's write. */
void ps_gate_nudge(ps_gate *gate)
{
    atomic_fetch_add(&gate->nudges, 1);
    if (atomic_load(&gate->sleeping)) {
        pthread_mutex_lock(&gate->mutex);
        pthread_cond_signal(&gate->changed);
        pthread_mutex_unlock(&gate->mutex);
    }
}

static bool is_over(const ps_gate *gate, const ps_gate_want *w)
{
    return is_there(gate, w) || gate->stopped || !ps_is_ok(&gate->failure);
}

/* Waits busily, without the mutex, until there are more nudges than `seen`, or until the time
 * until_us. */
static void spin(ps_gate *gate, uint64_t seen, int64_t until_us)
{
    while (atomic_load_explicit(&gate->nudges, memory_order_acquire) == seen &&
           ps_clock_us() < until_us) {
    }
}

/* Calls the hook `fetch` until what `w` waits for has arrived, or spin_us is over; then calls the
 * hook `rest` if it has not arrived. The caller holds the mutex, which is released during the
 * hooks. Returns the number of nudges that came before the last fetch. `sleeping` is set before
 * that number is read, so every later nudge wakes the trainer. Sets *again_us to the time at which
 * to fetch again even without a nudge. */
static uint64_t help_yourself(ps_gate *gate, const ps_gate_want *w, int64_t *again_us)
{
    int64_t until_us = ps_clock_us() + gate->hooks.spin_us;
    bool is_thorough = false;
    uint64_t seen = 0;

    while (!is_thorough && !is_over(gate, w)) {
        is_thorough = ps_clock_us() >= until_us;
        pthread_mutex_unlock(&gate->mutex);
        atomic_store(&gate->sleeping, is_thorough);
        seen = atomic_load(&gate->nudges);
        *again_us = gate->hooks.fetch(gate->hooks.arg, w->clock, is_thorough);
        pthread_mutex_lock(&gate->mutex);
        if (!is_thorough && !is_over(gate, w)) {
            pthread_mutex_unlock(&gate->mutex);
            spin(gate, seen, until_us);
            pthread_mutex_lock(&gate->mutex);
        }
    }
    if (!is_over(gate, w)) {
        pthread_mutex_unlock(&gate->mutex);
        gate->hooks.rest(gate->hooks.arg);
        pthread_mutex_lock(&gate->mutex);
    }
    return seen;
}

static struct timespec timespec_of(int64_t us)
{
    return (struct timespec){.tv_sec = (time_t)(us / 1000000),
                             .tv_nsec = (long)(us % 1000000 * 1000)};
}

/* Sleeps until all acknowledgements have arrived, or until the time `until`. Calls the hook `rest`
 * before and `wake` after that, because other workers of this process may have to compute before a
 * server acknowledges. Returns false if the time came first. The caller holds the mutex, which is
 * released during the hooks. */
static bool sleep_for_acks(ps_gate *gate, const ps_gate_want *w, const struct timespec *until)
{
    bool in_time = true;

    pthread_mutex_unlock(&gate->mutex);
    gate->hooks.rest(gate->hooks.arg);
    pthread_mutex_lock(&gate->mutex);
    while (!is_over(gate, w) && in_time) {
        in_time = pthread_cond_timedwait(&gate->changed, &gate->mutex, until) != ETIMEDOUT;
    }
    pthread_mutex_unlock(&gate->mutex);
    gate->hooks.wake(gate->hooks.arg);
    pthread_mutex_lock(&gate->mutex);
    return in_time;
}

/* Sleeps until the loop signals a change, or until the time until_us. With hooks, first fetches
 * what `w` waits for. Returns false if until_us came first. After true the caller has to check
 * whether what it waits for has arrived. */
static bool sleep_until(ps_gate *gate, const ps_gate_want *w, int64_t until_us)
{
    struct timespec until = timespec_of(until_us);
    int64_t again_us = INT64_MAX;
    bool in_time = true;
    uint64_t seen;

    if (gate->hooks.fetch == NULL) {
        return pthread_cond_timedwait(&gate->changed, &gate->mutex, &until) != ETIMEDOUT;
    }
    if (w->acks) {
        return sleep_for_acks(gate, w, &until);
    }
    seen = help_yourself(gate, w, &again_us);
    if (again_us < until_us) {
        until = timespec_of(again_us);
    }
    while (!is_over(gate, w) && atomic_load(&gate->nudges) == seen && in_time) {
        in_time = pthread_cond_timedwait(&gate->changed, &gate->mutex, &until) != ETIMEDOUT;
    }
    atomic_store(&gate->sleeping, false);
    return in_time || again_us < until_us;
}

static ps_histogram waits; /* times of the waits at all gates of this process */

const ps_histogram *ps_gate_waits(void)
{
    return &waits;
}

/* Returns the servers that may still have to deliver what `w` waits for, as bits for `detail` of a
 * ps_trace_record. The caller holds the mutex. */
static uint64_t debtors(const ps_gate *gate, const ps_gate_want *w)
{
    uint64_t whom = 0;

    for (uint32_t i = 0; i < gate->placement->server_count; i++) {
        whom |= server_owes(gate, i, w) ? ps_trace_whom(i) : 0;
    }
    return whom;
}

/* Parks the trainer: blocks until the gate is stopped, even if the gate fails meanwhile. The caller
 * holds the mutex. */
static void stand_still(ps_gate *gate)
{
    gate->is_parked = true;
    while (!gate->stopped) {
        pthread_cond_wait(&gate->changed, &gate->mutex);
    }
    gate->is_parked = false;
}

bool ps_gate_park(ps_gate *gate)
{
    bool is_parked;

    pthread_mutex_lock(&gate->mutex);
    gate->is_parking = true;
    is_parked = gate->is_parked;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
    return is_parked;
}

static bool wait_for(ps_gate *gate, const ps_gate_want *w)
{
    int64_t began_ns, until_us, ended_ns;
    uint64_t whom;
    bool open;

    pthread_mutex_lock(&gate->mutex);
    if (!is_over(gate, w)) {
        began_ns = ps_clock_ns();
        until_us = began_ns / 1000 + gate->patience_us;
        gate->waiting = true;
        gate->want = *w;
        whom = ps_trace_here != NULL ? debtors(gate, w) : 0;
        while (!is_over(gate, w)) {
            if (gate->is_parking) {
                stand_still(gate);
            } else if (!sleep_until(gate, w, until_us) && !is_there(gate, w)) {
                give_up(gate, w);
            }
        }
        gate->waiting = false;
        ended_ns = ps_clock_ns();
        gate->waited_ns += ended_ns - began_ns;
        ps_histogram_add(&waits, (ended_ns - began_ns) / 1000);
        if (ps_trace_here != NULL) {
            ps_trace_add_until(PS_TRACE_WAIT, began_ns, ended_ns, 0, NULL, whom);
        }
    }
    open = !gate->stopped && ps_is_ok(&gate->failure);
    pthread_mutex_unlock(&gate->mutex);
    return open;
}

bool ps_gate_pause(ps_gate *gate, int64_t us)
{
    struct timespec until = timespec_of(ps_clock_us() + us);
    bool open = true;
    int err = 0;

    if (gate->hooks.rest != NULL) {
        gate->hooks.rest(gate->hooks.arg);
    }
    pthread_mutex_lock(&gate->mutex);
    while (open && err != ETIMEDOUT) {
        open = !gate->stopped && ps_is_ok(&gate->failure);
        if (open) {
            err = pthread_cond_timedwait(&gate->changed, &gate->mutex, &until);
        }
    }
    open = !gate->stopped && ps_is_ok(&gate->failure);
    pthread_mutex_unlock(&gate->mutex);
    if (gate->hooks.wake != NULL) {
        gate->hooks.wake(gate->hooks.arg);
    }
    return open;
}

/* Returns whether the trainer must wait before it begins this clock, because it is held or has to
 * stay after a checkpoint. If the gate was stopped or has failed, it need not wait. The caller
 * holds the mutex. */
static bool is_held(const ps_gate *gate, uint64_t clock)
{
    bool is_at_hold = gate->held_at > 0 && clock >= gate->held_at && gate->end_at == 0;
    bool is_at_stay = gate->stay_at > 0 && clock >= gate->stay_at;

    return (is_at_hold || is_at_stay) && !gate->stopped && ps_is_ok(&gate->failure);
}

bool ps_gate_begin_clock(ps_gate *gate, uint64_t clock, bool *is_end)
{
    bool open, has_rested;

    pthread_mutex_lock(&gate->mutex);
    has_rested = is_held(gate, clock) && gate->hooks.rest != NULL;
    if (has_rested) {
        pthread_mutex_unlock(&gate->mutex);
        gate->hooks.rest(gate->hooks.arg);
        pthread_mutex_lock(&gate->mutex);
    }
    while (is_held(gate, clock)) {
        if (gate->is_parking) {
            stand_still(gate);
        } else {
            pthread_cond_wait(&gate->changed, &gate->mutex);
        }
    }
    *is_end = gate->end_at > 0 && clock >= gate->end_at;
    if (!*is_end) {
        gate->begun = clock + 1;
    }
    open = !gate->stopped && ps_is_ok(&gate->failure);
    pthread_mutex_unlock(&gate->mutex);
    if (has_rested && gate->hooks.wake != NULL) {
        gate->hooks.wake(gate->hooks.arg);
    }
    return open;
}

uint64_t ps_gate_hold(ps_gate *gate)
{
    uint64_t clock;

    pthread_mutex_lock(&gate->mutex);
    if (gate->held_at == 0) {
        gate->held_at = gate->begun > 0 ? gate->begun : 1;
    }
    clock = gate->held_at;
    pthread_mutex_unlock(&gate->mutex);
    return clock;
}

uint64_t ps_gate_held_at(ps_gate *gate)
{
    uint64_t clock;

    pthread_mutex_lock(&gate->mutex);
    clock = gate->end_at > 0 ? gate->end_at : gate->held_at;
    pthread_mutex_unlock(&gate->mutex);
    return clock;
}

void ps_gate_end_at(ps_gate *gate, uint64_t clock)
{
    pthread_mutex_lock(&gate->mutex);
    if (gate->end_at == 0) {
        gate->end_at = clock;
        pthread_cond_broadcast(&gate->changed);
    }
    pthread_mutex_unlock(&gate->mutex);
}

int64_t ps_gate_waited_ns(ps_gate *gate)
{
    int64_t ns;

    pthread_mutex_lock(&gate->mutex);
    ns = gate->waited_ns;
    pthread_mutex_unlock(&gate->mutex);
    return ns;
}

bool ps_gate_wait_weights(ps_gate *gate, uint32_t first_variable, uint32_t count, uint64_t clock)
{
    ps_gate_want w = {.first = first_variable, .count = count, .clock = clock};

    return wait_for(gate, &w);
}

bool ps_gate_cut_at(ps_gate *gate, uint64_t clock, bool stays)
{
    bool is_ahead;

    pthread_mutex_lock(&gate->mutex);
    is_ahead = clock == 0 || clock >= gate->cuts_seen;
    gate->cut_at = is_ahead ? clock : 0;
    gate->stay_at = stays ? gate->cut_at : 0;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
    return is_ahead;
}

void ps_gate_cut_from(ps_gate *gate, uint64_t clock)
{
    pthread_mutex_lock(&gate->mutex);
    gate->cut_at = clock;
    gate->stay_at = 0;
    pthread_mutex_unlock(&gate->mutex);
}

uint64_t ps_gate_take_cut(ps_gate *gate, uint64_t clock)
{
    uint64_t due;

    pthread_mutex_lock(&gate->mutex);
    due = gate->cut_at <= clock ? gate->cut_at : 0;
    gate->cut_at = due != 0 ? 0 : gate->cut_at;
    gate->cuts_seen = clock + 1;
    pthread_mutex_unlock(&gate->mutex);
    return due;
}

bool ps_gate_wait_acks(ps_gate *gate)
{
    ps_gate_want w = {.acks = true};

    return wait_for(gate, &w);
}

void ps_gate_owe_ack(ps_gate *gate, uint32_t part)
{
    pthread_mutex_lock(&gate->mutex);
    assert(!gate->owes_ack[part]);
    gate->owes_ack[part] = true;
    gate->unacked++;
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_owe_rows(ps_gate *gate, uint32_t part)
{
    pthread_mutex_lock(&gate->mutex);
    assert(!gate->owes_rows[part]);
    gate->owes_rows[part] = true;
    pthread_mutex_unlock(&gate->mutex);
}

bool ps_gate_wait_rows(ps_gate *gate, uint64_t clock)
{
    ps_gate_want w = {.rows = true, .clock = clock};

    return wait_for(gate, &w);
}

bool ps_gate_has_rows(ps_gate *gate)
{
    bool has;

    pthread_mutex_lock(&gate->mutex);
    has = are_rows_there(gate);
    pthread_mutex_unlock(&gate->mutex);
    return has;
}

void ps_gate_rows_came(ps_gate *gate, uint32_t part)
{
    pthread_mutex_lock(&gate->mutex);
    gate->owes_rows[part] = false;
    if (are_rows_there(gate)) {
        pthread_cond_signal(&gate->changed);
    }
    pthread_mutex_unlock(&gate->mutex);
}

bool ps_gate_has_weights(ps_gate *gate, uint64_t clock)
{
    ps_gate_want all = {.count = gate->layout->variable_count, .clock = clock};
    bool has;

    pthread_mutex_lock(&gate->mutex);
    has = is_there(gate, &all);
    pthread_mutex_unlock(&gate->mutex);
    return has;
}

bool ps_gate_is_overtaken(ps_gate *gate, uint64_t clock)
{
    bool is;

    pthread_mutex_lock(&gate->mutex);
    is = gate->overtaken > clock;
    pthread_mutex_unlock(&gate->mutex);
    return is;
}

uint64_t ps_gate_reached(ps_gate *gate, uint64_t clock)
{
    uint64_t reached = clock;

    pthread_mutex_lock(&gate->mutex);
    if (gate->told == clock + 1 && gate->version > clock) {
        reached = gate->version;
    }
    pthread_mutex_unlock(&gate->mutex);
    return reached;
}

void ps_gate_jump(ps_gate *gate, uint64_t from, uint64_t to)
{
    pthread_mutex_lock(&gate->mutex);
    for (uint32_t v = 0; v < gate->layout->variable_count; v++) {
        gate->arrived[v] += (to - from) * slices_of(gate->layout, v);
    }
    for (uint32_t i = 0; i < gate->parts; i++) {
        gate->whole[i] = to;
    }
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_overtake(ps_gate *gate, uint64_t clock, uint64_t version)
{
    pthread_mutex_lock(&gate->mutex);
    if (version > clock) {
        gate->overtaken = clock + 1;
    }
    if (gate->told != clock + 1 || version < gate->version) {
        gate->told = clock + 1;
        gate->version = version;
    }
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_acked(ps_gate *gate, uint32_t part)
{
    pthread_mutex_lock(&gate->mutex);
    if (gate->owes_ack[part]) {
        gate->owes_ack[part] = false;
        if (--gate->unacked == 0) {
            pthread_cond_signal(&gate->changed);
        }
    }
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_delivered(ps_gate *gate, uint32_t part, const uint32_t *slices, uint32_t count,
                       uint64_t clock, bool whole)
{
    pthread_mutex_lock(&gate->mutex);
    for (uint32_t i = 0; i < count; i++) {
        gate->arrived[gate->layout->slices[slices[i]].variable]++;
    }
    if (whole) {
        gate->whole[part] = clock;
        gate->whole_us = ps_clock_us();
    }
    pthread_cond_signal(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_fail(ps_gate *gate, const ps_status *why)
{
    pthread_mutex_lock(&gate->mutex);
    fail_locked(gate, why);
    pthread_mutex_unlock(&gate->mutex);
}

void ps_gate_diverge(ps_gate *gate, const ps_status *why)
{
    pthread_mutex_lock(&gate->mutex);
    gate->has_diverged |= ps_is_ok(&gate->failure);
    fail_locked(gate, why);
    pthread_mutex_unlock(&gate->mutex);
}

bool ps_gate_has_diverged(ps_gate *gate)
{
    bool has_diverged;

    pthread_mutex_lock(&gate->mutex);
    has_diverged = gate->has_diverged;
    pthread_mutex_unlock(&gate->mutex);
    return has_diverged;
}

void ps_gate_stop(ps_gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->stopped = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->mutex);
}

bool ps_gate_is_open(ps_gate *gate)
{
    bool open;

    pthread_mutex_lock(&gate->mutex);
    open = !gate->stopped && ps_is_ok(&gate->failure);
    pthread_mutex_unlock(&gate->mutex);
    return open;
}

ps_status ps_gate_failure(ps_gate *gate)
{
    ps_status st;

    pthread_mutex_lock(&gate->mutex);
    st = gate->failure;
    pthread_mutex_unlock(&gate->mutex);
    return st;
}

uint32_t ps_gate_find_debtors(ps_gate *gate, bool *servers)
{
    uint32_t count = 0;

    pthread_mutex_lock(&gate->mutex);
    for (uint32_t i = 0; i < gate->placement->server_count; i++) {
        servers[i] = (gate->waiting || gate->gave_up) && server_owes(gate, i, &gate->want);
        count += servers[i];
    }
    pthread_mutex_unlock(&gate->mutex);
    return count;
}

int64_t ps_gate_whole_us(ps_gate *gate)
{
    int64_t us;

    pthread_mutex_lock(&gate->mutex);
    us = gate->whole_us;
    pthread_mutex_unlock(&gate->mutex);
    return us;
}

double ps_gate_waited_s(ps_gate *gate, char *whom, size_t cap)
{
    double s;

    pthread_mutex_lock(&gate->mutex);
    s = (double)gate->waited_ns * 1e-9;
    if (gate->waiting) {
        name_debtors(gate, &gate->want, whom, cap);
    } else {
        whom[0] = '\0';
    }
    pthread_mutex_unlock(&gate->mutex);
    return s;
}
