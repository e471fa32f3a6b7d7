/* SPDX-License-Identifier: Apache-2.0 */
/* cells.c - cuts the parts of a gradient into cells, each of which a packet holds, and has their
 * codecs. */
#include "common/mesh/mesh_impl.h"

#include "common/base/xalloc.h"
#include "common/codec/feedback.h"
#include "common/codec/wrap.h"

#include <stdlib.h>
#include <string.h>

/* --- cutting ------------------------------------------------------------------ */

/* A share of a bucket: its values [from, to). They are counted from the start of the bucket; values
 * between parts do not count. */
typedef struct span {
    size_t from, to; /* [from, to) */
    uint32_t share;
} span;

/* Cuts that piece of part p which lies within the span into cells, at multiples of the part's
 * `step`. `skip` values of the bucket are before the part. Writes the cells unless `cells` is NULL.
 * Returns their number. */
static uint32_t cut_part(const ps_mesh_part *part, uint32_t p, size_t skip, const span *s,
                         mesh_cell *cells)
{
    uint32_t count = 0;

    for (size_t from = 0; from < part->n; from += part->step) {
        size_t to = part->n - from < part->step ? part->n : from + part->step;
        size_t first = s->from > skip + from ? s->from - skip : from;
        size_t end = s->to < skip + to ? s->to - skip : to;

        if (s->from >= skip + to || s->to <= skip + from) {
            continue;
        }
        if (cells != NULL) {
            cells[count] = (mesh_cell){
                .at = part->at + first, .n = (uint32_t)(end - first), .part = p, .share = s->share};
        }
        count++;
    }
    return count;
}

/* Cuts the bucket of parts [first, end) into `shares` spans of equal size, and these into cells.
 * Writes the cells and returns their number, as cut_part does. */
static uint32_t cut_bucket(const ps_mesh_conf *conf, uint32_t first, uint32_t end, uint32_t shares,
                           mesh_cell *cells)
{
    uint32_t count = 0;
    size_t size = 0;

    for (uint32_t p = first; p < end; p++) {
        size += conf->parts[p].n;
    }
    for (uint32_t i = 0; i < shares; i++) {
        span s = {.from = size * i / shares, .to = size * (i + 1) / shares, .share = i};
        size_t skip = 0;

        for (uint32_t p = first; p < end; p++) {
            count += cut_part(&conf->parts[p], p, skip, &s, cells != NULL ? cells + count : NULL);
            skip += conf->parts[p].n;
        }
    }
    return count;
}

/* Cuts all parts into buckets, and these into cells. A bucket ends where each share has the values
 * of a full packet; a rest that is smaller belongs to the last bucket. Writes the cells and returns
 * their number, as cut_part does. */
static uint32_t cut_all(const ps_mesh_conf *conf, uint32_t shares, mesh_cell *cells)
{
    size_t enough = (size_t)shares * PS_CODEC_VALUES, size = 0, left = 0;
    uint32_t count = 0, first = 0;

    for (uint32_t p = 0; p < conf->part_count; p++) {
        left += conf->parts[p].n;
    }
    for (uint32_t p = 0; p < conf->part_count; p++) {
        size += conf->parts[p].n;
        left -= conf->parts[p].n;
        if (p + 1 == conf->part_count || (size >= enough && left >= enough)) {
            count += cut_bucket(conf, first, p + 1, shares, cells != NULL ? cells + count : NULL);
            first = p + 1;
            size = 0;
        }
    }
    return count;
}

/* Returns how many floats of state a cell's codec keeps between steps: 0 in exchanges that send
 * blocks if several workers hold each, because all holders must encode the same bytes. */
static size_t floats_of(const ps_mesh_machine *m, uint32_t cell, bool is_down)
{
    const ps_mesh_codec *c = mesh_codec(m, cell, is_down);

    return m->conf.assignment->redundancy > 1 && !m->conf.mesh->sends_sums
               ? 0
               : ps_feedback_floats(c->codec, &c->params, m->cells.cell[cell].n);
}

void mesh_cut(ps_mesh_machine *m, uint32_t shares,
              bool (*is_down)(const ps_mesh_machine *m, const mesh_cell *cell))
{
    mesh_cells *cells = &m->cells;
    uint32_t cell = 0;

    cells->count = cut_all(&m->conf, shares, NULL);
    cells->cell = ps_xcalloc(cells->count, sizeof *cells->cell);
    cut_all(&m->conf, shares, cells->cell);
    cells->first = ps_xcalloc(m->conf.part_count + 1u, sizeof *cells->first);
    for (uint32_t p = 0; p <= m->conf.part_count; p++) {
        while (cell < cells->count && cells->cell[cell].part < p) {
            cell++;
        }
        cells->first[p] = cell;
    }
    cells->sum = ps_xcalloc(m->conf.n, sizeof *cells->sum);
    cells->kept_of = ps_xcalloc(cells->count, sizeof *cells->kept_of);
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0;

        for (cell = 0; cell < cells->count; cell++) {
            size_t n = floats_of(m, cell, is_down != NULL && is_down(m, &cells->cell[cell]));

            cells->kept_of[cell] = pass == 1 && n > 0 ? cells->kept + at : NULL;
            at += n;
        }
        if (pass == 0 && at > 0) {
            cells->kept = ps_xcalloc(at, sizeof *cells->kept);
        }
        cells->kept_floats = at;
    }
}

