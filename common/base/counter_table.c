/* SPDX-License-Identifier: Apache-2.0 */
/* counter_table.c - see counter_table.h. */
#include "common/base/counter_table.h"

#include <math.h>
#include <stddef.h>

enum { W = PS_OF_WORKER, S = PS_OF_SERVER, J = PS_OF_JOB };
enum { STEP = PS_COUNT_STEP };

/* clang-format off */
const ps_counter ps_counters[PS_COUNTERS] = {
    [PS_COUNT_STEP] = {"step", "steps", PS_COUNTER, W | J, PS_MERGE_LEAST,
        "steps finished, on shared weights or in rounds on a replica",
        "step"},
    [PS_COUNT_TOTAL_STEPS] = {"total_steps", "steps", PS_GAUGE, W | J, PS_MERGE_LARGEST,
        "steps in all",
        "goal_steps"},
    [PS_COUNT_EPOCH] = {"epoch", "epochs", PS_COUNTER, W | J, PS_MERGE_LEAST,
        "pass over the data, from 1",
        "epoch"},
    [PS_COUNT_LOSS] = {"loss", "", PS_GAUGE, W | J, PS_MERGE_MEAN_AT_STEP,
        "mean training loss of the last block",
        "loss"},
    [PS_COUNT_ACCURACY] = {"accuracy", "", PS_GAUGE, W | J, PS_MERGE_MEAN_AT_STEP,
        "training accuracy of the last block, 0 to 1; NaN where targets are values or a program reports none",
        "accuracy_ratio"},
    [PS_COUNT_SAMPLES] = {"samples", "samples", PS_COUNTER, W, PS_MERGE_NONE,
        "samples trained",
        "samples_total"},
    [PS_COUNT_ITERATIONS] = {"iterations", "steps", PS_COUNTER, W | J, PS_MERGE_SUM,
        "steps that ranks computed, local steps of rounds included; of a job over all its ranks",
        "iterations_total"},
    [PS_COUNT_EVALUATIONS] = {"evaluations", "evaluations", PS_COUNTER, W, PS_MERGE_NONE,
        "evaluations done",
        "evaluations_total"},
    [PS_COUNT_SAMPLES_PER_SECOND] = {"samples_per_second", "samples/s", PS_GAUGE, J, PS_MERGE_NONE,
        "samples trained by all workers, over the last second or so",
        NULL},
    [PS_COUNT_ETA_SECONDS] = {"eta_seconds", "s", PS_GAUGE, J, PS_MERGE_NONE,
        "estimated time to the end of training; 0: unknown",
        "eta_seconds"},
    [PS_COUNT_WORKERS_ALIVE] = {"workers_alive", "workers", PS_GAUGE, J, PS_MERGE_NONE,
        "workers whose lease is valid",
        "workers_alive"},
    [PS_COUNT_WORKERS_TOTAL] = {"workers_total", "workers", PS_GAUGE, J, PS_MERGE_NONE,
        "workers that the job began with",
        "workers_expected"},
    [PS_COUNT_BYTES_UP] = {"bytes_up", "bytes", PS_COUNTER, W | S | J, PS_MERGE_SUM,
        "messages from workers to servers; in a mesh, sent to other workers",
        "up_bytes_total"},
    [PS_COUNT_BYTES_DOWN] = {"bytes_down", "bytes", PS_COUNTER, W | S | J, PS_MERGE_SUM,
        "messages from servers to workers; in a mesh, received from other workers",
        "down_bytes_total"},
    [PS_COUNT_BYTES_UP_FLOAT32] = {"bytes_up_float32", "bytes", PS_COUNTER, W | J, PS_MERGE_SUM,
        "the values sent up, as plain float32",
        "up_float32_bytes_total"},
    [PS_COUNT_BYTES_DOWN_FLOAT32] = {"bytes_down_float32", "bytes", PS_COUNTER, W | J, PS_MERGE_SUM,
        "the values sent down, as plain float32",
        "down_float32_bytes_total"},
    [PS_COUNT_MESSAGES_UP] = {"messages_up", "messages", PS_COUNTER, W | S, PS_MERGE_NONE,
        "messages of `bytes_up`",
        "up_messages_total"},
    [PS_COUNT_MESSAGES_DOWN] = {"messages_down", "messages", PS_COUNTER, W | S, PS_MERGE_NONE,
        "messages of `bytes_down`",
        "down_messages_total"},
    [PS_COUNT_BYTES_THROUGH_MEMORY] = {"bytes_through_memory", "bytes", PS_COUNTER, W | S, PS_MERGE_NONE,
        "of `bytes_up` and `bytes_down`, payloads that went through shared memory",
        "through_memory_bytes_total"},
    [PS_COUNT_SECONDS_WAITING] = {"seconds_waiting", "s", PS_COUNTER, W | J, PS_MERGE_MEAN,
        "time in which training waited for weights or acknowledgements",
        "wait_seconds_total"},
    [PS_COUNT_TIMED_STEPS] = {"timed_steps", "steps", PS_COUNTER, W, PS_MERGE_NONE,
        "steps that the rank took in this attempt, which the next three are of",
        NULL},
    [PS_COUNT_SECONDS_TRAINING] = {"seconds_training", "s", PS_COUNTER, W, PS_MERGE_NONE,
        "time from the beginning of training until the end of the last of these steps",
        "training_seconds_total"},
    [PS_COUNT_SECONDS_COMPUTING] = {"seconds_computing", "s", PS_COUNTER, W, PS_MERGE_NONE,
        "of this, time in which training computed, took samples or was held up",
        "compute_seconds_total"},
    [PS_COUNT_SECONDS_READING] = {"seconds_reading", "s", PS_COUNTER, W, PS_MERGE_NONE,
        "of that, time in which training stood still until samples were read from a disk",
        "read_seconds_total"},
    [PS_COUNT_SECONDS_DISK] = {"seconds_disk", "s", PS_COUNTER, W, PS_MERGE_NONE,
        "time for which a disk was read for samples, also beside computing and waiting",
        "disk_seconds_total"},
    [PS_COUNT_RESYNCS] = {"resyncs", "answers", PS_COUNTER, W | J, PS_MERGE_SUM,
        "replicas that differed from the servers and were sent the weights",
        "resyncs_total"},
    [PS_COUNT_APPLIED] = {"applied", "contributions", PS_COUNTER, S, PS_MERGE_NONE,
        "contributions in a step, by slice",
        "applied_total"},
    [PS_COUNT_DUPLICATES] = {"duplicates", "contributions", PS_COUNTER, S, PS_MERGE_NONE,
        "contributions that arrived again",
        "duplicates_total"},
    [PS_COUNT_DROPPED] = {"dropped", "contributions", PS_COUNTER, S, PS_MERGE_NONE,
        "contributions that the policy dropped",
        "dropped_total"},
    [PS_COUNT_LATE] = {"late", "contributions", PS_COUNTER, S, PS_MERGE_NONE,
        "applied contributions that joined the sum of a later clock",
        "late_total"},
    [PS_COUNT_LEFT_OUT] = {"left_out", "contributions", PS_COUNTER, S, PS_MERGE_NONE,
        "contributions that never arrive because the worker skipped the clock",
        "left_out_total"},
    [PS_COUNT_OPEN] = {"open", "contributions", PS_GAUGE, S, PS_MERGE_NONE,
        "contributions in a sum that has made no step",
        "open"},
    [PS_COUNT_PARKED] = {"parked", "contributions", PS_GAUGE, S, PS_MERGE_NONE,
        "early contributions that wait, encoded",
        "parked"},
    [PS_COUNT_PARKED_BYTES] = {"parked_bytes", "bytes", PS_GAUGE, S, PS_MERGE_NONE,
        "memory of those",
        "parked_bytes"},
    [PS_COUNT_PULLS_WAITED] = {"pulls_waited", "pulls", PS_COUNTER, S, PS_MERGE_NONE,
        "pulls that had to wait",
        "pulls_waited_total"},
    [PS_COUNT_VERSION] = {"version", "steps", PS_COUNTER, S, PS_MERGE_NONE,
        "steps of the slowest slice",
        "step"},
    [PS_COUNT_STALENESS_MAX] = {"staleness_max", "clocks", PS_COUNTER, S, PS_MERGE_NONE,
        "largest staleness of an applied contribution",
        "largest_staleness"},
    [PS_COUNT_STALENESS_SUM] = {"staleness_sum", "clocks", PS_COUNTER, S, PS_MERGE_NONE,
        "sum of the staleness of applied contributions",
        NULL},
    [PS_COUNT_ROWS] = {"rows", "rows", PS_GAUGE, S | J, PS_MERGE_SUM,
        "rows that sparse tables have",
        "rows"},
    [PS_COUNT_ROWS_MET] = {"rows_met", "rows", PS_COUNTER, S | J, PS_MERGE_SUM,
        "ids that contributions brought to sparse tables, each once a step",
        "rows_met_total"},
    [PS_COUNT_ROWS_ADMITTED] = {"rows_admitted", "rows", PS_COUNTER, S | J, PS_MERGE_SUM,
        "rows that were created",
        "rows_admitted_total"},
    [PS_COUNT_ROWS_REMOVED] = {"rows_removed", "rows", PS_COUNTER, S | J, PS_MERGE_SUM,
        "rows that ticks removed",
        "rows_removed_total"},
    [PS_COUNT_RECOVERIES] = {"recoveries", "recoveries", PS_COUNTER, J, PS_MERGE_NONE,
        "after losses, divergences and changes of its processes: how often the job has gone on by itself",
        "recoveries_total"},
    [PS_COUNT_ROLLBACKS] = {"rollbacks", "rollbacks", PS_COUNTER, J, PS_MERGE_NONE,
        "how often of these at half the learning rate, after a divergence",
        "rollbacks_total"},
    [PS_COUNT_STEPS_REPEATED] = {"steps_repeated", "steps", PS_COUNTER, J, PS_MERGE_NONE,
        "steps that were taken again after recoveries, by the progress that nodes had reported",
        "repeated_steps_total"},
    [PS_COUNT_SECONDS_LOST] = {"seconds_lost", "s", PS_COUNTER, J, PS_MERGE_NONE,
        "what recoveries cost: time without training, and for the steps taken again",
        "lost_seconds_total"},
    [PS_COUNT_CHECKPOINTS] = {"checkpoints", "checkpoints", PS_COUNTER, J, PS_MERGE_NONE,
        "checkpoints that were stored, of all attempts",
        "checkpoints_total"},
    [PS_COUNT_CHECKPOINTS_SKIPPED] = {"checkpoints_skipped", "checkpoints", PS_COUNTER, J, PS_MERGE_NONE,
        "checkpoints that were given up",
        "skipped_checkpoints_total"},
    [PS_COUNT_CONNECTIONS_REFUSED] = {"connections_refused", "connections", PS_COUNTER, W | S, PS_MERGE_NONE,
        "connections refused since the process began: too many, or too fast",
        NULL},
    [PS_COUNT_CONNECTIONS_CLOSED] = {"connections_closed", "connections", PS_COUNTER, W | S, PS_MERGE_NONE,
        "connections closed since then for what the client sent",
        NULL},
};
/* clang-format on */

