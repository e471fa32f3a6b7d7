/* SPDX-License-Identifier: Apache-2.0 */
/* counted.h - what trainer, exchange and store have counted, as rows of the table of counters
 * (common/base/counter_table.h). Pure; any thread. */
#ifndef PS_COMMON_TRAIN_COUNTED_H
#define PS_COMMON_TRAIN_COUNTED_H

#include "common/base/counter_table.h"
#include "common/store/counters.h"
#include "common/store/table.h"
#include "common/train/exchange.h"
#include "common/train/trainer.h"

/* Returns all counters of PS_OF_WORKER. `waited_s` are the seconds that the gate says. */
ps_counts ps_counted_by_worker(const ps_plan *plan, const ps_trainer_progress *progress,
                               const ps_exchange_stats *stats, double waited_s);

/* Returns the counters of PS_OF_SERVER that its store counts and its tables, `rows`: 0 for
 * messages, pulls_waited, open and version, which the caller adds. */
ps_counts ps_counted_by_store(const ps_store_counters *store, const ps_table_counters *rows);

#endif
