/* SPDX-License-Identifier: Apache-2.0 */
/* server_thread.h - one thread of a parameter server: the part of a job that is its own, and the
 * streams of workers to it.
 *
 * Thread 0 is the node's own loop, the home; each other one has a loop to itself. Nothing but that
 * thread touches what it has. All functions are called on the home loop's thread; they do their
 * work on the thread, and wait for it.
 */
#ifndef PS_SERVICES_PSERVER_SERVER_THREAD_H
#define PS_SERVICES_PSERVER_SERVER_THREAD_H

#include "common/node/node.h"
#include "common/store/store.h"

typedef struct ps_server_thread ps_server_thread;

typedef struct ps_server_thread_conf {
    ps_loop *home; /* NULL, for thread 0 only: policies close nothing by time */
    uint32_t number;
    uint64_t drop_ack;           /* as of wire_server.h */
    void (*complete)(void *arg); /* all contributions of a session are in; on the home loop */
    /* as of ps_wire_server_set_failed; on the home loop */
    void (*failed)(void *arg, const ps_status *why);
    void *arg;
} ps_server_thread_conf;

/* Fails with RESOURCE_EXHAUSTED if there is no thread to be had. */
PS_MUST_USE ps_status ps_server_thread_create(const ps_server_thread_conf *conf,
                                              ps_server_thread **out);

/* Ends the thread. It has no session, and no server refers to its service. NULL is allowed. */
void ps_server_thread_destroy(ps_server_thread *t);

/* Returns its ParameterService; valid until destroy. */
ps_service ps_server_thread_service(ps_server_thread *t);

/* Makes the thread's part of a session, which is kept, and opens it to workers. `tables`, which may
 * be NULL, are taken. */
void ps_server_thread_open(ps_server_thread *t, const ps_session *session, ps_tables *tables);

/* Ends all streams and frees the part. */
void ps_server_thread_close(ps_server_thread *t);

/* Returns whether it has slices or tables of the session: then complete will be called. */
bool ps_server_thread_is_used(const ps_server_thread *t);

/* Goes on without a worker, as ps_wire_server_lose. Sets *is_news if it had not been lost before.
 */
PS_MUST_USE ps_status ps_server_thread_lose(ps_server_thread *t, uint32_t worker, bool *is_news);

/* Copies the weights of its slices to their places among those of the server, which are one after
 * the other. */
void ps_server_thread_copy_weights(ps_server_thread *t, float *weights);

/* Gives the tables to whoever writes their files, as ps_wire_server_close_tables; NULL: none. */
ps_tables *ps_server_thread_close_tables(ps_server_thread *t);

/* What threads have counted. */
typedef struct ps_server_counts {
    ps_store_counters store;
    ps_traffic traffic;
    uint64_t waits, open;
    uint64_t clock; /* the oldest that is not complete; UINT64_MAX: no slices */
    uint32_t worker_count;
    ps_worker_counters *workers; /* (worker_count) */
    bool *is_lost;               /* (worker_count) */
} ps_server_counts;

/* Adds what this thread has counted of the session. */
void ps_server_thread_add_counts(ps_server_thread *t, ps_server_counts *sum);

#endif
