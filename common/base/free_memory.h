/* SPDX-License-Identifier: Apache-2.0 */
/* free_memory.h - how much free memory malloc keeps for the next messages. */
#ifndef PS_COMMON_BASE_FREE_MEMORY_H
#define PS_COMMON_BASE_FREE_MEMORY_H

/* Makes malloc keep about 64 MiB of free memory in each of its arenas. Without that every message
 * of 1 MiB costs a series of page faults, which halves the goodput. Any thread. */
void ps_free_memory_keep(void);

/* Returns free memory to the system, and makes malloc keep almost none until the next call of
 * ps_free_memory_keep. malloc returns the end of an arena only when a thread of this arena frees
 * something, so let the threads run for a while between the two calls. Any thread. */
void ps_free_memory_return(void);

#endif
