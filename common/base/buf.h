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
    void *block;         /* the argument for free(); NULL if it lies in a home */
    _Alignas(64) uint8_t data[];
} ps_buf;

/* Returns a buffer of `cap` bytes with one reference and len 0. Aborts when memory runs out, so
 * no remote may choose `cap`. */
ps_buf *ps_buf_create(size_t cap);

/* Creates a buffer as ps_buf_create does, for a size that a job chooses: returns NULL when memory
 * runs out. */
ps_buf *ps_buf_try_create(size_t cap);

/* Returns how many bytes of a home a buffer of `cap` bytes takes: its struct and its bytes, a
 * multiple of 64. */
size_t ps_buf_bytes_in(size_t cap);

/* Makes a buffer of `cap` bytes, with one reference and len 0, from the bytes of `home` behind
 * home->len, which must suffice, and adds ps_buf_bytes_in(cap) to home->len. Only the owner of
 * `home` calls it. The buffer holds a reference to `home`: the memory is freed when neither the
 * home nor a buffer in it has references. Buffers that live equally long so share one block; a
 * block of 8 MiB or more gets huge pages (xalloc.c). */
ps_buf *ps_buf_create_in(ps_buf *home, size_t cap);

/* Adds a reference and returns `buf`. Any thread. */
ps_buf *ps_buf_ref(ps_buf *buf);

/* Drops a reference; the last one frees the buffer. NULL is allowed. Any thread. */
void ps_buf_unref(ps_buf *buf);

#endif
