/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - see http.h. */
#include "common/ops/http.h"

#include "common/base/library.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/ops/https.h"
#include "common/rpc/accept.h"
#include "common/rpc/dial.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

ps_status ps_http_load(const char *flag, ps_http *out)
{
    const ps_library_function functions[] = {
        {"MHD_start_daemon", &out->start_daemon},
        {"MHD_stop_daemon", &out->stop_daemon},
        {"MHD_get_daemon_info", &out->get_daemon_info},
        {"MHD_get_connection_info", &out->get_connection_info},
        {"MHD_create_response_from_buffer", &out->create_response_from_buffer},
        {"MHD_create_response_from_callback", &out->create_response_from_callback},
        {"MHD_add_response_header", &out->add_response_header},
        {"MHD_queue_response", &out->queue_response},
        {"MHD_destroy_response", &out->destroy_response},
        {"MHD_lookup_connection_value", &out->lookup_connection_value},
        {"MHD_get_connection_values", &out->get_connection_values},
        {"MHD_suspend_connection", &out->suspend_connection},
        {"MHD_resume_connection", &out->resume_connection},
        {NULL, NULL},
    };

    return ps_library_load(flag, "libmicrohttpd.so.12", "libmicrohttpd12", functions);
}

static void log_line(void *arg, const char *format, va_list list)
{
    char line[256];

    (void)arg;
    vsnprintf(line, sizeof line, format, list);
    line[strcspn(line, "\r\n")] = '\0';
    ps_log(PS_LOG_DEBUG, "http", "%s", line);
}

static int listener_of(const ps_http *http, struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *info = http->get_daemon_info(daemon, MHD_DAEMON_INFO_LISTEN_FD);

    return info != NULL ? info->listen_fd : -1;
}

ps_status ps_http_start(const ps_http *http, const ps_http_conf *conf, ps_address *address,
                        struct MHD_Daemon **out)
{
    const union MHD_DaemonInfo *info;
    struct addrinfo *found = NULL;
    char text[PS_ADDRESS_TEXT_BYTES];
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PS_HTTPS_PRIORITIES},
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)ps_https_certificate()},
        {MHD_OPTION_HTTPS_MEM_TRUST, 0, NULL},
        {MHD_OPTION_END, 0, NULL}};
    unsigned flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ERROR_LOG | conf->flags;
    ps_status st;

    ps_address_format(address, text);
    st = ps_wrap(ps_dial_look_up(text, SOCK_STREAM, &found), "%s %s", conf->flag,
                 PS_SHORT(text, 80));
    if (!ps_is_ok(&st)) {
        st.code = PS_FAILED_PRECONDITION;
        return st;
    }
    if (conf->tls_dir != NULL) {
        st = ps_https_load(conf->flag, conf->tls_dir);
        if (!ps_is_ok(&st)) {
            freeaddrinfo(found);
            return st;
        }
        flags |= MHD_USE_TLS;
        tls[2].ptr_value = (void *)(uintptr_t)ps_https_roots();
    }
    if (found->ai_family == AF_INET6) {
        flags |= MHD_USE_IPv6;
    }
    errno = 0;
    *out = http->start_daemon(
        flags, address->port, NULL, NULL, conf->answer, conf->arg, MHD_OPTION_EXTERNAL_LOGGER,
        log_line, NULL, MHD_OPTION_SOCK_ADDR, found->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
        conf->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, conf->of_host,
        MHD_OPTION_CONNECTION_TIMEOUT, conf->silence_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        conf->memory, MHD_OPTION_NOTIFY_COMPLETED, conf->completed, conf->arg, MHD_OPTION_ARRAY,
        conf->tls_dir != NULL ? tls : &tls[3], MHD_OPTION_END);
    freeaddrinfo(found);
    if (*out == NULL) {
        return ps_fail(PS_FAILED_PRECONDITION, "%s: cannot listen on %s: %s", conf->flag,
                       PS_SHORT(text, 80), strerror(errno));
    }
    /* accept.c does not guard this listener: libmicrohttpd bounds the connections, as conf says */
    ps_accept_leave(listener_of(http, *out));
    info = http->get_daemon_info(*out, MHD_DAEMON_INFO_BIND_PORT);
    if (info != NULL) {
        address->port = info->port;
    }
    return st;
}

ps_status ps_http_client(const ps_http *http, struct MHD_Connection *connection, ps_tls *tls,
                         ps_tls_identity *out)
{
    const union MHD_ConnectionInfo *info =
        http->get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    return info != NULL ? ps_https_client(info->tls_session, tls, out)
                        : ps_fail(PS_NOT_FOUND, "no TLS");
}

const char *ps_http_bearer(const ps_http *http, struct MHD_Connection *connection)
{
    static const char scheme[] = "bearer ";
    const char *text =
        http->lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);

    return text != NULL && strncasecmp(text, scheme, sizeof scheme - 1) == 0
               ? text + sizeof scheme - 1
               : NULL;
}

void ps_http_stop(const ps_http *http, struct MHD_Daemon *daemon)
{
    int listener = listener_of(http, daemon);

    http->stop_daemon(daemon);
    ps_accept_resume(listener);
}
