/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h - oneDNN's products and convolutions, as a peer of ours. On one thread.
 *
 * onednn.c where Debian's libdnnl-dev was there when this was built, else onednn_none.c.
 */
#ifndef PS_TESTS_BENCH_ENGINE_ONEDNN_H
#define PS_TESTS_BENCH_ENGINE_ONEDNN_H

#include "common/base/cpu.h"
#include "common/nn/im2col.h"

/* Returns whether it is there, and limits it to the level. Before all others. */
bool onednn_init(ps_cpu level);

/* Row-major: c (m, n) = a b, a (m, k) or transposed, b (k, n) or transposed. */
void onednn_product(bool a_turned, bool b_turned, size_t m, size_t n, size_t k, const float *a,
                    const float *b, float *c);

/* A convolution with memory of its own, in the layout that oneDNN chooses. */
typedef struct onednn_conv onednn_conv;

onednn_conv *onednn_conv_create(const ps_window *at, size_t filters, size_t n);
void onednn_conv_run(onednn_conv *conv, bool with_dx); /* forward, dw and, with it, dx */
/* Turns x and dy from (n, channels, rows, columns) into its layout, y and dx back. */
void onednn_conv_turn(onednn_conv *conv, bool with_dx);
void onednn_conv_destroy(onednn_conv *conv);

#endif
