/* SPDX-License-Identifier: Apache-2.0 */
/* confine.h - takes from the process what it does not need. */
#ifndef PS_COMMON_SANDBOX_CONFINE_H
#define PS_COMMON_SANDBOX_CONFINE_H

#include <stdint.h>

/* Closes all descriptors, gives up all capabilities, and bounds memory, files and processor time,
 * so that the process can use `memory` bytes beside what it has and `cpu_s` seconds in its life.
 * Then the kernel ends it at any system call but those for memory, a timer, waiting on a futex and
 * ending. Returns NULL, or what could not be done. */
const char *ps_confine(uint64_t memory, uint64_t cpu_s);

#endif
