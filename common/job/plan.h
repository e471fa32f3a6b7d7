/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - a job's specification, checked and resolved to plugins.
 *
 * The coordinator makes a plan of a JobSpec when a job is submitted, and reports all wrong fields
 * at once. Each node makes it again of the completed spec that it is sent. Names of plugins are
 * looked up here and nowhere else. A plan is immutable.
 */
#ifndef PS_COMMON_JOB_PLAN_H
#define PS_COMMON_JOB_PLAN_H

#include "common/codec/codec.h"
#include "common/consistency/consistency.h"
#include "common/data/assign.h"
#include "common/data/dataset.h"
#include "common/data/feed.h"
#include "common/job/code.h"
#include "common/job/layout.h"
#include "common/job/spec.h"
#include "common/mesh/mesh.h"
#include "common/metric/metric.h"
#include "common/nn/model.h"
#include "common/optim/clip.h"
#include "common/optim/descent.h"
#include "common/optim/optim.h"
#include "common/straggler/straggler.h"
#include "common/update/update.h"

enum {
    PS_PSERVERS_MAX = 64,
    PS_METRICS_MAX = 16,
    /* samples that an evaluation computes at once: fast products, little memory */
    PS_EVALUATION_BATCH = 64,
    PS_EVALUATION_PART_MAX = 1 << 20, /* most bytes of a worker's part of a split evaluation */
    /* most bytes of the encoding of a variable that is sent whole: it is one message */
    PS_MATRIX_BYTES_MAX = 1 << 20,
    PS_NODE_ADDRESS_MAX = 160 /* bytes of host:port with its NUL */
};

/* A codec with its numbers. */
typedef struct ps_codec_choice {
    const ps_codec *codec;
    ps_params params;
} ps_codec_choice;

/* A metric with its numbers. */
typedef struct ps_metric_choice {
    const ps_metric *metric;
    ps_params params;
} ps_metric_choice;

/* A sparse variable, which travels as rows by id. With spec.model.table `none` its vocabulary is
 * fixed: every id has a row, and workers have them all. With `sparse` there, the table grows: a
 * server makes a row when a push of its id arrives and the id is admitted (common/store/table.h).
 */
typedef struct ps_plan_table {
    /* index of the variable. If the table grows, its shape is (table_keys, width): the rows of a
     * worker's batch */
    uint32_t variable;
    uint32_t rows; /* ids are below this number */
    uint32_t width;
    uint32_t slice_rows; /* fixed vocabulary: rows of a slice of the layout */
    /* growing table: first values of a row are uniform in [-init_bound, init_bound) */
    float init_bound;
} ps_plan_table;

#define PS_NO_TABLE UINT32_MAX

