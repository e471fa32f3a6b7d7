/* SPDX-License-Identifier: Apache-2.0 */
/* clones.h - one loop, compiled for each width of vector, chosen when the program starts.
 *
 *     PS_CLONES void f(...) { for (...) ... }
 *
 * For elementwise loops of sums, products, quotients, square roots, selects and
 * integer work only: IEEE 754 rounds these alike at every width, and with
 * -ffp-contract=off no clone fuses them, so that every host gets the same bits.
 * A loop that sums up over lanes does not qualify. Pointers are `restrict`, else
 * the loop begins with a test whether it may use vectors.
 */
#ifndef PS_COMMON_BASE_CLONES_H
#define PS_COMMON_BASE_CLONES_H

/* Under ThreadSanitizer the choice would run before its runtime is there, and
 * clang 14 does not link clones of static functions. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) &&       \
    !defined(__SANITIZE_THREAD__)
#define PS_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PS_CLONES
#endif

#endif
