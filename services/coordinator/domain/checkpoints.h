/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoints.h - when an attempt takes checkpoints, and which checkpoints of a job are kept.
 *
 * Pure: no I/O; time is passed in. One checkpoint is under way at a time. First a checkpoint is
 * named: it gets a clock, which no node has begun if ranks are in step, and answers to heartbeats
 * tell the clock to all nodes. Each node takes the checkpoint, or says that it could not. If a node
 * could not, the checkpoint is given up, and a later one is named, further ahead. When all nodes
 * have taken it, their files are collected one node after the other, and then stored. Nodes are
 * told up to which clock they may forget their checkpoints. */
#ifndef PS_COORDINATOR_CHECKPOINTS_H
#define PS_COORDINATOR_CHECKPOINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ps_cut_stage {
    PS_CUT_NONE,
    PS_CUT_NAMED,      /* a clock was named; nodes take the checkpoint */
    PS_CUT_COLLECTING, /* all nodes have taken it; their files are collected */
    PS_CUT_STORING     /* all files are collected and are being stored */
} ps_cut_stage;

typedef struct ps_cuts {
    ps_cut_stage stage;
    /* clock of the checkpoint that is under way, else of the last one that was named */
    uint64_t clock;
    uint64_t done; /* nodes may forget checkpoints up to this clock */
    /* a checkpoint was asked for (ps_cuts_want), and the request is neither met nor given up */
    bool is_wanted;
    /* the checkpoint that was asked for must be of a later clock than this */
    uint64_t wanted_after;
    bool wants_stay; /* workers have to stay at the checkpoint that was asked for */
    bool wants_copy; /* a checkpoint was asked for without `stays`: for itself */
    bool stays;      /* workers stay at the checkpoint under way */
    unsigned misses; /* how often a clock was named too late since a checkpoint was stored */
    /* time at which the last checkpoint was stored or given up, or training began */
    int64_t since_us;
    size_t count; /* number of nodes */
    /* (count): the node has taken the checkpoint; its files wait, or were collected */
    bool *has;
    bool *is_away; /* (count): the node takes no checkpoints any more (ps_cuts_leave) */
    size_t at;     /* index of the node whose files are being collected */
} ps_cuts;

/* Begins. `clock` is the clock of the first checkpoint, which all nodes take without being told
 * (ps_checkpoint_next); 0: there is none. */
void ps_cuts_init(ps_cuts *cuts, size_t nodes, uint64_t clock, int64_t now_us);
void ps_cuts_fini(ps_cuts *cuts);

/* Asks for a checkpoint. stays: workers begin no clock after it. Returns a clock: the checkpoint
 * that meets the request is of a later one. (A checkpoint whose files are being collected or stored
 * is too old, unless workers stay at it and the request is that they do.) */
uint64_t ps_cuts_want(ps_cuts *cuts, bool stays);

/* Returns whether a checkpoint is to be named soon: every_us have passed since the last one (0:
 * never for this reason), or one was asked for. False while files of a checkpoint are collected or
 * stored. */
bool ps_cuts_is_due(const ps_cuts *cuts, int64_t every_us, int64_t now_us);

/* Returns how many clocks ahead of the present one a checkpoint is to be named, if clocks_a_second
 * begin in a second: two, and as many as begin in three heartbeats, so that each node hears of it
 * in time; after each miss twice as many. */
uint64_t ps_cuts_ahead(const ps_cuts *cuts, double clocks_a_second, int64_t heartbeat_us);

/* Returns whether the checkpoint under way only serves to go on with other processes: workers stay
 * at it, and nobody has asked for it for itself. */
bool ps_cuts_is_passing(const ps_cuts *cuts);

/* Names a checkpoint of `clock`. No checkpoint may be under way, except one that is only named, for
 * a later clock: it is replaced. */
void ps_cuts_name(ps_cuts *cuts, uint64_t clock);

