/* SPDX-License-Identifier: Apache-2.0 */
/* web.h - the coordinator's page, and its methods as JSON over HTTP.
 *
 *   /                     the page; its files are part of the program
 *   /api/v1/METHOD        a method of CoordinatorService, but none that only nodes may call:
 *                         POST with the request as JSON; GET with its fields in the query, if the
 *                         method changes nothing
 *   /api/v1/WatchJob      server-sent events, which resume at Last-Event-ID
 *   /api/v1/ReclaimLogs   the bytes of one file
 *   /api/v1/curves        the progress of a job that trains, as a curve
 *   /api/v1/login         under TLS: has a browser keep {"token": TOKEN}; "": forget it
 *
 * The page is a client: each request becomes a call of the coordinator's own gRPC service, so
 * roles, limits and the audit are those of any other client. Under TLS the caller is a user, known
 * by the certificate of the connection, "Authorization: Bearer TOKEN", or the cookie of a log-in.
 * libmicrohttpd reads and writes on a thread of its own, calls are made on a second one, and the
 * coordinator's loop sees only calls. */
#ifndef PS_COORDINATOR_WEB_H
#define PS_COORDINATOR_WEB_H

#include "common/base/address.h"
#include "common/rpc/protect.h"
#include "common/rpc/server.h"

enum {
    PS_WEB_PORT = 15380,
    PS_WEB_CONNECTIONS = 256, /* most connections that are open at a time */
    /* most connections that are open from one client address; only under TLS */
    PS_WEB_CONNECTIONS_OF_HOST = 64,
    /* seconds after which a connection that takes no bytes is closed */
    PS_WEB_SILENCE_S = 30,
    PS_WEB_BODY_MAX = 512 << 10, /* most bytes of a request's body */
    PS_WEB_BODIES_MAX = 8 << 20, /* most bytes of the bodies of all requests together */
    PS_WEB_FILES_MAX = 8         /* most files that are sent at the same time */
};

#define PS_WEB_HELP                                                                                \
    "serve the page by HTTP on this address, with --tls-dir by HTTPS to users of --tokens; off: "  \
    "no page. Default: 127.0.0.1:15380, if --listen is on loopback and there is no --tls-dir"

typedef struct ps_web ps_web;

/* Finds out from the settings where the page is to be served and writes the address to `out`, which
 * has room for PS_ADDRESS_TEXT_BYTES; "": nowhere. `web` is the value of the flag, NULL if it was
 * not given. Beyond loopback the page needs TLS or --insecure (ps_protect_check_at); with TLS it
 * needs tokens. Returns INVALID_ARGUMENT if they are missing. */
PS_MUST_USE ps_status ps_web_check(const char *web, const ps_protect_conf *protect, char *out);

/* Serves the page on `at` until ps_web_stop, by gRPC calls to `target`, where `service` is served.
 * By HTTPS if `tls`, which is borrowed, is not NULL. Logs the page's address. Returns
 * FAILED_PRECONDITION if the address cannot be bound or the HTTP library is missing. */
PS_MUST_USE ps_status ps_web_start(const char *at, const char *target, ps_tls *tls,
                                   const ps_service *service, ps_web **out);

/* Ends all requests. Blocks until that is done, so the server at `target` must not wait for the
 * caller's thread. NULL is allowed. */
void ps_web_stop(ps_web *web);

#endif
