/* SPDX-License-Identifier: Apache-2.0 */
/* counted.c - see counted.h. */
#include "common/train/counted.h"

ps_counts ps_counted_by_worker(const ps_plan *plan, const ps_trainer_progress *progress,
                               const ps_exchange_stats *stats, double waited_s)
{
    return (ps_counts){.v = {
                           [PS_COUNT_STEP] = (double)progress->step,
                           [PS_COUNT_TOTAL_STEPS] = (double)plan->total_steps,
                           [PS_COUNT_EPOCH] = progress->epoch,
                           [PS_COUNT_LOSS] = progress->loss,
                           [PS_COUNT_ACCURACY] = progress->accuracy,
                           [PS_COUNT_SAMPLES] = (double)progress->samples,
                           [PS_COUNT_ITERATIONS] = (double)progress->iterations,
                           [PS_COUNT_EVALUATIONS] = progress->evaluations,
                           [PS_COUNT_BYTES_UP] = (double)stats->bytes_up,
                           [PS_COUNT_BYTES_DOWN] = (double)stats->bytes_down,
                           [PS_COUNT_BYTES_UP_FLOAT32] = (double)stats->bytes_up_float32,
                           [PS_COUNT_BYTES_DOWN_FLOAT32] = (double)stats->bytes_down_float32,
                           [PS_COUNT_MESSAGES_UP] = (double)stats->messages_up,
                           [PS_COUNT_MESSAGES_DOWN] = (double)stats->messages_down,
                           [PS_COUNT_BYTES_THROUGH_MEMORY] = (double)stats->bytes_through_memory,
                           [PS_COUNT_SECONDS_WAITING] = waited_s,
                           [PS_COUNT_TIMED_STEPS] = (double)progress->times.steps,
                           [PS_COUNT_SECONDS_TRAINING] = progress->times.training_s,
                           [PS_COUNT_SECONDS_COMPUTING] = progress->times.computing_s,
                           [PS_COUNT_SECONDS_READING] = progress->times.reading_s,
                           [PS_COUNT_SECONDS_DISK] = progress->times.disk_s,
                           [PS_COUNT_RESYNCS] = (double)stats->resyncs,
                       }};
}

ps_counts ps_counted_by_store(const ps_store_counters *store, const ps_table_counters *rows)
{
    return (ps_counts){.v = {
                           [PS_COUNT_APPLIED] = (double)store->applied,
                           [PS_COUNT_DUPLICATES] = (double)store->duplicates,
                           [PS_COUNT_DROPPED] = (double)store->dropped,
                           [PS_COUNT_LATE] = (double)store->late,
                           [PS_COUNT_LEFT_OUT] = (double)store->left_out,
                           [PS_COUNT_PARKED] = (double)store->parked_now,
                           [PS_COUNT_PARKED_BYTES] = (double)store->parked_bytes_now,
                           [PS_COUNT_STALENESS_MAX] = (double)store->staleness_max,
                           [PS_COUNT_STALENESS_SUM] = (double)store->staleness_sum,
                           [PS_COUNT_ROWS] = (double)rows->rows,
                           [PS_COUNT_ROWS_MET] = (double)(rows->applied + rows->refused),
                           [PS_COUNT_ROWS_ADMITTED] = (double)rows->created,
                           [PS_COUNT_ROWS_REMOVED] = (double)rows->removed,
                       }};
}
