/* SPDX-License-Identifier: Apache-2.0 */
/* cmocka_all.h - includes cmocka.h and the headers that must come before it. */
#ifndef PS_TESTS_SUPPORT_CMOCKA_ALL_H
#define PS_TESTS_SUPPORT_CMOCKA_ALL_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#endif
