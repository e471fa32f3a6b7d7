/* SPDX-License-Identifier: Apache-2.0 */
/* rank.h - one rank of a job in this process: its trainer and its exchange.
 *
 * A worker process carries one rank or several. Each has a trainer's thread, weights and streams of
 * its own; they share the data set. Loop's thread, unless a comment says otherwise. */
#ifndef PS_SERVICES_WORKER_RANK_H
#define PS_SERVICES_WORKER_RANK_H

#include "services/worker/loop_link.h"
#include "services/worker/peer_service.h"

typedef struct ps_rank ps_rank;

typedef struct ps_rank_conf {
    ps_loop *loop;
    ps_node *node;
    const ps_session *session; /* the node's session; kept */
    uint32_t rank;
    float *weights;  /* (param_count): the initial weights; kept, and written by the exchange */
    ps_peers *peers; /* kept */
    /* link to the program that computes the model; NULL: the trainer computes it */
    ps_loop_link *link;
    /* Called once after ps_rank_start, when the rank has ended: its thread has ended, its streams
     * are closed, and the result is known. */
    void (*ended)(void *arg);
    /* Called for each checkpoint with the rank's files (ps_trainer_conf.saved); the receiver takes
     * them. */
    void (*saved)(void *arg, uint32_t rank, uint64_t clock, ps_snapshot state, ps_snapshot weights);
    void *arg;
    /* the rank's file of a checkpoint, from which the rank goes on; a reference is taken. NULL: it
     * begins at clock 0 */
    ps_buf *state;
    bool is_sockets_only; /* no payload goes through shared memory */
} ps_rank_conf;

/* Creates a rank with the memory of its trainer. In a mesh it receives messages of peers from now
 * on, because peers may start first. Fails as ps_trainer_create and ps_loop_rank_create do, and in
 * a mesh as ps_mesh_exchange_create and ps_trainer_load do. */
PS_MUST_USE ps_status ps_rank_create(const ps_rank_conf *conf, ps_rank **out);

/* Frees a rank that was not started, or that has ended. Until this call a rank that has ended keeps
 * its exchange, without streams, for ps_rank_kept and ps_rank_parked. NULL is allowed. */
void ps_rank_destroy(ps_rank *rank);

/* Opens the exchange and begins to train. `ended` is called at the end, also if training fails or
 * cannot begin. */
void ps_rank_start(ps_rank *rank);

/* Makes the rank end soon, in a mesh without sending what peers still need; `ended` is called then.
 * Does nothing if the rank was not started or has ended. */
void ps_rank_stop(ps_rank *rank);

/* Holds the rank: it begins no further clock until ps_rank_end_at. Its progress reports the clock
 * before which it is held (held_at). Does nothing before ps_rank_start: call it again. A rank that
 * does not train any more is not held: it reports the clock before which it was held last, else the
 * end of the job. */
void ps_rank_hold(ps_rank *rank);

/* Lets the rank go on to `clock` and end there, as at the end of the job. Only the first call has
 * an effect, and only while the rank trains. */
void ps_rank_end_at(ps_rank *rank, uint64_t clock);

/* Asks for a checkpoint of the rank at the beginning of `clock`. Replaces an earlier request that
 * was not met; clock 0 only withdraws that one. stays: the rank does not begin that clock until the
 * next call. Returns false if the rank is beyond the beginning of `clock`; true if it has ended,
 * though it then takes none. If the job's ranks are not in step, the rank takes the checkpoint at
 * the first clock, not before `clock`, that it has not begun, and does not stay. */
bool ps_rank_cut_at(ps_rank *rank, uint64_t clock, bool stays);

/* Writes the kept contributions of the rank that belong to lost servers; see the hook `kept` in
 * node.h. */
PS_MUST_USE ps_status ps_rank_kept(ps_rank *rank, const bool *is_lost, ps_snapshot *out);
/* Makes the rank stand still for good, so that it can be saved where it is. A rank that has taken
 * its last step stands still already. Returns UNAVAILABLE until it stands still: call it again.
 * FAILED_PRECONDITION: it was not started, has failed, or is in a mesh. */
