/* SPDX-License-Identifier: Apache-2.0 */
/* disk_images.c - see disk_images.h. */
#include "tests/bench/disk_images.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/data/dataset.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CHUNK = 1000, TEST_IMAGES = 10000 };

static void must(bool is_good, const char *what)
{
    if (!is_good) {
        fprintf(stderr, "disk_images: %s\n", what);
        exit(1);
    }
}

static void put_u32(FILE *file, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        must(putc((int)(value >> shift & 255), file) != EOF, "write");
    }
}

static FILE *create(const char *folder, const char *name)
{
    char path[PATH_MAX];
    ps_status st = ps_path_join(path, sizeof path, folder, name);
    FILE *file = ps_is_ok(&st) ? fopen(path, "wb") : NULL;

    must(file != NULL, name);
    return file;
}

/* The first `count` glyphs of a split, from the front again when they end. */
static void write_split(const ps_dataset *glyphs, ps_split split, uint32_t count, FILE *images,
                        FILE *labels)
{
    uint32_t there = ps_dataset_count(glyphs, split);
    float *x = ps_xcalloc(CHUNK * PIXELS, sizeof *x), classes[CHUNK];

    put_u32(images, 0x803);
    put_u32(images, count);
    put_u32(images, SIDE);
    put_u32(images, SIDE);
    put_u32(labels, 0x801);
    put_u32(labels, count);
    for (uint32_t at = 0; at < count; at += CHUNK) {
        ps_dataset_gather(glyphs, split, NULL, at % there, CHUNK, x, classes);
        for (size_t k = 0; k < CHUNK * PIXELS; k++) {
            must(putc((int)lrintf((x[k] + 0.5f) * 255), images) != EOF, "write");
        }
        for (size_t i = 0; i < CHUNK; i++) {
            must(putc((int)classes[i], labels) != EOF, "write");
        }
    }
    must(fclose(images) == 0 && fclose(labels) == 0, "write");
    free(x);
}

void disk_images_write(const char *folder)
{
    ps_data_conf conf = ps_data_conf_of(ps_data_source_find("glyphs"));
    ps_dataset *glyphs = NULL;
    char into[PATH_MAX];
    ps_status st = ps_data_load(&conf, NULL, NULL, &glyphs);

    must(ps_is_ok(&st), st.text);
    st = ps_path_join(into, sizeof into, folder, "mnist");
    must(ps_is_ok(&st), st.text);
    st = ps_dir_make(into);
    must(ps_is_ok(&st), st.text);
    write_split(glyphs, PS_TRAIN, DISK_IMAGES, create(into, "train-images-idx3-ubyte"),
                create(into, "train-labels-idx1-ubyte"));
    write_split(glyphs, PS_TEST, TEST_IMAGES, create(into, "t10k-images-idx3-ubyte"),
                create(into, "t10k-labels-idx1-ubyte"));
    ps_dataset_destroy(glyphs);
}
