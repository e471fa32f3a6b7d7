/* SPDX-License-Identifier: Apache-2.0 */
/* conv_strips.c - see conv_strips.h. Letters as in layer.h, F filters, K rows and columns of the
 * window, s its stride, G samples of a group, L values of a strip.
 *
 * The strips of x are (C, s, s, G, L). Those of dy are (F, G, L), with `margin` rows and columns
 * of zeros before the values. The gradient by x is computed for each of the s * s strips of an
 * image: a convolution of dy with the weights that meet this strip, in reverse order, with
 * channels and filters exchanged. The gradient by the weights is a sum over all places. Between
 * the places dy's strips are zero, so the sum may run over all values.
 */
#include "common/nn/conv_strips.h"

#include "common/base/clones.h"
#include "common/nn/copy_rows.h"

#include <string.h>

enum {
    COLUMNS_MIN = 8, /* least columns of the output; with fewer, too many products are with zeros */
    /* least values of a channel's strip in a group, unless the batch has fewer: long sums outweigh
     * the cost of ending them */
    GROUP_VALUES = 1024,
    WEIGHTS_MAX = 1 << 18, /* most weights: 1 MiB, beside which strips still fit a core's cache */
    ALIGN = 16,            /* values, 64 bytes: where strips begin */
    STRIP_MAX = 1 << 12 /* most values of a strip; images with longer ones are as fast by im2col */
};

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

bool ps_conv_strips_fits(const ps_window *window, size_t filters, size_t batch, ps_conv_strips *out)
{
    size_t taps = window->kernel * window->kernel;
    ps_conv_strips at = {.gemm = ps_gemm_of(ps_cpu_level()), .window = *window, .filters = filters};

    if (at.gemm == NULL || window->out_columns < COLUMNS_MIN || window->out_rows > STRIP_MAX ||
        window->out_columns > STRIP_MAX || window->channels > WEIGHTS_MAX ||
        filters > WEIGHTS_MAX / (window->channels * taps)) {
        return false;
    }
    at.margin = (window->kernel - 1) / window->stride;
    at.pitch = window->out_columns + at.margin;
    at.strip = (window->out_rows + at.margin) * at.pitch;
    at.places = (window->out_rows - 1) * at.pitch + window->out_columns;
    if (at.strip > STRIP_MAX) {
        return false;
    }
    at.group = (GROUP_VALUES + at.strip - 1) / at.strip;
    at.group = at.group > batch ? batch : at.group;
    at.reach = round_up(window->stride * window->stride * at.group * at.strip);
    at.slopes = round_up(at.group * at.strip);
    *out = at;
    return true;
}

/* The parts of the scratch memory. */
typedef struct parts {
    float *x;       /* (C, s, s, G, L) */
    float *dy;      /* (F, G, L), and zeros that a window reads behind the last strip */
    float *product; /* forward: (F, places); backward: (C, at most L) */
    /* (s, s, C, F, weights that meet the strip): the weights for the gradient by x */
    float *turned;
    /* Offsets of the rows of a product's second matrix: of x's strips (C, K, K), and of dy's (F,
     * weights that meet the strip). */
    uint32_t *rows, *slope_rows;
} parts;

static size_t most_of(const ps_conv_strips *at)
{
    return at->window.channels > at->filters ? at->window.channels : at->filters;
}

/* Returns the index of the first place in a strip of dy. */
static size_t first_of(const ps_conv_strips *at)
{
    return at->margin * (at->pitch + 1);
}

static size_t slopes_of(const ps_conv_strips *at)
{
    return at->filters * at->slopes + first_of(at) + ALIGN;
}

size_t ps_conv_strips_scratch(const ps_conv_strips *at)
{
    size_t taps = at->window.kernel * at->window.kernel, channels = at->window.channels;

    return channels * at->reach + slopes_of(at) + most_of(at) * at->strip +
           channels * at->filters * taps + (channels + at->filters) * taps;
}

static parts parts_of(const ps_conv_strips *at, float *scratch)
{
    size_t taps = at->window.kernel * at->window.kernel, channels = at->window.channels;
    parts of = {.x = scratch};

    of.dy = of.x + channels * at->reach;
    of.product = of.dy + slopes_of(at);
    of.dy += ALIGN - first_of(at) % ALIGN; /* aligns the first place */
    of.turned = of.product + most_of(at) * at->strip;
    of.rows = (uint32_t *)(void *)(of.turned + channels * at->filters * taps);
    of.slope_rows = of.rows + channels * taps;
    return of;
}

