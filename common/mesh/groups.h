/* SPDX-License-Identifier: Apache-2.0 */
/* groups.h - subsets of the nodes, for ccdc.c: blocks are all those of r, groups all those of
 * r + 1, both in lexicographic order; here are the groups that one node is in. */
#ifndef PS_COMMON_MESH_GROUPS_H
#define PS_COMMON_MESH_GROUPS_H

#include "common/data/assign.h"

#include <stdbool.h>
#include <stdint.h>

enum { GROUPS_MAX = 1 << 18 }; /* members of all groups together */

typedef struct groups {
    const ps_assignment *assignment; /* kept */
    uint32_t self, r;
    uint32_t total;   /* of all nodes */
    uint32_t count;   /* that this node is in */
    uint32_t *member; /* (count, r + 1), ascending */
    uint32_t *number; /* (count): among all groups, ascending */
} groups;

/* How many groups n nodes have, or more than GROUPS_MAX if they are more. */
uint64_t groups_of(uint32_t nodes, uint32_t r);

/* Is there a block for every r of the workers, in that order? */
bool groups_have_all_blocks(const ps_assignment *a);

/* The assignment has all blocks, and its groups' members are at most GROUPS_MAX. */
void groups_init(groups *g, const ps_assignment *assignment, uint32_t self);
void groups_fini(groups *g);

/* The members (r + 1) of group i of this node's. */
static inline const uint32_t *groups_members(const groups *g, uint32_t i)
{
    return g->member + (size_t)i * (g->r + 1);
}

/* Which of this node's groups has that number among all? False: none. */
bool groups_find(const groups *g, uint32_t number, uint32_t *i);

bool groups_is_in(const uint32_t *group, uint32_t count, uint32_t node);

/* The block of all members but one, not this node: its place among those that it holds. */
uint32_t groups_held_without(const groups *g, const uint32_t *group, uint32_t without);

/* Place of a member among the others when one is left out. */
uint32_t groups_place_without(const uint32_t *group, uint32_t member, uint32_t without);

#endif
