/* SPDX-License-Identifier: Apache-2.0 */
/* counted.h - copies the counts of trainer, exchange and store into the table of counters
 * (common/base/counter_table.h). Pure; any thread. */
#ifndef PS_COMMON_TRAIN_COUNTED_H
#define PS_COMMON_TRAIN_COUNTED_H

#include "common/base/counter_table.h"
#include "common/store/counters.h"
#include "common/store/table.h"
#include "common/train/exchange.h"
#include "common/train/trainer.h"

/* Returns the counters that workers report (PS_OF_WORKER). `waited_s`: what ps_gate_waited_s
 * returns. */
ps_counts ps_counted_by_worker(const ps_plan *plan, const ps_trainer_progress *progress,
                               const ps_exchange_stats *stats, double waited_s);

/* Returns the counters that servers report (PS_OF_SERVER), as far as the store and its tables,
 * `rows`, count them. messages, pulls_waited, open and version are 0; the caller sets them. */
ps_counts ps_counted_by_store(const ps_store_counters *store, const ps_table_counters *rows);

#endif
