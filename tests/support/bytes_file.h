/* SPDX-License-Identifier: Apache-2.0 */
/* bytes_file.h - a file in memory, of at most BYTES_FILE_MAX bytes, for code that writes a file
 * through a callback. */
#ifndef PS_TESTS_SUPPORT_BYTES_FILE_H
#define PS_TESTS_SUPPORT_BYTES_FILE_H

#include "common/base/status.h"

#include "tests/support/cmocka_all.h"

#include <string.h>

enum { BYTES_FILE_MAX = 1 << 18 };

typedef struct bytes_file {
    uint8_t bytes[BYTES_FILE_MAX];
    size_t len;
} bytes_file;

/* Appends len bytes to the bytes_file `arg`. Fails the test if they do not fit. */
static inline ps_status bytes_file_add(void *arg, const void *bytes, size_t len)
{
    bytes_file *f = arg;

    assert_true(f->len + len <= BYTES_FILE_MAX);
    memcpy(f->bytes + f->len, bytes, len);
    f->len += len;
    return ps_ok();
}

#endif
