/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - reads how much processor time and network a node's process and its host use; heartbeats
 * report it. Reads /proc, which never waits for a disk. */
#include "common/base/clock.h"
#include "common/node/node_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LOOK_US = 1000000 }; /* least time between two readings */

static uint64_t memory_of_process(void)
{
    uint64_t pages = 0;
    FILE *in = fopen("/proc/self/statm", "re");

    if (in != NULL) {
        if (fscanf(in, "%*s %" SCNu64, &pages) != 1) {
            pages = 0;
        }
        fclose(in);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double cpu_seconds(void)
{
    struct rusage used = {0};

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* Reads the text of /proc/net/dev, and sums up the bytes of all interfaces. */
static void count_network(FILE *in, uint64_t *received, uint64_t *sent)
{
    char line[512];

    *received = *sent = 0;
    while (fgets(line, sizeof line, in) != NULL) {
        const char *colon = strchr(line, ':'); /* the two header lines have no colon */
        uint64_t down, up;

        if (colon != NULL && sscanf(colon + 1, "%" SCNu64 " %*s %*s %*s %*s %*s %*s %*s %" SCNu64,
                                    &down, &up) == 2) {
            *received += down;
            *sent += up;
        }
    }
}

static ps_node_sample take_sample(void)
{
    ps_node_sample s = {.at_us = ps_clock_us(), .cpu_s = cpu_seconds()};
    FILE *in = fopen("/proc/net/dev", "re");

    if (in != NULL) {
        count_network(in, &s.received, &s.sent);
        fclose(in);
    }
    return s;
}

void ps_node_load_init(ps_node *node)
{
    psgd__v1__node_load__init(&node->load.last);
    node->load.sample = take_sample();
}

/* Returns by how much a counter of the kernel has grown per second; 0 if it has become smaller, as
 * when an interface has gone. */
static double rate(uint64_t before, uint64_t now, double seconds)
{
    return now > before ? (double)(now - before) / seconds : 0;
}

bool ps_node_load_tell(ps_node *node, Psgd__V1__NodeLoad *load)
{
    const ps_node_sample *before = &node->load.sample;

    if (ps_clock_us() - before->at_us >= LOOK_US) {
        ps_node_sample now = take_sample();
        double seconds = (double)(now.at_us - before->at_us) * 1e-6;
        long processors = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
        Psgd__V1__NodeLoad *last = &node->load.last;

        last->cpu = (now.cpu_s - before->cpu_s) / seconds;
        last->processors = processors > 0 ? (uint32_t)processors : 0;
        last->memory_bytes = memory_of_process();
        last->host_memory_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
        last->received_bytes_per_second = rate(before->received, now.received, seconds);
        last->sent_bytes_per_second = rate(before->sent, now.sent, seconds);
        node->load.sample = now;
    }
    *load = node->load.last;
    return load->processors > 0;
}
