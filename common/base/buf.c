/* SPDX-License-Identifier: Apache-2.0 */
/* buf.c - see buf.h. */
#include "common/base/buf.h"
#include "common/base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

static ps_buf *init(ps_buf *buf, size_t cap)
{
    atomic_init(&buf->refs, 1);
    buf->len = 0;
    buf->cap = cap;
    return buf;
}

ps_buf *ps_buf_create(size_t cap)
{
    assert(cap <= SIZE_MAX / 2);
    return init(ps_xaligned_alloc(sizeof(ps_buf) + cap), cap);
}

ps_buf *ps_buf_try_create(size_t cap)
{
    ps_buf *buf = cap <= SIZE_MAX / 2 ? ps_aligned_alloc(sizeof *buf + cap) : NULL;

    return buf == NULL ? NULL : init(buf, cap);
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
    /* Release publishes what this holder wrote; acquire sees the other holders' writes before
     * freeing. */
    before = atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1) {
        free(buf);
    }
}