PS_MUST_USE ps_status ps_rank_park(ps_rank *r);
/* Writes a rank that stands still (ps_trainer_save_parked) to a file in memory, *out, which the
 * caller owns. */
PS_MUST_USE ps_status ps_rank_parked(ps_rank *r, ps_snapshot *out);

/* For a mesh whose ranks are alike, after the loss of other ranks: stops the rank's exchange where
 * it is. Returns whether its weights are those of `clock`. Without a mesh does nothing and returns
 * false. */
bool ps_rank_halt(ps_rank *rank, uint64_t clock);
/* Writes to `fd` (ps_snapshot_write) the bytes that the files of all ranks have in common, at the
 * clock at which ps_rank_halt has stopped this rank. */
PS_MUST_USE ps_status ps_rank_give_alike(ps_rank *rank, int fd);
/* Returns the offset of those common bytes in the file of a rank. */
size_t ps_rank_alike_at(const ps_rank *rank);
/* Writes the file of any rank, `of`, without the common bytes, to `fd`. FAILED_PRECONDITION: it is
 * not known what that rank has reported. */
PS_MUST_USE ps_status ps_rank_give(ps_rank *rank, uint32_t of, int fd);
/* Writes the weights to a file in memory, *out, which the caller owns. */
PS_MUST_USE ps_status ps_rank_give_weights(const ps_rank *rank, ps_snapshot *out);

/* Drops the kept contributions to the clocks before `clock`. Does nothing if the job has copies of
 * shards. */
void ps_rank_forget(ps_rank *rank, uint64_t clock);

/* Returns whether the checkpoint at `clock` was asked for and was not taken yet. */
bool ps_rank_owes_cut(const ps_rank *rank, uint64_t clock);

/* Returns whether the rank was started and has not ended. */
bool ps_rank_is_running(const ps_rank *rank);

/* Returns how training ended: OK, the failure, also if training could not begin, or CANCELLED if it
 * was stopped. Call it when the rank has ended. */
ps_status ps_rank_result(const ps_rank *rank);

/* Returns whether the rank has failed because a loss, gradient or weight is not finite. */
bool ps_rank_has_diverged(const ps_rank *rank);

enum { PS_RANK_TRACKS = 2 };

/* Writes the rank's tracks of the timeline: that of the trainer's thread and, if the job has
 * servers, that of the loop's thread. Returns their number. */
size_t ps_rank_tracks(const ps_rank *rank, ps_trace_track out[PS_RANK_TRACKS]);

/* Registers those of the rank's files of reports, events and vocabulary that exist with the node
 * for Collect. */
void ps_rank_keep_curves(const ps_rank *rank);

/* Writes the lines of the reports that are still in memory. Any thread; may wait for the disk. */
PS_MUST_USE ps_status ps_rank_flush(const ps_rank *rank);

/* In a mesh, for a job that ends before its trainer has written a model: copies the weights as they
 * are after the last complete exchange; only the first call does. Registers for Collect the model
 * file that ps_rank_write_copy makes of the copy. */
void ps_rank_copy_model(ps_rank *rank);

/* Writes the weights that ps_rank_copy_model has copied to the model file; does nothing if that was
 * not called. If the file cannot be written, logs that and leaves the file out. Any thread; waits
 * for the disk. */
void ps_rank_write_copy(const ps_rank *rank);

/* Registers those model files of the rank that exist with the node for Collect. Only rank 0 writes
 * some. */
void ps_rank_keep_model(const ps_rank *rank);

/* Returns the rank's progress for the coordinator: counters, for whom it waits, evaluations, and
 * its part of a split evaluation. The message is the rank's, valid until the next call. */
Psgd__V1__WorkerProgress *ps_rank_progress(ps_rank *rank);

/* Creates the exchange of a session's rank through its servers, by gRPC on the loop. Keeps the
 * session; takes a reference to `grad`, the gradient block. The caller starts the exchange by
 * ps_wire_client_start and ends it by ps_wire_client_stop. `is_sockets_only`: no payload goes
 * through shared memory. */
ps_exchange *ps_rank_connect(ps_loop *loop, const ps_session *session, uint64_t incarnation,
                             ps_buf *grad, bool is_sockets_only);

#endif
