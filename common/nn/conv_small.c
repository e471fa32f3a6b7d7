/* SPDX-License-Identifier: Apache-2.0 */
/* conv_small.c - see conv_small.h. Letters as in layer.h, F filters, K rows and columns of the
 * window, Q = H W values of a channel, P = OH OW places, S samples of a group.
 *
 * Tensors are transposed so that samples are innermost: x (C, Q, S), y and dy (F, P, S). A pair
 * is a place p and a weight k of the window that meets a value q of the image there. Then
 *
 *     y (f, p, .)  = sum over c and the pairs with place p of w (f, c, k) x (c, q, .)
 *     dx (c, q, .) = sum over f and the pairs with value q of w (f, c, k) dy (f, p, .)
 *     dw (., c, k) = sum over s and the pairs with weight k of x (c, q, s) dy (., p, s)
 *
 * gemm.h computes such sums by terms. For dw, dy is transposed again, filters innermost, FILTERS
 * at a time, and the result is transposed to the order of the weights. Products are computed in
 * blocks, so that what is read repeatedly stays in the nearest cache.
 */
#include "common/nn/conv_small.h"

#include "common/nn/sums.h"

#include <string.h>

enum {
    IMAGE_MAX = 64,        /* most values of a channel, of x or of y */
    SAMPLES_MIN = 16,      /* least samples of a batch: the lanes of an AVX-512 register */
    SAMPLES_MAX = 64,      /* most samples of a group */
    WEIGHTS_MAX = 1 << 22, /* most weights */
    BLOCK_VALUES = 2048,   /* about so many values are read for each tile of a product: 8 KiB */
    ROWS = 24,   /* rows of the result in a block: a multiple of the rows of the kernels' tiles */
    FILTERS = 32 /* filters whose gradients are in one block */
};

/* Returns the number of pairs in one dimension: of a place and a row (column) of its window that is
 * within the image. The image has `size` rows (columns). */
static size_t count_pairs(const ps_window *at, size_t places, size_t size)
{
    size_t count = 0;

    for (size_t k = 0; k < places * at->kernel; k++) {
        /* Padding makes the difference wrap to a large number, which is not below `size` either. */
        count += k / at->kernel * at->stride + k % at->kernel - at->padding < size;
    }
    return count;
}

bool ps_conv_small_fits(const ps_window *window, size_t filters, size_t batch, ps_conv_small *out)
{
    size_t taps = window->kernel * window->kernel;
    size_t places = window->out_rows * window->out_columns;
    ps_conv_small at = {.gemm = ps_gemm_of(ps_cpu_level()), .window = *window, .filters = filters};

    if (at.gemm == NULL || batch < SAMPLES_MIN || window->rows > IMAGE_MAX ||
        window->columns > IMAGE_MAX || window->rows * window->columns > IMAGE_MAX ||
        window->out_rows > IMAGE_MAX || window->out_columns > IMAGE_MAX || places > IMAGE_MAX ||
        window->channels > WEIGHTS_MAX / taps || filters > WEIGHTS_MAX / taps / window->channels) {
        return false;
    }
    at.group = batch < SAMPLES_MAX ? batch : SAMPLES_MAX;
    at.pairs = count_pairs(window, window->out_rows, window->rows) *
               count_pairs(window, window->out_columns, window->columns);
    *out = at;
    return 4 * at.pairs <= 3 * places * taps;
}

/* A weight of the window at one of its places, and the value of the image that it meets. */
typedef struct pair {
    uint32_t place, value, tap; /* p; q; i K + j for weight (i, j) */
} pair;

/* The parts of the scratch memory. */
typedef struct parts {
    float *x, *y, *dx;  /* (C, Q, S), (F, P, S), (C, Q, S) */
    float *slopes;      /* (F / FILTERS rounded up, P, S, FILTERS): dy */
    float *block;       /* (ROWS, K K, FILTERS): gradients that are added to dw */
    pair *pairs;        /* all pairs of the convolution */
    ps_gemm_term *term; /* the terms of all sums, one sum after the other */
    uint32_t *from;     /* index in `term` where each sum begins, and where the last one ends */
} parts;

