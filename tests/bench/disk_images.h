/* SPDX-License-Identifier: Apache-2.0 */
/* disk_images.h - a set of images that is too large to be kept in memory. */
#ifndef PS_TESTS_BENCH_DISK_IMAGES_H
#define PS_TESTS_BENCH_DISK_IMAGES_H

enum { DISK_IMAGES = 240000 };

/* Writes IDX files of DISK_IMAGES glyphs for training, each four times, and 10,000 for tests into
 * FOLDER/mnist, which it makes. Ends the program when it cannot. */
void disk_images_write(const char *folder);

#endif
