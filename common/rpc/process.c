/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h. */
#include "common/rpc/process.h"

#include "common/base/log.h"

#include <grpc/support/log.h>
#include <malloc.h>
#include <string.h>

enum {
    KEEP_BYTES = 64 << 20, /* free memory at the top of the heap that is not given back */
    MMAP_BYTES = 32 << 20  /* smaller blocks come from the heap; the most that glibc allows */
};

/* gRPC's errors are of one connection or call, which says more itself; what
 * is behind the first brace is for who debugs gRPC. */
static void write_log(gpr_log_func_args *args)
{
    const char *details = strstr(args->message, " {");
    int len = (int)(details != NULL ? (size_t)(details - args->message) : strlen(args->message));

    if (args->severity != GPR_LOG_SEVERITY_ERROR) {
        return;
    }
    ps_log(PS_LOG_WARN, "grpc", "%.*s", len, args->message);
    if (details != NULL) {
        ps_log(PS_LOG_DEBUG, "grpc", "%s", details + 1);
    }
}

void ps_rpc_init_process(void)
{
    /* Setting one of them fixes the others at their small defaults: set all. */
    mallopt(M_TOP_PAD, KEEP_BYTES);
    mallopt(M_TRIM_THRESHOLD, 2 * KEEP_BYTES);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    gpr_set_log_function(write_log);
}