typedef struct ps_plan {
    Psgd__V1__JobSpec *spec; /* every default filled in */

    ps_script *scripts[PS_CODE_FILES_MAX]; /* (script_count): the plugins of spec.code */
    size_t script_count;

    /* The one of `scripts` that computes partitions, for a job with spec.compute; NULL: the job
     * trains. A job that computes has no variables; its servers, if it has any, reduce the results
     * by key; total_steps is the number of its partitions. */
    ps_script *compute;
    ps_params compute_params; /* the numbers of `compute` */

    ps_data_conf data_conf;
    const ps_data_source *data; /* the source of data_conf */
    /* shapes of the samples after the transforms; of the counts, see train_count and test_count */
    ps_data_facts facts;
    ps_feed_conf feed_conf;
    uint32_t train_count, test_count; /* numbers of samples after the limits */

    ps_layer_spec *layers; /* (layer_count); NULL and 0 for model.foreign */
    size_t layer_count;
    const ps_loss *loss;
    size_t outputs; /* number of values of the last layer; 1 without layers */
    ps_layout layout;

    ps_params table_params; /* numbers of spec.model.table (table_numbers.h) */
    /* (layer_count): number of ids of each layer that is an embedding; NULL: no table grows */
    uint32_t *table_rows;
    /* if tables grow: most different ids of a worker's batch or of an evaluation's; else 0 */
    uint32_t table_keys;
    ps_plan_table *tables; /* (table_count): of the model's embeddings, in their order */
    uint32_t table_count;
    uint32_t *table_of; /* (variable_count): index in tables, or PS_NO_TABLE */

    ps_metric_choice metrics[PS_METRICS_MAX]; /* (metric_count), each once */
    size_t metric_count;
    ps_metric_facts metric_facts; /* shapes of what metrics compare */

    size_t stop_metric; /* the metric of spec.stop_at: 0: the loss, i + 1: metrics[i] */
    bool stop_is_cost;  /* a smaller value of that metric is better */
    /* the metric of spec.checkpoint.best_by, numbered as stop_metric */
    size_t best_metric;
    bool best_is_cost; /* the smallest value of that metric is the best */

    const ps_assign *assign;
    ps_params assign_params;
    ps_assignment *assignment;

    const ps_optim *optim;
    ps_params optim_params;
    bool optim_on_server;

    const ps_update *update;
    ps_params update_params;
    ps_update_facts update_facts;
    /* A round has as many local steps as fit into the exchange of the round before, at most those
     * of the update. Workers then differ in their steps. The job ends at the clock at which they
     * have taken workers * total_steps together (common/job/stop.h), at the latest at
     * total_clocks. */
    bool rounds_vary;

    /* The rule by which workers step within a round; `optim` is then the rule of the servers. NULL:
     * workers take no steps of their own. */
    const ps_optim *local_optim;
    ps_params local_params;

    /* The rules `optim` and `local_optim` with schedule and penalties. Schedule and penalties
     * belong to the local rule if there is one, else to the other. */
    ps_descent descent, local_descent;
    /* The schedule by which the update's number `compensation` is multiplied; NULL: the update has
     * no such number. */
    const ps_schedule *compensation_schedule;
    ps_params compensation_schedule_params;
    const ps_clip *clip;
    ps_params clip_params;

    const ps_consistency *policy;
    ps_params policy_params;

    const ps_straggler *straggler; /* delays workers, for experiments */
    ps_params straggler_params;

    ps_codec_choice *up, *down; /* (variable_count) */
    bool *by_matrix; /* (variable_count): the gradient is sent whole, as the product of two thin
                      * matrices (common/wire/matrix.h); up is a codec of low rank then */

    const ps_mesh *mesh; /* NULL: the exchange is through parameter servers */
    ps_params mesh_params;
    ps_mesh_part *mesh_parts; /* (variable_count) how each variable travels; NULL without a mesh */
    /* for a mesh to which each worker contributes one sum a step instead of one for each of its
     * blocks: an assignment in which worker i has block i alone; else NULL */
    ps_assignment *by_worker;

    uint32_t batches_per_epoch; /* train_count / what a step takes (assign.h), >= 1 */
    uint64_t total_steps;       /* batches_per_epoch * epochs, or less: spec.max_steps */
    /* number of exchanges: as many as steps, or as rounds of local steps; the most of them if
     * rounds_vary */
    uint64_t total_clocks;
} ps_plan;

/* Returns the script of a kind and name, or NULL. Valid as long as the plan. */
ps_script *ps_plan_script(const ps_plan *plan, const char *kind, const char *name);

/* Returns the first failure of the job's code in this process, or OK. After a failure what the code
 * computes is worthless. Any thread. */
ps_status ps_plan_code_failure(const ps_plan *plan);

/* Returns whether only users' programs know the model (spec.model.foreign). */
bool ps_plan_is_foreign(const ps_plan *plan);

/* Returns whether a user's program computes the gradients of the rank (spec.programs). */
bool ps_plan_is_program(const ps_plan *plan, uint32_t rank);

enum {
    PS_PROGRAM_STATE_MIB_MAX = 4096,
    PS_PROGRAM_METRIC_MAX = 48 /* most bytes of a name in spec.program_metrics */
};

/* Returns the bytes that the program of a rank may keep in checkpoints (named_bytes.h); 0: none. */
size_t ps_plan_program_bytes(const ps_plan *plan);

/* Returns the ID in an init_from of the form "job:ID", as a pointer into it; NULL: it has another
 * form. */
const char *ps_init_from_job(const char *init_from);

/* Most halvings of the learning rate, by spec.recovery.halvings and rollbacks together. */
enum { PS_HALVINGS_MAX = 60 };

/* Default of spec.recovery.wait_seconds. */
#define PS_RECOVERY_WAIT_S 600.0

/* The largest spec.recovery.max_restarts and spec.checkpoint.keep; the smallest is 1. */
enum { PS_RESTARTS_MAX = 100000, PS_CHECKPOINTS_KEPT_MAX = 1000, PS_ROLLBACKS_MAX = 30 };

/* The largest spec.recovery.replicas and replay_mib. */
enum { PS_REPLICAS_MAX = 2, PS_REPLAY_MIB_MAX = 65536 };

/* Returns why a job of this plan cannot have checkpoints; NULL: it can. */
const char *ps_plan_checkpoint_lacks(const ps_plan *plan);

/* Returns whether all ranks save their state for a checkpoint at the same clock: under a
 * deterministic policy (bsp) and in a mesh. Else each rank does so at the next clock that it
 * begins, and servers when all ranks have. */
bool ps_plan_is_in_step(const ps_plan *plan);

