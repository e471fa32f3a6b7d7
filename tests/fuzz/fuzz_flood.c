/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_flood.c - any bytes as those of a connection, read at once and in pieces.
 *
 * The first byte says how long the pieces are and whether the preface comes by itself. What is
 * decided must not depend on where reads end.
 */
#include "common/rpc/flood.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PREFACE_BYTES = 24 };

static ps_flood_verdict run(const uint8_t *data, size_t size, size_t step, bool greets,
                            ps_flood_kind *kind, ps_flood *flood)
{
    ps_flood_verdict verdict = PS_FLOOD_PASS;

    ps_flood_init(flood, (size & 1) != 0, 0);
    if (greets) {
        ps_flood_read(flood, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", PREFACE_BYTES,
                      kind);
    }
    for (size_t at = 0, len; at < size && verdict != PS_FLOOD_CLOSE; at += len) {
        uint8_t *piece; /* of its own, so that reading beyond it is seen */

        len = step < size - at ? step : size - at;
        piece = malloc(len);
        if (piece == NULL) {
            abort();
        }
        memcpy(piece, data + at, len);
        verdict = ps_flood_read(flood, piece, len, kind);
        free(piece);
    }
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_flood_kind kinds[2] = {PS_FLOOD_KINDS, PS_FLOOD_KINDS};
    ps_flood floods[2];
    ps_flood_verdict whole, parts;
    bool greets;

    if (size < 2) {
        return 0;
    }
    greets = (data[0] & 0x80) != 0;
    whole = run(data + 1, size - 1, size, greets, &kinds[0], &floods[0]);
    parts = run(data + 1, size - 1, 1 + (data[0] & 0x7f), greets, &kinds[1], &floods[1]);
    if (whole != parts) {
        abort();
    }
    if (whole == PS_FLOOD_CLOSE) {
        if (kinds[0] != kinds[1] || kinds[0] >= PS_FLOOD_KINDS) {
            abort();
        }
    } else if (memcmp(floods[0].level, floods[1].level, sizeof floods[0].level) != 0 ||
               floods[0].skip != floods[1].skip || floods[0].have != floods[1].have ||
               floods[0].have >= sizeof floods[0].head) {
        abort();
    }
    return 0;
}
