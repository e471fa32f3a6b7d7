/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - process-wide settings that a program needs before it uses gRPC. */
#ifndef PS_COMMON_RPC_PROCESS_H
#define PS_COMMON_RPC_PROCESS_H

/* Prepares the process for gRPC. Call it first in main, before any thread and any other function
 * of common/rpc. It makes malloc keep free memory for messages (free_memory.h). It sends gRPC's own
 * error lines to the log, and bounds the connections of all servers and what clients
 * send on them (accept.h, guard.h). */
void ps_rpc_init_process(void);

#endif
