/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator_world.h - a coordinator on loopback, and nodes that do not train. Each node is a real
 * ps_node, but its role hooks only pretend to train, and finish when the test says so.
 *
 * Everything runs on one loop, on a thread of its own; tests call the functions from their own
 * thread.
 */
#ifndef PS_TESTS_SUPPORT_COORDINATOR_WORLD_H
#define PS_TESTS_SUPPORT_COORDINATOR_WORLD_H

#include "common/node/node.h"
#include "services/coordinator/api/service.h"
#include "services/coordinator/coordinator_life.h"
#include "tests/support/side.h"
#include "tests/support/temp_dir.h"

#include "psgd/v1/coordinator.pb-c.h"

enum { CW_NODES_MAX = 4, CW_EVENTS_MAX = 64, CW_CHUNKS_MAX = 64 };

typedef struct coordinator_world coordinator_world;

typedef struct cw_node {
    coordinator_world *w;
    ps_node *node; /* NULL: stopped */
    char id[16];
    ps_session *session;
    bool finishes;                        /* the node finishes by itself as soon as it runs */
    bool leaves_bad_file, cannot_collect; /* faults of its Collect */
    bool is_running;
    ps_timer finish;
    flag down;
    /* memory of the progress that the node reports */
    Psgd__V1__WorkerProgress progress, *progresses[1];
    Psgd__V1__WorkerProgress__MetricsEntry metric, *metrics[1];
} cw_node;

struct coordinator_world {
    side s;
    temp_dir dir;
    char data_dir[200];
    ps_coordinator *c;
    ps_service service;
    ps_server *server;
    int port; /* port of the coordinator; cw_restart keeps it */
    char address[64];
    ps_channel *channel;
    flag down;
    cw_node nodes[CW_NODES_MAX];
    size_t node_count;
};

/* Starts a coordinator and nodes: 0..workers-1 are "w0".., the others "p0"... All finish as soon as
 * they run. Returns when all are registered. */
void cw_begin(coordinator_world *w, size_t workers, size_t pservers);
void cw_end(coordinator_world *w);

/* Stops the coordinator and creates another one at the same address, with the same data directory,
 * as a new process would. */
void cw_restart(coordinator_world *w);
void cw_stop_node(coordinator_world *w, size_t index);

/* Makes a unary call. Returns the reply, which the caller frees; or NULL and fills *error. */
ProtobufCMessage *cw_call(coordinator_world *w, const char *method, const ProtobufCMessage *request,
                          ps_error *error);
/* Makes a unary call to a node, as cw_call. */
ProtobufCMessage *cw_call_node(coordinator_world *w, size_t index, const char *method,
                               const ProtobufCMessage *request, ps_error *error);

/* Submits a spec in JSON and writes the job's id into id[96]. Fails the test if it is refused. */
void cw_submit(coordinator_world *w, const char *json, char id[96]);
/* Submits a spec in JSON. Returns the reply, or NULL and fills *error. */
Psgd__V1__SubmitJobResponse *cw_try_submit(coordinator_world *w, const char *json,
                                           const char *request_id, ps_error *error);

/* Returns the job; the caller frees it. Fails the test if there is none. */
Psgd__V1__Job *cw_get(coordinator_world *w, const char *id);

/* The events of WatchJob after sequence `after`, until the job was in state `until` or the stream
 * ended. */
typedef struct cw_events {
    size_t count;
    Psgd__V1__WatchJobResponse *items[CW_EVENTS_MAX];
    ps_error error; /* how the stream ended; OK also if cw_watch ended it in state `until` */
} cw_events;
void cw_watch(coordinator_world *w, const char *id, uint64_t after, Psgd__V1__JobState until,
              cw_events *out);
void cw_events_fini(cw_events *events);

/* Blocks until the job is in the state, or has ended. Returns the last state. */
Psgd__V1__JobState cw_await(coordinator_world *w, const char *id, Psgd__V1__JobState state);

/* A chunk that ReclaimLogs has sent: the message and its payload (n bytes). */
typedef struct cw_chunk {
    Psgd__V1__ReclaimLogsResponse *head;
    uint8_t *bytes;
    size_t n;
} cw_chunk;
typedef struct cw_reclaimed {
    size_t count;
    cw_chunk chunks[CW_CHUNKS_MAX];
    ps_error error;
} cw_reclaimed;
void cw_reclaim(coordinator_world *w, const Psgd__V1__ReclaimLogsRequest *request,
                cw_reclaimed *out);
void cw_reclaimed_fini(cw_reclaimed *r);

/* Ends the work of node `index` with this result, as soon as it runs. */
void cw_finish(coordinator_world *w, size_t index, ps_status result);

#endif
