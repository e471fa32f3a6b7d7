/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h - at most so many threads compute at a time; the others wait for
 * their turn, first come first served. Any thread.
 */
#ifndef PS_COMMON_INPROCESS_TURNS_H
#define PS_COMMON_INPROCESS_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ps_turns {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t given;
    uint64_t asked;   /* tickets drawn so far: ticket i is admitted when i < allowed */
    uint64_t allowed; /* threads at a time + turns given back */
} ps_turns;

void ps_turns_init(ps_turns *turns, uint32_t at_a_time); /* >= 1 */
void ps_turns_fini(ps_turns *turns);

void ps_turns_take(ps_turns *turns); /* waits */
void ps_turns_give(ps_turns *turns); /* back */
void ps_turns_pass(ps_turns *turns); /* lets those who wait go first, if there are any */

/* While all compute, what is waited for is a few microseconds away: less than it takes to fall
 * asleep and be woken. */
enum { PS_TURNS_SPIN_US = 200 };

/* One thread's, which knows whether it has its turn. */
typedef struct ps_turn {
    ps_turns *turns; /* NULL: all compute at once */
    bool is_mine;
} ps_turn;

void ps_turn_take(ps_turn *turn); /* if it has not */
void ps_turn_give(ps_turn *turn); /* if it has */
/* Each step is a chance for the others, whom nothing else may ever stop for. */
void ps_turn_pass(ps_turn *turn);

#endif
