/* SPDX-License-Identifier: Apache-2.0 */
/* server_thread.h - one thread of a parameter server, with its part of a job and the streams of
 * workers to that part.
 *
 * Thread 0 runs on the node's own loop, the home loop; each other thread has a loop of its own. If
 * the placement has copies, a copy of a part of the server before this one is a part of its own: it
 * has a ps_server_thread, which works on the thread of another ps_server_thread. Only the thread
 * itself changes its part. All functions are called on the home loop's thread. Those that use what
 * the thread changes post their work to it and block until the work is done. */
#ifndef PS_SERVICES_PSERVER_SERVER_THREAD_H
#define PS_SERVICES_PSERVER_SERVER_THREAD_H

#include "common/node/node.h"
#include "common/store/store.h"

typedef struct ps_server_thread ps_server_thread;

typedef struct ps_server_thread_conf {
    /* the node's own loop. NULL is allowed for thread 0 only: then there are no timers, so a policy
     * with a time limit does not close the sum of a clock when the limit has passed */
    ps_loop *home;
    uint32_t number;
    /* NULL: this one has a thread of its own, or the home loop. Else: this one has the copy of part
     * `number` of the server before, and works on the thread of `beside`, which is destroyed before
     * this one. */
    ps_server_thread *beside;
    uint64_t drop_ack;    /* fault for tests (wire_server.h) */
    bool is_sockets_only; /* no shared memory (ps_wire_server_set_sockets_only) */
    /* called on the home loop when the part has the contributions to all clocks of the job */
    void (*complete)(void *arg);
    /* called on the home loop (ps_wire_server_set_failed) */
    void (*failed)(void *arg, const ps_status *why);
    void *arg;
} ps_server_thread_conf;

/* Creates the thread. Returns RESOURCE_EXHAUSTED if the system refuses one. */
PS_MUST_USE ps_status ps_server_thread_create(const ps_server_thread_conf *conf,
                                              ps_server_thread **out);

/* Ends the thread. Close its session before, and stop the RPC server that has its service. NULL is
 * allowed. */
void ps_server_thread_destroy(ps_server_thread *t);

/* Returns the ParameterService of the thread; valid until destroy. */
ps_service ps_server_thread_service(ps_server_thread *t);

/* Creates the thread's part of `session` and accepts streams of its workers. Keeps the session;
 * takes `tables`, which may be NULL. If the session has a checkpoint, the part goes on from it, and
 * the call fails as ps_store_load_of and ps_store_load_end do, or with FAILED_PRECONDITION if the
 * part is at another clock than the checkpoint and has kept no state of that clock. After a failure
 * the caller closes the session too. */
PS_MUST_USE ps_status ps_server_thread_open(ps_server_thread *t, const ps_session *session,
                                            ps_tables *tables);

/* Ends all streams and frees the part. */
void ps_server_thread_close(ps_server_thread *t);

/* Returns whether the part has slices or tables. Only then conf.complete will be called. */
bool ps_server_thread_is_used(const ps_server_thread *t);

/* Returns the thread's track of the timeline. */
ps_trace_track ps_server_thread_track(const ps_server_thread *t);

/* Continues without a worker (ps_wire_server_lose). Sets *is_news if the worker was not lost
 * before. */
PS_MUST_USE ps_status ps_server_thread_lose(ps_server_thread *t, uint32_t worker, bool *is_news);

/* Copies the weights of the part's slices to their places in `weights`, which has all slices of the
 * server, ascending, without gaps. */
void ps_server_thread_copy_weights(ps_server_thread *t, float *weights);

/* Closes the tables (ps_wire_server_close_tables) and returns them, so that they can be written to
 * files. NULL: there are none. */
ps_tables *ps_server_thread_close_tables(ps_server_thread *t);

/* Arranges one call of fn on the home loop, when all contributions to the clocks before `clock`
 * have arrived; fails as ps_store_at_clock does. Only for thread 0, which has the server's tables,
 * and for the copy of thread 0 of another server, which has the copies of that server's tables. fn
 * NULL: cancels the call that was arranged for `clock`. */
PS_MUST_USE ps_status ps_server_thread_at_clock(ps_server_thread *t, uint64_t clock,
                                                ps_store_at_clock_fn *fn, void *arg);

/* What a part saved for a checkpoint. */
typedef struct ps_server_cut {
    uint64_t clock;
    uint32_t number; /* number of the thread */
    /* the part's file (ps_store_load_of reads it), perhaps still being written; set only if status
     * is OK */
    ps_snapshot state;
    ps_status status;
} ps_server_cut;

/* Called on the home loop; the receiver takes cut->state. */
typedef void ps_server_cut_fn(void *arg, ps_server_cut *cut);

/* What is to be saved for a checkpoint. */
typedef struct ps_server_cut_order {
    uint64_t clock; /* `clock` and is_now are those of ps_wire_server_cut_at */
    uint64_t base;  /* rows that have not changed since this clock may be left out (store.h) */
    bool is_now;
    int weights; /* descriptor of the file for the weights */
    ps_server_cut_fn *done;
    void *arg;
} ps_server_cut_order;

/* Arranges that the part is saved at the clock, and its weights into the file, at the places that
 * ps_server_thread_copy_weights uses. Replaces an earlier order. Calls `done` once: when the part
 * is saved, when a copy of the process has begun to write it, or after a failure. The file of
 * weights is complete when cut->state is complete. The part must be in use. The file must stay open
 * until `done` is called, or until the order is withdrawn by another call with `done` NULL. */
void ps_server_thread_cut_at(ps_server_thread *t, const ps_server_cut_order *order);

/* Saves the part at once as ps_server_thread_cut_at does, as it was when `clock` began, because the
 * job has lost a process; replaces an earlier order. cut->status is FAILED_PRECONDITION if the part
 * does not have that state, UNAVAILABLE if its tables are being written for Collect. */
void ps_server_thread_rescue(ps_server_thread *t, uint64_t clock, int weights,
                             ps_server_cut_fn *done, void *arg);

/* Returns whether the thread keeps the reports of ranks (rank_reports.h). */
bool ps_server_thread_keeps_reports(const ps_server_thread *t);
/* Appends to *said what `rank` has reported with its contributions to the clocks before `clock`.
 * Returns false if that is not known. */
bool ps_server_thread_said(ps_server_thread *t, uint32_t rank, uint64_t clock, ps_strbuf *said);

/* Sets is_missing (rank_count) for the workers whose contributions to the part's oldest incomplete
 * clock are missing. Lowers *clock to that clock if it is lower. Does nothing if the part has all
 * contributions of the job. */
void ps_server_thread_find_missing(ps_server_thread *t, bool *is_missing, uint64_t *clock);

/* The counters of several threads, added up. */
typedef struct ps_server_counts {
    ps_store_counters store;
    ps_table_counters rows;
    ps_traffic traffic;
    uint64_t waits, open;
    uint64_t clock; /* oldest clock that is not complete; UINT64_MAX: no part is in use */
    uint32_t worker_count;
    ps_worker_counters *workers; /* (worker_count) */
    bool *is_lost;               /* (worker_count) */
    bool has_no_ledger;          /* no column (clocks.h) was seen yet, so `ledger` is not set */
    ps_ledger ledger;            /* ledger of the first column that was seen */
    uint32_t ledgers_differ;     /* number of columns whose ledger differs from `ledger` */
} ps_server_counts;

/* Adds this thread's counters of the session to *sum; of a thread with copies only traffic, ledgers
 * and clock. */
void ps_server_thread_add_counts(ps_server_thread *t, ps_server_counts *sum);

#endif
