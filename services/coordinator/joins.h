/* SPDX-License-Identifier: Apache-2.0 */
/* joins.h - gives nodes their first certificate for join tokens (common/pki/join.h). */
#ifndef PS_COORDINATOR_JOINS_H
#define PS_COORDINATOR_JOINS_H

#include "services/coordinator/coordinator.h"

typedef struct ps_joins ps_joins;

/* Listens on `listen` with the certificate in `tls_dir`, and issues certificates as conf.pki and
 * conf.cert_life_s of the coordinator say. Each request becomes a line of the audit, except while
 * the coordinator does not lead: then nodes are told to ask later. The strings are copied. */
PS_MUST_USE ps_status ps_joins_start(ps_coordinator *c, const char *listen, const char *tls_dir,
                                     ps_joins **out);

/* Returns the TCP port on which join requests are accepted. */
int ps_joins_port(const ps_joins *joins);

/* Stops listening. Requests that are being answered end first. Call it while the loop runs. NULL is
 * allowed. */
void ps_joins_stop(ps_joins *joins);

#endif
