/* SPDX-License-Identifier: Apache-2.0 */
/* bench_mesh.c - every exchange with every codec over n nodes in this process:
 * what they say, what is left of the sum, and how long a step computes, beside
 * plain with f32.
 *
 *     bench_mesh [nodes [redundancy [values]]]     4 2 100000
 */
#include "tests/support/mesh_world.h"

#include "common/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5 };

typedef struct setting {
    uint32_t nodes, redundancy;
    size_t values;
    double plain_us; /* of plain with f32 */
    const char *mesh;
} setting;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double error_of(const mesh_world *w)
{
    double error = 0, size = 0;

    for (size_t i = 0; i < w->n; i++) {
        double truth = mesh_world_true(w, i), off = (double)w->sum[0][i] - truth;

        error += off * off;
        size += truth * truth;
    }
    return sqrt(error / size);
}

static void bench(const ps_codec *codec, void *arg)
{
    setting *s = arg;
    double us[ROUNDS], in_float32;
    ps_mesh_counters c;
    mesh_world w;
    ps_status st =
        mesh_world_init(&w, s->mesh, "iid", s->nodes, s->redundancy, s->values, codec->name, 1);

    if (!ps_is_ok(&st)) {
        mesh_world_fini(&w);
        return;
    }
    for (int i = 0; i < ROUNDS; i++) {
        int64_t began_us = ps_clock_us();

        mesh_world_run(&w, (uint64_t)i);
        us[i] = (double)(ps_clock_us() - began_us) / s->nodes;
    }
    qsort(us, ROUNDS, sizeof us[0], by_size);
    if (s->plain_us == 0) {
        s->plain_us = us[ROUNDS / 2];
    }
    c = mesh_world_counters(&w);
    in_float32 = (double)s->values * 4 * s->nodes * ROUNDS;
    printf("%-6s %-10s %8.0f %8.2f %8.2f %9.1e %10.0f %7.2f\n", s->mesh, codec->name,
           (double)c.packets / s->nodes / ROUNDS, (double)c.bytes / in_float32,
           (double)c.bytes_copied / in_float32, error_of(&w), us[ROUNDS / 2],
           us[ROUNDS / 2] / s->plain_us);
    mesh_world_fini(&w);
}

static void bench_all(const ps_mesh *mesh, void *arg)
{
    ((setting *)arg)->mesh = mesh->name;
    ps_codec_each(bench, arg);
}

int main(int argc, char **argv)
{
    setting s = {.nodes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 4,
                 .redundancy = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2,
                 .values = argc > 3 ? strtoul(argv[3], NULL, 10) : 100000};

    if (s.nodes < 1 || s.nodes > MESH_NODES_MAX || s.redundancy < 1 || s.redundancy > s.nodes ||
        s.values < 1) {
        fprintf(stderr, "bench_mesh [nodes [redundancy [values]]]: 1 to %d nodes\n",
                MESH_NODES_MAX);
        return 1;
    }
    printf("%u nodes, redundancy %u, %zu values; a step of a node, |w| = their float32 bytes\n\n",
           s.nodes, s.redundancy, s.values);
    printf("%-6s %-10s %8s %8s %8s %9s %10s %7s\n", "", "codec", "packets", "|w| once", "|w| sent",
           "error", "us", "plain=1");
    ps_mesh_each(bench_all, &s);
    return 0;
}
