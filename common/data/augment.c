/* SPDX-License-Identifier: Apache-2.0 */
/* augment.c - random shifts and mirroring of training images: crop and flip.
 *
 * crop pads an image by `pad` pixels on each side and cuts an image of the old size out of it,
 * at a uniformly drawn place (He et al. 2016, arXiv 1512.03385, section 4.2). flip mirrors left
 * and right. Test images are not changed.
 */
#include "common/base/draw.h"
#include "common/data/transform.h"

#include <string.h>

static const ps_param crop_params[] = {
    {.name = "pad",
     .value = 4,
     .min = 1,
     .max = 64,
     .is_integer = true,
     .help = "pixels added to each side"},
    {.name = "fill", .value = 0, .min = -1e6, .max = 1e6, .help = "value of the added pixels"},
    {.name = NULL},
};

static const ps_param flip_params[] = {
    {.name = "chance",
     .value = 0.5,
     .min = 0,
     .max = 1,
     .help = "probability that an image is mirrored"},
    {.name = NULL},
};

static ps_status plan(const ps_params *unused, ps_data_facts *facts)
{
    (void)unused;
    if (facts->shape[1] < 2 || facts->shape[2] < 2 || facts->ids > 0) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "samples are (%u, %u, %u); images with at least 2 rows and 2 columns are expected",
            facts->shape[0], facts->shape[1], facts->shape[2]);
    }
    return ps_ok();
}

/* Shifts a row in place: the value of column c + right moves to column c. Where there is no such
 * column, c becomes `fill`. */
static void shift_row(float *row, int width, int right, float fill)
{
    int n = width - (right < 0 ? -right : right);

    if (n > 0 && right != 0) {
        memmove(row + (right < 0 ? -right : 0), row + (right > 0 ? right : 0),
                (size_t)n * sizeof *row);
    }
    for (int c = 0; c < width; c++) {
        if (c + right < 0 || c + right >= width) {
            row[c] = fill;
        }
    }
}

/* Shifts a plane in place: the value at (r + down, c + right) moves to (r, c). Where there is no
 * such value, (r, c) becomes `fill`. Rows are visited in the order in which no row is overwritten
 * before it is read. */
static void shift(float *plane, int height, int width, int down, int right, float fill)
{
    for (int i = 0; i < height; i++) {
        int r = down >= 0 ? i : height - 1 - i, from = r + down;
        float *row = plane + (ptrdiff_t)r * width;

        if (from < 0 || from >= height) {
            for (int c = 0; c < width; c++) {
                row[c] = fill;
            }
            continue;
        }
        if (down != 0) {
            memcpy(row, plane + (ptrdiff_t)from * width, (size_t)width * sizeof *row);
        }
        shift_row(row, width, right, fill);
    }
}

static void crop(const ps_transforming *at, ps_split split, uint64_t key, float *x, float *targets)
{
    int pad = (int)at->params->v[0];
    int height = (int)at->facts.shape[1], width = (int)at->facts.shape[2];
    int down = (int)ps_draw_below(key, 0, 2 * (uint64_t)pad + 1) - pad;
    int right = (int)ps_draw_below(key, 1, 2 * (uint64_t)pad + 1) - pad;

    (void)targets;
    for (uint32_t c = 0; split == PS_TRAIN && c < at->facts.shape[0]; c++) {
        shift(x + (size_t)c * (size_t)(height * width), height, width, down, right,
              (float)at->params->v[1]);
    }
}

static void flip(const ps_transforming *at, ps_split split, uint64_t key, float *x, float *targets)
{
    uint32_t width = at->facts.shape[2], rows = at->facts.shape[0] * at->facts.shape[1];

    (void)targets;
    if (split == PS_TEST || ps_draw_unit(key, 0) >= at->params->v[0]) {
        return;
    }
    for (uint32_t r = 0; r < rows; r++) {
        float *row = x + (size_t)r * width;

        for (uint32_t a = 0, b = width - 1; a < b; a++, b--) {
            float held = row[a];

            row[a] = row[b];
            row[b] = held;
        }
    }
}

const ps_transform ps_transform_crop = {
    .name = "crop",
    .summary = "pads training images, then cuts them to size at a random place",
    .params = crop_params,
    .plan = plan,
    .draws = true,
    .sample = crop,
};

const ps_transform ps_transform_flip = {
    .name = "flip",
    .summary = "mirrors training images left and right with probability `chance`",
    .params = flip_params,
    .plan = plan,
    .draws = true,
    .sample = flip,
};
