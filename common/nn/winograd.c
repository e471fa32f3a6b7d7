/* SPDX-License-Identifier: Apache-2.0 */
/* winograd.c - see winograd.h. Letters as in layer.h, F filters, T tiles of a block.
 *
 * A transformed image or gradient is 16 matrices (C or F, T), the transformed weights are 16
 * matrices (F, C). A block is as many tiles as fit a core's cache. For the gradient by x the
 * window is reversed. Its transform has the same 16 matrices in another order: reversing g
 * swaps the first and the last row of G g.
 */
#include "common/nn/winograd.h"

#include "common/base/clones.h"
#include "common/nn/copy_rows.h"

enum {
    NUMBERS = PS_TILE_NUMBERS,
    WINDOW = 9,
    SIDE = 3,
    /* least channels and filters; with fewer, the transforms cost more than they save */
    LEAST_CHANNELS = 8,
    LEAST_ACROSS = 4,
    WEIGHTS_MAX = 1 << 16,  /* most pairs of channel and filter */
    BLOCK_VALUES = 1 << 18, /* most transformed values of a block of several rows of tiles: 1 MiB */
    BLOCK_TILES = 512,
    SPARE = 16 /* values behind each of the 16 matrices; see winograd_tiles.h */
};

/* Chooses the size of the blocks of a convolution. */
static void cut(ps_winograd_way *way)
{
    size_t most = BLOCK_VALUES / (NUMBERS * (way->channels + way->filters)), whole;

    most = most > BLOCK_TILES ? BLOCK_TILES : most;
    way->down = (way->out_rows + 1) / 2;
    way->across = (way->out_columns + 1) / 2;
    whole = way->down * way->across;
    way->images = most / whole > 0 ? most / whole : 1;
    way->band = most / way->across > 0 ? most / way->across : 1;
    way->band = way->band > way->down ? way->down : way->band;
    way->tiles = way->images * way->band * way->across;
    way->pitch = 2 * way->across + 2;
    way->plane = (2 * way->band + 2 + PS_TILE_SPARE_ROWS) * way->pitch + PS_TILE_SPARE_VALUES;
}

bool ps_winograd_fits(const ps_window *window, size_t filters, ps_winograd *out)
{
    ps_winograd at = {
        .gemm = ps_gemm_of(ps_cpu_level()),
        .tiles = ps_winograd_tiles_of(ps_cpu_level()),
        .forward = {.channels = window->channels,
                    .rows = window->rows,
                    .columns = window->columns,
                    .padding = window->padding,
                    .filters = filters,
                    .out_rows = window->out_rows,
                    .out_columns = window->out_columns},
    };

    if (at.gemm == NULL || at.tiles == NULL || window->kernel != SIDE || window->stride != 1 ||
        window->padding >= SIDE || window->channels < LEAST_CHANNELS || filters < LEAST_CHANNELS ||
        window->channels > WEIGHTS_MAX || filters > WEIGHTS_MAX / window->channels) {
        return false;
    }
    at.back = (ps_winograd_way){.channels = filters,
                                .rows = window->out_rows,
                                .columns = window->out_columns,
                                .padding = SIDE - 1 - window->padding,
                                .filters = window->channels,
                                .out_rows = window->rows,
                                .out_columns = window->columns};
    cut(&at.forward);
    cut(&at.back);
    *out = at;
    return at.forward.across >= LEAST_ACROSS;
}

/* The parts of the scratch memory. */
typedef struct matrices {
    float *w;       /* (16, F, C): the transformed weights, or their transformed gradient */
    float *turned;  /* (9, F, C): the weights, or their gradient, transposed */
    float *between; /* (12, F, C): G g, or u G in backward */
    /* (16, C, T) and (16, F, T), each of the 16 matrices followed by SPARE values */
    float *in, *out;
    float *plane; /* a padded band of an image */
    float *sums;  /* (16, F, C): a block's part of the gradient of w; see has_sums */
} matrices;

/* Returns whether the parts of the gradient by the weights are at most half as large as the
 * transformed blocks that they are made of. Then each thread of a team makes the part of its block
 * by itself, and hands over that part instead of its block. */
