/* SPDX-License-Identifier: Apache-2.0 */
/* join_server.h - a listener for nodes that have no certificate yet (common/pki/join.h).
 *
 * gRPC 1.51 asks for client certificates by listener, not by method, and reads frames of every
 * client that got past the handshake. So nodes without a certificate use a port of their own. On it
 * nothing else is spoken: TLS 1.3 with ALPN "psgd-join/1", then a message to the server and one
 * back, each after its length in four bytes, the highest byte first. The server shows its
 * certificate and the root, so that the client can compare the root's fingerprint before it sends
 * anything.
 *
 * Bounds: JOINS_MAX connections at a time, JOINS_OF_ONE of one address, 10 s each,
 * PS_JOIN_MESSAGE_MAX bytes of a request; CONNECTIONS_MAX connections and REFUSALS_MAX refusals of
 * one address within a minute. */
#ifndef PS_COMMON_RPC_JOIN_SERVER_H
#define PS_COMMON_RPC_JOIN_SERVER_H

#include "common/base/strbuf.h"

#include <stdbool.h>

typedef struct ps_join_server ps_join_server;

typedef struct ps_join_conf {
    const char *listen; /* host:port; port 0: any */
    /* folder of the certificate that the server shows; read again at most once a second */
    const char *tls_dir;
    /* Answers a request of `n` bytes from `from` ("127.0.0.1:40312") by appending to `answer`.
     * Returns false if it refuses the request, which counts against the client's address. Called on
     * the server's thread. */
    bool (*answer)(void *arg, const char *from, const char *request, size_t n, ps_strbuf *answer);
    void *arg;
} ps_join_conf;

/* Starts a server with a thread of its own. Returns UNAVAILABLE if the address cannot be bound;
 * fails also if the files in tls_dir cannot be used. */
PS_MUST_USE ps_status ps_join_server_start(const ps_join_conf *conf, ps_join_server **out);

/* Returns the port on which it listens. */
int ps_join_server_port(const ps_join_server *server);

/* Ends the server and its connections. NULL is allowed. */
void ps_join_server_stop(ps_join_server *server);

#endif
