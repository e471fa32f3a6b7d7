/* SPDX-License-Identifier: Apache-2.0 */
/* echo_world.h - a server of EchoService and a channel to it on one loop.
 *
 * Tests start calls, run the loop until `to_come` of them are over, and look at
 * what the service saw. Everything is on the test's thread.
 */
#ifndef PS_TESTS_SUPPORT_ECHO_WORLD_H
#define PS_TESTS_SUPPORT_ECHO_WORLD_H

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "tests/support/patience.h"

#include "echo.pb-c.h"

#define MS INT64_C(1000)                            /* microseconds in one */
#define TIMEOUT_US (PS_TEST_PATIENCE_S * 1000 * MS) /* only a test that fails takes so long */

typedef struct echo_world {
    ps_loop *loop;
    ps_server *server;
    ps_channel *channel;
    ps_event down;
    int to_come; /* calls that are not over; the world ends at 0 */

    /* What the service saw. */
    ps_call *kept;                         /* a call it does not answer */
    void (*on_kept)(struct echo_world *w); /* (optional) */
    unsigned gone;                         /* calls that ended without it */
    unsigned half_closes;                  /* streams whose last message has come */
    uint64_t messages, bytes;              /* of Upload and Chat */
    uint64_t sent;                         /* blocks of Download that are out */
    unsigned bad_payloads;                 /* whose bytes were not echo_byte's */

    /* What was counted when the last call was over. */
    ps_traffic client_traffic;
} echo_world;

/* Byte i of every payload that the tests send. */
static inline uint8_t echo_byte(size_t i)
{
    return (uint8_t)(i * 131 + (i >> 8) * 7);
}

/* A buffer of n such bytes. */
ps_buf *echo_buf(size_t n);

/* Are these bytes [at, at + n) of a payload? */
bool echo_bytes_match(const uint8_t *bytes, size_t at, size_t n);

void echo_world_begin(echo_world *w);

/* A call that was begun is over. */
void echo_world_one_over(echo_world *w);

/* Runs until all calls are over and the server is down, and frees it all. */
void echo_world_end(echo_world *w);

/* The table, for servers of the tests' own. */
ps_service echo_service(echo_world *w);

/* --- calls ------------------------------------------------------------------- */

typedef struct echo_reply {
    echo_world *w;
    unsigned times; /* the callback came */
    ps_error error;
    uint64_t number, bytes;
    char text[64];
} echo_reply;

/* Calls METHOD of OddService, served as EchoService: what an honest client of
 * this program cannot send. */
void odd_call(echo_world *w, const char *method, const Psgd__Test__Odd *odd, echo_reply *out);

/* Calls Unary and counts it in to_come. */
ps_unary *echo_call(echo_world *w, const char *text, uint64_t number, int64_t timeout_us,
                    echo_reply *out);

#endif
