/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_world.h - n nodes of an exchange and the network between them: packets
 * arrive in an order drawn at random, get lost or come twice as one likes; in between
 * each node has its parts ready one by one, in an order drawn too. */
#ifndef PS_TESTS_SUPPORT_MESH_WORLD_H
#define PS_TESTS_SUPPORT_MESH_WORLD_H

#include "common/mesh/mesh.h"

enum { MESH_NODES_MAX = 16, MESH_PARTS_MAX = 8, MESH_WINDOW_US = 1000000 };

/* A copy of a packet under way. */
typedef struct mesh_copy_on_wire {
    ps_packet *packet;
    uint32_t to;
} mesh_copy_on_wire;

typedef struct mesh_world {
    ps_assignment *assignment;
    uint32_t nodes;
    size_t n;
    ps_mesh_part part[MESH_PARTS_MAX];
    uint32_t part_count;
    uint64_t seed, draws;
    ps_mesh_machine *node[MESH_NODES_MAX];
    uint64_t step[MESH_NODES_MAX]; /* steps that the node has ended */
    bool is_dead[MESH_NODES_MAX];  /* says nothing and hears nothing */
    bool has_begun[MESH_NODES_MAX];
    uint32_t given[MESH_NODES_MAX]; /* parts of blocks in this step */
    uint32_t order[MESH_NODES_MAX][MESH_PARTS_MAX];
    ps_status failure[MESH_NODES_MAX]; /* the first of the node */
    float **block;                     /* (K)(n): gradients, the same in every step */
    const float **held[MESH_NODES_MAX];
    float *sum[MESH_NODES_MAX]; /* (n): of the last step that it ended */
    mesh_copy_on_wire *wire;
    size_t wire_count, wire_cap;
    double loss;      /* share of the copies that get lost, until time passes */
    bool comes_twice; /* each copy */
    bool ticks_alone; /* when time passes nodes notice it one by one, and all arrives in between */
    int64_t now_us;
    bool has_reports; /* set it before mesh_world_init_parts */
    /* (optional) of ps_mesh_conf, whose arg is the world; set it before mesh_world_init_parts */
    bool (*is_wanted)(void *arg);
    uint64_t wrong_reports; /* of steps that nodes have ended */
    uint64_t events;        /* parts that became ready, and copies that arrived */
    uint64_t kill_at;       /* after so many, `victim` is dead, with half of its copies; 0: never */
    uint32_t victim;
    bool holds; /* nodes are held, and released after some of the events that each has seen */
    bool is_held[MESH_NODES_MAX];
    bool time_stands; /* mesh_world_run_many returns when nothing is under way any more */
} mesh_world;

/* `assign` by name, `codec` with its defaults both ways, the values in some parts;
 * INVALID_ARGUMENT if the exchange refuses it. */
PS_MUST_USE ps_status mesh_world_init(mesh_world *w, const char *mesh, const char *assign,
                                      uint32_t nodes, uint32_t redundancy, size_t n,
                                      const char *codec, uint64_t seed);
/* The same with parts of w->part (part_count), whose place and step are filled in. */
PS_MUST_USE ps_status mesh_world_init_parts(mesh_world *w, const char *mesh, const char *assign,
                                            uint32_t nodes, uint32_t redundancy, uint64_t seed);
void mesh_world_fini(mesh_world *w);

/* A codec with its defaults, but for some numbers as "name=value,name=value". */
ps_mesh_codec mesh_world_codec(const char *name, const char *numbers);

/* Every live node ends step `clock` or fails; with MESH_WINDOW_US passing
 * whenever nothing is under way any more. */
void mesh_world_run(mesh_world *w, uint64_t clock);

/* The same until each has ended that many steps, some a step ahead of others. */
void mesh_world_run_many(mesh_world *w, uint64_t steps);

/* The sum over all blocks as double. */
double mesh_world_true(const mesh_world *w, size_t i);

ps_mesh_counters mesh_world_counters(const mesh_world *w); /* of all nodes */

#endif
