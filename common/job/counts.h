/* SPDX-License-Identifier: Apache-2.0 */
/* counts.h - moves counts between the table of counters and messages, by the names of fields.
 *
 * Messages are WorkerProgress, ServerCounters and Progress. Pure; any thread.
 */
#ifndef PS_COMMON_JOB_COUNTS_H
#define PS_COMMON_JOB_COUNTS_H

#include "common/base/counter_table.h"

#include <protobuf-c/protobuf-c.h>

/* Writes every counter of `of` (one of PS_OF_...) to its field; other fields stay. For PS_OF_JOB it
 * leaves out counters that are not merged of ranks (PS_MERGE_NONE). */
void ps_counts_put(const ps_counts *counts, unsigned of, ProtobufCMessage *message);

/* Returns the counters of `of` from their fields, 0 for all others. */
ps_counts ps_counts_get(const ProtobufCMessage *message, unsigned of);

#endif
