/* SPDX-License-Identifier: Apache-2.0 */
/* commit_world.c - see commit_world.h. */
#include "tests/support/commit_world.h"

const ps_commit_conf cm_conf = {
    .find_us = 600 * S,
    .can_commit_us = 5 * S,
    .make_us = 90 * S,
    .pre_commit_us = 60 * S,
    .ready_us = 10 * S,
    .lease_us = 8 * S,
    .late_us = 1 * S,
    .silent_us = 2 * S,
    .collect_us = 120 * S,
    .abort_us = 3 * S,
    .may_repeat = true,
};

const ps_member cm_nodes[NODES] = {
    {.id = "w0", .address = "h:1", .role = WORKER, .rank = 0, .rank_count = 1},
    {.id = "w1", .address = "h:2", .role = WORKER, .rank = 1, .rank_count = 1},
    {.id = "ps0", .address = "h:3", .role = PSERVER, .rank = 0, .rank_count = 1},
};

const ps_status cm_ok = {.code = PS_OK};
const ps_status cm_full = {.code = PS_RESOURCE_EXHAUSTED, .text = "write x: No space left"};

void cm_take(cm_world *w)
{
    ps_commit_action a;
    size_t i;

    while ((a = ps_commit_next(&w->c, &i)) != PS_COMMIT_NOTHING) {
        switch (a) {
        case PS_COMMIT_ASK:
            w->asked[i]++;
            break;
        case PS_COMMIT_PREPARE:
            w->prepared[i]++;
            break;
        case PS_COMMIT_START:
            w->started[i]++;
            break;
        case PS_COMMIT_OPEN:
            w->opened[i]++;
            break;
        case PS_COMMIT_COLLECT:
            w->collected[i]++;
            break;
        case PS_COMMIT_SPARED:
            w->spared[i]++;
            break;
        case PS_COMMIT_RELEASE:
            w->released[i]++;
            break;
        case PS_COMMIT_CHANGED:
            w->changed++;
            break;
        case PS_COMMIT_MAKE:
            w->made++;
            ps_commit_packaged(&w->c, w->c.conf.pre_commit_us, w->now);
            break;
        case PS_COMMIT_STORE:
            w->stored++;
            break;
        case PS_COMMIT_RESCUE:
            w->rescued++;
            break;
        case PS_COMMIT_SAVE:
            w->saved++;
            ps_commit_saved(&w->c, w->is_full ? &cm_full : &cm_ok, w->now);
            break;
        case PS_COMMIT_OVER:
            w->over++;
            break;
        case PS_COMMIT_NOTHING:
            break;
        }
    }
}

void cm_begin(cm_world *w, const ps_commit_conf *with)
{
    *w = (cm_world){.now = 100 * S};
    ps_commit_begin(&w->c, with, cm_nodes, NODES, w->now);
    ps_commit_started(&w->c, w->now);
    cm_take(w);
}

void cm_reserve_all(cm_world *w)
{
    for (size_t i = 0; i < NODES; i++) {
        ps_commit_reserved(&w->c, i, cm_nodes[i].id, 7 + i, w->now);
    }
    cm_take(w);
}

void cm_prepare_all(cm_world *w)
{
    for (size_t i = 0; i < NODES; i++) {
        ps_commit_prepared(&w->c, i, w->now);
    }
    cm_take(w);
}

void cm_ready_one(cm_world *w, size_t i)
{
    ps_status st = ps_commit_ready(&w->c, i, 7 + i, w->now);

    assert_int_equal(st.code, PS_OK);
    cm_take(w);
}

void cm_beat(cm_world *w, size_t i, Psgd__V1__NodePhase phase)
{
    ps_commit_beat(&w->c, i, 7 + i, true, phase, &cm_ok, w->now);
    cm_take(w);
}

void cm_run(cm_world *w, const ps_commit_conf *with)
{
    cm_begin(w, with);
    cm_reserve_all(w);
    cm_prepare_all(w);
    for (size_t i = 0; i < NODES; i++) {
        cm_ready_one(w, i);
    }
    assert_int_equal(w->c.state, STATE(RUNNING));
}

void cm_finish_workers(cm_world *w)
{
    cm_beat(w, W0, PHASE(FINISHED));
    cm_beat(w, W1, PHASE(FINISHED));
    cm_beat(w, PS0, PHASE(FINISHED));
}

void cm_collect_all(cm_world *w)
{
    for (size_t i = 0; i < NODES; i++) {
        ps_commit_collected(&w->c, i, &cm_ok, w->now);
    }
    cm_take(w);
}

void cm_store(cm_world *w)
{
    ps_commit_stored(&w->c, &cm_ok, w->now);
    cm_take(w);
}

void cm_release_all(cm_world *w)
{
    for (size_t i = 0; i < NODES; i++) {
        ps_commit_released(&w->c, i, w->now);
    }
    cm_take(w);
}

void cm_tick(cm_world *w, int64_t us)
{
    w->now += us;
    ps_commit_tick(&w->c, w->now);
    cm_take(w);
}
