/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_turn.c - turns of the machine, on the loop's thread or as tasks; see mesh_exchange_impl.h.
 */
#include "services/worker/mesh_exchange_impl.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/log.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS_KEPT = 2 }; /* newest steps, of which peer_outbox_thin drops no packets */

void exchange_name_workers(const ps_mesh_exchange *x, const bool *which, char *text, size_t cap)
{
    size_t n = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < x->peers && n < cap; i++) {
        if (which[i]) {
            n += (size_t)snprintf(text + n, cap - n, "%s%s", n > 0 ? ", " : "",
                                  ps_placement_process(&x->conf.session->placement, i)->node_id);
        }
    }
}

void exchange_name_missing(const ps_mesh_exchange *x, char *text, size_t cap)
{
    bool *missing = ps_xcalloc(x->peers, sizeof *missing);

    ps_mesh_missing(x->me.mesh, missing);
    exchange_name_workers(x, missing, text, cap);
    free(missing);
}

/* Moves packets from the machine to the outboxes. */
static void hand_out(ps_mesh_exchange *x)
{
    ps_mesh_out out;

    while (ps_mesh_next(x->me.mesh, &out)) {
        for (uint32_t i = 0; i < out.count; i++) {
            peer_outbox_add(&x->outboxes[out.targets[i]], out.packet);
        }
        ps_packet_unref(out.packet);
    }
}

/* Sets the timer for the machine's next tick. */
static void arm(ps_mesh_exchange *x)
{
    int64_t at_us = ps_mesh_deadline(x->me.mesh), now_us = ps_clock_us();

    if (at_us == INT64_MAX || x->stopping) {
        ps_loop_cancel(x->conf.loop, &x->due);
    } else {
        ps_loop_after(x->conf.loop, &x->due, at_us > now_us ? at_us - now_us : 0);
    }
}

/* Finishes the running step if its sum is complete and the exchange is not halted; then keeps the
 * reports of ranks with it and returns true. */
static bool finish_step(ps_mesh_exchange *x)
{
    if (x->is_halted || !ps_mesh_worker_finish(&x->me)) {
        return false;
    }
    for (uint32_t i = 0; i < x->peers; i++) {
        ps_said said = ps_mesh_worker_said(&x->me, i);

        ps_rank_reports_take(&x->reports, i, x->me.next - 1, said.bytes, said.len, said.is_partial);
        x->inboxes[i].early_bytes = 0;
    }
    return true;
}

/* Fills in x->turn. Returns false if the machine has nothing to do. */
static bool prepare_turn(ps_mesh_exchange *x)
{
    mesh_turn *turn = &x->turn;

    if (x->has_given && x->me.next > STEPS_KEPT && !x->me.is_running) {
        for (uint32_t i = 0; i < x->peers; i++) {
            peer_outbox_thin(&x->outboxes[i], x->me.next - STEPS_KEPT);
        }
    }
    turn->advances = x->has_given;
    x->has_begun |= x->has_given;
    turn->is_due = x->is_due;
    x->has_given = x->is_due = false;
    turn->begins_repair = false;
    turn->failed = ps_ok();
    peer_lend_inboxes(x);
    return turn->advances || turn->is_due || turn->count > 0;
}

/* Tells the machine the time, and notes whether it begins a repair. */
static ps_status tick(ps_mesh_exchange *x)
{
    const ps_mesh_counters *c = ps_mesh_counters_of(x->me.mesh);
    uint64_t repairs = c->repairs;
    ps_status st;

    exchange_name_missing(x, x->turn.waits_for, sizeof x->turn.waits_for);
    st = ps_mesh_tick(x->me.mesh, ps_clock_us());
    x->turn.begins_repair = c->repairs > repairs;
    return st;
}

/* Does the machine's part of a turn: gives it the packets and variables, and tells it the time.
 * Runs as a task or on the loop's thread (exchange_settle). */
static void run_turn(ps_task *task)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(task, ps_mesh_exchange, turn.task);
    mesh_turn *turn = &x->turn;
    ps_status st = ps_ok(), of_code;

    ps_mesh_hold(x->me.mesh);
    if (turn->advances) {
        st = ps_mesh_worker_advance(&x->me, ps_clock_us());
    }
    for (size_t i = 0; i < turn->count; i++) {
        ps_status *refused = &turn->refused[turn->packets[i]->from];

        if (ps_is_ok(&st) && ps_is_ok(refused)) {
            *refused = ps_mesh_take(x->me.mesh, turn->packets[i]);
        }
        ps_packet_unref(turn->packets[i]);
    }
    turn->count = 0;
    st = ps_mesh_release(x->me.mesh, st);
    if (ps_is_ok(&st) && turn->is_due) {
        st = tick(x);
    }
    /* What failed code has encoded means zeros, and what it could not decode is no peer's fault. */
    of_code = ps_plan_code_failure(x->plan);
    turn->failed = ps_is_ok(&of_code) ? st : of_code;
}

/* Does the loop's part after a turn: fails the exchange if the turn has failed; else empties
 * inboxes, sends the machine's packets, and ends the step if its sum is complete. */
static void end_turn(ps_mesh_exchange *x)
{
    mesh_turn *turn = &x->turn;

    if (!ps_is_ok(&turn->failed) && !x->has_failed) {
        exchange_fail(x, &turn->failed);
    }
    if (x->has_failed) {
        return;
    }
    if (turn->begins_repair) {
        ps_log(PS_LOG_WARN, "peers", "step %llu waits for %s: all packets are sent again",
               (unsigned long long)x->me.next, turn->waits_for);
    }
    peer_settle_inboxes(x);
    hand_out(x);
    if (finish_step(x)) {
        exchange_publish(x);
    }
}

/* Handles the end of a turn that ran as a task. On the loop's thread. */
static void on_turn(ps_task *task)
{
    ps_mesh_exchange *x = PS_CONTAINER_OF(task, ps_mesh_exchange, turn.task);

    x->turn.is_under_way = false;
    end_turn(x);
    exchange_settle(x);
    if (x->stopping) {
        exchange_end_if_over(x);
    }
}

void exchange_settle(ps_mesh_exchange *x)
{
    if (x->is_over && !ps_gate_is_open(&x->me.gate)) {
        return;
    }
    while (!x->turn.is_under_way && !x->has_failed && prepare_turn(x)) {
        /* No task is under way when the exchange may be destroyed: before the trainer has given
         * anything, and when all is over. Then packets call no sandbox: they are kept, or of steps
         * that have ended. */
        if (x->tasks != NULL && x->has_begun && !x->is_over) {
            x->turn.is_under_way = true;
            ps_tasks_submit(x->tasks, NULL, &x->turn.task);
        } else {
            run_turn(&x->turn.task);
            end_turn(x);
        }
    }
    if (x->has_failed) {
        return;
    }
    for (uint32_t i = 0; i < x->peers; i++) {
        peer_outbox_pump(&x->outboxes[i]);
    }
    if (!x->turn.is_under_way) {
        arm(x);
    }
}

void exchange_init_turn(ps_mesh_exchange *x)
{
    x->turn.task = (ps_task){.run = run_turn, .done = on_turn};
    x->turn.packets = ps_xcalloc((size_t)x->peers * PEER_BATCH, sizeof(ps_packet *));
    x->turn.refused = ps_xcalloc(x->peers, sizeof *x->turn.refused);
}

void exchange_fini_turn(ps_mesh_exchange *x)
{
    free(x->turn.packets);
    free(x->turn.refused);
}