static bool has_sums(const ps_winograd_way *way)
{
    return 2 * way->channels * way->filters <= way->tiles * (way->channels + way->filters);
}

static size_t numbers_of(size_t channels, size_t tiles)
{
    return NUMBERS * (channels * tiles + SPARE);
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

static matrices matrices_of(const ps_winograd *at, float *scratch, size_t *floats)
{
    const ps_winograd_way *f = &at->forward, *b = &at->back;
    size_t pairs = f->channels * f->filters;
    matrices of = {.w = scratch};

    of.turned = of.w + NUMBERS * pairs;
    of.between = of.turned + WINDOW * pairs;
    of.in = of.between + 4 * SIDE * pairs;
    of.out = of.in + most(numbers_of(f->channels, f->tiles), numbers_of(b->channels, b->tiles));
    of.plane = of.out + most(numbers_of(f->filters, f->tiles), numbers_of(b->filters, b->tiles));
    of.sums = of.plane + most(f->plane, b->plane);
    *floats = (size_t)(of.sums - scratch) + (has_sums(f) ? NUMBERS * pairs : 0);
    return of;
}

size_t ps_winograd_scratch(const ps_winograd *at)
{
    static float nothing[1]; /* an address to count from */
    size_t floats;

    (void)matrices_of(at, nothing, &floats);
    return floats;
}

/* Computes G g: three vectors of n values become four, which are `apart` values apart. */
PS_CLONES(spread, (g0, g1, g2, to, apart, n), const float *restrict g0, const float *restrict g1,
          const float *restrict g2, float *restrict to, size_t apart, size_t n)
{
    float *restrict u1 = to + apart, *restrict u2 = to + 2 * apart, *restrict u3 = to + 3 * apart;

    for (size_t i = 0; i < n; i++) {
        float ends = 0.5f * (g0[i] + g2[i]), middle = 0.5f * g1[i];

        to[i] = g0[i];
        u1[i] = ends + middle;
        u2[i] = ends - middle;
        u3[i] = g2[i];
    }
}

/* Computes G^T u, from four vectors to three. */
PS_CLONES(collect, (u, apart, g0, g1, g2, n), const float *restrict u, size_t apart,
          float *restrict g0, float *restrict g1, float *restrict g2, size_t n)
{
    const float *restrict u1 = u + apart, *restrict u2 = u + 2 * apart;
    const float *restrict u3 = u + 3 * apart;

    for (size_t i = 0; i < n; i++) {
        float sum = 0.5f * (u1[i] + u2[i]);

        g0[i] = u[i] + sum;
        g1[i] = 0.5f * (u1[i] - u2[i]);
        g2[i] = u3[i] + sum;
    }
}

/* Weights, or their gradient, on their way to or from the 16 matrices. */
typedef struct turning {
    matrices of;
    size_t pairs;
    const float *w;
    float *dw;
} turning;

/* Computes of.w = G g G^T for the windows g of pairs [from, to). */
static void turn_pairs(void *arg, size_t from, size_t to)
{
    const turning *at = arg;
    size_t pairs = at->pairs, n = to - from;

    ps_turn(at->w + from * WINDOW, WINDOW, n, WINDOW, at->of.turned + from, pairs);
    for (size_t j = 0; j < SIDE; j++) {
        const float *g = at->of.turned + j * pairs + from;

        spread(g, g + SIDE * pairs, g + 2 * SIDE * pairs, at->of.between + j * pairs + from,
               SIDE * pairs, n);
    }
    for (size_t i = 0; i < SIDE + 1; i++) {
        const float *g = at->of.between + i * SIDE * pairs + from;

        spread(g, g + pairs, g + 2 * pairs, at->of.w + i * (SIDE + 1) * pairs + from, pairs, n);
    }
}

/* Adds G^T u G to dw for the windows of pairs [from, to); u is its transformed gradient in of.w. */
static void return_pairs(void *arg, size_t from, size_t to)
{
    const turning *at = arg;
    size_t pairs = at->pairs, n = to - from;

    for (size_t i = 0; i < SIDE + 1; i++) {
        float *g = at->of.between + i * SIDE * pairs + from;

        collect(at->of.w + i * (SIDE + 1) * pairs + from, pairs, g, g + pairs, g + 2 * pairs, n);
    }
    for (size_t j = 0; j < SIDE; j++) {
        float *g = at->of.turned + j * pairs + from;

        collect(at->of.between + j * pairs + from, SIDE * pairs, g, g + SIDE * pairs,
                g + 2 * SIDE * pairs, n);
    }
    for (size_t p = from; p < to; p++) {
        for (size_t k = 0; k < WINDOW; k++) {
            at->dw[p * WINDOW + k] += at->of.turned[k * pairs + p];
        }
    }
}

enum {
    PAIRS_MIN = 512, /* fewer windows are transformed by one thread */
    PAIRS_ALIGN = 16 /* pairs whose numbers fill a cache line */
};

static void turn_weights(ps_team *team, turning *at)
{
    ps_team_ranges(ps_team_for(team, at->pairs, PAIRS_MIN), at->pairs, PAIRS_ALIGN, turn_pairs, at);
}

static void return_weights(ps_team *team, turning *at)
{
    ps_team_ranges(ps_team_for(team, at->pairs, PAIRS_MIN), at->pairs, PAIRS_ALIGN, return_pairs,
                   at);
}

/* A block of tiles: of each of `images` images from `image` on, `band` rows of tiles from `row`
 * on. */
typedef struct block {
    size_t image, images, row, band, tiles;
} block;

static size_t bands_of(const ps_winograd_way *way)
{
    return (way->down + way->band - 1) / way->band;
}

/* Returns the number of blocks of n images. */
static uint32_t blocks_of(const ps_winograd_way *way, size_t n)
{
    return (uint32_t)((n + way->images - 1) / way->images * bands_of(way));
}

static block block_at(const ps_winograd_way *way, size_t n, size_t number)
{
    block at = {.image = number / bands_of(way) * way->images,
                .row = number % bands_of(way) * way->band};

    at.band = way->down - at.row < way->band ? way->down - at.row : way->band;
    at.images = n - at.image < way->images ? n - at.image : way->images;
    at.tiles = at.images * at.band * way->across;
    return at;
}

/* Copies to `plane` the rows of an image (rows, columns) that the rows of tiles of `at` read.
 * Writes zeros for rows of padding; the padding left and right is zero already. */
static void pad(const float *image, size_t rows, size_t columns, size_t padding, size_t pitch,
                const block *at, float *plane)
{
    for (size_t r = 0; r < 2 * at->band + 2; r++) {
        size_t row = 2 * at->row + r;
        float *to = plane + r * pitch + padding;

        if (row < padding || row - padding >= rows) {
            memset(to, 0, columns * sizeof *to);
        } else {
            ps_copy_row(image + (row - padding) * columns, to, columns);
        }
    }
}

typedef void turn_fn(const ps_tile_band *band, const float *image, float *to, size_t apart);

/* Transforms the tiles of block `at` of x (n, channels, rows, columns) by `turn` and writes them to
 * `to`. An image gets `padding` zeros on each side; `plane` is memory for a padded band. */
static void turn_images(const ps_winograd_way *way, turn_fn *turn, const float *x, size_t channels,
                        size_t rows, size_t columns, size_t padding, const block *at, float *plane,
                        float *to)
{
    ps_tile_band band = {.down = at->band, .across = way->across, .pitch = way->pitch};

    size_t from = 2 * at->row < rows ? 2 * at->row : rows;
    size_t some = rows - from < 2 * at->band ? rows - from : 2 * at->band;

    memset(plane, 0, way->plane * sizeof *plane);
    for (size_t c = 0; c < channels; c++) {
        for (size_t i = 0; i < at->images; i++) {
            size_t next = i + 1 < at->images ? i + 1 : 0, of = c + (next == 0);

            if (of < channels) {
                ps_prefetch(x + ((at->image + next) * channels + of) * rows * columns +
                                from * columns,
                            some * columns);
            }
            pad(x + ((at->image + i) * channels + c) * rows * columns, rows, columns, padding,
                way->pitch, at, plane);
            turn(&band, plane, to, channels * at->tiles + SPARE);
            to += at->band * way->across;
        }
    }
}

static void read_images(const ps_winograd *of, const ps_winograd_way *way, const float *x,
                        const block *at, const matrices *parts)
{
    turn_images(way, of->tiles->from_input, x, way->channels, way->rows, way->columns, way->padding,
                at, parts->plane, parts->in);
}

static void write_images(const ps_winograd *of, const ps_winograd_way *way, const block *at,
                         const matrices *parts, const float *bias, float *y)
{
    ps_tile_band band = {.down = at->band, .across = way->across};
    size_t size = way->out_rows * way->out_columns, from = 2 * at->row;
    size_t left = way->out_rows - from, rows = left < 2 * at->band ? left : 2 * at->band;
    const float *numbers = parts->out;

    for (size_t f = 0; f < way->filters; f++) {
        for (size_t i = 0; i < at->images; i++) {
            size_t next = i + 1 < at->images ? i + 1 : 0, g = f + (next == 0);

            if (g < way->filters) {
                ps_prefetch(y + ((at->image + next) * way->filters + g) * size +
                                from * way->out_columns,
                            rows * way->out_columns);
            }
            of->tiles->to_output(
                &band, numbers, way->filters * at->tiles + SPARE, bias == NULL ? 0.0f : bias[f],
                y + ((at->image + i) * way->filters + f) * size + from * way->out_columns,
                way->out_rows - from, way->out_columns);
            numbers += at->band * way->across;
        }
    }
}

/* A convolution block by block: forward, or the gradient by x. Threads share the blocks; a block's
 * matrices lie in the scratch memory of its thread. */
typedef struct sweep {
    const ps_winograd *at;
    const ps_winograd_way *way;
    ps_team *team;
    const float *w; /* the transformed weights */
    bool is_back;   /* w is that of forward, to be read transposed and with windows reversed */
    const float *from, *bias;
    float *to, *scratch;
    size_t n;
} sweep;

static void compute_block(void *arg, uint32_t item, uint32_t thread)
{
    static const unsigned char turned[SIDE + 1] = {3, 1, 2, 0};
    const sweep *of = arg;
    const ps_winograd_way *way = of->way;
    size_t pairs = way->channels * way->filters, floats;
    matrices own = matrices_of(of->at, ps_team_scratch(of->team, thread, of->scratch), &floats);
    block here = block_at(way, of->n, item);

    read_images(of->at, way, of->from, &here, &own);
    for (size_t k = 0; k < NUMBERS; k++) {
        size_t window = of->is_back ? (size_t)turned[k / 4] * 4 + turned[k % 4] : k;

        of->at->gemm->over_rows(way->filters, here.tiles, way->channels, of->w + window * pairs,
                                of->is_back ? 1 : way->channels, of->is_back ? way->filters : 1,
                                own.in + k * (way->channels * here.tiles + SPARE), false,
                                own.out + k * (way->filters * here.tiles + SPARE));
    }
    write_images(of->at, way, &here, &own, of->bias, of->to);
}

void ps_winograd_forward(const ps_winograd *at, ps_team *team, const float *w, const float *bias,
                         const float *x, float *y, float *scratch, size_t n)
{
    const ps_winograd_way *way = &at->forward;
    size_t floats;
    turning weights = {
        .of = matrices_of(at, scratch, &floats), .pairs = way->channels * way->filters, .w = w};
    sweep of = {.at = at,
                .way = way,
                .team = team,
                .w = weights.of.w,
                .from = x,
                .bias = bias,
                .to = y,
                .scratch = scratch,
                .n = n};

    turn_weights(team, &weights);
    ps_team_run(team, blocks_of(way, n), compute_block, &of);
}

/* The gradient by the weights. As many blocks as there are threads are transformed at once. Then
 * each of the 16 products is added up over these blocks, in their order, by one thread. With
 * by_sums (see has_sums), each thread also computes the 16 products of its block, and then each
 * value of these is added up over the blocks, in their order. */
typedef struct slopes {
    const ps_winograd *at;
    ps_team *team;
    const float *x, *dy;
    float *w, *scratch;
    size_t n;
    bool by_sums;
    uint32_t first, count; /* the blocks that are transformed */
} slopes;

/* Returns the matrices of the block with this number among those that are transformed. */
static matrices matrices_at(const slopes *of, uint32_t number)
{
    size_t floats;

    return matrices_of(of->at, ps_team_scratch(of->team, number, of->scratch), &floats);
}

static void transform_block(void *arg, uint32_t item, uint32_t thread)
{
    const slopes *of = arg;
    const ps_winograd_way *way = &of->at->forward;
    matrices own = matrices_at(of, item);
    block here = block_at(way, of->n, of->first + item);

    (void)thread;
    read_images(of->at, way, of->x, &here, &own);
    turn_images(way, of->at->tiles->from_slope, of->dy, way->filters, way->out_rows,
                way->out_columns, 0, &here, own.plane, own.out);
    for (size_t k = 0; of->by_sums && k < NUMBERS; k++) {
        of->at->gemm->by_columns(way->filters, way->channels, here.tiles,
                                 own.out + k * (way->filters * here.tiles + SPARE),
                                 own.in + k * (way->channels * here.tiles + SPARE), false,
                                 own.sums + k * way->channels * way->filters);
    }
}

PS_CLONES(add_values, (a, to, n), const float *restrict a, float *restrict to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += a[i];
    }
}

