/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h - subsets of the workers, for ccdc.c. Each block belongs to a subset of r workers, its
 * holders; each group is a subset of r + 1 workers. All subsets occur, in lexicographic order of
 * their ascending members. A struct groups has the groups of which one worker is a member. */
#ifndef PS_COMMON_MESH_GROUPS_H
#define PS_COMMON_MESH_GROUPS_H

#include "common/data/assign.h"

#include <stdbool.h>
#include <stdint.h>

enum { GROUPS_MAX = 1 << 18 }; /* most members of all groups together */

typedef struct groups {
    const ps_assignment *assignment; /* kept */
    uint32_t self, r;
    uint32_t total;   /* groups of all workers */
    uint32_t count;   /* groups with this worker */
    uint32_t *member; /* (count, r + 1), ascending */
    uint32_t *number; /* (count): number of each group among all groups, ascending */
} groups;

/* Returns the number of groups of `nodes` workers; some number above GROUPS_MAX if there are more
 * than GROUPS_MAX. */
uint64_t groups_of(uint32_t nodes, uint32_t r);

/* Returns whether the assignment has a block for every subset of r workers, in that order. */
bool groups_have_all_blocks(const ps_assignment *a);

/* Fills *g. The assignment must have all blocks, and its groups at most GROUPS_MAX members. */
void groups_init(groups *g, const ps_assignment *assignment, uint32_t self);
void groups_fini(groups *g);

/* Returns the members (r + 1) of this worker's group i. */
static inline const uint32_t *groups_members(const groups *g, uint32_t i)
{
    return g->member + (size_t)i * (g->r + 1);
}

/* Finds this worker's group that has `number` among all groups. Returns false if it has none. */
bool groups_find(const groups *g, uint32_t number, uint32_t *i);

/* Returns whether `worker` is one of the `count` members. */
bool groups_is_in(const uint32_t *group, uint32_t count, uint32_t worker);

/* Returns the index, among the blocks that this worker holds, of the block that all members of the
 * group but `without` hold. `without` is a member, and not this worker. */
uint32_t groups_held_without(const groups *g, const uint32_t *group, uint32_t without);

/* Returns the index of `member` in the ascending list of the group's members without the member
 * `without`. */
uint32_t groups_place_without(const uint32_t *group, uint32_t member, uint32_t without);

#endif
