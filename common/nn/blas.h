/* SPDX-License-Identifier: Apache-2.0 */
/* blas.h - the three matrix products of which layers are made.
 *
 * Float32, row-major, without gaps between rows. Every dimension < 2^31. On one kind of processor
 * the same arguments give the same bits, whatever the team (team.h); team NULL: the caller's thread
 * alone. Any thread; each with a team of its own. */
#ifndef PS_COMMON_NN_BLAS_H
#define PS_COMMON_NN_BLAS_H

#include "common/nn/team.h"

#include <stddef.h>

/* Initialises OpenBLAS; only the first call of a process has an effect. ps_model_create calls it. A
 * program with threads must call it before it starts them, because it changes the environment for a
 * moment.
 *
 * Sets one thread for each product: workers share a host, and sums must not depend on the number of
 * its cores. Chooses the kernels of this process's level (common/base/cpu.h), SkylakeX, Haswell or
 * Prescott, if OpenBLAS has chosen those of another level. The user's OPENBLAS_CORETYPE has
 * precedence. */
void ps_nn_init_process(void);

enum { PS_NN_KERNELS_BYTES = 160 };

/* Initialises OpenBLAS as ps_nn_init_process does, and writes which kernels this process uses, for
 * people: "avx512, OpenBLAS SkylakeX, own small products and convolutions avx512". The part before
 * the first comma or blank is the name of the level. Returns `text`. */
char *ps_nn_kernels(char text[PS_NN_KERNELS_BYTES]);

/* Computes c (m, n) = c * keep + a (m, k) b (n, k)^T. keep is 0 or 1. */
void ps_gemm_nt(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                float keep, float *c);

/* Computes c (m, n) = c * keep + a (m, k) b (k, n). */
void ps_gemm_nn(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                float keep, float *c);

/* Computes c (m, n) = c * keep + a (k, m)^T b (k, n). */
void ps_gemm_tn(ps_team *team, size_t m, size_t n, size_t k, const float *a, const float *b,
                float keep, float *c);

#endif
