/* SPDX-License-Identifier: Apache-2.0 */
/* loop_protocol.h - what psgd-worker and libpsgd say to each other on one host.
 *
 * A program that computes a model itself starts a psgd-worker, which has the stream sockets of the
 * job, and shares memory with it. There are two kinds of Unix sockets of type SOCK_SEQPACKET, on
 * which each message is one struct ps_loop_message:
 *
 *   control  one for the life of the worker. It brings BEGIN for each rank of an attempt, with two
 *            descriptors: the rank's memory and the rank's socket. Its end means that the other
 *            process has ended.
 *   rank     one for each rank of an attempt, until the attempt ends. STEP asks for the gradient of
 *            a clock. The program answers with LOSS, with a METRIC for each metric that it reports,
 *            and then with READY until each variable was ready once. LAST comes in place of a STEP
 *            when the rank has done all its steps; the memory then has the final weights.
 *
 * The memory is one file: struct ps_loop_memory | its variables | weights | gradients | state. The
 * worker writes weights between the last READY of a clock and the next STEP or LAST; the program
 * writes gradients between STEP and their READY. The state is what the program keeps of the rank in
 * the job's checkpoints, a block of named_bytes.h: the worker writes it before BEGIN, the program
 * between STEP and the last READY. Numbers are the host's.
 */
#ifndef PS_COMMON_BASE_LOOP_PROTOCOL_H
#define PS_COMMON_BASE_LOOP_PROTOCOL_H

#include <stdint.h>

enum { PS_LOOP_MAGIC = 0x50534c33, PS_LOOP_NAME_MAX = 80, PS_LOOP_DIMS = 4, PS_LOOP_TEXT = 256 };

enum {
    PS_LOOP_RANKS_MAX = 256,      /* most ranks of a process */
    PS_LOOP_VARIABLES_MAX = 4096, /* most variables of a model */
    PS_LOOP_METRICS_MAX = 16,     /* most metrics that the programs of a job report */
    PS_LOOP_METRIC_BYTES = 56     /* most bytes of the name of such a metric, with the NUL */
};

typedef enum ps_loop_kind {
    PS_LOOP_BEGIN = 1, /* control, from the worker: rank, value = bytes of the memory */
    PS_LOOP_OVER,      /* control, from the worker: the attempt has ended; the job may go on with
                        * another one. `text` says why; "" if the worker was not told */
    PS_LOOP_DONE,      /* control, from the worker: the job has all its steps */
    PS_LOOP_LEAVE,     /* control, to the worker: end in order */
    PS_LOOP_STEP,      /* rank, from the worker: value = clock */
    PS_LOOP_LOSS,      /* rank, to the worker: value = clock, number = loss */
    /* rank, to the worker: value = clock; the gradients of variables [first, first + count) are
     * written */
    PS_LOOP_READY,
    PS_LOOP_LAST,  /* rank, from the worker: value = clock after the last step */
    PS_LOOP_METRIC /* rank, to the worker: value = clock, metric `first` of the memory, number =
                    * its value */
} ps_loop_kind;

typedef struct ps_loop_message {
    uint32_t kind, rank;
    uint64_t value;
    uint32_t first, count;
    double number;
    char text[PS_LOOP_TEXT];
} ps_loop_message;

typedef struct ps_loop_variable {
    char name[PS_LOOP_NAME_MAX];
    uint32_t rank;              /* dimensions */
    uint32_t dim[PS_LOOP_DIMS]; /* outermost first */
    uint32_t unused;
    uint64_t at, size; /* offset and number of its floats, alike in weights and gradients */
} ps_loop_variable;

typedef struct ps_loop_memory {
    uint32_t magic, variable_count;
    uint32_t rank, workers; /* number of this rank, from 0; number of workers of the job */
    uint32_t block_size, steps_of_epoch; /* samples of a step of one worker; steps of an epoch */
    uint64_t total_steps, param_count;
    /* offsets in bytes from the beginning of the memory; multiples of 64 */
    uint64_t weights_at, gradients_at;
    uint64_t state_at, state_bytes; /* offset and size in bytes; 0 bytes: there is no state */
    char job_id[96];
    uint32_t metric_count, unused;
    /* (metric_count): the names of the metrics */
    char metrics[PS_LOOP_METRICS_MAX][PS_LOOP_METRIC_BYTES];
} ps_loop_memory;

#endif
