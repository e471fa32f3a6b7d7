/* SPDX-License-Identifier: Apache-2.0 */
/* test_glyphs.c - the drawn digits are the same bytes everywhere, and digits. */
#include "common/data/glyphs.h"

#include "common/base/clock.h"
#include "common/base/sha256.h"
#include "common/data/glyph_shapes.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/data_rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void hash_of(ps_split split, uint32_t count, char hex[PS_SHA256_HEX_BYTES])
{
    ps_glyph_book *book = ps_glyph_book_create();
    uint8_t pixels[PS_GLYPH_PIXELS];
    ps_sha256 sha;

    ps_sha256_init(&sha);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t digit = ps_glyph_draw(book, split, i, pixels);

        ps_sha256_add(&sha, pixels, sizeof pixels);
        ps_sha256_add(&sha, &digit, 1);
    }
    ps_sha256_finish(&sha, hex);
    ps_glyph_book_destroy(book);
}

static void samples_are_what_they_were(void **state)
{
    char train[PS_SHA256_HEX_BYTES], test[PS_SHA256_HEX_BYTES];

    (void)state;
    /* Another value needs another GLYPHS_VERSION: hosts with the same version
     * believe that they have the same set. */
    hash_of(PS_TRAIN, 2000, train);
    hash_of(PS_TEST, 500, test);
    assert_string_equal(train, "437aa26820e2a8d65d3b3f4e204bd7f1e9567dde9f3e60edd771eba98ecb2df2");
    assert_string_equal(test, "d439cf503de50341361ab73c4e3118993e8f64674b59dc3907980048fc175f22");
}

static void a_sample_is_a_function_of_its_number(void **state)
{
    uint8_t first[PS_GLYPH_PIXELS], again[PS_GLYPH_PIXELS], other[PS_GLYPH_PIXELS];
    ps_glyph_book *book = ps_glyph_book_create();
    uint8_t digit = ps_glyph_draw(book, PS_TRAIN, 123, first);

    (void)state;
    (void)ps_glyph_draw(book, PS_TRAIN, 124, other);
    assert_memory_not_equal(first, other, sizeof first);
    (void)ps_glyph_draw(book, PS_TEST, 123, other);
    assert_memory_not_equal(first, other, sizeof first);
    assert_int_equal(ps_glyph_draw(book, PS_TRAIN, 123, again), digit);
    assert_memory_equal(first, again, sizeof first);
    ps_glyph_book_destroy(book);
}

static void every_shape_stays_in_its_square(void **state)
{
    (void)state;
    for (size_t digit = 0; digit < PS_GLYPH_DIGITS; digit++) {
        for (size_t style = 0; style < PS_GLYPH_STYLES; style++) {
            ps_glyph_shape shape;

            ps_glyph_shape_make(digit, style, &shape);
            assert_in_range(shape.count, 1, PS_GLYPH_SEGMENTS_MAX);
            for (size_t i = 0; i < shape.count; i++) {
                const ps_glyph_segment *s = &shape.segments[i];

                assert_true(s->x0 > 0.15f && s->x0 < 0.85f && s->y0 > 0.08f && s->y0 < 0.92f);
                assert_true(s->x1 > 0.15f && s->x1 < 0.85f && s->y1 > 0.08f && s->y1 < 0.92f);
            }
        }
    }
}

static void sine_and_cosine_are_close_to_libm_s(void **state)
{
    (void)state;
    for (double angle = -6.28; angle <= 6.28; angle += 0.01) {
        double s, c;

        ps_glyph_sincos(angle, &s, &c);
        assert_true(fabs(s - sin(angle)) < 1e-6);
        assert_true(fabs(c - cos(angle)) < 1e-6);
    }
}

static void digits_are_even_and_inked(void **state)
{
    enum { N = 5000 };
    ps_glyph_book *book = ps_glyph_book_create();
    uint32_t counts[10] = {0};

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        uint8_t pixels[PS_GLYPH_PIXELS];
        uint8_t digit = ps_glyph_draw(book, PS_TEST, i, pixels);
        size_t bright = 0;

        assert_true(digit < 10);
        counts[digit]++;
        for (size_t p = 0; p < PS_GLYPH_PIXELS; p++) {
            bright += pixels[p] >= 100;
        }
        /* A thin, small one to a fat 8; the least ink is above 139. */
        assert_in_range(bright, 8, PS_GLYPH_PIXELS / 2);
    }
    for (size_t d = 0; d < 10; d++) {
        assert_in_range(counts[d], 394, 606); /* five deviations of 21.2 */
    }
    ps_glyph_book_destroy(book);
}

