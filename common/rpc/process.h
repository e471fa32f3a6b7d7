/* SPDX-License-Identifier: Apache-2.0 */
/* process.h - what a program sets once for all that speaks gRPC in it. */
#ifndef PS_COMMON_RPC_PROCESS_H
#define PS_COMMON_RPC_PROCESS_H

/* First thing in main, before any thread and any other call of rpc/. Tells
 * malloc to keep the memory that messages come and go in, about 64 MiB of it at
 * most: without that each message of 1 MiB is paid with a round of page faults,
 * which halves the goodput. Sends gRPC's own error lines to the log. */
void ps_rpc_init_process(void);

#endif
