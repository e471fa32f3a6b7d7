/* SPDX-License-Identifier: Apache-2.0 */
/* build_spec.h - builds a JobSpec from a file and flags. */
#ifndef PS_CLIENTS_PSGD_BUILD_SPEC_H
#define PS_CLIENTS_PSGD_BUILD_SPEC_H

#include "common/base/option.h"
#include "common/rpc/error.h"

#include "psgd/v1/spec.pb-c.h"

#include <jansson.h>

/* The flags as text; NULL: not given. */
typedef struct ps_spec_flags {
    const char *title, *preset;
    const char *workers; /* a number, or the path of a worker.json */
    const char *node_count, *pservers;
    const char *epochs, *max_steps, *max_seconds, *stop_at, *block_size, *seed;
    const char *checkpoint_every, *checkpoint_seconds, *checkpoint_keep;
    const char *recovery, *max_restarts, *on_divergence, *max_rollbacks, *replicas, *replay_mib;
    const char *workers_min, *workers_max;
    const char *model, *widths, *activation;
    const char *data, *train_limit, *test_limit;
    const char *assignment, *redundancy;
    /* name and learning rate of optimizer.local if the job's workers take local steps, else of
     * optimizer.rule */
    const char *optimizer, *lr;
    const char *server_optimizer, *server_lr, *optimizer_side;
    const char *update, *local_steps, *compensation, *worker_threads;
    const char *exchange, *consistency, *bound;
    const char *codec, *codec_up, *codec_down;
    const char *bandwidth;
    bool maximise;
    ps_option_list code; /* paths of files of code */
    ps_option_list metrics;
    ps_option_list set; /* PATH=VALUE as ps_pb_set takes them; applied last */
} ps_spec_flags;

/* Builds a spec from the file `path` (NULL: empty; "-": standard input), then from the flags. The
 * caller frees it by psgd__v1__job_spec__free_unpacked(spec, NULL). If a flag names another plugin
 * than the file does in that place, the numbers that the file has for its plugin are dropped,
 * unless both plugins are assignments with redundancy.
 *
 * Fails with INVALID_ARGUMENT or the errors of the files. Each wrong value is a violation that
 * names its flag or its field in the file. `error` is initialised here. */
PS_MUST_USE ps_status ps_spec_build(const char *path, const ps_spec_flags *flags, ps_error *error,
                                    Psgd__V1__JobSpec **out);

/* Does what ps_spec_build does, with a JSON object in place of the file; texts of errors call the
 * object `what`. */
PS_MUST_USE ps_status ps_spec_build_json(const json_t *json, const char *what,
                                         const ps_spec_flags *flags, ps_error *error,
                                         Psgd__V1__JobSpec **out);

/* Puts file and line, such as "job.yaml:4: ", before the field of each violation whose field is in
 * the file. `path` is that of ps_spec_build; for NULL and "-" does nothing. */
void ps_spec_locate(const char *path, ps_error *error);

#endif
