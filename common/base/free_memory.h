/* SPDX-License-Identifier: Apache-2.0 */
/* free_memory.h - how much free memory malloc keeps for the next messages, and in which pages. */
#ifndef PS_COMMON_BASE_FREE_MEMORY_H
#define PS_COMMON_BASE_FREE_MEMORY_H

/* Makes each arena of malloc grow by 64 MiB more than it needs, and keep up to 128 MiB of free
 * memory at its end. Without that every message of 1 MiB costs a series of page faults, which
 * halves the goodput. Any thread. */
void ps_free_memory_keep(void);

/* Asks for huge pages for the memory from which malloc serves this thread, as far as it has grown.
 * Threads of servers call it after ps_free_memory_keep, and again when much was allocated. Messages
 * and weights are read and written at the rate of memory; with small pages the look-ups of
 * addresses cost a server a tenth of its time (tests/bench/README.md). Nothing changes if the
 * system has no huge pages. */
void ps_free_memory_use_huge_pages(void);

/* Returns free memory to the system, and makes malloc keep almost none until the next call of
 * ps_free_memory_keep. malloc returns the end of an arena only when a thread of this arena frees
 * something, so let the threads run for a while between the two calls. Any thread. */
void ps_free_memory_return(void);

#endif
