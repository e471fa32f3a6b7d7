/* SPDX-License-Identifier: Apache-2.0 */
/* glyphs.c - a data set without files: digits that the program draws.
 *
 * A sample is a shape that is bent, sheared, rotated, scaled and shifted by random draws, and
 * then inked: the ink of a pixel depends on the distance to the nearest stroke, and noise is
 * added. The code uses only sums, products, quotients and square roots of floats, which every
 * host rounds alike.
 */
#include "common/data/glyphs.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/glyph_shapes.h"
#include "common/data/nonzero.h"

#include <math.h>
#include <stdlib.h>

/* Version of the samples, part of the checksum of the set. Increase it whenever a sample
 * changes. */
enum { GLYPHS_VERSION = 1 };

/* Lengths (names in _px) are in pixels, 25 to a side of the unit square. The values were chosen so
 * that the network of the tutorial reaches 95 to 97.5 % accuracy after two epochs. */
static const float unit_px = 25.0f;
static const float turn_max = 0.41f, shear_max = 0.39f, bend_max = 0.53f;
static const float scale_min = 0.64f, scale_max = 1.08f, shift_max_px = 3.1f;
static const float pen_min_px = 0.55f, pen_max_px = 1.65f, edge_px = 1.1f;
static const float ink_min = 140.0f, noise_max = 44.0f;

/* A pixel farther than this from the middle line of a stroke gets no ink of it. */
static const float reach_px = 2.5f;

struct ps_glyph_book {
    ps_glyph_shape shapes[PS_GLYPH_DIGITS][PS_GLYPH_STYLES];
};

ps_glyph_book *ps_glyph_book_create(void)
{
    ps_glyph_book *book = ps_xcalloc(1, sizeof *book);

    for (size_t d = 0; d < PS_GLYPH_DIGITS; d++) {
        for (size_t s = 0; s < PS_GLYPH_STYLES; s++) {
            ps_glyph_shape_make(d, s, &book->shapes[d][s]);
        }
    }
    return book;
}

void ps_glyph_book_destroy(ps_glyph_book *book)
{
    free(book);
}

/* Indices of the draws of a sample. They are part of the definition of the set. */
enum {
    DIGIT,
    STYLE,
    TURN,
    SHEAR,
    WIDE,
    HIGH,
    LEFT,
    DOWN,
    BEND,
    PEN = BEND + 4,
    INK,
    NOISE,
    DITHER
};

/* The map from a point of the unit square, in which shapes are defined, to a point of the image. */
typedef struct placing {
    float xx, xy, yx, yy, x0, y0; /* affine part, in pixels */
    float bend[4];                /* factors of second-order terms, added before the affine part */
} placing;

static float between(uint64_t key, uint64_t what, float low, float high)
{
    return low + (high - low) * (float)ps_draw_unit(key, what);
}

/* Draws from -max to max, values in the middle more often: the mean of two uniform draws from -max
 * to max. */
static float around(uint64_t key, uint64_t what, float max)
{
    uint64_t bits = ps_draw_u64(key, what);
    float sum = (float)(bits >> 40) + (float)(bits & 0xffffff);

    return max * (sum * 0x1p-24f - 1.0f);
}

static void place(uint64_t key, placing *p)
{
    float wide = unit_px * between(key, WIDE, scale_min, scale_max);
    float high = unit_px * between(key, HIGH, scale_min, scale_max);
    float shear = around(key, SHEAR, shear_max), s, c;
    double sine, cosine;

    ps_glyph_sincos((double)around(key, TURN, turn_max), &sine, &cosine);
    s = (float)sine;
    c = (float)cosine;
    p->xx = c * wide;
    p->xy = (c * shear - s) * high;
    p->yx = s * wide;
    p->yy = (s * shear + c) * high;
    p->x0 = 0.5f * PS_GLYPH_SIDE + around(key, LEFT, shift_max_px);
    p->y0 = 0.5f * PS_GLYPH_SIDE + around(key, DOWN, shift_max_px);
    for (uint64_t i = 0; i < 4; i++) {
        p->bend[i] = around(key, BEND + i, bend_max);
    }
}

static void move(const placing *p, float x, float y, float *px, float *py)
{
    float u = x - 0.5f, v = y - 0.5f;
    float bu = u + p->bend[0] * v * v + p->bend[1] * u * v;
    float bv = v + p->bend[2] * u * u + p->bend[3] * u * v;

    *px = p->x0 + p->xx * bu + p->xy * bv;
    *py = p->y0 + p->yx * bu + p->yy * bv;
}

/* Writes a range [*from, *to) of pixels on one axis that has all whose centres are at most reach_px
 * away from [low, high]. */
static void span(float low, float high, int *from, int *to)
{
    int a = (int)(low - reach_px - 0.5f), b = (int)(high + reach_px + 0.5f);

    *from = a < 0 ? 0 : a;
    *to = b > PS_GLYPH_SIDE ? PS_GLYPH_SIDE : b;
}

static float lesser(float a, float b)
{
    return a < b ? a : b;
}

static float greater(float a, float b)
{
    return a > b ? a : b;
}

/* Lowers near (side, side), the squared distance from each pixel's centre to the nearest stroke so
 * far, where this segment is nearer. */
