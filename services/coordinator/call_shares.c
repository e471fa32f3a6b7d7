/* SPDX-License-Identifier: Apache-2.0 */
/* call_shares.c - see call_shares.h. */
#include "services/coordinator/call_shares.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ps_share *ps_shares_enter(ps_shares *shares, const char *host)
{
    ps_share *share = shares->first;

    while (share && strcmp(share->host, host) != 0) {
        share = share->next;
    }
    if (share && (share->waiting >= PS_SHARE_MAX || shares->waiting >= PS_SHARES_MAX)) {
        return NULL;
    }
    if (!share) {
        share = ps_xcalloc(1, sizeof *share);
        snprintf(share->host, sizeof share->host, "%s", host);
        share->next = shares->first;
        shares->first = share;
    }
    share->waiting++;
    shares->waiting++;
    return share;
}

void ps_shares_leave(ps_shares *shares, ps_share *share)
{
    ps_share **at = &shares->first;

    assert(share->waiting > 0 && shares->waiting >= share->waiting);
    shares->waiting--;
    if (--share->waiting > 0) {
        return;
    }
    while (*at != share) {
        at = &(*at)->next;
    }
    *at = share->next;
    free(share);
}
