/* SPDX-License-Identifier: Apache-2.0 */
/* tracker_url.c - see tracker_url.h. */
#include "common/job/tracker_url.h"

#include "common/base/shorten.h"

#include <stdio.h>
#include <string.h>

enum { PORT = 80, TLS_PORT = 443 };

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-/";

/* Returns whether `path`, which is empty or begins with a slash, can be put in front of the path of
 * an HTTP call: it has only characters of `letters`, no ".." and no "//". */
static bool is_plain_path(const char *path)
{
    return path[strspn(path, letters)] == '\0' && strstr(path, "..") == NULL &&
           strstr(path, "//") == NULL;
}

static ps_status refuse(const char *text)
{
    return ps_fail(PS_INVALID_ARGUMENT,
                   "is \"%s\"; mlflow:http://HOST:PORT/PATH and mlflow:https://HOST:PORT/PATH are "
                   "allowed, without a name or password",
                   PS_SHORT(text, 60));
}

ps_status ps_tracker_url_parse(const char *text, ps_tracker_url *out)
{
    static const char plain[] = "mlflow:http://", tls[] = "mlflow:https://";
    char authority[PS_ADDRESS_TEXT_BYTES], shown[PS_ADDRESS_TEXT_BYTES];
    bool is_tls = strncmp(text, tls, sizeof tls - 1) == 0;
    const char *host = text + (is_tls ? sizeof tls : sizeof plain) - 1;
    size_t host_bytes, path_bytes;
    ps_tracker_url url = {.is_tls = is_tls};
    ps_status st;

    if (!is_tls && strncmp(text, plain, sizeof plain - 1) != 0) {
        return refuse(text);
    }
    host_bytes = strcspn(host, "/");
    path_bytes = strlen(host + host_bytes);
    if (host_bytes == 0 || host[0] == ':' || host_bytes >= sizeof authority ||
        memchr(host, '%', host_bytes) != NULL ||
        path_bytes > PS_TRACKER_URL_BYTES - PS_ADDRESS_TEXT_BYTES - sizeof "https://" ||
        !is_plain_path(host + host_bytes)) {
        return refuse(text);
    }
    memcpy(authority, host, host_bytes);
    authority[host_bytes] = '\0';
    st = ps_address_parse(authority, "", is_tls ? TLS_PORT : PORT, &url.address);
    if (!ps_is_ok(&st) || url.address.port == 0 || url.address.host[0] == '\0') {
        return refuse(text);
    }
    ps_address_format(&url.address, shown);
    while (path_bytes > 0 && host[host_bytes + path_bytes - 1] == '/') {
        path_bytes--;
    }
    snprintf(url.base, sizeof url.base, "%s://%s%.*s", is_tls ? "https" : "http", shown,
             (int)path_bytes, host + host_bytes);
    *out = url;
    return ps_ok();
}
