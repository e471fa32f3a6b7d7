/* SPDX-License-Identifier: Apache-2.0 */
/* kept_bytes.h - a file in memory, of any size, for code that writes a file through a callback. */
#ifndef PS_TESTS_SUPPORT_KEPT_BYTES_H
#define PS_TESTS_SUPPORT_KEPT_BYTES_H

#include "common/base/status.h"
#include "common/base/xalloc.h"

#include "tests/support/cmocka_all.h"

#include <string.h>

/* {0} is an empty file. Free `data` when it is not needed any more. */
typedef struct kept_bytes {
    uint8_t *data;
    size_t len;
} kept_bytes;

/* Appends len bytes to the kept_bytes `arg`. */
static inline ps_status kept_bytes_add(void *arg, const void *data, size_t len)
{
    kept_bytes *b = arg;

    b->data = ps_xrealloc(b->data, b->len + len + 1);
    memcpy(b->data + b->len, data, len);
    b->len += len;
    return ps_ok();
}

/* Fails the test with `what` unless the status is OK. */
static inline void must(ps_status st, const char *what)
{
    if (!ps_is_ok(&st)) {
        fail_msg("%s: %s", what, st.text);
    }
}

#endif
