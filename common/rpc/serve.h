/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h - starts a server of services that also serves health (Check, Watch) and reflection (v1,
 * v1alpha). */
#ifndef PS_COMMON_RPC_SERVE_H
#define PS_COMMON_RPC_SERVE_H

#include "common/rpc/server.h"

/* Starts a server as ps_server_start does, with health and reflection of `services`. */
PS_MUST_USE ps_status ps_serve(ps_loop *loop, const ps_service *services, size_t count,
                               const char *address, ps_server **out);

#endif