/* Adds values [from, to) of the sums of the blocks to w. Clears them in w before the first blocks.
 * As w begins at +0 it is never -0, and so has the bits that by_columns leaves when it adds to w
 * itself. */
static void add_sums(void *arg, size_t from, size_t to)
{
    const slopes *of = arg;

    if (of->first == 0) {
        memset(of->w + from, 0, (to - from) * sizeof *of->w);
    }
    for (uint32_t i = 0; i < of->count; i++) {
        add_values(matrices_at(of, i).sums + from, of->w + from, to - from);
    }
}

static void add_product(void *arg, uint32_t item, uint32_t thread)
{
    const slopes *of = arg;
    const ps_winograd_way *way = &of->at->forward;
    size_t pairs = way->channels * way->filters;
    float *w = of->w + item * pairs;

    (void)thread;
    if (of->first == 0) {
        memset(w, 0, pairs * sizeof *w);
    }
    for (uint32_t i = 0; i < of->count; i++) {
        matrices own = matrices_at(of, i);
        block here = block_at(way, of->n, of->first + i);

        of->at->gemm->by_columns(way->filters, way->channels, here.tiles,
                                 own.out + item * (way->filters * here.tiles + SPARE),
                                 own.in + item * (way->channels * here.tiles + SPARE), true, w);
    }
}

