/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_world.h - servers on one loop, workers on another, or workers alone, and a
 * twin that says what must come of it. */
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

/* Servers run, workers are described but not started; without servers they listen. `choices` are
 * further members of the JobSpec, each with a comma before it. */
void xw_begin(exchange_world *w, uint32_t workers, uint32_t servers, fake_kind kind, uint64_t steps,
              uint64_t drop_ack, const char *choices);
void xw_start(exchange_world *w); /* all workers */
void xw_join(exchange_world *w);
void xw_end(exchange_world *w);

/* A cmocka assertion: all have come to the end, and hold to the bit what the
 * twin says. */
void xw_must_be_as_the_twin(exchange_world *w);

/* The same, without the twin: all workers hold the same bits, other than at first. */
void xw_must_be_alike(exchange_world *w);

#endif
