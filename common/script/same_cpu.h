/* SPDX-License-Identifier: Apache-2.0 */
/* same_cpu.h - keeps a process on the processor of the thread that waits for it.
 *
 * The kernel would wake the process on another processor if one is idle, and the thread likewise.
 * In a virtual machine that takes tens of microseconds, and what one of them has written has to
 * travel from one processor's cache to the other's. Nothing is computed meanwhile, because the
 * thread waits. Where the kernel does not allow it, nothing changes.
 *
 * To keep the process takes a system call after the thread has moved. To keep the thread takes
 * three in each wait. Often all other processors are busy, and the kernel wakes the thread where it
 * was. So the thread is kept only in the PS_SAME_CPU_WAITS waits after one from which it woke
 * elsewhere.
 *
 * The kernel remembers the processors that a thread asked for, and keeps it on them when its cpuset
 * gains others. So a thread that had all of its cpuset asks for every processor afterwards.
 */
#ifndef PS_COMMON_SCRIPT_SAME_CPU_H
#define PS_COMMON_SCRIPT_SAME_CPU_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { PS_SAME_CPU_WAITS = 64 };

/* A process and the processor on which it is kept. Zeros except for `pid`: it is kept on none
 * yet. */
typedef struct ps_same_cpu {
    pid_t pid;
    bool is_kept;   /* the process is kept on processor `cpu` */
    uint32_t waits; /* waits from now on in which the thread is kept too */
    /* the calling thread is kept on `cpu` too, until ps_same_cpu_end lets it run on all of `before`
     * again */
    bool is_waiting;
    int cpu;
    cpu_set_t before;
    /* processors that the last thread which ps_same_cpu_begin looked at could run on */
    cpu_set_t seen;
    bool is_whole; /* `seen` is all of that thread's cpuset */
} ps_same_cpu;

/* Keeps the process on the processor on which the calling thread runs, and the thread too if it
 * woke elsewhere after a recent wait. */
void ps_same_cpu_begin(ps_same_cpu *both);

/* Lets the thread and the process run on each processor on which the thread could run before. For
 * waits that become long, so that the kernel can spread its load. */
void ps_same_cpu_loosen(ps_same_cpu *both);

/* Lets the thread that called ps_same_cpu_begin run where it could before. The process stays on its
 * processor, so the next wait costs less. The caller is that thread, after its wait. */
void ps_same_cpu_end(ps_same_cpu *both);

#endif
