/* SPDX-License-Identifier: Apache-2.0 */
/* args.h - makes gRPC's channel arguments from a const table of integers. Private to common/rpc. */
#ifndef PS_COMMON_RPC_ARGS_H
#define PS_COMMON_RPC_ARGS_H

#include <assert.h>
#include <grpc/grpc.h>

enum { PS_INT_ARGS_MAX = 16 };

typedef struct ps_int_arg {
    const char *key;
    int value;
} ps_int_arg;

/* Fills `args` from `table` and returns arguments that point into `args`. `count` is at most
 * PS_INT_ARGS_MAX. */
static inline grpc_channel_args ps_int_args(grpc_arg args[PS_INT_ARGS_MAX], const ps_int_arg *table,
                                            size_t count)
{
    assert(count <= PS_INT_ARGS_MAX);
    for (size_t i = 0; i < count; i++) {
        args[i] = (grpc_arg){
            .type = GRPC_ARG_INTEGER, .key = (char *)table[i].key, .value.integer = table[i].value};
    }
    return (grpc_channel_args){count, args};
}

#endif
