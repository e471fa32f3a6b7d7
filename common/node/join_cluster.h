/* SPDX-License-Identifier: Apache-2.0 */
/* join_cluster.h - gets a node its first certificate by a join token (common/pki/join.h). */
#ifndef PS_COMMON_NODE_JOIN_CLUSTER_H
#define PS_COMMON_NODE_JOIN_CLUSTER_H

#include "common/pki/join.h"

/* Makes `tls_dir` a folder with a certificate of the token's node: draws a key there, and sends a
 * request to one of the coordinators (host:port, several separated by commas), which answers with
 * the certificate. Does nothing if the folder already has a usable certificate of the same node and
 * root. If no coordinator can be reached or none leads, asks them in turn for 20 s. Blocks. */
PS_MUST_USE ps_status ps_join_cluster(const ps_join_token *token, const char *coordinators,
                                      const char *tls_dir);

#endif
