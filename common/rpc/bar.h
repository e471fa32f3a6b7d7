/* SPDX-License-Identifier: Apache-2.0 */
/* bar.h - keeps an address from opening connections for a second. Private to common/rpc.
 *
 * Accepting a connection and closing it costs the server more than the client. So a filter on the
 * listener makes the kernel drop the first packet (SYN) of further connections of the address.
 * Another client behind the same address connects a second later, when its kernel repeats that
 * packet. */
#ifndef PS_COMMON_RPC_BAR_H
#define PS_COMMON_RPC_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_BAR_MAX = 64,     /* most addresses at a time */
    PS_BAR_US = 1000000, /* how long an address is barred, in microseconds */
    PS_BAR_KEY_BYTES = 8 /* bytes of an address, from ps_remotes_key */
};

/* The barred addresses. A zeroed struct bars none. */
typedef struct ps_bar {
    struct {
        uint8_t key[PS_BAR_KEY_BYTES];
        int listener;
        int64_t until_us;
    } barred[PS_BAR_MAX];
    size_t count;
} ps_bar;

/* Bars an address from a listener. Returns false if the kernel does not allow it, or if PS_BAR_MAX
 * addresses are barred. */
bool ps_bar_add(ps_bar *bar, int listener, const uint8_t key[PS_BAR_KEY_BYTES], int64_t now_us);

/* Lets those addresses connect again whose time is over. Returns the time at which the next one is
 * due; INT64_MAX: none is barred. */
int64_t ps_bar_expire(ps_bar *bar, int64_t now_us);

#endif