/* Returns why the workers of a job of this plan cannot stop at a checkpoint from which other
 * processes go on; NULL: they can. */
const char *ps_plan_move_lacks(const ps_plan *plan);

/* Returns whether a job goes on by another attempt after a loss for which the spec gives this
 * action: RESTART or REPEAT. */
bool ps_loss_restarts(Psgd__V1__LossAction action);

/* Returns whether ranks keep something from one clock to the next that servers do not have. True
 * also if the job's servers cannot go back to the beginning of a clock; ranks are then treated as
 * if they had state. False only under bsp on servers that can be saved at a checkpoint. */
bool ps_plan_ranks_have_state(const ps_plan *plan);

/* Returns whether the state of ranks at a checkpoint includes all rows of fixed vocabularies, as a
 * codec has made them for each rank over many clocks. Servers then send only rows that change after
 * the checkpoint, because encoded anew the others could get other bits. */
bool ps_plan_ranks_have_rows(const ps_plan *plan);

/* Returns whether all ranks of an exchange among workers have the same weights and optimizer state,
 * and no other state, so that each of them can give the state of all. */
bool ps_plan_ranks_are_alike(const ps_plan *plan);

/* Returns the last clock at which an attempt of the job can begin. It lies before the end of the
 * job, except for ranks that are alike: these may be lost after the last exchange. */
uint64_t ps_plan_last_begin(const ps_plan *plan);

/* Returns whether the job, after the loss of a worker, can go on from the clock at which its
 * servers are: the ranks have no state of their own and skip no steps, servers keep what they need
 * to go one clock back, and on_worker_loss is REPEAT. Without servers: whether it can go on from
 * the clock of the other ranks, as all ranks are alike, and on_worker_loss is REPEAT. */
bool ps_plan_can_rescue(const ps_plan *plan);

/* Returns whether ranks that have state of their own could go on with it after the loss of servers
 * alone. The ranks then save their state at the clock at which they are, with what they contributed
 * to the clock under way. */
bool ps_plan_can_carry(const ps_plan *plan);

/* How many of the newest clocks' contributions a rank saves when ps_plan_can_carry: those of the
 * clock of the servers' state, and of the next one. */
enum { PS_SENT_CLOCKS = 2 };

/* Returns whether workers receive the weights of servers to the bit. Else they receive what the
 * codec of weights makes of them. */
bool ps_plan_gives_exact_weights(const ps_plan *plan);

/* Returns how many bytes of its newest contributions each rank keeps, so that the state of a lost
 * server can be computed anew from a checkpoint; 0: it keeps none, because too few clocks fit into
 * spec.recovery.replay_mib, or because the job does not go on in that way. Two intervals of
 * checkpoints by steps must fit; one clock if there are only checkpoints by time (PS_SENT_CLOCKS
 * if ps_plan_can_carry); all clocks if there are none. If servers have copies of shards, ranks
 * that can carry their state keep PS_SENT_CLOCKS clocks, others none. */
size_t ps_plan_kept_bytes(const ps_plan *plan);

/* Returns whether ranks go on with their own state after the loss of servers: ps_plan_can_carry,
 * and they keep contributions (ps_plan_kept_bytes). */
bool ps_plan_carries(const ps_plan *plan);

/* Returns whether the job goes on from the clock of its servers after the loss of workers
 * (ps_plan_can_rescue), or of servers alone (ps_plan_carries). */
bool ps_plan_rescues(const ps_plan *plan);

/* Returns why the servers of this job cannot have copies of each other's shards, which need a job
 * that goes on from the clock of its servers after a loss; NULL: they can. */
const char *ps_plan_copy_lacks(const ps_plan *plan);

/* Returns whether each shard is on two servers (ps_placement_copy), so that the job goes on from
 * the clock of its servers also after the loss of one of them. */
bool ps_plan_has_copies(const ps_plan *plan);

/* Reads "checkpoint:JOB@STEP". Returns false if init_from does not begin with "checkpoint:". Sets
 * *step to UINT64_MAX and job_id to "" if what follows "checkpoint:" is not text shorter than
 * PS_CHECKPOINT_JOB_MAX, @ and a number of at most 13 digits. */
enum { PS_CHECKPOINT_JOB_MAX = 96 };
bool ps_init_from_checkpoint(const char *init_from, char job_id[PS_CHECKPOINT_JOB_MAX],
                             uint64_t *step);

/* Completes a copy of `spec` (preset, defaults), checks and resolves it. Fails with
 * INVALID_ARGUMENT after it has called `violate` (may be NULL) for every wrong field and every
 * combination that cannot work. */
PS_MUST_USE ps_status ps_plan_create(const Psgd__V1__JobSpec *spec, ps_violate_fn *violate,
                                     void *arg, ps_plan **out);

