/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.h - what this build can do, as the messages that say so: for a server that is
 * asked, and for a client that has nobody to ask.
 *
 * Each function makes a new message, which protobuf_c_message_free_unpacked(m, NULL)
 * frees whole. Any thread.
 */
#ifndef PS_COMMON_JOB_CATALOGUE_H
#define PS_COMMON_JOB_CATALOGUE_H

#include "psgd/v1/coordinator.pb-c.h"

/* Every preset with the fields that it sets, in the order of the tables. */
Psgd__V1__ListPresetsResponse *ps_catalogue_presets(void);

/* Every plugin with its numbers, kind after kind; of the rest the version alone. */
Psgd__V1__GetServerInfoResponse *ps_catalogue_info(void);

#endif
