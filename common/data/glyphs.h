/* SPDX-License-Identifier: Apache-2.0 */
/* glyphs.h - draws one sample of the source `glyphs`. */
#ifndef PS_COMMON_DATA_GLYPHS_H
#define PS_COMMON_DATA_GLYPHS_H

#include "common/data/dataset.h"

enum { PS_GLYPH_SIDE = 28, PS_GLYPH_PIXELS = PS_GLYPH_SIDE * PS_GLYPH_SIDE };

/* The shapes of all digits, computed once for many samples. Immutable; any thread may use it. */
typedef struct ps_glyph_book ps_glyph_book;
/* Computes the shapes. The caller destroys the book. */
ps_glyph_book *ps_glyph_book_create(void);
/* Frees a book. NULL is allowed. */
void ps_glyph_book_destroy(ps_glyph_book *book);

/* Draws sample `index` of a split: writes PS_GLYPH_PIXELS bytes row by row and returns the
 * digit. The result depends only on (split, index), to the bit, on every host. */
uint8_t ps_glyph_draw(const ps_glyph_book *book, ps_split split, uint32_t index, uint8_t *pixels);

#endif