/* A pass over n samples that a team shares. All threads read parts.rows and parts.turned of
 * `scratch`; the other parts are those of one scratch memory of the team. */
typedef struct job {
    const ps_conv_strips *at;
    ps_team *team;
    const float *w, *bias, *x, *dy;
    float *y, *dw, *dx, *scratch;
    parts common; /* the parts of `scratch` */
    size_t n;
    size_t first;   /* in backward: the first sample of the groups whose strips are stored */
    uint32_t count; /* the number of these groups */
} job;

static size_t in_of(const ps_conv_strips *at)
{
    return at->window.channels * at->window.rows * at->window.columns;
}

static size_t out_of(const ps_conv_strips *at)
{
    return at->filters * at->window.out_rows * at->window.out_columns;
}

static size_t depth_of(const ps_conv_strips *at)
{
    return at->window.channels * at->window.kernel * at->window.kernel;
}

/* Returns the parts of scratch memory `number` of the team, but with `rows` and `turned` of the
 * common one. */
static parts parts_at(const job *of, uint32_t number)
{
    parts own = parts_of(of->at, ps_team_scratch(of->team, number, of->scratch));

    own.turned = of->common.turned;
    own.rows = of->common.rows;
    return own;
}

/* Writes, for each channel and weight of the window, the offset in x's strips of the value that the
 * weight meets at the first place. */
static void locate(const ps_conv_strips *at, uint32_t *row)
{
    size_t stride = at->window.stride;

    for (size_t c = 0; c < at->window.channels; c++) {
        for (size_t i = 0; i < at->window.kernel; i++) {
            for (size_t j = 0; j < at->window.kernel; j++) {
                size_t which = i % stride * stride + j % stride;

                *row++ = (uint32_t)(c * at->reach + which * at->group * at->strip +
                                    i / stride * at->pitch + j / stride);
            }
        }
    }
}

/* Copies every second value of `from` to `to` (n). */
PS_CLONES(take_second, (from, to, n), const float *restrict from, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = from[2 * i];
    }
}

static void take_each(const float *from, size_t stride, float *to, size_t n)
{
    if (stride == 1) {
        ps_copy_row(from, to, n);
    } else if (stride == 2 && n > 0) {
        /* no pair is read for the last value, which may be the last of the memory */
        take_second(from, to, n - 1);
        to[n - 1] = from[2 * (n - 1)];
    } else {
        for (size_t i = 0; i < n; i++) {
            to[i] = from[i * stride];
        }
    }
}

/* The values of a strip's row or column that are within the image, not in the padding: [from,
 * to). */
typedef struct span {
    size_t from, to;
    size_t first; /* number of the image's row or column that lies at `from` */
} span;

static span span_of(const ps_conv_strips *at, size_t phase, size_t size, size_t places)
{
    size_t stride = at->window.stride, padding = at->window.padding, length = places + at->margin;
    span out = {.from = phase < padding ? (padding - phase + stride - 1) / stride : 0};

    if (size + padding > phase) {
        out.to = (size + padding - phase - 1) / stride + 1;
    }
    out.to = out.to > length ? length : out.to;
    out.from = out.from > out.to ? out.to : out.from;
    out.first = out.from * stride + phase - padding;
    return out;
}

static span rows_of(const ps_conv_strips *at, size_t phase)
{
    return span_of(at, phase, at->window.rows, at->window.out_rows);
}

static span columns_of(const ps_conv_strips *at, size_t phase)
{
    return span_of(at, phase, at->window.columns, at->window.out_columns);
}