/* Frees the plan. NULL is allowed. */
void ps_plan_destroy(ps_plan *plan);

/* Returns the XXH3-64 of everything that the plan decides about the bits of the job: data, model,
 * optimizer, codecs, policies, each with its resolved numbers, but without halvings of the learning
 * rate. Equal plans of one program have equal hashes; a node whose hash differs from the
 * coordinator's would compute another job. */
uint64_t ps_plan_hash(const ps_plan *plan);

/* Returns whether `data`, with all its numbers, is the data set of the plan. */
bool ps_plan_is_data(const ps_plan *plan, const Psgd__V1__DataSpec *data);

/* Returns how many places the order of an epoch has for a worker (ps_feed_order). */
uint32_t ps_plan_order_count(const ps_plan *plan);

/* Returns the place in a worker's order of the first sample of its block in a batch of the epoch.
 */
uint64_t ps_plan_order_place(const ps_plan *plan, uint64_t batch, uint32_t block);

/* Returns which training files the process needs that carries the ranks first to first + count - 1:
 * if files are dealt to workers, those of these ranks. */
ps_data_share ps_plan_share(const ps_plan *plan, uint32_t first, uint32_t count);

/* Creates the feed of a loaded data set for a worker of the plan's job; keeps `data` and the plan.
 * Fails as ps_feed_create. */
PS_MUST_USE ps_status ps_plan_feed(const ps_plan *plan, const ps_dataset *data, uint32_t rank,
                                   ps_feed **out);

/* Creates the plan's model for batches of `batch` samples. Fails as ps_model_create. */
PS_MUST_USE ps_status ps_plan_model(const ps_plan *plan, size_t batch, ps_model **out);

/* Returns the configuration of the machine of worker `self` in the plan's mesh; keeps the plan. */
ps_mesh_conf ps_plan_mesh(const ps_plan *plan, uint32_t self);

/* Returns how many bytes the packages of PreCommit have for a node that gets `slices` slices with
 * `values` values in all, without the data set; rounded up. For deadlines. */
uint64_t ps_plan_package_bytes(const ps_plan *plan, uint64_t slices, uint64_t values);

/* Returns the deadline of PreCommit for so many bytes, in microseconds: one second and twice the
 * time of the bytes at network_bandwidth, but not less than the floor of the spec
 * (timeouts.pre_commit_floor_ms) and not more than its cap. */
int64_t ps_plan_pre_commit_us(const ps_plan *plan, uint64_t bytes);

/* ---- Tables ----
 *
 * A fixed vocabulary is a table whose ids all exist. All tables of a job have one, or all grow.
 * These functions say what follows from that. */

/* Returns how many tables have files of their own: all tables of the job if they grow, else 0,
 * because rows of a fixed vocabulary are a part of the model's file. */
uint32_t ps_plan_table_files(const ps_plan *plan);

/* Returns how many rows a table has at the start of the job: with a fixed vocabulary all, else 0.
 */
uint32_t ps_plan_first_rows(const ps_plan *plan, uint32_t table);

enum {
    PS_TABLE_INITS = 64,      /* most entries of JobSpec.init_tables */
    PS_TABLE_KEYS = 2048,     /* most keys of a message */
    PS_ROW_GROUPS_MAX = 2048, /* most groups of rows of a message (common/wire/row_groups.h) */
};

/* Returns the number of files and jobs that the tables of a job start from, and sets *out to the
 * list, in order, each entry as in init_tables; it belongs to the plan. 0: no table starts from a
 * file or job, as always with a fixed vocabulary. */
size_t ps_table_inits(const ps_plan *plan, char *const **out);

/* Returns the most keys that a message may have: at most PS_TABLE_KEYS, and so few that their rows
 * of the widest table, or of all tables that grow, are within a MiB and form at most
 * PS_ROW_GROUPS_MAX groups. */
size_t ps_table_keys_of_message(const ps_plan *plan);

#define PS_TABLE_FILE_ENDING ".psgdtab"

/* Writes the name of the file in which server `rank` leaves its rows of a table. */
void ps_table_file_name(const ps_plan *plan, uint32_t table, uint32_t rank, char *name, size_t cap);
/* Writes the name of a file with the rows of server `rank` that was saved at `step`, while the job
 * trained. The name has another ending than ps_table_file_name gives, so that nobody takes the file
 * for one of those at the end. */
void ps_table_saved_name(const ps_plan *plan, uint32_t table, uint32_t rank, uint64_t step,
                         char *name, size_t cap);
/* Returns whether ps_table_saved_name gives `name` for some step. */
bool ps_table_is_saved_name(const ps_plan *plan, uint32_t table, uint32_t rank, const char *name);

#endif
