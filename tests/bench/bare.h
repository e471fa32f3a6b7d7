/* SPDX-License-Identifier: Apache-2.0 */
/* bare.h - what the kernel alone does: the measure of what gRPC adds.
 *
 * A TCP connection over loopback between this thread and a thread of its own.
 */
#ifndef PS_TESTS_BENCH_BARE_H
#define PS_TESTS_BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>

/* Puts this thread, and those it starts, on processor `side` (modulo what there
 * is). Both peers on one by chance would save the wake-up across processors
 * that two real processes pay. The threads of below are on side 1. */
void ps_bare_place(unsigned side);

/* Seconds to move `count` messages of `bytes` by blocking send and recv, until
 * the receiver has them all. They come from and go to a block of `of` bytes (a
 * multiple of `bytes`) each, from its front to its end and again: what is in the
 * caches is then the same as for the parameters that it is compared with. */
double ps_bare_stream(size_t of, size_t bytes, size_t count);

/* The same by libssl, TLS 1.3, with the certificate of the member whose folder is `dir` at both ends,
 * after the handshake: the measure of what TLS costs without gRPC. */
double ps_bare_tls_stream(const char *dir, size_t of, size_t bytes, size_t count);

/* Connects two sockets over loopback. */
void ps_bare_connect(int pair[2]);

/* Returns a block of memory whose pages are all its own: what calloc gives would all be one page of
 * zeros. The caller frees it. */
uint8_t *ps_bare_block(size_t bytes);

/* us[i] becomes the round trip in microseconds of echo i of 16 bytes. */
void ps_bare_echo(double *us, size_t count);

#endif
