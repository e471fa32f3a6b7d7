/* SPDX-License-Identifier: Apache-2.0 */
/* lowest_priority.h - lets all other processes of the machine have the processor first. */
#ifndef PS_COMMON_SANDBOX_LOWEST_PRIORITY_H
#define PS_COMMON_SANDBOX_LOWEST_PRIORITY_H

/* Gives the process the lowest priority, for good, and has it pause for most of the time that it
 * would compute: a signal comes while it computes (SIGVTALRM), and its handler waits. Needs no
 * privileges. Call it before files are closed, in a process that leads no group. Returns NULL, or
 * what could not be done. */
const char *ps_lowest_priority(void);

#endif
