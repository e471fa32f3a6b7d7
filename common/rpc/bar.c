/* SPDX-License-Identifier: Apache-2.0 */
/* bar.c - see bar.h. */
#include "common/rpc/bar.h"

#include "common/rpc/remotes.h"

#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>

enum {
    TCP_FLAGS = 13, /* offset of the flags in the TCP header; the filter gets a packet from this
                     * header on */
    SYN = 0x02,
    ACK = 0x10,
    IPV4_SOURCE = 12, /* offset of the source address in an IPv4 header */
    IPV6_SOURCE = 8,  /* offset of the source address in an IPv6 header */
    EACH = 5,         /* most instructions for one address */
    OTHERS = 9        /* instructions of a filter beside those for addresses */
};

typedef struct program {
    struct sock_filter code[PS_BAR_MAX * EACH + OTHERS];
    unsigned short count;
} program;

static void add(program *p, uint16_t code, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    p->code[p->count++] = (struct sock_filter){code, if_true, if_false, k};
}

static uint32_t word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Adds instructions that compare the word at `offset` of the IP header with `value`, and skip the
 * next `skipped` instructions if they differ. */
static void compare(program *p, uint32_t offset, uint32_t value, uint8_t skipped)
{
    add(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + offset, 0, 0);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}

static void drop(program *p)
{
    add(p, BPF_RET | BPF_K, 0, 0, 0);
}

static void pass(program *p)
{
    add(p, BPF_RET | BPF_K, UINT32_MAX, 0, 0);
}

/* Writes the filter that drops the SYN packets of the addresses barred from `listener` and lets all
 * other packets pass. Returns false if no address is barred from it. */
static bool write_filter(const ps_bar *bar, int listener, program *p)
{
    unsigned short of_ipv4;
    bool is_needed = false;

    p->count = 0;
    add(p, BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS, 0, 0);
    add(p, BPF_ALU | BPF_AND | BPF_K, SYN | ACK, 0, 0);
    add(p, BPF_JMP | BPF_JEQ | BPF_K, SYN, 1, 0);
    pass(p);
    add(p, BPF_LD | BPF_B | BPF_ABS, (uint32_t)SKF_NET_OFF, 0, 0); /* the first byte of the IP
                                                                    * header; its high half is the
                                                                    * version */
    /* below 0x60 it is IPv4: skips the jump */
    add(p, BPF_JMP | BPF_JGE | BPF_K, 0x60, 0, 1);
    of_ipv4 = p->count;
    add(p, BPF_JMP | BPF_JA, 0, 0, 0); /* jumps to the part for IPv6; `k`, the distance, is set
                                        * below */
    for (size_t i = 0; i < bar->count; i++) {
        if (bar->barred[i].listener == listener && ps_remotes_key_is_ipv4(bar->barred[i].key)) {
            compare(p, IPV4_SOURCE, word(bar->barred[i].key + 4), 1);
            drop(p);
            is_needed = true;
        }
    }
    pass(p);
    p->code[of_ipv4].k = (uint32_t)(p->count - of_ipv4 - 1);
    for (size_t i = 0; i < bar->count; i++) {
        if (bar->barred[i].listener == listener && !ps_remotes_key_is_ipv4(bar->barred[i].key)) {
            uint8_t network[PS_BAR_KEY_BYTES];

            ps_remotes_network(bar->barred[i].key, network);
            compare(p, IPV6_SOURCE, word(network), 3);
            compare(p, IPV6_SOURCE + 4, word(network + 4), 1);
            drop(p);
            is_needed = true;
        }
    }
    pass(p);
    return is_needed;
}

/* Attaches to `listener` the filter for the addresses in `bar`, or detaches its filter if none is
 * barred. Returns whether the kernel has done so. */
static bool apply(const ps_bar *bar, int listener)
{
    program p;
    struct sock_fprog filter = {.filter = p.code};
    int unused = 0;

    if (!write_filter(bar, listener, &p)) {
        return setsockopt(listener, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused) == 0;
    }
    filter.len = p.count;
    return setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

bool ps_bar_add(ps_bar *bar, int listener, const uint8_t key[PS_BAR_KEY_BYTES], int64_t now_us)
{
    for (size_t i = 0; i < bar->count; i++) {
        if (bar->barred[i].listener == listener &&
            memcmp(bar->barred[i].key, key, PS_BAR_KEY_BYTES) == 0) {
            return true; /* barred already: this connection came before the filter was set */
        }
    }
    if (bar->count == PS_BAR_MAX) {
        return false;
    }
    memcpy(bar->barred[bar->count].key, key, PS_BAR_KEY_BYTES);
    bar->barred[bar->count].listener = listener;
    bar->barred[bar->count++].until_us = now_us + PS_BAR_US;
    if (!apply(bar, listener)) {
        bar->count--;
        return false;
    }
    return true;
}

int64_t ps_bar_expire(ps_bar *bar, int64_t now_us)
{
    int64_t next_us = INT64_MAX;

    for (size_t i = 0; i < bar->count;) {
        int listener = bar->barred[i].listener;

        if (bar->barred[i].until_us > now_us) {
            next_us = bar->barred[i].until_us < next_us ? bar->barred[i].until_us : next_us;
            i++;
            continue;
        }
        bar->barred[i] = bar->barred[--bar->count];
        apply(bar, listener); /* fails if the listener is closed by now; then no filter is needed */
    }
    return next_us;
}
