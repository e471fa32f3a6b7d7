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

/* Sets `before`. Returns false if the kernel does not tell it. */
static bool see(ps_same_cpu *both)
{
    if (sched_getaffinity(0, sizeof both->before, &both->before) != 0) {
        return false;
    }
    widen(both);
    return true;
}

/* Keeps the calling thread on the processors `here`. */
static void keep_thread(ps_same_cpu *both, const cpu_set_t *here)
{
    if (see(both)) {
        both->is_waiting = sched_setaffinity(0, sizeof *here, here) == 0;
        if (!both->is_waiting) {
            (void)sched_setaffinity(0, sizeof both->before, &both->before);
        }
    }
}

void ps_same_cpu_begin(ps_same_cpu *both)
{
    int cpu = sched_getcpu();
    cpu_set_t here;

    both->is_waiting = false;
    if (cpu < 0 || cpu >= CPU_SETSIZE) {
        return;
    }
    CPU_ZERO(&here);
    CPU_SET((size_t)cpu, &here);
    if (both->waits > 0) {
        both->waits--;
        keep_thread(both, &here);
    }
    if (!(both->is_kept && both->cpu == cpu)) {
        both->is_kept = sched_setaffinity(both->pid, sizeof here, &here) == 0;
        both->cpu = cpu;
    }
}

void ps_same_cpu_loosen(ps_same_cpu *both)
{
    if (both->is_kept && (both->is_waiting || see(both))) {
        (void)sched_setaffinity(both->pid, sizeof both->before, &both->before);
        both->is_kept = false;
        both->is_waiting = true; /* see may have let the thread run on more */
    }
    ps_same_cpu_end(both);
}

void ps_same_cpu_end(ps_same_cpu *both)
{
    if (both->is_waiting) {
        (void)sched_setaffinity(0, sizeof both->before, &both->before);
        both->is_waiting = false;
    } else if (both->is_kept && sched_getcpu() != both->cpu) {
        both->waits = PS_SAME_CPU_WAITS;
    }
}
