/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_none.c - see onednn.h: without oneDNN. */
#include "tests/bench/engine/onednn.h"

#include <stdlib.h>

bool onednn_init(ps_cpu level)
{
    (void)level;
    return false;
}

void onednn_product(bool a_turned, bool b_turned, size_t m, size_t n, size_t k, const float *a,
                    const float *b, float *c)
{
    (void)a_turned, (void)b_turned, (void)m, (void)n, (void)k, (void)a, (void)b, (void)c;
    abort(); /* onednn_init said that it is not there */
}

onednn_conv *onednn_conv_create(const ps_window *at, size_t filters, size_t n)
{
    (void)at, (void)filters, (void)n;
    abort();
}

void onednn_conv_run(onednn_conv *conv, bool with_dx)
{
    (void)conv, (void)with_dx;
    abort();
}

void onednn_conv_turn(onednn_conv *conv, bool with_dx)
{
    (void)conv, (void)with_dx;
    abort();
}

void onednn_conv_destroy(onednn_conv *conv)
{
    (void)conv;
}
