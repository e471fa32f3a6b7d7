/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h. */
#include "common/rpc/process.h"

#include "common/base/free_memory.h"
#include "common/base/log.h"
#include "common/rpc/accept.h"
#include "common/rpc/tls_impl.h"

#include <grpc/support/log.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Part of gRPC's message about an address that cannot be bound. It is logged at debug level: the
 * caller that starts the server gets this failure with its cause, and may try another address
 * (listen.h). */
static const char not_bound[] = "No address added out of total";

/* Part of gRPC's message about a failed handshake, in which libssl's reason follows "routines::".
 */
static const char no_handshake[] = "Handshake failed with fatal error";

/* Part of gRPC's message about a client that has asked for a host that the certificate does not
 * name. It is logged at debug level: psgd compares principals, not host names. */
static const char no_host[] = "No match found for server name";

/* Logs a failed handshake with libssl's reason (ps_tls_note_failed). Does nothing and returns false
 * if gRPC's message is about something else. */
static bool write_handshake(const char *message)
{
    const char *reason = strstr(message, "routines::");
    char text[128];

    if (strstr(message, no_handshake) == NULL) {
        return false;
    }
    reason = reason != NULL ? reason + strlen("routines::") : message;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(reason, "."), reason);
    ps_tls_note_failed(text);
    return true;
}

/* Part of the name of gRPC's source file that reads certificate files; for each file that it cannot
 * read it logs several lines, which ps_tls_note_unread replaces. */
static const char reads_files[] = "grpc_tls_certificate_provider";

/* Writes an error of gRPC to the log as a warning, and its details (from the first brace on) at
 * debug level. The error concerns one connection or call, whose own error says more. Leaves out
 * other messages of gRPC; failed handshakes and files that cannot be read get lines of their own.
 */
static void write_log(gpr_log_func_args *args)
{
    const char *details = strstr(args->message, " {");
    int len = (int)(details != NULL ? (size_t)(details - args->message) : strlen(args->message));
    bool is_nothing;

    if (args->severity != GPR_LOG_SEVERITY_ERROR || write_handshake(args->message)) {
        return;
    }
    if (strstr(args->file, reads_files) != NULL) {
        ps_tls_note_unread();
        return;
    }
    is_nothing = strstr(args->message, not_bound) != NULL || strstr(args->message, no_host) != NULL;
    ps_log(is_nothing ? PS_LOG_DEBUG : PS_LOG_WARN, "grpc", "%.*s", len, args->message);
    if (details != NULL) {
        ps_log(PS_LOG_DEBUG, "grpc", "%s", details + 1);
    }
}

void ps_rpc_init_process(void)
{
    ps_free_memory_keep();
    gpr_set_log_function(write_log);
    ps_accept_init();
}