/* Returns whether the rank, which is not lost, is at the least step of such ranks so far. If its
 * step is less than theirs, the sums for PS_MERGE_MEAN_AT_STEP begin anew, without them. */
static bool reach_step(ps_counts_sum *sum, const ps_counts *rank)
{
    double step = rank->v[STEP], least = sum->so_far.v[STEP];

    if (sum->alive == 0 || step < least) {
        for (size_t i = 0; i < PS_COUNTERS; i++) {
            if (ps_counters[i].merge == PS_MERGE_MEAN_AT_STEP) {
                sum->so_far.v[i] = 0;
                sum->at_step[i] = 0;
            }
        }
    } else if (step > least) {
        return false;
    }
    return true;
}

void ps_counts_add(ps_counts_sum *sum, const ps_counts *rank, bool is_lost)
{
    bool is_first = sum->alive == 0, is_at_step = !is_lost && reach_step(sum, rank);

    for (size_t i = 0; i < PS_COUNTERS; i++) {
        double *so_far = &sum->so_far.v[i], v = rank->v[i];

        switch (ps_counters[i].merge) {
        case PS_MERGE_NONE:
            break;
        case PS_MERGE_SUM:
            *so_far += v;
            break;
        case PS_MERGE_LEAST:
            *so_far = !is_lost && (is_first || v < *so_far) ? v : *so_far;
            break;
        case PS_MERGE_LARGEST:
            *so_far = !is_lost && v > *so_far ? v : *so_far;
            break;
        case PS_MERGE_MEAN:
            *so_far += is_lost ? 0 : v;
            break;
        case PS_MERGE_MEAN_AT_STEP:
            if (is_at_step && !isnan(v)) {
                *so_far += v;
                sum->at_step[i]++;
            }
            break;
        }
    }
    sum->alive += !is_lost;
}

ps_counts ps_counts_of_job(const ps_counts_sum *sum)
{
    ps_counts job = sum->so_far;

    for (size_t i = 0; i < PS_COUNTERS && sum->alive > 0; i++) {
        if (ps_counters[i].merge == PS_MERGE_MEAN) {
            job.v[i] /= sum->alive;
        } else if (ps_counters[i].merge == PS_MERGE_MEAN_AT_STEP) {
            job.v[i] = sum->at_step[i] > 0 ? job.v[i] / sum->at_step[i] : (double)NAN;
        }
    }
    return job;
}

void ps_counts_add_server(ps_counts *job, const ps_counts *server)
{
    for (size_t i = 0; i < PS_COUNTERS; i++) {
        if (ps_counters[i].of == (PS_OF_SERVER | PS_OF_JOB)) {
            job->v[i] += server->v[i];
        }
    }
}