/* Copies images (count, C, H, W) into strips, whose padding is zero already. */
static void lay(const ps_conv_strips *at, const float *images, size_t count, float *strips)
{
    const ps_window *w = &at->window;
    size_t plane = w->rows * w->columns;

    for (size_t k = 0; k < w->stride * w->stride; k++) {
        span down = rows_of(at, k / w->stride), across = columns_of(at, k % w->stride);

        for (size_t i = 0; i < count * w->channels; i++) {
            float *to = strips + i % w->channels * at->reach +
                        (k * at->group + i / w->channels) * at->strip + across.from;

            if (k == 0 && i + 1 < count * w->channels) {
                ps_prefetch(images + (i + 1) * plane, plane);
            }
            for (size_t r = down.from; across.to > across.from && r < down.to; r++) {
                size_t row = down.first + (r - down.from) * w->stride;

                take_each(images + i * plane + row * w->columns + across.first, w->stride,
                          to + r * at->pitch, across.to - across.from);
            }
        }
    }
}

/* Copies dy (count, F, OH, OW) into its strips. */
static void lay_slopes(const ps_conv_strips *at, const float *dy, size_t count, float *strips)
{
    for (size_t i = 0; i < count * at->filters; i++) {
        float *to =
            strips + i % at->filters * at->slopes + i / at->filters * at->strip + first_of(at);

        for (size_t r = 0; r < at->window.out_rows; r++) {
            ps_copy_row(dy, to + r * at->pitch, at->window.out_columns);
            dy += at->window.out_columns;
        }
    }
}

PS_CLONES(add_value, (from, value, to, n), const float *restrict from, float value,
          float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i] + value;
    }
}

static void fill(float value, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = value;
    }
}

/* Returns the grid of the places in a strip: one place for each value of an output image. */
static ps_gemm_grid grid_of(const ps_conv_strips *at)
{
    return (ps_gemm_grid){
        .rows = at->window.out_rows, .columns = at->window.out_columns, .pitch = at->pitch};
}

static bool reads(const ps_conv_strips *at, const ps_gemm_grid *grid)
{
    return ps_gemm_reads(at->gemm, grid->rows, grid->columns);
}

/* Copies the values of a product (F, places) to y, without those of the margin between the rows of
 * an output, and adds the bias unless it is NULL. */
static void take_places(const ps_conv_strips *at, const float *product, const float *bias, float *y)
{
    size_t columns = at->window.out_columns;

    for (size_t f = 0; f < at->filters; f++) {
        for (size_t r = 0; r < at->window.out_rows; r++) {
            const float *from = product + f * at->places + r * at->pitch;

            if (bias != NULL) {
                add_value(from, bias[f], y, columns);
            } else {
                ps_copy_row(from, y, columns);
            }
            y += columns;
        }
    }
}

static void clear_x(void *arg, uint32_t item, uint32_t thread)
{
    const job *of = arg;

    (void)thread;
    memset(parts_at(of, item).x, 0, of->at->window.channels * of->at->reach * sizeof(float));
}

static void forward_sample(void *arg, uint32_t item, uint32_t thread)
{
    const job *of = arg;
    const ps_conv_strips *at = of->at;
    size_t size = at->window.out_rows * at->window.out_columns, depth = depth_of(at);
    float *y = of->y + item * out_of(at);
    ps_gemm_grid grid = grid_of(at);
    parts own = parts_at(of, thread);

    lay(at, of->x + item * in_of(at), 1, own.x);
    if (!reads(at, &grid)) {
        at->gemm->by_windows(at->filters, at->places, depth, of->w, own.x, own.rows, own.product);
        take_places(at, own.product, of->bias, y);
        return;
    }
    for (size_t f = 0; of->bias != NULL && f < at->filters; f++) {
        fill(of->bias[f], y + f * size, size);
    }
    at->gemm->by_grids(at->filters, depth, &grid, of->w, own.x, own.rows, of->bias != NULL, y);
}

void ps_conv_strips_forward(const ps_conv_strips *at, ps_team *team, const float *w,
                            const float *bias, const float *x, float *y, float *scratch, size_t n)
{
    job of = {.at = at,
              .team = team,
              .w = w,
              .bias = bias,
              .x = x,
              .y = y,
              .scratch = scratch,
              .common = parts_of(at, scratch),
              .n = n};

    locate(at, of.common.rows);
    ps_team_run(team, ps_team_threads(team), clear_x, &of);
    ps_team_run(team, (uint32_t)n, forward_sample, &of);
}

/* Returns how many of the window's K rows (columns) meet the strips that have the image's rows
 * (columns) which are `phase` modulo the stride, padding included. */
