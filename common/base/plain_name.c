/* SPDX-License-Identifier: Apache-2.0 */
/* plain_name.c - see plain_name.h. */
#include "common/base/plain_name.h"

#include <string.h>

bool ps_plain_name_is_valid(const char *name, size_t most)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return n > 0 && n <= most && name[n] == '\0';
}