/* Tells whose mean image is nearest: a crude reader that must do better than
 * chance by far, and be far from perfect. */
static void digits_can_be_told_but_not_trivially(void **state)
{
    enum { LEARNT = 4000, ASKED = 2000 };
    ps_glyph_book *book = ps_glyph_book_create();
    static double mean[10][PS_GLYPH_PIXELS];
    double counts[10] = {0};
    uint8_t pixels[PS_GLYPH_PIXELS];
    size_t right = 0;

    (void)state;
    for (uint32_t i = 0; i < LEARNT; i++) {
        uint8_t digit = ps_glyph_draw(book, PS_TRAIN, i, pixels);

        counts[digit]++;
        for (size_t p = 0; p < PS_GLYPH_PIXELS; p++) {
            mean[digit][p] += pixels[p];
        }
    }
    for (uint32_t i = 0; i < ASKED; i++) {
        uint8_t digit = ps_glyph_draw(book, PS_TEST, i, pixels);
        size_t best = 0;
        double least = INFINITY;

        for (size_t d = 0; d < 10; d++) {
            double distance = 0;

            for (size_t p = 0; p < PS_GLYPH_PIXELS; p++) {
                double off = pixels[p] - mean[d][p] / counts[d];

                distance += off * off;
            }
            if (distance < least) {
                least = distance;
                best = d;
            }
        }
        right += best == digit;
    }
    print_message("nearest mean: %.3f right\n", (double)right / ASKED);
    assert_in_range(right, ASKED * 4 / 10, ASKED * 85 / 100);
    ps_glyph_book_destroy(book);
}

static void no_more_is_drawn_than_asked_for(void **state)
{
    ps_dataset *data = NULL;
    ps_status st = data_rig_load("glyphs", NULL, 30, 20, &data);

    (void)state;
    assert_string_equal(st.text, "");
    assert_int_equal(ps_dataset_count(data, PS_TRAIN), 30);
    assert_int_equal(ps_dataset_count(data, PS_TEST), 20);
    ps_dataset_destroy(data);
}

static void the_source_loads_whole(void **state)
{
    ps_glyph_book *book = ps_glyph_book_create();
    ps_dataset *data = NULL;
    uint8_t pixels[PS_GLYPH_PIXELS];
    float x[PS_GLYPH_PIXELS];
    uint32_t index = 59999;
    float label;
    int64_t started_us = ps_clock_us();
    ps_status st = data_rig_load("glyphs", NULL, 0, 0, &data);

    (void)state;
    print_message("drawn in %.2f s\n", (double)(ps_clock_us() - started_us) * 1e-6);
    assert_string_equal(st.text, "");
    assert_int_equal(ps_dataset_count(data, PS_TRAIN), 60000);
    assert_int_equal(ps_dataset_count(data, PS_TEST), 10000);
    ps_dataset_gather(data, PS_TRAIN, &index, 0, 1, x, &label);
    assert_true(label == (float)ps_glyph_draw(book, PS_TRAIN, 59999, pixels));
    for (size_t i = 0; i < PS_GLYPH_PIXELS; i++) {
        assert_true(fabs((double)x[i] - (pixels[i] / 255.0 - 0.5)) < 1e-7);
    }
    ps_dataset_destroy(data);
    ps_glyph_book_destroy(book);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_what_they_were),
        cmocka_unit_test(a_sample_is_a_function_of_its_number),
        cmocka_unit_test(every_shape_stays_in_its_square),
        cmocka_unit_test(sine_and_cosine_are_close_to_libm_s),
        cmocka_unit_test(digits_are_even_and_inked),
        cmocka_unit_test(digits_can_be_told_but_not_trivially),
        cmocka_unit_test(no_more_is_drawn_than_asked_for),
        cmocka_unit_test(the_source_loads_whole),
    };

    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
