/* SPDX-License-Identifier: Apache-2.0 */
/* conv_same.c - see conv_same.h. Letters as in layer.h, F filters, K rows and columns of the
 * window, G samples of a group, L values of a strip.
 *
 * Strips of a group are (C, G, L), those of each channel on a boundary of vectors. The gradient by
 * x is the convolution of dy with the window turned round and its channels and filters exchanged;
 * that by the weights is a sum over all places, and as dy's strips are zero between the places,
 * over all values.
 */
#include "common/nn/conv_same.h"

#include "common/base/clones.h"
#include "common/nn/sums.h"

#include <string.h>

enum {
    COLUMNS_MIN = 8,       /* below, zeros outweigh the image */
    GROUP_VALUES = 1024,   /* of one channel, so that sums over them are worth their end */
    WEIGHTS_MAX = 1 << 18, /* values: 1 MiB, beside which strips still fit a core's cache */
    ALIGN = 16,            /* values: 64 bytes */
    STRIP_MAX = 1 << 12    /* values of one: else im2col's long rows do as well */
};

bool ps_conv_same_fits(const ps_window *window, size_t filters, size_t batch, ps_conv_same *out)
{
    size_t kernel = window->kernel, padding = window->padding;
    ps_conv_same at = {
        .gemm = ps_gemm_at(0),
        .channels = window->channels,
        .filters = filters,
        .rows = window->rows,
        .columns = window->columns,
        .kernel = kernel,
        .pitch = window->columns + 2 * padding,
    };

    if (at.gemm == NULL || window->stride != 1 || kernel < 3 || kernel != 2 * padding + 1 ||
        at.columns < COLUMNS_MIN || window->rows > STRIP_MAX || window->columns > STRIP_MAX ||
        at.channels > WEIGHTS_MAX || filters > WEIGHTS_MAX / (at.channels * kernel * kernel)) {
        return false;
    }
    at.strip = (at.rows + 2 * padding) * at.pitch;
    at.places = (at.rows - 1) * at.pitch + at.columns;
    if (at.strip > STRIP_MAX) {
        return false;
    }
    at.group = (GROUP_VALUES + at.strip - 1) / at.strip;
    at.group = at.group > batch ? batch : at.group;
    at.reach = (at.group * at.strip + ALIGN - 1) / ALIGN * ALIGN;
    *out = at;
    return true;
}

/* The parts of the scratch. */
typedef struct parts {
    float *x, *dy;  /* (C, G, L), (F, G, L) */
    float *product; /* (F or C, places) */
    float *turned;  /* (C, F, K, K): the weights for the way back */
    uint32_t *at;   /* (C or F, K, K): where rows begin */
} parts;

static size_t most_of(const ps_conv_same *at)
{
    return at->channels > at->filters ? at->channels : at->filters;
}

size_t ps_conv_same_scratch(const ps_conv_same *at)
{
    size_t window = at->kernel * at->kernel;

    return (at->channels + at->filters) * at->reach + ALIGN + most_of(at) * at->places +
           at->channels * at->filters * window + most_of(at) * window;
}

/* Of a strip, the first value of the image. */
static size_t middle_of(const ps_conv_same *at)
{
    return at->kernel / 2 * (at->pitch + 1);
}

static parts parts_of(const ps_conv_same *at, float *scratch)
{
    size_t window = at->kernel * at->kernel;
    parts of = {.x = scratch};

    of.dy = of.x + at->channels * at->reach;
    of.product = of.dy + at->filters * at->reach + ALIGN;
    of.dy += ALIGN - middle_of(at) % ALIGN; /* the first place on a boundary */
    of.turned = of.product + most_of(at) * at->places;
    of.at = (uint32_t *)(void *)(of.turned + at->channels * at->filters * window);
    return of;
}

/* Where the rows of (channels, K, K) begin in strips of a group. */
static void locate(const ps_conv_same *at, size_t channels, uint32_t *row)
{
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < at->kernel; i++) {
            for (size_t j = 0; j < at->kernel; j++) {
                *row++ = (uint32_t)(c * at->reach + i * at->pitch + j);
            }
        }
    }
}

enum { PIECE = 8 }; /* values: rows are short, and a call of memcpy takes longer than its work */

