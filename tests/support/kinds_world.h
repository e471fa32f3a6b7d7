/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_world.h - a server of KindsService and a channel to it on one loop, for
 * tests of what every server brings along.
 *
 * The test drives the loop step by step: start calls, pump until what they
 * set is there. Everything is on the test's thread.
 */
#ifndef PS_TESTS_SUPPORT_KINDS_WORLD_H
#define PS_TESTS_SUPPORT_KINDS_WORLD_H

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "tests/support/patience.h"

#define SECOND INT64_C(1000000)                  /* in microseconds */
#define TIMEOUT_US (PS_TEST_PATIENCE_S * SECOND) /* only a test that fails takes so long */

typedef struct kinds_world {
    ps_loop *loop;
    ps_server *server; /* NULL once it is stopped */
    ps_channel *channel;
    ps_event down;
    bool is_down;
} kinds_world;

void kinds_world_begin(kinds_world *w);

/* Lets things happen until *flag; fails the test if they do not. */
void kinds_world_pump(kinds_world *w, const bool *flag);

/* Begins the end of the server; is_down tells when it is over. */
void kinds_world_stop(kinds_world *w, int64_t grace_us);

/* Stops what is left and frees it. All calls must be over. */
void kinds_world_end(kinds_world *w);

#endif
