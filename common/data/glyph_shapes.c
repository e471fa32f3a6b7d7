/* SPDX-License-Identifier: Apache-2.0 */
/* glyph_shapes.c - see glyph_shapes.h. */
#include "common/data/glyph_shapes.h"

#include <assert.h>
#include <stdbool.h>

/* A line from (a, b) to (c, d), or the part from angle `from` to `to` of the ellipse with
 * centre (a, b) and radii (c, d). Angles are degrees, clockwise on the page: 0 is right, 90 is
 * down, 270 and -90 are up. */
typedef struct piece {
    enum { NONE, LINE, ARC } kind;
    double a, b, c, d, from, to;
} piece;

enum { PIECES_MAX = 5 };

// clang-format off
static const piece shapes[PS_GLYPH_DIGITS][PS_GLYPH_STYLES][PIECES_MAX] = {
    {
        {{ARC, .50, .50, .24, .38, 0, 360}},
        {{ARC, .50, .50, .32, .36, 0, 360}},
        {{ARC, .50, .52, .25, .36, -100, 250}, {LINE, .415, .182, .62, .14, 0, 0}},
    }, {
        {{LINE, .50, .12, .50, .88, 0, 0}},
        {{LINE, .36, .28, .50, .12, 0, 0}, {LINE, .50, .12, .50, .88, 0, 0}},
        {{LINE, .36, .26, .50, .12, 0, 0}, {LINE, .50, .12, .50, .88, 0, 0},
         {LINE, .34, .88, .66, .88, 0, 0}},
    }, {
        {{ARC, .50, .33, .23, .21, 190, 390}, {LINE, .699, .435, .26, .88, 0, 0},
         {LINE, .26, .88, .76, .88, 0, 0}},
        {{ARC, .48, .32, .23, .20, 200, 380}, {LINE, .696, .388, .36, .84, 0, 0},
         {ARC, .31, .79, .08, .07, 40, 360}, {LINE, .39, .79, .76, .86, 0, 0}},
        {{ARC, .50, .36, .22, .24, 210, 370}, {LINE, .717, .402, .28, .86, 0, 0},
         {LINE, .28, .86, .74, .80, 0, 0}},
    }, {
        {{ARC, .47, .31, .21, .19, 200, 450}, {ARC, .47, .69, .24, .19, -90, 160}},
        {{LINE, .28, .14, .70, .14, 0, 0}, {LINE, .70, .14, .45, .44, 0, 0},
         {ARC, .45, .66, .24, .22, -90, 150}},
        {{ARC, .48, .32, .18, .18, 210, 420}, {ARC, .46, .67, .24, .21, -63, 150}},
    }, {
        {{LINE, .32, .14, .26, .56, 0, 0}, {LINE, .26, .56, .78, .56, 0, 0},
         {LINE, .64, .34, .60, .88, 0, 0}},
        {{LINE, .58, .12, .22, .62, 0, 0}, {LINE, .22, .62, .80, .62, 0, 0},
         {LINE, .58, .12, .58, .88, 0, 0}},
        {{LINE, .34, .12, .30, .44, 0, 0}, {ARC, .42, .44, .12, .12, 180, 90},
         {LINE, .42, .56, .76, .52, 0, 0}, {LINE, .70, .12, .66, .90, 0, 0}},
    }, {
        {{LINE, .70, .14, .36, .14, 0, 0}, {LINE, .36, .14, .32, .45, 0, 0},
         {ARC, .46, .64, .25, .23, -125, 150}},
        {{ARC, .54, .30, .20, .17, -50, -220}, {ARC, .45, .64, .24, .22, -100, 140}},
        {{LINE, .72, .16, .40, .13, 0, 0}, {LINE, .40, .13, .36, .48, 0, 0},
         {LINE, .36, .48, .56, .44, 0, 0}, {ARC, .54, .65, .20, .21, -85, 140}},
    }, {
        {{ARC, .66, .52, .38, .40, -110, -180}, {LINE, .28, .52, .28, .67, 0, 0},
         {ARC, .49, .67, .21, .21, 0, 360}},
        {{LINE, .62, .12, .32, .58, 0, 0}, {ARC, .48, .68, .19, .19, 0, 360}},
        {{ARC, .64, .50, .34, .38, -80, -180}, {LINE, .30, .50, .30, .70, 0, 0},
         {ARC, .46, .70, .16, .17, 0, 360}},
    }, {
        {{LINE, .26, .14, .74, .14, 0, 0}, {LINE, .74, .14, .44, .88, 0, 0}},
        {{LINE, .26, .14, .74, .14, 0, 0}, {LINE, .74, .14, .44, .88, 0, 0},
         {LINE, .40, .52, .74, .50, 0, 0}},
        {{LINE, .28, .24, .28, .14, 0, 0}, {LINE, .28, .14, .72, .16, 0, 0},
         {LINE, .72, .16, .56, .46, 0, 0}, {LINE, .56, .46, .50, .88, 0, 0}},
    }, {
        {{ARC, .50, .31, .18, .18, 0, 360}, {ARC, .50, .69, .22, .20, 0, 360}},
        {{ARC, .53, .30, .16, .18, 0, 360}, {ARC, .47, .69, .18, .21, 0, 360}},
        {{ARC, .50, .29, .19, .17, 150, 390}, {LINE, .335, .375, .673, .61, 0, 0},
         {LINE, .665, .375, .327, .61, 0, 0}, {ARC, .50, .70, .20, .18, -30, 210}},
    }, {
        {{ARC, .49, .33, .21, .21, 0, 360}, {LINE, .70, .33, .64, .88, 0, 0}},
        {{ARC, .49, .33, .20, .20, 0, 360}, {LINE, .69, .33, .69, .62, 0, 0},
         {ARC, .45, .62, .24, .25, 0, 120}},
        {{ARC, .50, .32, .20, .19, -30, -330}, {LINE, .71, .14, .62, .90, 0, 0}},
    },
};
// clang-format on

