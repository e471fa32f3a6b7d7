/* SPDX-License-Identifier: Apache-2.0 */
/* same_cpu.c - see same_cpu.h. */
#include "common/script/same_cpu.h"

#include <string.h>

/* Makes `before`, what the thread may run on, every processor if it is all of the thread's cpuset.
 * May let the thread run on all of that. */
static void widen(ps_same_cpu *both)
{
    cpu_set_t every, now;

    memset(&every, 0xff, sizeof every);
    if (!CPU_EQUAL(&both->seen, &both->before)) {
        both->is_whole = sched_setaffinity(0, sizeof every, &every) == 0 &&
                         sched_getaffinity(0, sizeof now, &now) == 0 &&
                         CPU_EQUAL(&now, &both->before);
        both->seen = both->before;
    }
    if (both->is_whole) {
        both->before = every;
    }
}

void ps_same_cpu_begin(ps_same_cpu *both)
{
    int cpu = sched_getcpu();
    cpu_set_t here;

    both->is_waiting = false;
    if (cpu < 0 || cpu >= CPU_SETSIZE ||
        sched_getaffinity(0, sizeof both->before, &both->before) != 0) {
        return;
    }
    widen(both);
    CPU_ZERO(&here);
    CPU_SET((size_t)cpu, &here);
    both->is_waiting = sched_setaffinity(0, sizeof here, &here) == 0;
    if (!both->is_waiting) {
        (void)sched_setaffinity(0, sizeof both->before, &both->before);
    }
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
