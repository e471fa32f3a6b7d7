/* SPDX-License-Identifier: Apache-2.0 */
/* follow.c - see follow.h. */
#include "common/rpc/follow.h"

#include "common/base/clock.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time in microseconds for which a coordinator that gave no answer is not called again only because
 * another one names it as leader. The others name a leader that has ended until its lease as leader
 * is over. */
static const int64_t shun_us = 1000000;

struct ps_follow {
    ps_loop *loop;
    char *addresses[PS_FOLLOW_MAX];
    size_t count, at;
    char address[PS_ADDRESS_TEXT_BYTES]; /* the address of `channel`; it may be outside the list */
    char silent[PS_ADDRESS_TEXT_BYTES];  /* address of the last coordinator that gave no answer; "":
                                          * none */
    int64_t silent_us;                   /* when the call to that coordinator failed */
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

        if (++count > PS_FOLLOW_MAX) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: at most %d addresses are allowed", flag,
                           PS_FOLLOW_MAX);
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

static void point_to(ps_follow *f, const char *address)
{
    ps_channel_destroy(f->channel);
    snprintf(f->address, sizeof f->address, "%s", address);
    f->channel = ps_channel_create(f->loop, f->address);
    ps_channel_expect(f->channel, PS_PRINCIPAL_COORDINATOR, "");
}

ps_follow *ps_follow_create(ps_loop *loop, const char *list)
{
    ps_follow *f = ps_xcalloc(1, sizeof *f);

    f->loop = loop;
    while (f->count < PS_FOLLOW_MAX && list[0] != '\0') {
        size_t n = strcspn(list, ",");

        f->addresses[f->count++] = ps_xstrndup(list, n);
        list += n + (list[n] == ',');
    }
    point_to(f, f->addresses[0]);
    return f;
}

void ps_follow_destroy(ps_follow *f)
{
    if (f == NULL) {
        return;
    }
    ps_channel_destroy(f->channel);
    for (size_t i = 0; i < f->count; i++) {
        free(f->addresses[i]);
    }
    free(f);
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
    return f->count > 1 || strcmp(f->address, f->addresses[0]) != 0;
}

bool ps_follow_knows(const ps_follow *f, const char *address)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->addresses[i], address) == 0) {
            return true;
        }
    }
    return strcmp(f->address, address) == 0;
}

/* Writes the leader's address that a refusal names to `out`. Returns false if the refusal names
 * none, the address is invalid, or it is that of the coordinator that last gave no answer, within
 * the last shun_us. */
static bool find_leader(const ps_follow *f, const ps_error *error, char out[PS_ADDRESS_TEXT_BYTES])
{
    for (size_t i = 0; i < error->meta_count; i++) {
        ps_address address;
        ps_status st;

        if (strcmp(error->meta[i].key, "leader") != 0) {
            continue;
        }
        st = ps_address_parse(error->meta[i].value, "", 0, &address);
        if (!ps_is_ok(&st) || address.host[0] == '\0' || address.port == 0) {
            return false;
        }
        ps_address_format(&address, out);
        return strcmp(out, f->silent) != 0 || ps_clock_us() - f->silent_us > shun_us;
    }
    return false;
}

bool ps_follow_failed(ps_follow *f, const ps_error *error)
{
    bool is_refusal = strcmp(error->reason, "NOT_LEADER") == 0;
    char leader[PS_ADDRESS_TEXT_BYTES];

    if (error->status.code != PS_UNAVAILABLE && error->status.code != PS_DEADLINE_EXCEEDED) {
        return false;
    }
    if (!is_refusal) {
        snprintf(f->silent, sizeof f->silent, "%s", f->address);
        f->silent_us = ps_clock_us();
    }
    if (is_refusal && find_leader(f, error, leader)) {
        if (strcmp(leader, f->address) != 0) {
            point_to(f, leader);
        }
        return true;
    }
    if (f->count > 1 || strcmp(f->address, f->addresses[0]) != 0) {
        f->at = (f->at + 1) % f->count;
        point_to(f, f->addresses[f->at]);
        return true;
    }
    return is_refusal;
}
