/* SPDX-License-Identifier: Apache-2.0 */
/* follow.h - a channel to that coordinator of a list which leads.
 *
 * A coordinator that does not lead refuses each call with UNAVAILABLE, reason NOT_LEADER, and names
 * the leader in the metadata "leader" if it knows it. The owner of a ps_follow reports to it how
 * its calls have failed. The ps_follow then chooses the coordinator that was named, else another
 * one of the list (candidates.h). If there are several coordinators, a call to one that cannot be
 * reached fails at once. Loop's thread. */
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

/* Creates a channel to the first address of a list that ps_follow_complete wrote. Its channels
 * accept the certificate of any coordinator. */
ps_follow *ps_follow_create(ps_loop *loop, const char *list);
void ps_follow_destroy(ps_follow *follow); /* as ps_channel_destroy; NULL is allowed */

/* Returns the channel to the coordinator that is chosen now; valid until ps_follow_failed. */
ps_channel *ps_follow_channel(const ps_follow *follow);

/* Returns the address of the coordinator that is chosen now. */
const char *ps_follow_address(const ps_follow *follow);

/* Returns whether there is more than one coordinator. */
bool ps_follow_has_others(const ps_follow *follow);

/* Returns whether the list has this address, or it is the one that is chosen now. */
bool ps_follow_knows(const ps_follow *follow, const char *address);

/* Handles the failure of a call on its channel, and chooses the coordinator to call next. Returns
 * whether and when the caller may call again. */
ps_next ps_follow_failed(ps_follow *follow, const ps_error *error);

#endif
