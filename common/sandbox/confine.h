/* SPDX-License-Identifier: Apache-2.0 */
/* confine.h - takes all rights from the process that it does not need for computing. */
#ifndef PS_COMMON_SANDBOX_CONFINE_H
#define PS_COMMON_SANDBOX_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

/* Closes all descriptors, gives up all capabilities, and bounds memory, files and processor time,
 * so that the process can use `memory` bytes beside what it has and `cpu_s` seconds in its life.
 * From then on the kernel ends the process at any system call but those for memory, a timer,
 * waiting on a futex and ending, and with has_signals the return from a handler of a signal.
 * Returns NULL on success, else a text that says what could not be done. */
const char *ps_confine(uint64_t memory, uint64_t cpu_s, bool has_signals);

#endif
