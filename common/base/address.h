/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - parses and formats "host:port". */
#ifndef PS_COMMON_BASE_ADDRESS_H
#define PS_COMMON_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

enum {
    PS_ADDRESS_HOST_BYTES = 256,
    /* size of the text with brackets, colon, port and NUL */
    PS_ADDRESS_TEXT_BYTES = PS_ADDRESS_HOST_BYTES + 8
};

typedef struct ps_address {
    char host[PS_ADDRESS_HOST_BYTES]; /* a name, IPv4, or IPv6 without brackets */
    uint16_t port;                    /* 0: any port, when listening */
    bool is_v6;
} ps_address;

/* Parses "host:port", "host", ":port", "1.2.3.4:port", "[v6]:port" or "[v6]". A missing part
 * takes its default. Names are not looked up. Fails with INVALID_ARGUMENT; also for names
 * that gRPC takes for a scheme ("unix:80"). Every address from outside goes through here. */
PS_MUST_USE ps_status ps_address_parse(const char *text, const char *default_host,
                                       uint16_t default_port, ps_address *out);

/* Parses `text` as ps_address_parse does and writes it with all parts. The text of an error
 * begins with `flag`. */
PS_MUST_USE ps_status ps_address_complete(const char *flag, const char *text,
                                          const char *default_host, uint16_t default_port,
                                          char out[PS_ADDRESS_TEXT_BYTES]);

/* Writes "host:port" or "[v6]:port", always with the port. */
void ps_address_format(const ps_address *address, char out[PS_ADDRESS_TEXT_BYTES]);

/* Returns whether the host is in 127.0.0.0/8 (also as an IPv4-mapped IPv6 address), ::1 or
 * "localhost". */
bool ps_address_is_loopback(const ps_address *address);

/* Returns whether the host is 0.0.0.0, :: or ::ffff:0.0.0.0. */
bool ps_address_is_any(const ps_address *address);

#endif
