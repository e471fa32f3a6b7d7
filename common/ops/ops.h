/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h - the pages by which operators watch a service, by HTTP.
 *
 * /metrics  numbers in the text format of Prometheus, version 0.0.4; by HTTPS only for clients
 *           that may see all jobs, by their certificate or token
 * /healthz  200 while the loop runs events; else 503 after PS_OPS_WAIT_MS
 * /readyz   200 if the service takes work; else 503 and why not
 *
 * By HTTP on loopback, or with --insecure; else by HTTPS. libmicrohttpd answers on a thread of its
 * own, one client at a time. That thread makes the loop write each page, so a page costs the loop
 * the time to format some hundred numbers. */
#ifndef PS_COMMON_OPS_OPS_H
#define PS_COMMON_OPS_OPS_H

#include "common/base/strbuf.h"
#include "common/rpc/loop.h"
#include "common/rpc/protect.h"

enum {
    PS_OPS_CONNECTIONS = 32,        /* most connections that are open at a time */
    PS_OPS_CONNECTIONS_OF_HOST = 8, /* most open connections from one address */
    PS_OPS_SILENCE_S = 15,          /* seconds without traffic after which a connection is closed */
    PS_OPS_WAIT_MS = 2000           /* longest wait for the loop to write a page */
};

#define PS_OPS_HELP                                                                                \
    "serve /metrics, /healthz and /readyz on this address, by HTTP on loopback, beyond it by "     \
    "HTTPS with --tls-dir; port 0: any free port, which is printed"

/* The service that is watched. All functions are called on the loop's thread. */
typedef struct ps_ops_source {
    void *state;
    /* Appends the metrics of the service. Those of its process stand before them. */
    void (*metrics)(void *state, ps_strbuf *out);
    /* Returns OK if the service takes work, else an error whose text says why not. */
    PS_MUST_USE ps_status (*ready)(void *state);
} ps_ops_source;

typedef struct ps_ops ps_ops;

/* Checks the address of --ops, host:port, before the service starts: beyond loopback it needs TLS
 * or --insecure (ps_protect_check_at). Writes the complete address to `out`, which has room for
 * PS_ADDRESS_TEXT_BYTES. Returns INVALID_ARGUMENT if it may not be used. */
PS_MUST_USE ps_status ps_ops_check(const char *listen, const ps_protect_conf *protect, char *out);

/* Listens and prints "PROGRAM metrics on http://HOST:PORT/metrics" to stdout, flushed; https if the
 * loop has TLS and the address is not on loopback. The source is copied. The loop must run until
 * ps_ops_stop. Fails as ps_http_load and ps_http_start do. */
PS_MUST_USE ps_status ps_ops_start(ps_loop *loop, const char *listen, const char *program,
                                   const ps_ops_source *source, ps_ops **out);

/* Closes all connections. After return the functions of the source are not called any more. Loop's
 * thread. NULL is allowed. */
void ps_ops_stop(ps_ops *ops);

#endif
