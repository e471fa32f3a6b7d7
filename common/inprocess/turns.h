/* SPDX-License-Identifier: Apache-2.0 */
/* turns.h - limits how many threads compute at a time. The others wait, first come, first served.
 * Any thread.
 */
#ifndef PS_COMMON_INPROCESS_TURNS_H
#define PS_COMMON_INPROCESS_TURNS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct ps_turns {
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t given;
    uint64_t asked; /* tickets drawn so far: ticket i is admitted when i < allowed */
    /* how many tickets are admitted: threads at a time + turns given back so far */
    uint64_t allowed;
} ps_turns;

/* Initialises turns for `at_a_time` threads, at least 1. */
void ps_turns_init(ps_turns *turns, uint32_t at_a_time);
/* Frees what ps_turns_init has made. Nobody may wait for a turn. */
void ps_turns_fini(ps_turns *turns);

/* Blocks until the caller has a turn. */
void ps_turns_take(ps_turns *turns);
/* Gives the caller's turn back. */
void ps_turns_give(ps_turns *turns);
/* Lets the threads that wait go first, if there are any: gives the turn back and takes a new one.
 */
void ps_turns_pass(ps_turns *turns);

/* How long a thread waits busily, in microseconds, where the number of threads is not limited: most
 * waits are then shorter than falling asleep and being woken. */
enum { PS_TURNS_SPIN_US = 200 };

/* A thread's view of the turns: it knows whether the thread has one. */
typedef struct ps_turn {
    ps_turns *turns; /* NULL: no limit */
    bool is_mine;
} ps_turn;

/* Takes a turn, unless the thread has one. */
void ps_turn_take(ps_turn *turn);
/* Gives the turn back, if the thread has one. */
void ps_turn_give(ps_turn *turn);
/* Passes the turn, or takes one if the thread has none. Call it in every step: a thread that never
 * waits would otherwise never let the others compute. */
void ps_turn_pass(ps_turn *turn);

#endif
