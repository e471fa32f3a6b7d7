/* SPDX-License-Identifier: Apache-2.0 */
/* buf.h - bytes with a count of those who hold them.
 *
 * Written by one owner until it is shared; from then on nobody writes it. The
 * count is atomic, because the last holder may be gRPC on a thread of its own.
 */
#ifndef PS_COMMON_BASE_BUF_H
#define PS_COMMON_BASE_BUF_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ps_buf {
    atomic_size_t refs;
    size_t len; /* bytes in use, <= cap; the owner's to set before sharing */
    size_t cap;
    _Alignas(64) uint8_t data[];
} ps_buf;

/* One reference, len 0. Aborts when memory runs out: cap is ours, never a peer's. */
ps_buf *ps_buf_create(size_t cap);
ps_buf *ps_buf_try_create(size_t cap); /* for a size that a job chooses: may be NULL */
ps_buf *ps_buf_ref(ps_buf *buf);
void ps_buf_unref(ps_buf *buf); /* NULL is allowed */

#endif