void ps_winograd_backward(const ps_winograd *at, ps_team *team, const float *w, const float *x,
                          const float *dy, float *dw, float *dx, float *scratch, size_t n)
{
    const ps_winograd_way *way = &at->forward;
    size_t floats;
    turning weights = {.of = matrices_of(at, scratch, &floats),
                       .pairs = way->channels * way->filters,
                       .w = w,
                       .dw = dw};
    slopes of = {
        .at = at, .team = team, .x = x, .dy = dy, .w = weights.of.w, .scratch = scratch, .n = n};
    sweep back = {.at = at,
                  .way = &at->back,
                  .team = team,
                  .w = weights.of.w,
                  .is_back = true,
                  .from = dy,
                  .to = dx,
                  .scratch = scratch,
                  .n = n};
    uint32_t blocks = blocks_of(way, n), threads = ps_team_threads(team);

    of.by_sums = threads > 1 && has_sums(way);
    for (; of.first < blocks; of.first += of.count) {
        of.count = blocks - of.first < threads ? blocks - of.first : threads;
        ps_team_run(team, of.count, transform_block, &of);
        if (of.by_sums) {
            ps_team_ranges(ps_team_for(team, NUMBERS * weights.pairs, PS_TEAM_VALUES),
                           NUMBERS * weights.pairs, PAIRS_ALIGN, add_sums, &of);
        } else {
            ps_team_run(team, NUMBERS, add_product, &of);
        }
    }
    return_weights(team, &weights);
    if (dx != NULL) {
        turn_weights(team, &weights);
        ps_team_run(team, blocks_of(&at->back, n), compute_block, &back);
    }
}
