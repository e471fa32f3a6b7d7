/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - "host:port" as people write it. */
#ifndef PS_COMMON_BASE_ADDRESS_H
#define PS_COMMON_BASE_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"

enum {
    PS_ADDRESS_HOST_BYTES = 256,
    PS_ADDRESS_TEXT_BYTES = PS_ADDRESS_HOST_BYTES + 8 /* with brackets, colon, port, NUL */
};

typedef struct ps_address {
    char host[PS_ADDRESS_HOST_BYTES]; /* a name, IPv4 or IPv6 without brackets */
    uint16_t port;                    /* 0: any, when listening */
    bool is_v6;
} ps_address;

/* Accepts "host:port", "host", ":port", "1.2.3.4:port", "[v6]:port", "[v6]"; a
 * missing part is the default's. Names are not looked up. INVALID_ARGUMENT. */
PS_MUST_USE ps_status ps_address_parse(const char *text, const char *default_host,
                                       uint16_t default_port, ps_address *out);

/* The same, written out whole. Errors begin with `flag` where the text is from. */
PS_MUST_USE ps_status ps_address_complete(const char *flag, const char *text,
                                          const char *default_host, uint16_t default_port,
                                          char out[PS_ADDRESS_TEXT_BYTES]);

/* "host:port" or "[v6]:port", always with the port. */
void ps_address_format(const ps_address *address, char out[PS_ADDRESS_TEXT_BYTES]);

bool ps_address_is_loopback(const ps_address *address); /* 127/8, ::1, localhost */
bool ps_address_is_any(const ps_address *address);      /* 0.0.0.0, :: */

#endif