static size_t taps_of(const ps_conv_strips *at, size_t phase)
{
    return phase < at->window.kernel ? (at->window.kernel - phase - 1) / at->window.stride + 1 : 0;
}

/* Writes `turned` (s, s, C, F, weights that meet the strip) from the weights w (F, C, K, K). */
static void turn(const ps_conv_strips *at, const float *w, float *turned)
{
    size_t stride = at->window.stride, kernel = at->window.kernel, channels = at->window.channels;

    for (size_t k = 0; k < stride * stride; k++) {
        for (size_t p = 0; p < channels * at->filters; p++) {
            size_t c = p / at->filters, f = p % at->filters;
            const float *from = w + (f * channels + c) * kernel * kernel;

            for (size_t i = k / stride; i < kernel; i += stride) {
                for (size_t j = k % stride; j < kernel; j += stride) {
                    *turned++ = from[i * kernel + j];
                }
            }
        }
    }
}

/* Writes, for each filter and each weight that meets strip (a, b), the offset in dy's strips of the
 * gradient that the weight multiplies for value (row, column) of the strip. */
static void locate_slopes(const ps_conv_strips *at, size_t a, size_t b, size_t row, size_t column,
                          uint32_t *rows)
{
    for (size_t f = 0; f < at->filters; f++) {
        for (size_t i = 0; i < taps_of(at, a); i++) {
            for (size_t j = 0; j < taps_of(at, b); j++) {
                *rows++ = (uint32_t)(f * at->slopes + (at->margin + row - i) * at->pitch +
                                     at->margin + column - j);
            }
        }
    }
}

/* Copies the values of a product (C, size) for one strip to their places in `images`, dx of one
 * sample. Rows of the product are `pitch` values apart. */
static void spread(const ps_conv_strips *at, const float *product, size_t size, size_t pitch,
                   const span *down, const span *across, float *images)
{
    const ps_window *w = &at->window;
    size_t n = across->to - across->from;

    for (size_t c = 0; c < w->channels; c++) {
        for (size_t r = 0; r < down->to - down->from; r++) {
            const float *from = product + c * size + r * pitch;
            float *to =
                images + (c * w->rows + down->first + r * w->stride) * w->columns + across->first;

            if (w->stride == 1) {
                ps_copy_row(from, to, n);
                continue;
            }
            for (size_t i = 0; i < n; i++) {
                to[i * w->stride] = from[i];
            }
        }
    }
}

/* Returns whether an image has values that no window covers. */
static bool leaves_values(const ps_conv_strips *at)
{
    const ps_window *w = &at->window;

    return w->kernel < w->stride ||
           (w->out_rows - 1) * w->stride + w->kernel < w->rows + w->padding ||
           (w->out_columns - 1) * w->stride + w->kernel < w->columns + w->padding;
}

/* Returns the number of values from the first value of a grid to its last. */
static size_t reach_of(const ps_gemm_grid *grid)
{
    return (grid->rows - 1) * grid->pitch + grid->columns;
}

/* Computes one strip of dx of sample s in of->product: the weights that meet this strip times the
 * strip of dy. If reads(at, grid), the product has only the values of the grid, without gaps.
 * Otherwise it has all values from the grid's first to its last. */
static void back_to_strip(const ps_conv_strips *at, const parts *of, const ps_gemm_grid *grid,
                          size_t depth, const float *weights, size_t s)
{
    const float *slopes = of->dy + s * at->strip;

    if (reads(at, grid)) {
        at->gemm->by_grids(at->window.channels, depth, grid, weights, slopes, of->slope_rows, false,
                           of->product);
    } else {
        at->gemm->by_windows(at->window.channels, reach_of(grid), depth, weights, slopes,
                             of->slope_rows, of->product);
    }
}

