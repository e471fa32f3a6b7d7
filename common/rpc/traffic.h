/* SPDX-License-Identifier: Apache-2.0 */
/* traffic.h - numbers and bytes of gRPC messages in both directions: of a channel, or of some calls
 * of a server. */
#ifndef PS_COMMON_RPC_TRAFFIC_H
#define PS_COMMON_RPC_TRAFFIC_H

#include <stdint.h>

/* Bytes include the 5 bytes of each message's prefix. */
typedef struct ps_traffic {
    uint64_t bytes_in, bytes_out, messages_in, messages_out;
    /* how many of bytes_in and bytes_out were payloads in shared memory */
    uint64_t bytes_through_memory;
} ps_traffic;

#endif
