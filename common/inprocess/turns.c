/* SPDX-License-Identifier: Apache-2.0 */
/* turns.c - see turns.h. */
#include "common/inprocess/turns.h"

void ps_turns_init(ps_turns *turns, uint32_t at_a_time)
{
    *turns = (ps_turns){.allowed = at_a_time};
    pthread_mutex_init(&turns->mutex, NULL);
    pthread_cond_init(&turns->given, NULL);
}

void ps_turns_fini(ps_turns *turns)
{
    pthread_cond_destroy(&turns->given);
    pthread_mutex_destroy(&turns->mutex);
}

static void take_locked(ps_turns *turns)
{
    uint64_t ticket = turns->asked++;

    while (ticket >= turns->allowed) {
        pthread_cond_wait(&turns->given, &turns->mutex);
    }
}

static void give_locked(ps_turns *turns)
{
    turns->allowed++;
    pthread_cond_broadcast(&turns->given);
}

void ps_turns_take(ps_turns *turns)
{
    pthread_mutex_lock(&turns->mutex);
    take_locked(turns);
    pthread_mutex_unlock(&turns->mutex);
}

void ps_turns_give(ps_turns *turns)
{
    pthread_mutex_lock(&turns->mutex);
    give_locked(turns);
    pthread_mutex_unlock(&turns->mutex);
}

void ps_turns_pass(ps_turns *turns)
{
    pthread_mutex_lock(&turns->mutex);
    if (turns->asked > turns->allowed) {
        give_locked(turns);
        take_locked(turns);
    }
    pthread_mutex_unlock(&turns->mutex);
}

void ps_turn_take(ps_turn *turn)
{
    if (turn->turns != NULL && !turn->is_mine) {
        ps_turns_take(turn->turns);
    }
    turn->is_mine = true;
}

void ps_turn_give(ps_turn *turn)
{
    if (turn->turns != NULL && turn->is_mine) {
        ps_turns_give(turn->turns);
    }
    turn->is_mine = false;
}

void ps_turn_pass(ps_turn *turn)
{
    if (turn->turns != NULL && turn->is_mine) {
        ps_turns_pass(turn->turns);
    }
    ps_turn_take(turn);
}
