/* SPDX-License-Identifier: Apache-2.0 */
/* unread.c - see unread.h. */
#include "common/rpc/unread.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LISTS = 1024 };

/* The unread bytes of a connection, or of an address: then `name` has no port. */
typedef struct entry {
    size_t bytes; /* an entry without bytes is freed */
    struct entry *next;
    size_t len;
    char name[]; /* (len) */
} entry;

struct ps_unread {
    atomic_size_t all;
    pthread_mutex_t mutex; /* guards the lists */
    entry *lists[LISTS];   /* heads of lists, by hash of name */
};

/* Returns the length of the address in `peer`, the name of a client such as "ipv4:127.0.0.1:40312":
 * all before the last colon, behind which the port is. */
static size_t address_len(const char *peer)
{
    const char *port = strrchr(peer, ':');

    return port != NULL ? (size_t)(port - peer) : strlen(peer);
}

/* Returns the link to the entry of a name, or the link where a new entry is to be added. The caller
 * holds the mutex. */
static entry **find(ps_unread *unread, const char *name, size_t len)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    entry **at;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (uint8_t)name[i]) * 16777619U;
    }
    at = &unread->lists[hash % LISTS];
    while (*at != NULL && ((*at)->len != len || memcmp((*at)->name, name, len) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static size_t bytes_of(ps_unread *unread, const char *name, size_t len)
{
    const entry *e = *find(unread, name, len);

    return e != NULL ? e->bytes : 0;
}

static void add(ps_unread *unread, const char *name, size_t len, size_t bytes)
{
    entry **at = find(unread, name, len);

    if (*at == NULL) {
        *at = ps_xcalloc(1, sizeof **at + len);
        (*at)->len = len;
        memcpy((*at)->name, name, len);
    }
    (*at)->bytes += bytes;
}

static void take(ps_unread *unread, const char *name, size_t len, size_t bytes)
{
    entry **at = find(unread, name, len), *e = *at;

    assert(e != NULL && e->bytes >= bytes);
    e->bytes -= bytes;
    if (e->bytes == 0) {
        *at = e->next;
        free(e);
    }
}

ps_unread *ps_unread_create(void)
{
    ps_unread *unread = ps_xcalloc(1, sizeof *unread);

    pthread_mutex_init(&unread->mutex, NULL);
    return unread;
}

void ps_unread_destroy(ps_unread *unread)
{
    if (unread == NULL) {
        return;
    }
    assert(atomic_load(&unread->all) == 0);
    pthread_mutex_destroy(&unread->mutex);
    free(unread);
}

bool ps_unread_is_low(const ps_unread *unread)
{
    return atomic_load(&unread->all) < PS_UNREAD_CONNECTION;
}

bool ps_unread_is_full(ps_unread *unread, const char *peer)
{
    size_t of_connection, of_address;

    pthread_mutex_lock(&unread->mutex);
    of_connection = bytes_of(unread, peer, strlen(peer));
    of_address = bytes_of(unread, peer, address_len(peer));
    pthread_mutex_unlock(&unread->mutex);
    return of_connection >= PS_UNREAD_CONNECTION ||
           (of_connection > PS_UNREAD_CONNECTION_IDLE &&
            (of_address >= PS_UNREAD_ADDRESS || atomic_load(&unread->all) >= PS_UNREAD_ALL));
}

void ps_unread_add(ps_unread *unread, const char *peer, size_t bytes)
{
    atomic_fetch_add(&unread->all, bytes);
    pthread_mutex_lock(&unread->mutex);
    add(unread, peer, strlen(peer), bytes);
    add(unread, peer, address_len(peer), bytes);
    pthread_mutex_unlock(&unread->mutex);
}

void ps_unread_remove(ps_unread *unread, const char *peer, size_t bytes)
{
    atomic_fetch_sub(&unread->all, bytes);
    pthread_mutex_lock(&unread->mutex);
    take(unread, peer, strlen(peer), bytes);
    take(unread, peer, address_len(peer), bytes);
    pthread_mutex_unlock(&unread->mutex);
}