static size_t taps_of(const ps_conv_small *at)
{
    return at->window.kernel * at->window.kernel;
}

static size_t values_of(const ps_conv_small *at)
{
    return at->window.rows * at->window.columns;
}

static size_t places_of(const ps_conv_small *at)
{
    return at->window.out_rows * at->window.out_columns;
}

static size_t up_to(size_t most, size_t n)
{
    return n < most ? n : most;
}

static parts parts_of(const ps_conv_small *at, float *scratch, size_t *floats)
{
    size_t in = at->window.channels * values_of(at) * at->group;
    size_t out = places_of(at) * at->group;
    size_t blocks = (at->filters + FILTERS - 1) / FILTERS;
    parts of = {.x = scratch};

    of.dx = of.x + in;
    of.y = of.dx + in;
    of.slopes = of.y + at->filters * out;
    of.block = of.slopes + blocks * FILTERS * out;
    of.pairs = (pair *)(void *)(of.block + ROWS * taps_of(at) * FILTERS);
    of.term = (ps_gemm_term *)(void *)(of.pairs + at->pairs);
    of.from = (uint32_t *)(void *)(of.term + at->pairs);
    *floats = (size_t)((float *)(void *)of.from - scratch) + IMAGE_MAX + taps_of(at) + 1;
    return of;
}

size_t ps_conv_small_scratch(const ps_conv_small *at)
{
    static float nothing[1]; /* an address to count from */
    size_t floats;

    (void)parts_of(at, nothing, &floats);
    return floats;
}

static void find_pairs(const ps_conv_small *of, pair *out)
{
    const ps_window *at = &of->window;

    for (size_t p = 0; p < places_of(of); p++) {
        for (size_t k = 0; k < taps_of(of); k++) {
            size_t row = p / at->out_columns * at->stride + k / at->kernel - at->padding;
            size_t column = p % at->out_columns * at->stride + k % at->kernel - at->padding;

            if (row < at->rows && column < at->columns) {
                *out++ = (pair){.place = (uint32_t)p,
                                .value = (uint32_t)(row * at->columns + column),
                                .tap = (uint32_t)k};
            }
        }
    }
}

/* How pairs become terms: the number of sums, the sum of a pair, and the factors of its term. */
typedef struct kind {
    size_t sums;
    uint32_t (*sum)(const pair *of);
    ps_gemm_term (*term)(const pair *of, size_t s);
} kind;

static uint32_t place_of(const pair *of)
{
    return of->place;
}

static uint32_t value_of(const pair *of)
{
    return of->value;
}

static uint32_t tap_of(const pair *of)
{
    return of->tap;
}

static ps_gemm_term term_of_place(const pair *of, size_t s)
{
    return (ps_gemm_term){.a = of->tap, .b = of->value * (uint32_t)s};
}

static ps_gemm_term term_of_value(const pair *of, size_t s)
{
    return (ps_gemm_term){.a = of->tap, .b = of->place * (uint32_t)s};
}

static ps_gemm_term term_of_tap(const pair *of, size_t s)
{
    return (ps_gemm_term){.a = of->value * (uint32_t)s, .b = of->place * (uint32_t)s * FILTERS};
}

/* Writes the terms of all pairs, sorted by their sum; pairs of one sum keep their order. */
static void list_terms(const ps_conv_small *at, const parts *of, kind by, size_t s)
{
    uint32_t *from = of->from + 1; /* where the next term of each sum goes */

    memset(of->from, 0, (by.sums + 1) * sizeof *of->from);
    for (size_t i = 0; i < at->pairs; i++) {
        uint32_t sum = by.sum(&of->pairs[i]);

        if (sum + 1 < by.sums) {
            from[sum + 1]++;
        }
    }
    for (size_t i = 1; i < by.sums; i++) {
        from[i] += from[i - 1];
    }
    for (size_t i = 0; i < at->pairs; i++) {
        of->term[from[by.sum(&of->pairs[i])]++] = by.term(&of->pairs[i], s);
    }
}

static void take_terms(const parts *of, size_t sum, ps_gemm_sum *into)
{
    into->term = of->term + of->from[sum];
    into->terms = of->from[sum + 1] - of->from[sum];
}

