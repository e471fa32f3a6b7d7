/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - gRPC messages in and out, counted: of a server, of a channel, of some calls. */
#ifndef PS_COMMON_RPC_TRAFFIC_H
#define PS_COMMON_RPC_TRAFFIC_H

#include <stdint.h>

/* Bytes with the 5 of each message's prefix. */
typedef struct ps_traffic {
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
} ps_traffic;

#endif
