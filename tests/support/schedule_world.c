/* SPDX-License-Identifier: Apache-2.0 */
/* schedule_world.c - see schedule_world.h. */
#include "tests/support/schedule_world.h"

#include "common/base/draw.h"

uint32_t sw_draw(world *w, uint32_t below)
{
    return (uint32_t)(ps_draw_u64(w->seed, w->drawn++) % below);
}

void sw_post(world *w, message m)
{
    MUST(w->n < SW_FLIGHT);
    w->flight[w->n++] = m;
}

static void answer(world *w, const message *to, kind how)
{
    message m = *to;

    m.kind = how;
    m.incarnation = w->node[to->node].incarnation;
    m.step = w->job[to->job].steps[to->attempt];
    sw_post(w, m);
}

void sw_node_lets_go(model_node *n)
{
    n->job = -1;
    n->phase = PHASE(IDLE);
}

void sw_node_takes(world *w, const message *m)
{
    model_node *n = &w->node[m->node];
    bool holds = n->job == (int)m->job && n->attempt == m->attempt;

    if (!n->is_up) {
        return;
    }
    switch (m->kind) {
    case ASK:
        if (holds || m->attempt < n->newest[m->job]) {
            answer(w, m, holds ? RESERVED : BUSY);
        } else if (n->job >= 0 && n->job != (int)m->job) {
            answer(w, m, BUSY);
        } else {
            n->job = (int)m->job;
            n->attempt = n->newest[m->job] = m->attempt;
            n->phase = PHASE(RESERVED);
            answer(w, m, RESERVED);
        }
        break;
    case PREPARE:
        if (holds && n->phase == PHASE(RESERVED)) {
            n->phase = PHASE(PREPARED);
        }
        answer(w, m, holds ? PREPARED : UNRESERVED);
        break;
    case START:
        if (holds && n->phase == PHASE(PREPARED)) {
            n->phase = PHASE(READY);
            answer(w, m, READY);
        }
        break;
    case OPEN:
        if (holds && n->phase == PHASE(READY)) {
            n->phase = PHASE(RUNNING);
        }
        break;
    case COLLECT:
        if (holds) {
            answer(w, m, FILES);
        }
        break;
    case ABORT:
        answer(w, m, RELEASED);
        /* fall through */
    case DROP:
        if (n->job == (int)m->job && n->attempt <= m->attempt) {
            sw_node_lets_go(n);
        }
        break;
    case REGISTER_AGAIN:
        answer(w, m, REGISTER);
        break;
    default:
        break;
    }
}

void sw_node_beats(world *w, unsigned i)
{
    model_node *n = &w->node[i];
    message m = {.kind = BEAT,
                 .node = i,
                 .incarnation = n->incarnation,
                 .holds = n->job,
                 .phase = n->phase,
                 .attempt = n->attempt,
                 .job = n->job >= 0 ? (unsigned)n->job : 0};

    n->next_beat = w->now + SW_BEAT_US;
    for (size_t k = 0; k < w->n; k++) {
        if (w->flight[k].kind == BEAT && w->flight[k].node == i) {
            return; /* a heartbeat of the node is under way already */
        }
    }
    sw_post(w, m);
    if (n->phase == PHASE(READY)) { /* the node calls again because it got no answer */
        m.kind = READY;
        sw_post(w, m);
    }
}

void sw_work(world *w)
{
    unsigned running[SW_JOBS][SW_ATTEMPTS] = {{0}};

    for (unsigned i = 0; i < SW_NODES; i++) {
        const model_node *n = &w->node[i];

        if (n->is_up && w->now >= n->frozen_until &&
            (n->phase == PHASE(RUNNING) || n->phase == PHASE(FINISHED))) {
            running[n->job][n->attempt]++;
        }
    }
    for (unsigned i = 0; i < SW_NODES; i++) {
        model_node *n = &w->node[i];
        model_job *j = n->job >= 0 ? &w->job[n->job] : NULL;

        if (j == NULL || running[n->job][n->attempt] == 0 ||
            running[n->job][n->attempt] < j->counts[n->attempt]) {
            continue;
        }
        if (j->steps[n->attempt] >= SW_STEPS) {
            n->phase = PHASE(FINISHED);
        } else if (sw_draw(w, 4) == 0) {
            j->steps[n->attempt]++;
        }
    }
}
