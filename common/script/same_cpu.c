/* SPDX-License-Identifier: Apache-2.0 */
/* same_cpu.c - see same_cpu.h. */
#include "common/script/same_cpu.h"

void ps_same_cpu_begin(ps_same_cpu *both)
{
    int cpu = sched_getcpu();
    cpu_set_t here;

    both->is_waiting = false;
    if (cpu < 0 || cpu >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof both->before, &both->before) != 0) {
        return;
    }
    CPU_ZERO(&here);
    CPU_SET((size_t)cpu, &here);
    both->is_waiting = sched_setaffinity(0, sizeof here, &here) == 0;
    if (both->is_waiting && !(both->is_kept && both->cpu == cpu)) {
        both->is_kept = sched_setaffinity(both->pid, sizeof here, &here) == 0;
        both->cpu = cpu;
    }
}

void ps_same_cpu_loosen(ps_same_cpu *both)
{
    if (both->is_waiting && both->is_kept) {
        (void)sched_setaffinity(both->pid, sizeof both->before, &both->before);
        both->is_kept = false;
    }
    ps_same_cpu_end(both);
}

void ps_same_cpu_end(ps_same_cpu *both)
{
    if (both->is_waiting) {
        (void)sched_setaffinity(0, sizeof both->before, &both->before);
        both->is_waiting = false;
    }
}
