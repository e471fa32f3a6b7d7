/* SPDX-License-Identifier: Apache-2.0 */
/* join_cluster.h - a node gets its first certificate by a join token (common/pki/join.h). */
#ifndef PS_COMMON_NODE_JOIN_CLUSTER_H
#define PS_COMMON_NODE_JOIN_CLUSTER_H

#include "common/pki/join.h"

/* Makes the folder `tls_dir` that of a member: draws a key there, and has one of the coordinators
 * (host:port, several with commas between) answer the request. Does nothing if there is a
 * certificate of the same node and root already that can be used. Asks in turn for 20 s if none of
 * them can be reached or leads, and blocks meanwhile. */
PS_MUST_USE ps_status ps_join_cluster(const ps_join_token *token, const char *coordinators,
                                      const char *tls_dir);

#endif
