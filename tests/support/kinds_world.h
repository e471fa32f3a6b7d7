/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_world.h - a server of KindsService and a channel to it on one loop, for tests of what every
 * server has beside its own service.
 *
 * The test starts calls, and then runs the loop with kinds_world_pump until a flag is set.
 * Everything runs on the test's thread.
 */
#ifndef PS_TESTS_SUPPORT_KINDS_WORLD_H
#define PS_TESTS_SUPPORT_KINDS_WORLD_H

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "tests/support/patience.h"

#define SECOND INT64_C(1000000)                  /* microseconds in a second */
#define TIMEOUT_US (PS_TEST_PATIENCE_S * SECOND) /* only a test that fails takes so long */

typedef struct kinds_world {
    ps_loop *loop;
    ps_server *server; /* NULL once it is stopped */
    ps_channel *channel;
    ps_event down;
    bool is_down;
} kinds_world;

void kinds_world_begin(kinds_world *w);

/* Runs the loop until *flag is true. Fails the test if that takes longer than TIMEOUT_US. */
void kinds_world_pump(kinds_world *w, const bool *flag);

/* Begins to stop the server, and cancels calls that still run after grace_us; is_down becomes true
 * when it has stopped. */
void kinds_world_stop(kinds_world *w, int64_t grace_us);

/* Stops the server, if it still runs, and frees everything. All calls must have ended. */
void kinds_world_end(kinds_world *w);

#endif
