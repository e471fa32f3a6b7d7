/* SPDX-License-Identifier: Apache-2.0 */
/* blas.h - the three matrix products that layers are made of.
 *
 * Float32, row-major, without gaps between rows. Every dimension < 2^31. The
 * same arguments give the same bits on one kind of processor. Any thread.
 */
#ifndef PS_COMMON_NN_BLAS_H
#define PS_COMMON_NN_BLAS_H

#include <stddef.h>

/* Tells OpenBLAS how to compute: once a process, whoever calls it how often;
 * ps_model_create does. A program with threads calls it before it starts them, as
 * it changes the environment for a moment.
 *
 * One thread a product: several workers share a host, and sums must not depend
 * on how many cores it has. And kernels for the level of this process
 * (common/base/cpu.h): where those that OpenBLAS has chosen are for another one,
 * SkylakeX, Haswell or Prescott. The user's own OPENBLAS_CORETYPE stays. */
void ps_nn_init_process(void);

/* Returns what OpenBLAS calls the kernels that large products use: "SkylakeX".
 * Static text. */
const char *ps_nn_core(void);

enum { PS_NN_KERNELS_BYTES = 160 };

/* Initialises and writes which kernels this process runs, for people: "avx512, OpenBLAS SkylakeX,
 * own small products and convolutions avx512". Up to the first comma or blank it is the level's
 * name. Returns `text`. */
char *ps_nn_kernels(char text[PS_NN_KERNELS_BYTES]);

/* c (m, n) = c * keep + a (m, k) b (n, k)^T. keep is 0 or 1. */
void ps_gemm_nt(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c);

/* c (m, n) = c * keep + a (m, k) b (k, n). */
void ps_gemm_nn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c);

/* c (m, n) = c * keep + a (k, m)^T b (k, n). */
void ps_gemm_tn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c);

#endif
