/* SPDX-License-Identifier: Apache-2.0 */
/* server_tables.h - writes a server's rows of sparse tables as files. */
#ifndef PS_SERVICES_PSERVER_SERVER_TABLES_H
#define PS_SERVICES_PSERVER_SERVER_TABLES_H

#include "common/node/node.h"

/* Writes a table to a file of the attempt, piece by piece, because the file may be larger than the
 * free memory. Any thread, while nobody changes the tables. ABORTED: `stop` was set. Fails also if
 * the file cannot be written. */
PS_MUST_USE ps_status ps_server_table_write(const ps_session *session, ps_tables *tables,
                                            uint32_t table, const atomic_bool *stop);

/* Writes table `number` as it is now, at the beginning of `clock`, to memory, and gives it to the
 * node as a file for Collect. Loop's thread. RESOURCE_EXHAUSTED: there is no memory for it. */
PS_MUST_USE ps_status ps_server_table_keep(ps_node *node, ps_tables *tables, uint32_t number,
                                           uint64_t clock);

#endif
