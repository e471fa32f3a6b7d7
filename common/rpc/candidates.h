/* SPDX-License-Identifier: Apache-2.0 */
/* candidates.h - which coordinator of several is called next, after a call has failed.
 *
 * A state machine without I/O and clock. It knows the addresses of a list, and one more that a
 * coordinator has named as leader. A coordinator that gave no answer is shunned for a while: the
 * others name a leader that has ended until its lease is over.
 */
#ifndef PS_COMMON_RPC_CANDIDATES_H
#define PS_COMMON_RPC_CANDIDATES_H

#include "common/base/address.h"
#include "common/rpc/error.h"

#include <stdbool.h>

enum { PS_CANDIDATES_MAX = 16 /* addresses in a list */ };

/* What the caller may do after a failure. */
typedef enum ps_next {
    PS_NEXT_NONE, /* nothing: no other coordinator may answer, or a coordinator has answered */
    PS_NEXT_NOW,  /* call ps_candidates_address at once */
    PS_NEXT_SOON  /* call it after a short pause: it has just failed, or nobody leads yet */
} ps_next;

typedef struct ps_candidate {
    char address[PS_ADDRESS_TEXT_BYTES];
    int64_t shunned_until_us; /* not called until then if another one can be */
    int64_t failed_us;        /* when a call to it last failed */
} ps_candidate;

typedef struct ps_candidates {
    ps_candidate all[PS_CANDIDATES_MAX + 1]; /* the list; behind it a leader outside the list */
    size_t count;                            /* addresses of the list */
    size_t at;   /* index of the one to call; `count`: the one outside */
    size_t turn; /* the last index of the list that `at` had */
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
