/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.h - when an attempt takes checkpoints, and which of a job's are kept.
 *
 * Pure: no I/O; time is passed in. One checkpoint is under way at a time. It is named: a clock that
 * no node has begun, which heartbeats tell all nodes. Each takes it, or says that it could not;
 * then it is given up and a later one is named, further ahead. When all have it, their files are
 * collected one node after the other, then stored. All nodes are told up to which clock they may
 * forget theirs.
 */
#ifndef PS_COORDINATOR_CHECKPOINTS_H
#define PS_COORDINATOR_CHECKPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ps_cut_stage {
    PS_CUT_NONE,
    PS_CUT_NAMED,      /* nodes take it */
    PS_CUT_COLLECTING, /* all have it */
    PS_CUT_STORING     /* all files are here */
} ps_cut_stage;

typedef struct ps_cuts {
    ps_cut_stage stage;
    uint64_t clock; /* of the one under way, or of the last one */
    uint64_t done;  /* nodes forget those up to this clock */
    bool is_wanted; /* somebody has asked for one that has not been stored yet: ps_cuts_want */
    uint64_t wanted_after; /* it is of a later clock than this */
    bool wants_stay;       /* the one that is wanted is one at which workers stay */
    bool stays;            /* workers stay at the one under way */
    unsigned misses;       /* in a row: how often a clock was named too late */
    int64_t since_us;      /* when the last one was stored or given up, or training began */
    size_t count;          /* nodes */
    bool *has;             /* (count): the node has it; its files wait, or are collected */
    bool *is_away;         /* (count): the node takes none any more: ps_cuts_leave */
    size_t at;             /* node whose files are collected */
} ps_cuts;

/* Begins: `clock` is the one that all nodes take by themselves (ps_checkpoint_next); 0: none. */
void ps_cuts_init(ps_cuts *cuts, size_t nodes, uint64_t clock, int64_t now_us);
void ps_cuts_fini(ps_cuts *cuts);

/* Asks for one; `stays`: workers begin no clock after it. Returns the clock after which it is: a
 * checkpoint whose files are being collected already is too old, unless workers stay at it. */
uint64_t ps_cuts_want(ps_cuts *cuts, bool stays);

/* Returns whether one is to be named soon: `every_us` is over since the last one (0: never by
 * time), or one is wanted. Never while files of one are collected or stored. */
bool ps_cuts_is_due(const ps_cuts *cuts, int64_t every_us, int64_t now_us);

/* Returns how many clocks ahead one is named where so many are begun in a second: as many as three
 * heartbeats have, so that each node hears of it before, and more after misses. */
uint64_t ps_cuts_ahead(const ps_cuts *cuts, double clocks_a_second, int64_t heartbeat_us);

/* Names one, while none is under way, or in place of a later one that is named. */
void ps_cuts_name(ps_cuts *cuts, uint64_t clock);

/* A node takes none any more: it is lost, or has done all of its steps. Nobody waits for it. */
void ps_cuts_leave(ps_cuts *cuts, size_t node);

/* Returns whether the node has the one that is named, or takes none any more. */
bool ps_cuts_has(const ps_cuts *cuts, size_t node);

/* Takes what a node says: the clock of the checkpoint that it has, and of the one that it missed;
 * 0: none. Returns whether that was the last one: the files of node cuts->at, the first one that
 * has it, are to be collected. */
bool ps_cuts_told(ps_cuts *cuts, size_t node, uint64_t has, uint64_t missed, int64_t now_us);

/* The files of node cuts->at are here. Returns whether there is another node, which is then
 * cuts->at; else the checkpoint is to be stored. */
bool ps_cuts_collected(ps_cuts *cuts);

/* It is stored. */
void ps_cuts_stored(ps_cuts *cuts, int64_t now_us);

/* It is given up, in any stage, for another reason than that it was named too late. If it
 * was wanted, it is not tried again. */
void ps_cuts_give_up(ps_cuts *cuts, int64_t now_us);

/* ---- Checkpoints of changes ---- */

/* Servers may leave out rows that have not changed since an earlier checkpoint, which is then the
 * parent of the later one. A checkpoint has all rows
 *
 *   - after PS_CHAIN_MAX with changes: who reads one needs few folders, and a damaged file costs
 *     few checkpoints;
 *   - if the changes since the last whole one have together more than half of its bytes: who reads
 *     the last one reads at most about 1.5 times as much as of a whole one;
 *   - PS_CHAIN_MAX times after one whose changes alone have more than half of these bytes: leaving
 *     out rows saves little then. */
enum { PS_CHAIN_MAX = 8 };

typedef struct ps_chain {
    uint64_t clock;   /* of the checkpoint from which the next one may count; 0: it has all rows */
    unsigned changes; /* checkpoints of changes since the last whole one */
    unsigned rest;    /* whole ones to come before changes are tried again */
    uint64_t whole, changed; /* bytes of the servers' files: of the whole one, of the changes */
} ps_chain;

/* The checkpoint at `clock` is stored; the servers' files have so many bytes. is_whole: they have
 * all rows. */
void ps_chain_stored(ps_chain *chain, uint64_t clock, bool is_whole, uint64_t bytes);

/* ---- Retention ---- */

/* Returns the index of the best of values (count); NaN: not evaluated. Of equal ones it is the
 * first. `count`: none was evaluated. */
size_t ps_checkpoints_best(const double *values, size_t count, bool is_cost);

/* Marks in drop (count) the checkpoints that are not kept, of steps (count), ascending, all of
 * which were read back: the newest `keep`, >= 1, stay, those whose step is a multiple of
 * keep_every (0: none), and number `best` (count: none). At least the newest one stays. */
void ps_checkpoints_choose(const uint64_t *steps, size_t count, uint32_t keep, uint64_t keep_every,
                           size_t best, bool *drop);

/* Clears in drop (count) what those that are kept need: parent[i] < i is the index of the parent of
 * number i; count: it has none. With has_other also one that shares no file with the newest one is
 * kept, if there is one: the newest of these. So a damaged file does not cost all. */
void ps_checkpoints_keep_parents(const size_t *parent, size_t count, bool has_other, bool *drop);

#endif
