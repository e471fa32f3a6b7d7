/* SPDX-License-Identifier: Apache-2.0 */
/* bar.h - keeps addresses from connecting for a second. Private to common/rpc.
 *
 * A connection that is accepted only to be closed costs more than its client pays for it. So the
 * kernel drops the first packet (SYN) of further connections, by a filter on the listener. An
 * honest client behind the same address is connected by its next try, which the kernel makes a
 * second later.
 */
#ifndef PS_COMMON_RPC_BAR_H
#define PS_COMMON_RPC_BAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_BAR_MAX = 64,     /* addresses at a time */
    PS_BAR_US = 1000000, /* for which an address is barred */
    PS_BAR_KEY_BYTES = 8 /* of an address: ps_remotes_key */
};

/* Zeroed memory bars nobody. */
typedef struct ps_bar {
    struct {
        uint8_t key[PS_BAR_KEY_BYTES];
        int listener;
        int64_t until_us;
    } barred[PS_BAR_MAX];
    size_t count;
} ps_bar;

/* Bars an address from a listener. Returns false if the kernel does not allow it, or too many are
 * barred. */
bool ps_bar_add(ps_bar *bar, int listener, const uint8_t key[PS_BAR_KEY_BYTES], int64_t now_us);

/* Admits those whose time is over. Returns when the next one is due; INT64_MAX: nobody is barred.
 */
int64_t ps_bar_expire(ps_bar *bar, int64_t now_us);

#endif