void mesh_cells_fini(mesh_cells *cells)
{
    free(cells->cell);
    free(cells->first);
    free(cells->kept);
    free(cells->kept_of);
    free(cells->sum);
}

bool mesh_cells_are_whole(const ps_mesh_machine *m)
{
    return m->cells.whole == m->cells.count;
}

void mesh_cells_finish(ps_mesh_machine *m, float *sum)
{
    memcpy(sum, m->cells.sum, m->conf.n * sizeof *sum);
}

/* Returns the index in cells->kept of the first state of `cell` or of a cell after it. */
static size_t kept_from(const mesh_cells *cells, uint32_t cell)
{
    while (cell < cells->count && cells->kept_of[cell] == NULL) {
        cell++;
    }
    return cell < cells->count ? (size_t)(cells->kept_of[cell] - cells->kept) : cells->kept_floats;
}

float *mesh_kept(const ps_mesh_machine *m, uint32_t part, size_t *n)
{
    const mesh_cells *cells = &m->cells;
    size_t from;

    *n = 0;
    if (cells->kept == NULL) {
        return NULL;
    }
    from = kept_from(cells, cells->first[part]);
    *n = kept_from(cells, cells->first[part + 1]) - from;
    return cells->kept + from;
}

/* --- codecs ------------------------------------------------------------------- */

const ps_mesh_codec *mesh_codec(const ps_mesh_machine *m, uint32_t cell, bool is_down)
{
    const ps_mesh_part *part = &m->conf.parts[m->cells.cell[cell].part];

    return is_down ? &part->down : &part->up;
}

ps_status mesh_check(const ps_mesh_machine *m, const ps_packet *packet, bool is_down)
{
    return ps_codec_check(mesh_codec(m, packet->piece, is_down)->codec, &packet->head.msg,
                          packet->bytes, packet->len, m->cells.cell[packet->piece].n);
}

/* --- sums --------------------------------------------------------------------- */

void mesh_own_sum(const ps_mesh_machine *m, const mesh_cell *cell, float *y)
{
    const ps_assignment *a = m->conf.assignment;
    uint32_t self = m->conf.self;

    memset(y, 0, cell->n * sizeof *y);
    for (uint32_t i = 0; i < a->held_count[self]; i++) {
        const float *x = m->blocks[i] + cell->at;
        size_t n = mesh_sender(m, a->held[self][i]) == self ? cell->n : 0;

        for (size_t k = 0; k < n; k++) {
            y[k] += x[k];
        }
    }
}

/* Checks that a codec suits partial sums: it keeps nothing that belongs to one worker's gradient,
 * and it is unbiased and not sparse, or it adds its residual to the next sum. */
static ps_status check_codec(const ps_mesh_part *part, const ps_mesh_codec *c)
{
    ps_codec_facts facts = ps_codec_facts_of(c->codec, &c->params);
    bool is_bent = facts.is_sparse || (facts.error_of_max > 0 && !facts.is_unbiased);

    if (ps_feedback_differs(c->codec, &c->params) ||
        ps_feedback_has_momentum(c->codec, &c->params)) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "%s of %s: difference and momentum are of a worker's gradient, not of sums: 0 "
            "is allowed",
            c->codec->name, part->name);
    }
    if (c->codec->state != NULL) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "%s of %s keeps a state of a worker's gradient, not of sums: codecs without are "
            "allowed",
            c->codec->name, part->name);
    }
    if (is_bent && (c->codec->sum_add != NULL || !ps_feedback_is_on(c->codec, &c->params))) {
        return ps_fail(
            PS_INVALID_ARGUMENT,
            "%s of %s bends sums: codecs that are unbiased and not sparse are allowed, or "
            "error_feedback",
            c->codec->name, part->name);
    }
    return ps_ok();
}

ps_status mesh_check_sums(const ps_mesh_conf *conf)
{
    for (uint32_t p = 0; p < conf->part_count; p++) {
        ps_status st = check_codec(&conf->parts[p], &conf->parts[p].up);

        if (ps_is_ok(&st)) {
            st = check_codec(&conf->parts[p], &conf->parts[p].down);
        }
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    return ps_ok();
}