static inline void copy_row(const float *restrict from, float *restrict to, size_t n)
{
    size_t i = 0;

    for (; i + PIECE <= n; i += PIECE) {
        memcpy(to + i, from + i, PIECE * sizeof *to); /* of a size the compiler knows */
    }
    for (; i < n; i++) {
        to[i] = from[i];
    }
}

/* Images (count, channels, H, W) into the middle of strips, the zeros around being there. */
static void lay(const ps_conv_same *at, const float *images, size_t channels, size_t count,
                float *strips)
{
    size_t middle = middle_of(at);

    for (size_t s = 0; s < count; s++) {
        for (size_t c = 0; c < channels; c++) {
            float *to = strips + c * at->reach + s * at->strip + middle;

            for (size_t r = 0; r < at->rows; r++) {
                copy_row(images, to + r * at->pitch, at->columns);
                images += at->columns;
            }
        }
    }
}

PS_CLONES static void add_value(const float *restrict from, float value, float *restrict to,
                                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i] + value;
    }
}

/* The places of a product (channels, places), + bias if there is one. */
static void take_places(const ps_conv_same *at, const float *product, size_t channels,
                        const float *bias, float *image)
{
    for (size_t c = 0; c < channels; c++) {
        for (size_t r = 0; r < at->rows; r++) {
            const float *from = product + c * at->places + r * at->pitch;

            if (bias != NULL) {
                add_value(from, bias[c], image, at->columns);
            } else {
                copy_row(from, image, at->columns);
            }
            image += at->columns;
        }
    }
}

void ps_conv_same_forward(const ps_conv_same *at, const float *w, const float *bias, const float *x,
                          float *y, float *scratch, size_t n)
{
    size_t in = at->channels * at->rows * at->columns, out = at->filters * at->rows * at->columns;
    size_t depth = at->channels * at->kernel * at->kernel;
    parts of = parts_of(at, scratch);

    locate(at, at->channels, of.at);
    memset(of.x, 0, at->channels * at->reach * sizeof *of.x);
    for (size_t i = 0; i < n; i++) {
        lay(at, x + i * in, at->channels, 1, of.x);
        at->gemm->by_windows(at->filters, at->places, depth, w, of.x, of.at, of.product);
        take_places(at, of.product, at->filters, bias, y + i * out);
    }
}

/* (C, F, K, K) from (F, C, K, K), the window turned by half a circle. */
static void turn(const ps_conv_same *at, const float *w, float *turned)
{
    size_t window = at->kernel * at->kernel;

    for (size_t c = 0; c < at->channels; c++) {
        for (size_t f = 0; f < at->filters; f++) {
            const float *from = w + (f * at->channels + c) * window;

            for (size_t i = 0; i < window; i++) {
                *turned++ = from[window - 1 - i];
            }
        }
    }
}

void ps_conv_same_backward(const ps_conv_same *at, const float *w, const float *x, const float *dy,
                           float *dw, float *dbias, float *dx, float *scratch, size_t n)
{
    size_t plane = at->rows * at->columns, window = at->kernel * at->kernel;
    size_t middle = middle_of(at);
    parts of = parts_of(at, scratch);

    memset(of.x, 0, ((at->channels + at->filters) * at->reach + ALIGN) * sizeof *of.x);
    for (size_t i = 0; dbias != NULL && i < n * at->filters; i++) {
        dbias[i % at->filters] += ps_sum_f32(dy + i * plane, plane);
    }
    for (size_t i = 0; i < n; i += at->group) {
        size_t count = n - i < at->group ? n - i : at->group;

        lay(at, x + i * at->channels * plane, at->channels, count, of.x);
        lay(at, dy + i * at->filters * plane, at->filters, count, of.dy);
        locate(at, at->channels, of.at);
        at->gemm->onto_windows(at->filters, at->channels * window,
                               (count - 1) * at->strip + at->places, of.dy + middle, at->reach,
                               of.x, of.at, dw);
        if (dx == NULL) {
            continue;
        }
        if (i == 0) {
            turn(at, w, of.turned);
        }
        locate(at, at->filters, of.at);
        for (size_t s = 0; s < count; s++) {
            at->gemm->by_windows(at->channels, at->places, at->filters * window, of.turned,
                                 of.dy + s * at->strip, of.at, of.product);
            take_places(at, of.product, at->channels, NULL, dx + (i + s) * at->channels * plane);
        }
    }
}
