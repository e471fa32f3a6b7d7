/* SPDX-License-Identifier: Apache-2.0 */
/* remotes.c - see remotes.h. */
#include "common/rpc/remotes.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

enum {
    PROBES = 8,
    MILLION = 1000000,
    /* first byte of the key of an IPv4 address; an IPv6 client cannot have it, as it is
     * multicast */
    OF_IPV4 = 0xff
};

bool ps_remotes_key(const struct sockaddr *address, uint8_t key[8])
{
    memset(key, 0, 8);
    if (address->sa_family == AF_INET) {
        key[0] = OF_IPV4;
        memcpy(key + 4, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return true;
    }
    if (address->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

        if (IN6_IS_ADDR_V4MAPPED(a)) {
            key[0] = OF_IPV4;
            memcpy(key + 4, a->s6_addr + 12, 4);
            return true;
        }
        memcpy(key, a->s6_addr, 8);
        key[0] |= IN6_IS_ADDR_LOOPBACK(a) ? 1 : 0; /* else ::1 would have the same key as all
                                                    * addresses that begin with 8 zero bytes */
        return true;
    }
    return false;
}

bool ps_remotes_key_is_ipv4(const uint8_t key[8])
{
    return key[0] == OF_IPV4;
}

void ps_remotes_network(const uint8_t key[8], uint8_t network[8])
{
    static const uint8_t loopback[8] = {1};

    memcpy(network, key, 8);
    network[0] = memcmp(key, loopback, 8) == 0 ? 0 : key[0];
}

/* Returns the entry of a key. Of the PROBES places for a new key, it gets the one without
 * connections that was filled longest ago; an unused one comes first. Returns NULL if all of them
 * have connections. */
static ps_remote *find(ps_remotes *remotes, const uint8_t key[8], int64_t now_us)
{
    ps_remote *oldest = NULL;
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (size_t i = 0; i < 8; i++) {
        hash = (hash ^ key[i]) * 16777619U;
    }
    for (size_t i = 0; i < PROBES; i++) {
        ps_remote *r = &remotes->slots[(hash + i) % PS_REMOTES_MAX];

        if (memcmp(r->key, key, 8) == 0 && r->filled_us != 0) {
            return r;
        }
        if (atomic_load(&r->connections) == 0 &&
            (oldest == NULL || r->filled_us < oldest->filled_us)) {
            oldest = r;
        }
    }
    if (oldest != NULL) {
        *oldest = (ps_remote){.level = (int64_t)PS_REMOTE_BURST * MILLION,
                              .calm = (int64_t)PS_REMOTE_CALM_BURST * MILLION,
                              .waste = (int64_t)PS_REMOTE_WASTE_BURST * MILLION,
                              .calls = (int64_t)PS_REMOTE_CALLS_BURST * MILLION,
                              .filled_us = now_us,
                              .wasted_us = now_us,
                              .called_us = now_us};
        memcpy(oldest->key, key, 8);
    }
    return oldest;
}

/* Adds to a bucket the tokens of `us` microseconds, at most of an hour, up to `burst` tokens in
 * all. The level is in millionths of a token. */
static void fill(int64_t *level, int64_t us, int64_t per_second, int64_t burst)
{
    us = us < 3600 * (int64_t)MILLION ? us : 3600 * (int64_t)MILLION;
    *level += us * per_second;
    *level = *level < burst * MILLION ? *level : burst * MILLION;
}

ps_admission ps_remotes_enter(ps_remotes *remotes, const struct sockaddr *address, uint32_t most,
                              int64_t now_us, ps_remote **out)
{
    uint8_t key[8];
    ps_remote *r;

    *out = NULL;
    if (!ps_remotes_key(address, key) || (r = find(remotes, key, now_us)) == NULL) {
        return PS_ADMITTED;
    }
    if (now_us > r->filled_us) {
        fill(&r->level, now_us - r->filled_us, PS_REMOTE_PER_SECOND, PS_REMOTE_BURST);
        fill(&r->calm, now_us - r->filled_us, PS_REMOTE_CALM_PER_SECOND, PS_REMOTE_CALM_BURST);
        r->filled_us = now_us;
    }
    if (atomic_load(&r->connections) >= most) {
        return PS_TOO_MANY;
    }
    if (r->level < MILLION) {
        return PS_TOO_FAST;
    }
    r->level -= MILLION;
    r->calm -= r->calm >= 0 ? MILLION : 0;
    atomic_fetch_add(&r->connections, 1);
    *out = r;
    return PS_ADMITTED;
}

void ps_remote_leave(ps_remote *remote)
{
    if (remote != NULL) {
        atomic_fetch_sub(&remote->connections, 1);
    }
}

/* Adds to a bucket the tokens of the time since *filled_us, and sets *filled_us to now_us. */
static void fill_until(int64_t *level, int64_t *filled_us, int64_t now_us, int64_t per_second,
                       int64_t burst)
{
    if (now_us > *filled_us) {
        fill(level, now_us - *filled_us, per_second, burst);
        *filled_us = now_us;
    }
}

void ps_remote_charge(ps_remote *r)
{
    r->level -= r->level > 0 ? (int64_t)PS_REMOTE_BROKEN_COST * MILLION : 0;
}

bool ps_remote_waste(ps_remote *r, int64_t now_us)
{
    fill_until(&r->waste, &r->wasted_us, now_us, PS_REMOTE_WASTE_PER_SECOND, PS_REMOTE_WASTE_BURST);
    if (r->waste >= MILLION) {
        r->waste -= MILLION;
        return false;
    }
    r->offended_us = now_us;
    return true;
}

int64_t ps_remote_call(ps_remote *r, uint32_t calls, int64_t now_us)
{
    const int64_t lowest = -(int64_t)PS_REMOTE_CALLS_WAIT_US * PS_REMOTE_CALLS_PER_SECOND;

    fill_until(&r->calls, &r->called_us, now_us, PS_REMOTE_CALLS_PER_SECOND, PS_REMOTE_CALLS_BURST);
    r->calls -= (int64_t)calls * MILLION;
    r->calls = r->calls > lowest ? r->calls : lowest;
    return r->calls < 0 ? -r->calls / PS_REMOTE_CALLS_PER_SECOND : 0;
}

bool ps_remote_is_suspect(const ps_remote *remote, int64_t now_us)
{
    return remote->calm < 0 ||
           (remote->offended_us != 0 && now_us - remote->offended_us < PS_REMOTE_OFFENDED_US);
}