/* Notes that a node takes no checkpoints any more, because it is lost or has done all of its
 * steps. */
void ps_cuts_leave(ps_cuts *cuts, size_t node);

/* Returns whether the node has taken the checkpoint that is named, or takes none any more. */
bool ps_cuts_has(const ps_cuts *cuts, size_t node);

/* Notes what a node says: the clock of the checkpoint that it has taken, and of the one that it has
 * missed; 0: none. Gives up the checkpoint if the node has missed it. Returns true if each node now
 * has taken it or takes none any more, and at least one has; then the files of node cuts->at are to
 * be collected, which is the first node that has any. */
bool ps_cuts_told(ps_cuts *cuts, size_t node, uint64_t has, uint64_t missed, int64_t now_us);

/* Notes that the files of node cuts->at were collected. Returns true if the files of another node
 * are to be collected; cuts->at is that node then. Else the checkpoint is to be stored. */
bool ps_cuts_collected(ps_cuts *cuts);

/* Notes that the checkpoint was stored. */
void ps_cuts_stored(ps_cuts *cuts, int64_t now_us);

/* Gives up the checkpoint under way, in any stage, for another reason than that it was named too
 * late. A request made while it was only named, or before, ends too; a later one stays. */
void ps_cuts_give_up(ps_cuts *cuts, int64_t now_us);

/* ---- Checkpoints of changes ---- */

/* Servers may leave out of a checkpoint the rows that have not changed since an earlier checkpoint.
 * That one is then the parent of the later one, which is a checkpoint of changes. A checkpoint has
 * all rows (is whole)
 *
 * - after PS_CHAIN_MAX checkpoints of changes: whoever reads one then needs few folders, and a
 *   damaged file spoils few checkpoints;
 * - if the changes since the last whole checkpoint have together more than half of its bytes: so
 *   whoever reads the last one reads at most about 1.5 times as much as of a whole one;
 * - PS_CHAIN_MAX times after a checkpoint whose changes alone had more than half of these bytes:
 *   then leaving out rows saves little.
 */
enum { PS_CHAIN_MAX = 8 };

typedef struct ps_chain {
    /* clock of the checkpoint that may be the next one's parent; 0: the next one has all rows */
    uint64_t clock;
    unsigned changes; /* number of checkpoints of changes since the last whole one */
    /* number of whole checkpoints that have to come before changes are tried again */
    unsigned rest;
    /* bytes of the servers' files: of the last whole checkpoint, and of the changes since */
    uint64_t whole, changed;
} ps_chain;

/* Notes that the checkpoint at `clock` was stored, with so many bytes of servers' files. is_whole:
 * they have all rows. */
void ps_chain_stored(ps_chain *chain, uint64_t clock, bool is_whole, uint64_t bytes);

/* ---- Retention ---- */

/* Returns the index of the best of values (count), the first of equal ones. NaN stands for a
 * checkpoint that was not evaluated; `count` is returned if none was. is_cost: less is better. */
size_t ps_checkpoints_best(const double *values, size_t count, bool is_cost);

/* Marks in drop (count) which checkpoints are not to be kept. steps (count) are their steps,
 * ascending; all were read back. These are kept: the newest `keep` (>= 1), those whose step is a
 * multiple of keep_every (0: none), and the one with index `best` (count: none). The newest one is
 * always kept. */
void ps_checkpoints_choose(const uint64_t *steps, size_t count, uint32_t keep, uint64_t keep_every,
                           size_t best, bool *drop);

/* Clears in drop (count) the marks of checkpoints that kept ones need. parent[i] < i is the index
 * of the parent of checkpoint i; `count`: it has none. has_other: at least one checkpoint that
 * shares no file with the newest of all is kept, if there is one, so that a damaged file does not
 * spoil all checkpoints. */
void ps_checkpoints_keep_parents(const size_t *parent, size_t count, bool has_other, bool *drop);

#endif
