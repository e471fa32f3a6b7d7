/* SPDX-License-Identifier: Apache-2.0 */
/* blas.h - the three matrix products that layers are made of.
 *
 * Float32, row-major, without gaps between rows. Every dimension < 2^31. The
 * same arguments give the same bits on one kind of processor. Any thread.
 */
#ifndef PS_COMMON_NN_BLAS_H
#define PS_COMMON_NN_BLAS_H

#include <stddef.h>

/* Once a process, whoever calls it how often; ps_model_create does. A program
 * with threads calls it before it starts them, as the environment may be read.
 *
 * One thread a product: several workers share a host, and sums must not depend
 * on how many cores it has. And where the installed OpenBLAS does not know the
 * processor, its kernels for the widest vectors there are. */
void ps_nn_init_process(void);

/* Whose kernels large products use, as OpenBLAS calls them: "SkylakeX". Static
 * text. Those whose operands stay in a core's cache have their own: gemm.h. */
const char *ps_nn_kernels(void);

/* c (m, n) = c * keep + a (m, k) b (n, k)^T. keep is 0 or 1. */
void ps_gemm_nt(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c);

/* c (m, n) = c * keep + a (m, k) b (k, n). */
void ps_gemm_nn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c);

/* c (m, n) = c * keep + a (k, m)^T b (k, n). */
void ps_gemm_tn(size_t m, size_t n, size_t k, const float *a, const float *b, float keep, float *c);

#endif
