/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - files that hold the state of a part of a job: sections with checksums, written to a
 * sink and read from memory.
 *
 * Little-endian throughout.
 *
 *   file     u8[8] magic; u32 version; u32 0; sections; a last section
 *   section  u32 kind, index; u64 payload bytes; payload; u64 XXH3-64 of all of the section before
 *            it
 *   last     a section of kind 0 without payload; its index is the number of sections before it
 *
 * A magic names the kind of file, a version how its payloads are made. What lies in a payload
 * is up to who writes it; a reader takes its members in order, and what is not as it should be is
 * told with the offset in the file.
 */
#ifndef PS_COMMON_BASE_STATE_H
#define PS_COMMON_BASE_STATE_H

#include "common/base/status.h"
#include "common/base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_STATE_MAGIC = 8,
    PS_STATE_HEAD_BYTES = 16,   /* of a file */
    PS_STATE_SECTION_BYTES = 24 /* of a section beside its payload */
};

/* Takes the next bytes of a file. */
typedef ps_status ps_state_write_fn(void *arg, const void *bytes, size_t len);

/* ---- Writing ---- */

typedef struct ps_state_out {
    ps_state_write_fn *write;
    void *arg;
    ps_strbuf section; /* the one in hand, with its head */
    uint32_t sections; /* written */
    ps_status status;  /* the first failure of `write`; nothing is written behind it */
} ps_state_out;

/* Begins a file. magic has PS_STATE_MAGIC bytes. */
void ps_state_out_init(ps_state_out *out, const char *magic, uint32_t version,
                       ps_state_write_fn *write, void *arg);

/* Begins a section of a kind above 0. */
void ps_state_begin(ps_state_out *out, uint32_t kind, uint32_t index);
void ps_state_put(ps_state_out *out, const void *bytes, size_t len);
void ps_state_put_u32(ps_state_out *out, uint32_t x);
void ps_state_put_u64(ps_state_out *out, uint64_t x);
/* Puts the length of a text of at most PS_STATE_TEXT bytes, and the text. */
enum { PS_STATE_TEXT = 64 };
void ps_state_put_text(ps_state_out *out, const char *text);
/* Writes the section. */
void ps_state_finish(ps_state_out *out);

/* Writes the last section and frees what the writer holds. Returns the first failure of `write`. */
PS_MUST_USE ps_status ps_state_out_end(ps_state_out *out);

/* ---- Reading ---- */

typedef struct ps_state_in {
    const uint8_t *bytes; /* borrowed until the last call */
    size_t len, at;
    size_t end;        /* of the payload in hand */
    uint32_t sections; /* seen */
    ps_status status;  /* the first failure; what is taken behind it is zeros */
} ps_state_in;

/* Begins to read a file. DATA_LOSS: it is none of this magic, or of another version. */
PS_MUST_USE ps_status ps_state_in_init(ps_state_in *in, const char *magic, uint32_t version,
                                       const uint8_t *bytes, size_t len);

/* Goes to the next section: its payload is taken next. Sets *kind to 0 at the end of the file.
 * checks: its checksum too, else only that it is not cut.
 *
 * DATA_LOSS  cut, damaged, or bytes behind the last section; or the first failure before */
PS_MUST_USE ps_status ps_state_next(ps_state_in *in, bool checks, uint32_t *kind, uint32_t *index);

/* Checks the checksum of the section in hand, of which nothing was taken. */
PS_MUST_USE ps_status ps_state_check(ps_state_in *in);

/* Take the next member; zeros, with a failure, when the payload has none. */
void ps_state_take(ps_state_in *in, void *to, size_t len);
uint32_t ps_state_take_u32(ps_state_in *in);
uint64_t ps_state_take_u64(ps_state_in *in);
/* Takes a number that must be at most `most`; else 0, with a failure that calls it `what`. */
uint32_t ps_state_take_count(ps_state_in *in, const char *what, uint32_t most);
void ps_state_take_text(ps_state_in *in, char to[PS_STATE_TEXT + 1]);
/* Gives the next bytes where they lie; NULL, with a failure, when the payload has fewer. */
const uint8_t *ps_state_view(ps_state_in *in, size_t len);
/* Passes over the rest of the payload. */
void ps_state_skip(ps_state_in *in);

/* Fails with the offset, unless something has failed before. */
PS_PRINTF(2, 3) void ps_state_fail(ps_state_in *in, const char *fmt, ...);
bool ps_state_is_ok(const ps_state_in *in);

/* Checks that all of the payload was taken. Returns the first failure. */
PS_MUST_USE ps_status ps_state_done(ps_state_in *in);

#endif
