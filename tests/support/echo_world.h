/* SPDX-License-Identifier: Apache-2.0 */
/* echo_world.h - a server of EchoService and a channel to it on one loop.
 *
 * Tests start calls, run the loop until all of them have ended (`to_come` is 0), and then look at
 * what the service has counted. Everything runs on the test's thread.
 */
#ifndef PS_TESTS_SUPPORT_ECHO_WORLD_H
#define PS_TESTS_SUPPORT_ECHO_WORLD_H

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "tests/support/patience.h"

#include "echo.pb-c.h"

#define MS INT64_C(1000)                            /* microseconds in a millisecond */
#define TIMEOUT_US (PS_TEST_PATIENCE_S * 1000 * MS) /* only a test that fails takes so long */

typedef struct echo_world {
    ps_loop *loop;
    ps_server *server;
    ps_channel *channel;
    ps_event down;
    /* number of calls that have not ended; at 0 the server is stopped and the loop ends */
    int to_come;

    /* What the service has seen. */
    /* a call that the service does not answer until the test does */
    ps_call *kept;
    void (*on_kept)(struct echo_world *w); /* (optional) */
    /* number of calls that ended before the service answered them */
    unsigned gone;
    /* number of streams whose client has sent its last message */
    unsigned half_closes;
    uint64_t messages, bytes; /* received by Upload and Chat */
    uint64_t sent;            /* number of blocks that Download has sent */
    /* number of payloads with other bytes than echo_byte gives */
    unsigned bad_payloads;

    /* Counters of the client when the last call had ended. */
    ps_traffic client_traffic;
} echo_world;

/* Byte i of every payload that the tests send. */
static inline uint8_t echo_byte(size_t i)
{
    return (uint8_t)(i * 131 + (i >> 8) * 7);
}

/* Returns a new buffer with the first n bytes of echo_byte. */
ps_buf *echo_buf(size_t n);

/* Returns whether these n bytes are those of echo_byte from `at` on. */
bool echo_bytes_match(const uint8_t *bytes, size_t at, size_t n);

void echo_world_begin(echo_world *w);

/* Notes that a call which to_come counts has ended. */
void echo_world_one_over(echo_world *w);

/* Runs the loop until all calls have ended and the server is down, and frees everything. */
void echo_world_end(echo_world *w);

/* Returns the service, for tests that start servers of their own. */
ps_service echo_service(echo_world *w);

/* --- calls ------------------------------------------------------------------- */

typedef struct echo_reply {
    echo_world *w;
    unsigned times; /* how often the callback was called */
    ps_error error;
    uint64_t number, bytes;
    char text[64];
} echo_reply;

/* Calls a method of EchoService with the bytes of an Odd message, which a client with the right
 * schema cannot send. */
void odd_call(echo_world *w, const char *method, const Psgd__Test__Odd *odd, echo_reply *out);

/* Calls Unary and counts it in to_come. */
ps_unary *echo_call(echo_world *w, const char *text, uint64_t number, int64_t timeout_us,
                    echo_reply *out);

#endif
