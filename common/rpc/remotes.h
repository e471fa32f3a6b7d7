/* SPDX-License-Identifier: Apache-2.0 */
/* remotes.h - counts connections by the address of the client. Private to common/rpc.
 *
 * An address is an IPv4 address or the first 64 bits of an IPv6 address. The table has a fixed
 * size; an address of which no connection is left makes room for others. Pure: no I/O, no clock.
 */
#ifndef PS_COMMON_RPC_REMOTES_H
#define PS_COMMON_RPC_REMOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    PS_REMOTES_MAX = 1024,          /* addresses that are known */
    PS_REMOTE_BURST = 512,          /* connections of an address at once, */
    PS_REMOTE_PER_SECOND = 100,     /* and then a second; more are refused */
    PS_REMOTE_CALM_BURST = 64,      /* at once, */
    PS_REMOTE_CALM_PER_SECOND = 50, /* and then a second; more are suspect */
    PS_REMOTE_OFFENDED_US =
        60000000,                /* for which new ones are so after one was closed by a bound */
    PS_REMOTE_WASTE_BURST = 512, /* calls in vain at once, */
    PS_REMOTE_WASTE_PER_SECOND = 100, /* and then a second; more are an offence */
    PS_REMOTE_CALLS_BURST = 32,       /* calls at once of all suspect connections together, */
    PS_REMOTE_CALLS_PER_SECOND = 125, /* and then a second; ... */
    PS_REMOTE_CALLS_WAIT_US = 2000000 /* ... for more they wait, no longer than this */
};

typedef struct ps_remote {
    uint8_t key[8];
    atomic_uint connections;  /* open; any thread may read it */
    int64_t level;            /* millionths of a connection that may come at once; */
    int64_t calm;             /* and of one that is not suspect then */
    int64_t filled_us;        /* 0: the entry is empty */
    int64_t waste, wasted_us; /* millionths of a call in vain; when it was filled */
    int64_t calls, called_us; /* millionths of a call of the suspect; when it was filled */
    int64_t offended_us;      /* when it last went beyond a bound; 0: never */
} ps_remote;

/* Zeroed memory is an empty table. */
typedef struct ps_remotes {
    ps_remote slots[PS_REMOTES_MAX];
} ps_remotes;

typedef enum ps_admission { PS_ADMITTED, PS_TOO_MANY, PS_TOO_FAST } ps_admission;

/* Writes the key of an address. Returns false if it is no IP address. */
bool ps_remotes_key(const struct sockaddr *address, uint8_t key[8]);

/* Returns whether a key is that of an IPv4 address, which is its last 4 bytes. */
bool ps_remotes_key_is_ipv4(const uint8_t key[8]);

/* Writes the first 8 bytes of the IPv6 addresses that have this key. */
void ps_remotes_network(const uint8_t key[8], uint8_t network[8]);

/* Admits a connection from `address`, or says why not. At most `most` may be open. *out is NULL if
 * the connection was not admitted; or if connections are not counted, as there is no IP address
 * or no room in the table. */
ps_admission ps_remotes_enter(ps_remotes *remotes, const struct sockaddr *address, uint32_t most,
                              int64_t now_us, ps_remote **out);

/* Ends a connection. NULL is allowed. */
void ps_remote_leave(ps_remote *remote);

/* Counts a call in vain: nobody takes it, or its client gives it up. Returns whether these are too
 * many; the address has offended then. */
bool ps_remote_waste(ps_remote *remote, int64_t now_us);

/* Counts calls of a suspect connection. Returns microseconds for which those of the address are not
 * to be read; 0: they may. */
int64_t ps_remote_call(ps_remote *remote, uint32_t calls, int64_t now_us);

/* Returns whether the connection that was just admitted is suspect: its address has flooded, or
 * opens connections fast. */
bool ps_remote_is_suspect(const ps_remote *remote, int64_t now_us);

#endif
