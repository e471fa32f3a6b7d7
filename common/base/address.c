/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - see address.h. */
#include "common/base/address.h"
#include "common/base/shorten.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAME = 253, MOST_LABEL = 63 };

static bool is_name(const char *host)
{
    size_t label = 0;
    bool only_numbers = true;

    for (const char *p = host; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        if (c == '.') {
            if (label == 0 || p[-1] == '-') {
                return false;
            }
            label = 0;
            continue;
        }
        if (!(isascii(c) && isalnum(c)) && c != '_' && (c != '-' || label == 0)) {
            return false;
        }
        only_numbers = only_numbers && isdigit(c) != 0;
        if (++label > MOST_LABEL) {
            return false;
        }
    }
    /* A host of digits and dots only is no name: it was meant as IPv4, which is_v4 has refused. */
    return host[0] != '\0' && !only_numbers && host[strlen(host) - 1] != '-';
}

/* Returns whether gRPC would take "host:port" for another kind of name: "unix:80" is a socket in
 * the file system. */
static bool is_scheme(const char *host)
{
    static const char *const schemes[] = {"unix", "unix-abstract", "vsock",  "dns",        "ipv4",
                                          "ipv6", "xds",           "grpclb", "google-c2p", "fd"};

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strcasecmp(host, schemes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_v4(const char *host)
{
    struct in_addr v4;

    return inet_pton(AF_INET, host, &v4) == 1;
}

/* Parses `host` as an IPv6 address into *out. Returns false if it is none. A zone ("fe80::1%eth0")
 * is ignored here; the system checks it when the address is used. */
static bool is_v6(const char *host, struct in6_addr *out)
{
    char bare[PS_ADDRESS_HOST_BYTES];

    snprintf(bare, sizeof bare, "%s", host);
    bare[strcspn(bare, "%")] = '\0';
    return inet_pton(AF_INET6, bare, out) == 1;
}

static bool parse_port(const char *text, uint16_t *out)
{
    uint32_t port = 0;
    size_t n = strlen(text);

    if (n == 0 || n > 5 || strspn(text, "0123456789") != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    *out = (uint16_t)port;
    return port <= UINT16_MAX;
}

static ps_status bad(const char *text, const char *why)
{
    return ps_fail(PS_INVALID_ARGUMENT, "address \"%s\": %s", PS_SHORT(text, 40), why);
}

/* Parses "[v6]" and "[v6]:port". */
static ps_status parse_bracketed(const char *text, ps_address *out)
{
    const char *close = strchr(text, ']');
    struct in6_addr v6;

    if (close == NULL || (size_t)(close - text) > sizeof out->host) {
        return bad(text, "the closing ] is missing");
    }
    memcpy(out->host, text + 1, (size_t)(close - text - 1));
    out->host[close - text - 1] = '\0';
    out->is_v6 = true;
    if (!is_v6(out->host, &v6)) {
        return bad(text, "what is in brackets is not an IPv6 address");
    }
    if (close[1] == '\0') {
        return ps_ok();
    }
    if (close[1] != ':' || !parse_port(close + 2, &out->port)) {
        return bad(text, "after ] comes :port, 0 to 65535");
    }
    return ps_ok();
}

ps_status ps_address_parse(const char *text, const char *default_host, uint16_t default_port,
                           ps_address *out)
{
    ps_address result = {.port = default_port};
    const char *colon = strchr(text, ':');
    size_t len = colon == NULL ? strlen(text) : (size_t)(colon - text);
    struct in6_addr v6;

    if (text[0] == '\0') {
        return ps_fail(PS_INVALID_ARGUMENT, "address is empty; write host:port");
    }
    if (text[0] == '[') {
        ps_status st = parse_bracketed(text, &result);

        if (ps_is_ok(&st)) {
            *out = result;
        }
        return st;
    }
    if (colon != NULL && strchr(colon + 1, ':') != NULL) {
        return bad(text, "an IPv6 address is written in brackets, [::1]:port");
    }
    if (colon != NULL && !parse_port(colon + 1, &result.port)) {
        return bad(text, "the port is a number from 0 to 65535");
    }
    if (len > MOST_NAME) {
        return bad(text, "the host's name is too long");
    }
    memcpy(result.host, text, len);
    if (len == 0) {
        assert(strlen(default_host) < sizeof result.host);
        strcpy(result.host, default_host);
        result.is_v6 = is_v6(default_host, &v6);
    }
    if (!result.is_v6 && !is_v4(result.host) && !is_name(result.host)) {
        return bad(text, "the host is neither a name nor an IP address; write host:port");
    }
    if (is_scheme(result.host)) {
        return bad(text,
                   "the host is a kind of address for gRPC; write the host's IP or full name");
    }
    *out = result;
    return ps_ok();
}

void ps_address_format(const ps_address *address, char out[PS_ADDRESS_TEXT_BYTES])
{
    snprintf(out, PS_ADDRESS_TEXT_BYTES, address->is_v6 ? "[%s]:%u" : "%s:%u", address->host,
             (unsigned)address->port);
}

ps_status ps_address_complete(const char *flag, const char *text, const char *default_host,
                              uint16_t default_port, char out[PS_ADDRESS_TEXT_BYTES])
{
    ps_address address;
    ps_status st = ps_address_parse(text, default_host, default_port, &address);

    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s", flag);
    }
    ps_address_format(&address, out);
    return ps_ok();
}

bool ps_address_is_loopback(const ps_address *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (address->is_v6) {
        return is_v6(address->host, &v6) &&
               (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127));
    }
    if (inet_pton(AF_INET, address->host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    return strcasecmp(address->host, "localhost") == 0;
}

bool ps_address_is_any(const ps_address *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (address->is_v6) {
        return is_v6(address->host, &v6) &&
               (IN6_IS_ADDR_UNSPECIFIED(&v6) ||
                (IN6_IS_ADDR_V4MAPPED(&v6) && memcmp(v6.s6_addr + 12, "\0\0\0\0", 4) == 0));
    }
    return inet_pton(AF_INET, address->host, &v4) == 1 && v4.s_addr == 0;
}