static void fill(float value, float *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = value;
    }
}

/* A group of s samples of a pass that a team shares. */
typedef struct job {
    const ps_conv_small *at;
    ps_team *team;
    parts of;
    float *scratch;
    const float *w, *bias, *x, *dy; /* x and dy of the group */
    float *y, *dw, *dbias, *dx;     /* y and dx of the group */
    size_t s;
} job;

enum { LINE = 16 }; /* floats of a cache line */

static size_t in_of(const ps_conv_small *at)
{
    return at->window.channels * values_of(at);
}

static size_t out_of(const ps_conv_small *at)
{
    return at->filters * places_of(at);
}

/* The four functions below transpose values [from, to) of all samples of a group: x and dy so that
 * samples are innermost, y and dx back. */
static void turn_x(void *arg, size_t from, size_t to)
{
    const job *j = arg;

    ps_turn(j->x + from, in_of(j->at), j->s, to - from, j->of.x + from * j->s, j->s);
}

static void turn_dy(void *arg, size_t from, size_t to)
{
    const job *j = arg;

    ps_turn(j->dy + from, out_of(j->at), j->s, to - from, j->of.y + from * j->s, j->s);
}

static void return_y(void *arg, size_t from, size_t to)
{
    const job *j = arg;

    ps_turn(j->of.y + from * j->s, j->s, to - from, j->s, j->y + from, out_of(j->at));
}

static void return_dx(void *arg, size_t from, size_t to)
{
    const job *j = arg;

    ps_turn(j->of.dx + from * j->s, j->s, to - from, j->s, j->dx + from, in_of(j->at));
}

/* Computes of.y = w x + bias for at most ROWS filters, from item * ROWS on. */
static void multiply(void *arg, uint32_t item, uint32_t thread)
{
    const job *j = arg;
    const ps_conv_small *at = j->at;
    size_t taps = taps_of(at), channels = at->window.channels, places = places_of(at), s = j->s;
    size_t block = BLOCK_VALUES / (values_of(at) * s) + 1, f = (size_t)item * ROWS;
    ps_gemm_sum sum = {.m = up_to(ROWS, at->filters - f),
                       .n = s,
                       .a_row = channels * taps,
                       .a_step = taps,
                       .b_step = values_of(at) * s,
                       .c_row = places * s};

    (void)thread;
    for (size_t i = f; j->bias != NULL && i < f + sum.m; i++) {
        fill(j->bias[i], j->of.y + i * places * s, places * s);
    }
    for (size_t c = 0; c < channels; c += block) {
        sum.steps = up_to(block, channels - c);
        for (size_t p = 0; p < places; p++) {
            take_terms(&j->of, p, &sum);
            at->gemm->by_terms(&sum, j->w + (f * channels + c) * taps, j->of.x + c * sum.b_step,
                               j->bias != NULL || c > 0, j->of.y + (f * places + p) * s);
        }
    }
}

static uint32_t items_of(size_t size, size_t of_item)
{
    return (uint32_t)((size + of_item - 1) / of_item);
}

void ps_conv_small_forward(const ps_conv_small *at, ps_team *team, const float *w,
                           const float *bias, const float *x, float *y, float *scratch, size_t n)
{
    size_t floats;
    job j = {.at = at,
             .team = team,
             .of = parts_of(at, scratch, &floats),
             .scratch = scratch,
             .w = w,
             .bias = bias};

    find_pairs(at, j.of.pairs);
    for (size_t i = 0; i < n; i += at->group) {
        j.s = up_to(at->group, n - i);
        j.x = x + i * in_of(at);
        j.y = y + i * out_of(at);
        ps_team_ranges(team, in_of(at), LINE, turn_x, &j);
        list_terms(at, &j.of, (kind){places_of(at), place_of, term_of_place}, j.s);
        ps_team_run(team, items_of(at->filters, ROWS), multiply, &j);
        ps_team_ranges(team, out_of(at), LINE, return_y, &j);
    }
}

