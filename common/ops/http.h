/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - libmicrohttpd, loaded only when a program has to serve HTTP.
 *
 * The library needs GnuTLS and eight more libraries, 2.3 MB of memory in each process. So the
 * program is not linked with it. Once loaded, it stays loaded. */
#ifndef PS_COMMON_OPS_HTTP_H
#define PS_COMMON_OPS_HTTP_H

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/rpc/tls.h"

#include <microhttpd.h>

/* The functions of the library, without MHD_ in their names. */
typedef struct ps_http {
    __typeof__(&MHD_start_daemon) start_daemon;
    __typeof__(&MHD_stop_daemon) stop_daemon;
    __typeof__(&MHD_get_daemon_info) get_daemon_info;
    __typeof__(&MHD_get_connection_info) get_connection_info;
    __typeof__(&MHD_create_response_from_buffer) create_response_from_buffer;
    __typeof__(&MHD_create_response_from_callback) create_response_from_callback;
    __typeof__(&MHD_add_response_header) add_response_header;
    __typeof__(&MHD_queue_response) queue_response;
    __typeof__(&MHD_destroy_response) destroy_response;
    __typeof__(&MHD_lookup_connection_value) lookup_connection_value;
    __typeof__(&MHD_get_connection_values) get_connection_values;
    __typeof__(&MHD_suspend_connection) suspend_connection;
    __typeof__(&MHD_resume_connection) resume_connection;
} ps_http;

/* How a program serves HTTP. */
typedef struct ps_http_conf {
    const char *flag;     /* the option that errors name, such as "--ops" */
    const char *tls_dir;  /* HTTPS, with the files of this folder (https.h); NULL: HTTP */
    unsigned flags;       /* MHD_FLAG values beside those that ps_http_start always sets */
    unsigned connections; /* most connections that are open at a time */
    unsigned of_host;     /* most open connections from one address */
    unsigned silence_s;   /* seconds without traffic after which a connection is closed */
    size_t memory;        /* memory for each connection, in bytes */
    MHD_AccessHandlerCallback answer;
    MHD_RequestCompletedCallback completed; /* (optional) */
    void *arg;                              /* argument of `answer` and `completed` */
} ps_http_conf;

/* Loads the library. Fails with FAILED_PRECONDITION; the text begins with `flag`. */
PS_MUST_USE ps_status ps_http_load(const char *flag, ps_http *out);

/* Listens on `address`, whose port becomes the one that is bound. Stop it by ps_http_stop. Fails
 * with FAILED_PRECONDITION if the address cannot be found or bound, or as ps_https_load does. */
PS_MUST_USE ps_status ps_http_start(const ps_http *http, const ps_http_conf *conf,
                                    ps_address *address, struct MHD_Daemon **out);

/* Reads whom the client's certificate names, on a connection by HTTPS. Returns NOT_FOUND if the
 * client has no certificate; else fails as ps_tls_identify does. */
PS_MUST_USE ps_status ps_http_client(const ps_http *http, struct MHD_Connection *connection,
                                     ps_tls *tls, ps_tls_identity *out);

/* Returns the token of "Authorization: Bearer TOKEN", or NULL. */
const char *ps_http_bearer(const ps_http *http, struct MHD_Connection *connection);

/* Closes all connections and the listener. */
void ps_http_stop(const ps_http *http, struct MHD_Daemon *daemon);

#endif
