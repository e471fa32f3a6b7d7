/* SPDX-License-Identifier: Apache-2.0 */
/* lowest_priority.h - lets all other processes of the machine have the processor first. */
#ifndef PS_COMMON_SANDBOX_LOWEST_PRIORITY_H
#define PS_COMMON_SANDBOX_LOWEST_PRIORITY_H

/* Gives the process the lowest priority, for good. Needs no privileges. Call it before files are
 * closed, in a process that leads no group. Returns NULL, or what could not be done. */
const char *ps_lowest_priority(void);

#endif
