/* SPDX-License-Identifier: Apache-2.0 */
/* local_impl.h - what local.c, local_job.c and local_files.c share; for them only. */
#ifndef PS_COMMON_LOCAL_LOCAL_IMPL_H
#define PS_COMMON_LOCAL_LOCAL_IMPL_H

#include "common/local/local.h"
#include "common/local/local_mesh.h"
#include "common/local/turns.h"
#include "common/wire/wire_link_direct.h"

#include <google/protobuf/timestamp.pb-c.h>
#include <stdatomic.h>
#include <stdio.h>

enum { LOCAL_RESULTS_MAX = 1 + PS_METRICS_MAX, LOCAL_NAME_BYTES = 160 };

typedef struct local_worker {
    ps_local_job *local;
    uint32_t rank;
    float *weights; /* (param_count) */
    ps_trainer *trainer;
    ps_exchange *exchange;
    ps_transport *transport; /* the exchange's; NULL: it is among workers */
    ps_turn turn;
} local_worker;

/* A file that is whole. */
typedef struct local_file {
    Psgd__V1__Artifact artifact;
    char name[LOCAL_NAME_BYTES], sha256[65], node_id[24];
} local_file;

struct ps_local_job {
    ps_local_job_conf conf;
    const ps_plan *plan;
    ps_dataset *data;
    ps_placement placement; /* of one server, whatever the job says: bits do not depend on it */
    ps_wire_server *server; /* NULL: workers exchange by mail */
    ps_wire_parts parts;    /* the server's */
    ps_direct_hub hub;
    ps_local_mail *mail; /* NULL: through the server */
    ps_turns turns;
    bool has_turns;
    uint32_t worker_count;
    local_worker *workers;
    atomic_uint running; /* workers */
    FILE *log;           /* the sink of the process's log */
    char log_name[LOCAL_NAME_BYTES];

    Psgd__V1__JobState state;
    ps_status result;
    ps_store_counters counters; /* of all servers, at the end */
    int64_t began_wall_us, ended_wall_us;
    struct {
        int64_t us;
        uint64_t samples, step;
    } rate[2]; /* two points that are a second apart or more */

    /* what ps_local_job gives */
    Psgd__V1__Job job;
    Psgd__V1__Progress progress;
    Google__Protobuf__Timestamp began, ended;
    Psgd__V1__Job__ResultEntry results[LOCAL_RESULTS_MAX], *result_ptrs[LOCAL_RESULTS_MAX];
    char whom[160];
    local_file *files; /* (file_count) */
    size_t file_count;
    Psgd__V1__Artifact **file_ptrs;
};

/* local_files.c. The log becomes the process's sink; end gives that up. */
PS_MUST_USE ps_status local_log_begin(ps_local_job *local);
void local_log_end(ps_local_job *local);
/* Everything that is left to write, and the list of all. */
PS_MUST_USE ps_status local_write_files(ps_local_job *local);

#endif
