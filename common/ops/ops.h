/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h - what those who run a service ask it by HTTP.
 *
 *   /metrics  numbers in the text format of Prometheus, version 0.0.4; by HTTPS for those who see
 *             all jobs, by their certificate or token
 *   /healthz  200 while the loop runs events; else 503 after PS_OPS_WAIT_MS
 *   /readyz   200 if the service takes work; else 503 and why not
 *
 * By HTTP on loopback, or with --insecure; else by HTTPS. libmicrohttpd answers on a thread of its
 * own, for one client at a time. It has the loop write each page, so a page costs the loop what it
 * takes to format some hundred numbers.
 */
#ifndef PS_COMMON_OPS_OPS_H
#define PS_COMMON_OPS_OPS_H

#include "common/base/strbuf.h"
#include "common/rpc/loop.h"
#include "common/rpc/protect.h"

enum {
    PS_OPS_CONNECTIONS = 32,        /* most that are open */
    PS_OPS_CONNECTIONS_OF_HOST = 8, /* of these, from one address */
    PS_OPS_SILENCE_S = 15,          /* after which a connection is closed */
    PS_OPS_WAIT_MS = 2000           /* longest wait for the loop */
};

#define PS_OPS_HELP                                                                                \
    "serve /metrics, /healthz and /readyz on this address, by HTTP on loopback, beyond it by "     \
    "HTTPS with --tls-dir; port 0: any free port, which is printed"

/* A service that is asked. All functions are called on the loop's thread. */
typedef struct ps_ops_source {
    void *state;
    /* Appends the metrics of the service; those of its process are there already. */
    void (*metrics)(void *state, ps_strbuf *out);
    /* Returns OK if the service takes work, else an error whose text says why not. */
    PS_MUST_USE ps_status (*ready)(void *state);
} ps_ops_source;

typedef struct ps_ops ps_ops;

/* Checks the address of --ops, host:port, before the service starts: beyond loopback it needs TLS
 * or
 * --insecure (ps_protect_check_at). Writes it with all parts to `out`, which has room for
 * PS_ADDRESS_TEXT_BYTES. Fails with INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_ops_check(const char *listen, const ps_protect_conf *protect, char *out);

/* Listens and prints "PROGRAM metrics on http://HOST:PORT/metrics" to stdout, flushed; https if the
 * loop has TLS and the address is not on loopback. The source is copied. The loop must run until
 * ps_ops_stop. Fails with FAILED_PRECONDITION if the address cannot be bound. */
PS_MUST_USE ps_status ps_ops_start(ps_loop *loop, const char *listen, const char *program,
                                   const ps_ops_source *source, ps_ops **out);

/* Closes all connections. After it returns the source is not asked any more. Loop's thread. NULL is
 * allowed. */
void ps_ops_stop(ps_ops *ops);

#endif