/* Computes dx of `count` samples from the strips of their dy. */
static void back_to_x(const ps_conv_strips *at, const parts *of, size_t count, float *dx)
{
    const ps_window *w = &at->window;
    size_t size = w->channels * w->rows * w->columns;
    const float *weights = of->turned;

    if (leaves_values(at)) {
        memset(dx, 0, count * size * sizeof *dx);
    }
    for (size_t k = 0; k < w->stride * w->stride; k++) {
        size_t a = k / w->stride, b = k % w->stride;
        size_t depth = at->filters * taps_of(at, a) * taps_of(at, b);
        span down = rows_of(at, a), across = columns_of(at, b);
        ps_gemm_grid grid = {
            .rows = down.to - down.from, .columns = across.to - across.from, .pitch = at->pitch};

        if (depth > 0 && grid.rows > 0 && grid.columns > 0) {
            locate_slopes(at, a, b, down.from, across.from, of->slope_rows);
            for (size_t s = 0; s < count; s++) {
                back_to_strip(at, of, &grid, depth, weights, s);
                spread(at, of->product,
                       reads(at, &grid) ? grid.rows * grid.columns : reach_of(&grid),
                       reads(at, &grid) ? grid.columns : grid.pitch, &down, &across, dx + s * size);
            }
        }
        weights += w->channels * depth;
    }
}

static void clear_both(void *arg, uint32_t item, uint32_t thread)
{
    parts own = parts_at(arg, item);

    (void)thread;
    memset(own.x, 0, (size_t)(own.product - own.x) * sizeof *own.x);
}

/* Returns the first sample of group `number` of those whose strips are stored, and sets *count to
 * the number of its samples. */
static size_t group_at(const job *of, uint32_t number, size_t *count)
{
    size_t first = of->first + number * of->at->group, left = of->n - first;

    *count = left < of->at->group ? left : of->at->group;
    return first;
}

/* Stores the strips of a group, those of dy only if they are needed, and computes dx of its samples
 * unless that is NULL. */
static void lay_group(void *arg, uint32_t item, uint32_t thread)
{
    const job *of = arg;
    const ps_conv_strips *at = of->at;
    ps_gemm_grid grid = grid_of(at);
    parts own = parts_at(of, item);
    size_t count, first = group_at(of, item, &count);

    (void)thread;
    lay(at, of->x + first * in_of(at), count, own.x);
    if (of->dx != NULL || !reads(at, &grid)) {
        lay_slopes(at, of->dy + first * out_of(at), count, own.dy);
    }
    if (of->dx != NULL) {
        back_to_x(at, &own, count, of->dx + first * in_of(at));
    }
}

/* Adds to dw of filters [from, to) the gradients of the stored groups, in their order. */
static void add_weights(void *arg, size_t from, size_t to)
{
    const job *of = arg;
    const ps_conv_strips *at = of->at;
    size_t depth = depth_of(at), out = out_of(at), size = out / at->filters;
    ps_gemm_grids grids = {
        .grid = grid_of(at), .a_row = size, .a_image = out, .b_image = at->strip};
    float *dw = of->dw + from * depth;

    for (uint32_t i = 0; i < of->count; i++) {
        parts own = parts_at(of, i);
        size_t count, first = group_at(of, i, &count);

        if (reads(at, &grids.grid)) {
            grids.images = count;
            at->gemm->onto_grids(to - from, depth, &grids, of->dy + first * out + from * size,
                                 own.x, own.rows, dw);
        } else {
            at->gemm->onto_windows(to - from, depth, (count - 1) * at->strip + at->places,
                                   own.dy + first_of(at) + from * at->slopes, at->slopes, own.x,
                                   own.rows, dw);
        }
    }
}

void ps_conv_strips_backward(const ps_conv_strips *at, ps_team *team, const float *w,
                             const float *x, const float *dy, float *dw, float *dx, float *scratch,
                             size_t n)
{
    job of = {.at = at,
              .team = team,
              .x = x,
              .dy = dy,
              .dw = dw,
              .dx = dx,
              .scratch = scratch,
              .common = parts_of(at, scratch),
              .n = n};

    ps_team_run(team, ps_team_threads(team), clear_both, &of);
    locate(at, of.common.rows);
    if (dx != NULL) {
        turn(at, w, of.common.turned);
    }
    for (; of.first < n; of.first += of.count * at->group) {
        size_t groups = (n - of.first + at->group - 1) / at->group;

        of.count = groups < ps_team_threads(team) ? (uint32_t)groups : ps_team_threads(team);
        ps_team_run(team, of.count, lay_group, &of);
        ps_team_ranges(team, at->filters, PS_GEMM_CUT, add_weights, &of);
    }
}
