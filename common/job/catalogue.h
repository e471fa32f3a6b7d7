/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.h - the presets and plugins of this build as messages: for a server that is asked for
 * them, and for a client without a server.
 *
 * Each function creates a message; the caller frees it by protobuf_c_message_free_unpacked(m,
 * NULL). Any thread.
 */
#ifndef PS_COMMON_JOB_CATALOGUE_H
#define PS_COMMON_JOB_CATALOGUE_H

#include "psgd/v1/coordinator.pb-c.h"

/* Returns every preset with the fields that it sets, in the order of the tables. */
Psgd__V1__ListPresetsResponse *ps_catalogue_presets(void);

/* Returns every plugin with its numbers, kind by kind, the version and the kernels that this
 * processor gets (ps_nn_kernels). Other fields are unset. */
Psgd__V1__GetServerInfoResponse *ps_catalogue_info(void);

#endif
