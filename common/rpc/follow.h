/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - a channel to that coordinator of a list which leads.
 *
 * A coordinator that does not lead refuses each call with UNAVAILABLE, reason NOT_LEADER, and says
 * in the metadata "leader" which one does, if it knows. The owner of a ps_follow tells it how its
 * calls have failed; it then points to the coordinator that was named, else to another one of the
 * list (candidates.h). If there are several, calls fail at once where no connection can be made.
 * Loop's thread.
 */
#ifndef PS_COMMON_RPC_FOLLOW_H
#define PS_COMMON_RPC_FOLLOW_H

#include "common/rpc/candidates.h"
#include "common/rpc/client.h"

#include <stdbool.h>

enum { PS_FOLLOW_LIST_BYTES = PS_CANDIDATES_MAX * PS_ADDRESS_TEXT_BYTES };

/* Completes each address of "host:port,host:port" as ps_address_complete does; the text of an error
 * begins with `flag`. */
PS_MUST_USE ps_status ps_follow_complete(const char *flag, const char *list,
                                         const char *default_host, uint16_t default_port,
                                         char out[PS_FOLLOW_LIST_BYTES]);

typedef struct ps_follow ps_follow;

/* Points to the first address of a list that ps_follow_complete wrote. Its channels take any
 * coordinator's certificate. */
ps_follow *ps_follow_create(ps_loop *loop, const char *list);
void ps_follow_destroy(ps_follow *follow); /* as ps_channel_destroy; NULL is allowed */

/* Returns the channel to the coordinator that it points to; valid until ps_follow_failed. */
ps_channel *ps_follow_channel(const ps_follow *follow);

/* Returns the address of this coordinator. */
const char *ps_follow_address(const ps_follow *follow);

/* Returns whether there is more than one coordinator. */
bool ps_follow_has_others(const ps_follow *follow);

/* Returns whether the list has this address, or it points there. */
bool ps_follow_knows(const ps_follow *follow, const char *address);

/* Handles the failure of a call at its channel, and points to the coordinator to call next. Returns
 * whether and when the caller may call again. */
ps_next ps_follow_failed(ps_follow *follow, const ps_error *error);

#endif
