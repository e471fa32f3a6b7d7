/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_world.h - simulates the workers of a mesh and the network between them. Packets arrive in a
 * random order; the test may have them lost or doubled. Between arrivals each node's parts become
 * ready one by one, in a random order. */
#ifndef PS_TESTS_SUPPORT_MESH_WORLD_H
#define PS_TESTS_SUPPORT_MESH_WORLD_H

#include "common/mesh/mesh.h"

enum { MESH_NODES_MAX = 16, MESH_PARTS_MAX = 8, MESH_WINDOW_US = 1000000 };

/* A copy of a packet that is on its way to node `to`. */
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
    uint64_t step[MESH_NODES_MAX]; /* number of steps that the node has ended */
    bool is_dead[MESH_NODES_MAX];  /* the node neither sends nor receives */
    bool has_begun[MESH_NODES_MAX];
    /* number of parts of blocks that were given to the node's machine in this step */
    uint32_t given[MESH_NODES_MAX];
    uint32_t order[MESH_NODES_MAX][MESH_PARTS_MAX];
    ps_status failure[MESH_NODES_MAX]; /* first failure of the node's machine; OK: none */
    float **block;                     /* (K)(n), K blocks: gradients, the same in every step */
    const float **held[MESH_NODES_MAX];
    float *sum[MESH_NODES_MAX]; /* (n): the sum of the last step that the node has ended */
    mesh_copy_on_wire *wire;
    size_t wire_count, wire_cap;
    double loss;      /* fraction of the copies that get lost; 0 once time has passed */
    bool comes_twice; /* each copy arrives twice */
    /* when time passes, nodes are told one after the other, and between two of them all packets
     * that are under way arrive */
    bool ticks_alone;
    int64_t now_us;
    bool has_reports; /* set it before mesh_world_init_parts */
    /* (optional) of ps_mesh_conf, whose arg is the world; set it before mesh_world_init_parts */
    bool (*is_wanted)(void *arg);
    uint64_t wrong_reports; /* number of wrong reports of workers in steps that nodes have ended */
    uint64_t events;        /* number of events: parts that became ready, and copies that arrived */
    /* after so many events `victim` dies, and half of its copies under way get lost; 0: never */
    uint64_t kill_at;
    uint32_t victim;
    bool holds; /* machines are held (ps_mesh_hold), and let go on after some of their events */
    bool is_held[MESH_NODES_MAX];
    bool time_stands; /* mesh_world_run_many returns when nothing is under way any more */
} mesh_world;

/* Prepares `nodes` workers of the exchange `mesh` with the assignment `assign`, and n values, which
 * are divided into several parts. `codec` is used in both directions with its defaults. Returns
 * INVALID_ARGUMENT if the exchange refuses this. */
PS_MUST_USE ps_status mesh_world_init(mesh_world *w, const char *mesh, const char *assign,
                                      uint32_t nodes, uint32_t redundancy, size_t n,
                                      const char *codec, uint64_t seed);
/* Does what mesh_world_init does, with the parts in w->part (part_count), of which the test has set
 * all but place and step. */
PS_MUST_USE ps_status mesh_world_init_parts(mesh_world *w, const char *mesh, const char *assign,
                                            uint32_t nodes, uint32_t redundancy, uint64_t seed);
void mesh_world_fini(mesh_world *w);

/* Returns a codec with its defaults, except for the numbers in "name=value,name=value". */
ps_mesh_codec mesh_world_codec(const char *name, const char *numbers);

/* Runs until every live node has ended step `clock` or has failed. Whenever nothing is under way
 * any more, MESH_WINDOW_US pass. */
void mesh_world_run(mesh_world *w, uint64_t clock);

/* Does what mesh_world_run does, until every live node has ended `steps` steps; nodes may be a step
 * ahead of others meanwhile. */
void mesh_world_run_many(mesh_world *w, uint64_t steps);

/* Returns value i of the sum of all blocks, computed in double. */
double mesh_world_true(const mesh_world *w, size_t i);

/* returns the counters of all nodes, added up */
ps_mesh_counters mesh_world_counters(const mesh_world *w);

#endif
