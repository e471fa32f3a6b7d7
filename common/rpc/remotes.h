/* SPDX-License-Identifier: Apache-2.0 */
/* remotes.h - counts connections by the address of the client. Private to common/rpc.
 *
 * An address is an IPv4 address or the first 64 bits of an IPv6 address. The table has a fixed
 * size. A new address replaces one that has no open connection. Pure: no I/O, no clock.
 */
#ifndef PS_COMMON_RPC_REMOTES_H
#define PS_COMMON_RPC_REMOTES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* The limits of an address. Rates are limited by token buckets: BURST is the size of the bucket,
 * and PER_SECOND tokens are added a second. */
enum {
    PS_REMOTES_MAX = 1024, /* entries of the table */
    /* tokens for connections; a connection without a token is refused */
    PS_REMOTE_BURST = 512,
    PS_REMOTE_PER_SECOND = 100,
    /* tokens that a connection costs which gRPC has to end (ps_remote_charge) */
    PS_REMOTE_BROKEN_COST = 20,
    /* tokens that keep new connections from being suspect; a connection without one is suspect:
     * lower bounds hold for it (flood.h) */
    PS_REMOTE_CALM_BURST = 64,
    PS_REMOTE_CALM_PER_SECOND = 50,
    /* microseconds after an offence of an address for which its new connections are suspect. An
     * offence is: too many wasted calls, or a connection that was closed because it went beyond a
     * limit (guard.h) */
    PS_REMOTE_OFFENDED_US = 60000000,
    /* tokens for wasted calls (ps_remote_waste) */
    PS_REMOTE_WASTE_BURST = 512,
    PS_REMOTE_WASTE_PER_SECOND = 100,
    /* tokens for the calls of all suspect connections of an address together; a call without a
     * token waits at most WAIT_US microseconds */
    PS_REMOTE_CALLS_BURST = 32,
    PS_REMOTE_CALLS_PER_SECOND = 125,
    PS_REMOTE_CALLS_WAIT_US = 2000000
};

/* What is known of an address. Levels of token buckets are in millionths of a token. */
typedef struct ps_remote {
    uint8_t key[8];
    atomic_uint connections; /* number of open connections; any thread may read it */
    int64_t level;           /* bucket of connections */
    /* bucket of PS_REMOTE_CALM_BURST; below 0: the last connection is suspect */
    int64_t calm;
    /* when `level` and `calm` were last filled, in monotonic microseconds; 0: the entry is empty */
    int64_t filled_us;
    int64_t waste, wasted_us; /* bucket of wasted calls, and when it was last filled */
    /* bucket of calls of suspect connections, and when it was last filled */
    int64_t calls, called_us;
    int64_t offended_us; /* time of the last offence; 0: none */
} ps_remote;

/* A zeroed struct is an empty table. */
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

/* Admits a connection from `address`, or returns why it is refused. `most`: how many connections of
 * the address may be open. *out becomes the address's entry; NULL if the connection is refused, or
 * if it is admitted but not counted, because it has no IP address or the table is full. */
ps_admission ps_remotes_enter(ps_remotes *remotes, const struct sockaddr *address, uint32_t most,
                              int64_t now_us, ps_remote **out);

/* Notes that a connection of the address has ended. NULL is allowed. */
void ps_remote_leave(ps_remote *remote);

/* Counts a connection that gRPC had to end, because its client broke the rules of HTTP/2 or did not
 * answer. It costs PS_REMOTE_BROKEN_COST tokens of the address's connections. */
void ps_remote_charge(ps_remote *remote);

/* Counts a wasted call: no service has its method, or its client cancels it. Returns true if the
 * address has made too many, which is an offence. */
bool ps_remote_waste(ps_remote *remote, int64_t now_us);

/* Counts calls of a suspect connection. Returns for how many microseconds the address's suspect
 * connections must not be read; 0: they may be read. */
int64_t ps_remote_call(ps_remote *remote, uint32_t calls, int64_t now_us);

/* Returns whether the connection of the address that was just admitted is suspect: its address has
 * committed an offence lately, or opens connections too fast. */
bool ps_remote_is_suspect(const ps_remote *remote, int64_t now_us);

#endif
