/* SPDX-License-Identifier: Apache-2.0 */
/* durations.h - how long the unary calls of this process took, from the request's head to the
 * answer, by method. Any thread. */
#ifndef PS_COMMON_RPC_DURATIONS_H
#define PS_COMMON_RPC_DURATIONS_H

#include "common/base/histogram.h"

/* Returns the histogram of a method, such as "NodeService/Abort"; the same for the same name. It
 * lives as long as the process. */
ps_histogram *ps_durations_of(const char *method);

/* Calls `fn` for every method, in the order of their names. `fn` must not call functions of this
 * file. */
void ps_durations_each(void (*fn)(void *arg, const char *method, const ps_histogram *histogram),
                       void *arg);

#endif
