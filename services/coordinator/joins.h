/* SPDX-License-Identifier: Apache-2.0 */
/* joins.h - gives certificates to nodes that have none yet, for join tokens (common/pki/join.h). */
#ifndef PS_COORDINATOR_JOINS_H
#define PS_COORDINATOR_JOINS_H

#include "services/coordinator/coordinator.h"

typedef struct ps_joins ps_joins;

/* Listens on `listen` with the certificate in `tls_dir`, and issues certificates as conf.pki and
 * conf.cert_life_s of the coordinator say. Each request is a line of the audit. While the
 * coordinator does not lead, it puts off who asks. Texts are copied.
 */
PS_MUST_USE ps_status ps_joins_start(ps_coordinator *c, const char *listen, const char *tls_dir,
                                     ps_joins **out);

/* Returns the port. */
int ps_joins_port(const ps_joins *joins);

/* Stops listening; requests that are being answered end first. Call it while the loop runs. NULL
 * is allowed. */
void ps_joins_stop(ps_joins *joins);

#endif
