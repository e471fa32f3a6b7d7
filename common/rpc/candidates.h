/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.h - which coordinator of several is called next, after a call has failed.
 *
 * A state machine without I/O and clock. It has a list of addresses, and one more address if a
 * coordinator outside of the list was named as leader. A coordinator that gave no answer is avoided
 * for a while, because the others go on naming a leader that has ended until its lease is over. */
#ifndef PS_COMMON_RPC_CANDIDATES_H
#define PS_COMMON_RPC_CANDIDATES_H

#include "common/base/address.h"
#include "common/rpc/error.h"

#include <stdbool.h>

enum { PS_CANDIDATES_MAX = 16 /* addresses in a list */ };

/* What the caller may do after a failure. */
typedef enum ps_next {
    /* do not call again: no other coordinator may answer, or a coordinator has answered with an
     * error */
    PS_NEXT_NONE,
    PS_NEXT_NOW, /* call ps_candidates_address at once */
    /* call ps_candidates_address after a short pause: it has just failed, or there is no leader
     * yet */
    PS_NEXT_SOON
} ps_next;

typedef struct ps_candidate {
    char address[PS_ADDRESS_TEXT_BYTES];
    /* monotonic microseconds; until then it is called only if no other one can be */
    int64_t shunned_until_us;
    int64_t failed_us; /* monotonic microseconds at which a call to it last failed */
} ps_candidate;

typedef struct ps_candidates {
    /* the list; at index `count` the leader outside of the list, if one was named */
    ps_candidate all[PS_CANDIDATES_MAX + 1];
    size_t count; /* addresses of the list */
    size_t at;    /* index of the address to call; `count`: the one outside of the list */
    size_t turn;  /* index of the address of the list that was to be called last */
} ps_candidates;

/* Takes a list "host:port,host:port", of which the first is called first. Addresses beyond
 * PS_CANDIDATES_MAX are left out. */
void ps_candidates_init(ps_candidates *c, const char *list);

/* Returns the address to call. */
const char *ps_candidates_address(const ps_candidates *c);

/* Returns whether there is more than one coordinator. */
bool ps_candidates_has_others(const ps_candidates *c);

/* Returns whether the list has this address, or it is the one to call. */
bool ps_candidates_know(const ps_candidates *c, const char *address);

/* Handles the failure of a call at the present address, at time `now_us` of a monotonic clock. */
ps_next ps_candidates_failed(ps_candidates *c, const ps_error *error, int64_t now_us);

#endif
