/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_world.h - a job of fake workers: servers on one loop and workers on another, or a mesh
 * of workers. The twin of fake_worker.h computes the expected weights. */
#ifndef PS_TESTS_SUPPORT_EXCHANGE_WORLD_H
#define PS_TESTS_SUPPORT_EXCHANGE_WORLD_H

#include "tests/support/fake_worker.h"

enum { XW_WORKERS_MAX = 6, XW_SERVERS_MAX = 3 };

typedef struct exchange_world {
    dp_job job;
    side serving, working;
    dp_server servers[XW_SERVERS_MAX];
    fake_worker workers[XW_WORKERS_MAX];
    uint32_t worker_count, server_count;
} exchange_world;

/* Starts servers and prepares workers without starting them; workers of a mesh listen. `choices`
 * are further members of the JobSpec in JSON, each with a comma before it. */
void xw_begin(exchange_world *w, uint32_t workers, uint32_t servers, fake_kind kind, uint64_t steps,
              uint64_t drop_ack, const char *choices);

/* Starts all workers. */
void xw_start(exchange_world *w);

/* Waits for the end of all workers. */
void xw_join(exchange_world *w);

/* Stops and frees everything. */
void xw_end(exchange_world *w);

/* Asserts that all workers have finished all steps, and that their weights have the twin's bits. */
void xw_must_be_as_the_twin(exchange_world *w);

/* Asserts that all workers have finished all steps, and that their weights have the same bits,
 * which differ from the initial ones. */
void xw_must_be_alike(exchange_world *w);

#endif