static void trace(float *restrict near, float x0, float y0, float x1, float y1)
{
    float dx = x1 - x0, dy = y1 - y0;
    float inverse = 1.0f / (dx * dx + dy * dy + 1e-12f);
    int left, right, top, bottom;

    span(lesser(x0, x1), greater(x0, x1), &left, &right);
    span(lesser(y0, y1), greater(y0, y1), &top, &bottom);
    for (int row = top; row < bottom; row++) {
        float v = (float)row + 0.5f - y0;
        float *restrict line = near + (size_t)row * PS_GLYPH_SIDE;

        for (int column = left; column < right; column++) {
            float u = (float)column + 0.5f - x0;
            float t = greater(lesser((u * dx + v * dy) * inverse, 1.0f), 0.0f);
            float eu = u - t * dx, ev = v - t * dy;

            line[column] = lesser(line[column], eu * eu + ev * ev);
        }
    }
}

static void ink(uint64_t key, const float *restrict near, uint8_t *restrict pixels)
{
    float pen = between(key, PEN, pen_min_px, pen_max_px);
    float full = between(key, INK, ink_min, 255.0f);
    float grain = between(key, NOISE, 0.0f, noise_max) / 256.0f;
    uint32_t dither = (uint32_t)ps_draw_u64(key, DITHER);

    for (uint32_t i = 0; i < PS_GLYPH_PIXELS; i++) {
        uint32_t bits = ps_draw_u32(dither, i);
        /* The sum of two bytes less 255 is noise with deviation 104; grain scales it. */
        float noise = (float)((bits & 0xff) + (bits >> 8 & 0xff)) - 255.0f;
        float cover = (pen - sqrtf(near[i])) / edge_px + 0.5f;
        float value = full * greater(lesser(cover, 1.0f), 0.0f) + grain * noise;

        pixels[i] = (uint8_t)greater(lesser(value, 255.0f), 0.0f);
    }
}

uint8_t ps_glyph_draw(const ps_glyph_book *book, ps_split split, uint32_t index, uint8_t *pixels)
{
    uint64_t key = ps_draw_key(GLYPHS_VERSION, PS_DRAW_GLYPHS, split, index, 0);
    size_t digit = (size_t)ps_draw_below(key, DIGIT, PS_GLYPH_DIGITS);
    const ps_glyph_shape *shape = &book->shapes[digit][ps_draw_below(key, STYLE, PS_GLYPH_STYLES)];
    float near[PS_GLYPH_PIXELS];
    placing p;

    for (size_t i = 0; i < PS_GLYPH_PIXELS; i++) {
        near[i] = reach_px * reach_px;
    }
    place(key, &p);
    for (size_t i = 0; i < shape->count; i++) {
        const ps_glyph_segment *s = &shape->segments[i];
        float x0, y0, x1, y1;

        move(&p, s->x0, s->y0, &x0, &y0);
        move(&p, s->x1, s->y1, &x1, &y1);
        trace(near, x0, y0, x1, y1);
    }
    ink(key, near, pixels);
    return (uint8_t)digit;
}

static ps_status draw_split(const ps_glyph_book *book, ps_split split, uint32_t count,
                            const char *scratch, ps_samples **out)
{
    ps_nonzero *images = ps_nonzero_create(PS_GLYPH_PIXELS, scratch, ps_split_memory(split));
    uint8_t pixels[PS_GLYPH_PIXELS];
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < count && ps_is_ok(&st); i++) {
        uint8_t digit = ps_glyph_draw(book, split, i, pixels);

        st = ps_nonzero_add(images, pixels, digit);
    }
    if (ps_is_ok(&st)) {
        st = ps_nonzero_end(images, out);
    }
    if (!ps_is_ok(&st)) {
        ps_nonzero_destroy(images);
    }
    return st;
}

static ps_status glyphs_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    (void)conf; /* there is only one set of glyphs */
    *facts = (ps_data_facts){.shape = {1, PS_GLYPH_SIDE, PS_GLYPH_SIDE},
                             .features = PS_GLYPH_PIXELS,
                             .classes = PS_GLYPH_DIGITS,
                             .target_width = 1,
                             .train_count = 60000,
                             .test_count = 10000};
    return ps_ok();
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    ps_data_facts facts;
    ps_status st = glyphs_facts(conf, &facts);
    ps_glyph_book *book;
    ps_dataset *data;

    (void)folder; /* there are no files */
    if (!ps_is_ok(&st)) {
        return st;
    }
    facts.train_count = ps_data_limited(facts.train_count, conf->train_limit);
    facts.test_count = ps_data_limited(facts.test_count, conf->test_limit);
    book = ps_glyph_book_create();
    data = ps_dataset_create(&facts);
    st = draw_split(book, PS_TRAIN, facts.train_count, scratch, &data->split[PS_TRAIN]);
    if (ps_is_ok(&st)) {
        st = draw_split(book, PS_TEST, facts.test_count, scratch, &data->split[PS_TEST]);
    }
    ps_glyph_book_destroy(book);
    if (!ps_is_ok(&st)) {
        ps_dataset_destroy(data);
        return st;
    }
    *out = data;
    return ps_ok();
}

const ps_data_source ps_data_source_glyphs = {
    .name = "glyphs",
    .summary = "28x28 digits drawn by the program, 60,000 train and 10,000 test, no files",
    .version = GLYPHS_VERSION,
    .facts = glyphs_facts,
    .load = load,
};
