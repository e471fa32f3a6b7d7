/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka_all.h - cmocka with the headers it wants before it. */
#ifndef PS_TESTS_SUPPORT_CMOCKA_ALL_H
#define PS_TESTS_SUPPORT_CMOCKA_ALL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#endif
