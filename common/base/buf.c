/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - see buf.h. */
#include "common/base/buf.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum { SMALL_MAX = 1 << 10 };

/* Creates a buffer of `cap` bytes; returns NULL when memory runs out. Below SMALL_MAX bytes in all,
 * malloc gives a larger block and the buffer is aligned within it. aligned_alloc would cut the
 * buffer out of a larger block, and the heap would grow until the allocator joins the remainders
 * (measured: 300 bytes for each step of a job with small messages). */
static ps_buf *create(size_t cap)
{
    size_t bytes = sizeof(ps_buf) + cap;
    void *block = bytes < SMALL_MAX ? malloc(bytes + PS_ALIGN_BYTES - 1) : ps_aligned_alloc(bytes);
    ps_buf *buf;

    if (block == NULL) {
        return NULL;
    }
    buf = (ps_buf *)(((uintptr_t)block + PS_ALIGN_BYTES - 1) / PS_ALIGN_BYTES * PS_ALIGN_BYTES);
    atomic_init(&buf->refs, 1);
    buf->len = 0;
    buf->cap = cap;
    buf->home = NULL;
    buf->block = block;
    return buf;
}

size_t ps_buf_bytes_in(size_t cap)
{
    return sizeof(ps_buf) + (cap + PS_ALIGN_BYTES - 1) / PS_ALIGN_BYTES * PS_ALIGN_BYTES;
}

ps_buf *ps_buf_create_in(ps_buf *home, size_t cap)
{
    ps_buf *buf = (ps_buf *)(void *)(home->data + home->len);

    assert(home->len % PS_ALIGN_BYTES == 0 && ps_buf_bytes_in(cap) <= home->cap - home->len);
    home->len += ps_buf_bytes_in(cap);
    atomic_init(&buf->refs, 1);
    buf->len = 0;
    buf->cap = cap;
    buf->home = ps_buf_ref(home);
    buf->block = NULL;
    return buf;
}

ps_buf *ps_buf_create(size_t cap)
{
    assert(cap <= SIZE_MAX / 2);
    return ps_or_abort(create(cap), cap);
}

ps_buf *ps_buf_try_create(size_t cap)
{
    return cap <= SIZE_MAX / 2 ? create(cap) : NULL;
}

ps_buf *ps_buf_ref(ps_buf *buf)
{
    /* Relaxed is enough: the caller holds a reference already. */
    size_t before = atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);

    assert(before > 0);
    (void)before;
    return buf;
}

void ps_buf_unref(ps_buf *buf)
{
    size_t before;

    if (buf == NULL) {
        return;
    }
    /* Release publishes what this holder wrote. Acquire has the last holder, who frees the buffer,
     * see what the others wrote. */
    before = atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1 && buf->home != NULL) {
        ps_buf_unref(buf->home);
    } else if (before == 1) {
        free(buf->block);
    }
}
