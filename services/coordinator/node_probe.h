/* SPDX-License-Identifier: Apache-2.0 */
/* node_probe.h - asks nodes that did not answer whether they answer now. Loop thread. */
#ifndef PS_COORDINATOR_NODE_PROBE_H
#define PS_COORDINATOR_NODE_PROBE_H

typedef struct ps_coordinator ps_coordinator;

/* Calls nodes that did not answer an earlier call (ps_node_entry.is_suspect) although their
 * heartbeats arrive, a few at a time. A node that answers may be chosen for jobs again. Call it
 * once a second. */
void ps_probe_nodes(ps_coordinator *c);

/* Cancels the calls of ps_probe_nodes that are in progress. */
void ps_probes_end(ps_coordinator *c);

#endif