/* Computes of.dx = w^T dy for at most ROWS channels, from item * ROWS on. dy is in of.y. */
static void multiply_back(void *arg, uint32_t item, uint32_t thread)
{
    const job *j = arg;
    const ps_conv_small *at = j->at;
    size_t taps = taps_of(at), channels = at->window.channels, values = values_of(at), s = j->s;
    size_t block = BLOCK_VALUES / (places_of(at) * s) + 1, c = (size_t)item * ROWS;
    ps_gemm_sum sum = {.m = up_to(ROWS, channels - c),
                       .n = s,
                       .a_row = taps,
                       .a_step = channels * taps,
                       .b_step = places_of(at) * s,
                       .c_row = values * s};

    (void)thread;
    for (size_t f = 0; f < at->filters; f += block) {
        sum.steps = up_to(block, at->filters - f);
        for (size_t q = 0; q < values; q++) {
            take_terms(&j->of, q, &sum);
            at->gemm->by_terms(&sum, j->w + (f * channels + c) * taps, j->of.y + f * sum.b_step,
                               f > 0, j->of.dx + (c * values + q) * s);
        }
    }
}

/* Adds to dw and dbias the gradients by weights and bias of at most FILTERS filters, from item *
 * FILTERS on. Transposes dy of these filters first, filters innermost. */
static void add_up(void *arg, uint32_t item, uint32_t thread)
{
    const job *j = arg;
    const ps_conv_small *at = j->at;
    size_t taps = taps_of(at), channels = at->window.channels, places = places_of(at), s = j->s;
    size_t f = (size_t)item * FILTERS, floats;
    float *slopes = j->of.slopes + f * places * s;
    float *block = parts_of(at, ps_team_scratch(j->team, thread, j->scratch), &floats).block;
    ps_gemm_sum sum = {.n = up_to(FILTERS, at->filters - f),
                       .steps = s,
                       .a_row = values_of(at) * s,
                       .a_step = 1,
                       .b_step = FILTERS,
                       .c_row = taps * FILTERS};

    for (size_t i = f; j->dbias != NULL && i < f + sum.n; i++) {
        j->dbias[i] += ps_sum_f32(j->of.y + i * places * s, places * s);
    }
    for (size_t p = 0; p < places; p++) {
        ps_turn(j->of.y + (f * places + p) * s, places * s, sum.n, s, slopes + p * FILTERS * s,
                FILTERS);
    }
    for (size_t c = 0; c < channels; c += ROWS) {
        sum.m = up_to(ROWS, channels - c);
        for (size_t k = 0; k < taps; k++) {
            take_terms(&j->of, k, &sum);
            at->gemm->by_terms(&sum, j->of.x + c * sum.a_row, slopes, false, block + k * FILTERS);
        }
        ps_turn_onto(block, FILTERS, sum.m * taps, sum.n, j->dw + (f * channels + c) * taps,
                     channels * taps);
    }
}

void ps_conv_small_backward(const ps_conv_small *at, ps_team *team, const float *w, const float *x,
                            const float *dy, float *dw, float *dbias, float *dx, float *scratch,
                            size_t n)
{
    size_t floats;
    job j = {.at = at,
             .team = team,
             .of = parts_of(at, scratch, &floats),
             .scratch = scratch,
             .w = w,
             .dw = dw,
             .dbias = dbias};

    find_pairs(at, j.of.pairs);
    for (size_t i = 0; i < n; i += at->group) {
        j.s = up_to(at->group, n - i);
        j.x = x + i * in_of(at);
        j.dy = dy + i * out_of(at);
        ps_team_ranges(team, in_of(at), LINE, turn_x, &j);
        ps_team_ranges(team, out_of(at), LINE, turn_dy, &j);
        list_terms(at, &j.of, (kind){taps_of(at), tap_of, term_of_tap}, j.s);
        ps_team_run(team, items_of(at->filters, FILTERS), add_up, &j);
        if (dx != NULL) {
            j.dx = dx + i * in_of(at);
            list_terms(at, &j.of, (kind){values_of(at), value_of, term_of_value}, j.s);
            ps_team_run(team, items_of(at->window.channels, ROWS), multiply_back, &j);
            ps_team_ranges(team, in_of(at), LINE, return_dx, &j);
        }
    }
}
