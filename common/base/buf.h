/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - reference-counted bytes.
 *
 * The owner writes the bytes until it shares them; after that nobody writes. The count is atomic,
 * because the last holder may be a thread of gRPC.
 */
#ifndef PS_COMMON_BASE_BUF_H
#define PS_COMMON_BASE_BUF_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_buf {
    atomic_size_t refs;
    size_t len; /* bytes in use, at most cap; set by the owner before sharing */
    size_t cap;
    struct ps_buf *home; /* the buffer in whose bytes this one lies; NULL: it has its own block */
    void *block;         /* of the allocator; it begins at or before the buffer */
    _Alignas(64) uint8_t data[];
} ps_buf;

/* Returns a buffer of `cap` bytes with one reference and len 0. Aborts when memory runs out, so
 * no remote may choose `cap`. */
ps_buf *ps_buf_create(size_t cap);

/* Does the same for a size that a job chooses: returns NULL when memory runs out. */
ps_buf *ps_buf_try_create(size_t cap);

/* Returns how many bytes of a home a buffer of `cap` bytes takes. */
size_t ps_buf_bytes_in(size_t cap);

/* Takes a buffer of `cap` bytes, as of ps_buf_create, from the bytes of `home` behind home->len,
 * which must suffice, and adds its bytes to home->len. Memory is freed with the last buffer of a
 * home. Buffers that live equally long lie so in one block, which has huge pages (xalloc.h). */
ps_buf *ps_buf_create_in(ps_buf *home, size_t cap);

/* Adds a reference and returns `buf`. Any thread. */
ps_buf *ps_buf_ref(ps_buf *buf);

/* Drops a reference; the last one frees the buffer. NULL is allowed. Any thread. */
void ps_buf_unref(ps_buf *buf);

#endif
