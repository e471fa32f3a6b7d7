/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h. */
#include "common/rpc/follow.h"

#include "common/base/clock.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ps_follow {
    ps_loop *loop;
    ps_candidates candidates;
    char address[PS_ADDRESS_TEXT_BYTES]; /* address to which `channel` leads */
    ps_channel *channel;
};

ps_status ps_follow_complete(const char *flag, const char *list, const char *default_host,
                             uint16_t default_port, char out[PS_FOLLOW_LIST_BYTES])
{
    char full[PS_ADDRESS_TEXT_BYTES], one[PS_ADDRESS_TEXT_BYTES];
    size_t count = 0, n;

    out[0] = '\0';
    do {
        n = strcspn(list, ",");
        ps_status st = ps_ok();

        if (++count > PS_CANDIDATES_MAX) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: at most %d addresses are allowed", flag,
                           PS_CANDIDATES_MAX);
        }
        if (n >= sizeof one) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: %s is too long", flag, PS_SHORT(list, 60));
        }
        snprintf(one, sizeof one, "%.*s", (int)n, list);
        st = ps_address_complete(flag, one, default_host, default_port, full);
        if (!ps_is_ok(&st)) {
            return st;
        }
        strcat(out, count > 1 ? "," : "");
        strcat(out, full);
        list += n + (list[n] == ',');
    } while (list[0] != '\0');
    return ps_ok();
}

/* Makes the channel to the coordinator to call. */
static void connect_to_present(ps_follow *f)
{
    ps_channel_destroy(f->channel);
    snprintf(f->address, sizeof f->address, "%s", ps_candidates_address(&f->candidates));
    f->channel = ps_channel_create(f->loop, f->address);
    ps_channel_expect(f->channel, PS_PRINCIPAL_COORDINATOR, "");
    if (ps_candidates_has_others(&f->candidates)) {
        ps_channel_fail_fast(f->channel);
    }
}

ps_follow *ps_follow_create(ps_loop *loop, const char *list)
{
    ps_follow *f = ps_xcalloc(1, sizeof *f);

    f->loop = loop;
    ps_candidates_init(&f->candidates, list);
    connect_to_present(f);
    return f;
}

void ps_follow_destroy(ps_follow *f)
{
    if (f != NULL) {
        ps_channel_destroy(f->channel);
        free(f);
    }
}

ps_channel *ps_follow_channel(const ps_follow *f)
{
    return f->channel;
}

const char *ps_follow_address(const ps_follow *f)
{
    return f->address;
}

bool ps_follow_has_others(const ps_follow *f)
{
    return ps_candidates_has_others(&f->candidates);
}

bool ps_follow_knows(const ps_follow *f, const char *address)
{
    return ps_candidates_know(&f->candidates, address);
}

ps_next ps_follow_failed(ps_follow *f, const ps_error *error)
{
    ps_next next = ps_candidates_failed(&f->candidates, error, ps_clock_us());

    if (strcmp(ps_candidates_address(&f->candidates), f->address) != 0) {
        connect_to_present(f);
    }
    return next;
}