/* Sums the Taylor series about 0. An angle beyond pi or -pi is first brought between them by 2 pi.
 * The error is below 2e-8. */
void ps_glyph_sincos(double angle, double *sine, double *cosine)
{
    const double pi = 0x1.921fb54442d18p+1;
    double square, s = 0, c = 0;

    if (angle > pi) {
        angle -= 2 * pi;
    } else if (angle < -pi) {
        angle += 2 * pi;
    }
    square = angle * angle;
    for (int k = 18; k >= 2; k -= 2) {
        c = (1.0 + c) * -square / (k * (k - 1));
        s = (1.0 + s) * -square / (k * (k + 1));
    }
    *cosine = 1.0 + c;
    *sine = angle * (1.0 + s);
}

static void add(ps_glyph_shape *out, double x0, double y0, double x1, double y1)
{
    assert(out->count < PS_GLYPH_SEGMENTS_MAX);
    out->segments[out->count++] = (ps_glyph_segment){(float)x0, (float)y0, (float)x1, (float)y1};
}

static void add_arc(ps_glyph_shape *out, const piece *p)
{
    const double degree = 0x1.1df46a2529d39p-6; /* pi / 180 */
    double sweep = p->to - p->from;
    int steps = (int)((sweep < 0 ? -sweep : sweep) / 20.0) + 1;
    double x0 = 0, y0 = 0;

    for (int i = 0; i <= steps; i++) {
        double at = p->from + sweep * i / steps, s, c, x, y;

        if (at > 360.0) {
            at -= 360.0;
        }
        ps_glyph_sincos(at * degree, &s, &c);
        x = p->a + p->c * c;
        y = p->b + p->d * s;
        if (i > 0) {
            add(out, x0, y0, x, y);
        }
        x0 = x;
        y0 = y;
    }
}

void ps_glyph_shape_make(size_t digit, size_t style, ps_glyph_shape *out)
{
    const piece *pieces = shapes[digit][style];

    assert(digit < PS_GLYPH_DIGITS && style < PS_GLYPH_STYLES);
    out->count = 0;
    for (size_t i = 0; i < PIECES_MAX && pieces[i].kind != NONE; i++) {
        const piece *p = &pieces[i];

        if (p->kind == LINE) {
            add(out, p->a, p->b, p->c, p->d);
        } else {
            add_arc(out, p);
        }
    }
}
