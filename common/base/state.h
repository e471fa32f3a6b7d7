/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - files with the state of a part of a job: sections with checksums, written
 * through a callback and read from memory.
 *
 * Little-endian throughout.
 *
 *   file     u8[8] magic; u32 version; u32 0; sections; a last section
 *   section  u32 kind, index; u64 payload bytes; payload; u64 XXH3-64 of the section so far
 *   last     a section of kind 0 without payload; its index is the number of sections before it
 *
 * The magic names the kind of file, the version the format of its payloads. The writer
 * decides what a payload holds; a reader takes its members in the same order. An error
 * names the offset in the file.
 */
#ifndef PS_COMMON_BASE_STATE_H
#define PS_COMMON_BASE_STATE_H

#include "common/base/buf.h"
#include "common/base/status.h"
#include "common/base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_STATE_MAGIC = 8,
    PS_STATE_HEAD_BYTES = 16,   /* bytes of a file's head */
    PS_STATE_SECTION_BYTES = 24 /* bytes of a section but its payload, checksum included */
};

/* Writes the next bytes of a file. */
typedef ps_status ps_state_write_fn(void *arg, const void *bytes, size_t len);

/* ---- Writing ---- */

/* A ps_state_write_fn whose arg is a `ps_buf **`: appends to the buffer, which begins as NULL and
 * is the caller's, also after a failure. RESOURCE_EXHAUSTED: there is no memory. */
PS_MUST_USE ps_status ps_state_write_buf(void *arg, const void *bytes, size_t len);

typedef struct ps_state_out {
    ps_state_write_fn *write;
    void *arg;
    ps_strbuf section; /* the current section with its head */
    uint32_t sections; /* number of sections written */
    ps_status status;  /* the first failure of `write`; nothing is written after it */
} ps_state_out;

/* Begins a file. `magic` has PS_STATE_MAGIC bytes. `write` is called for all bytes until
 * ps_state_out_end. */
void ps_state_out_init(ps_state_out *out, const char *magic, uint32_t version,
                       ps_state_write_fn *write, void *arg);

/* Begins sections of a file of which others write the head; ps_state_out_part ends them. */
void ps_state_out_init_part(ps_state_out *out, ps_state_write_fn *write, void *arg);

/* Begins a section. `kind` is not 0. The section before it must be finished. */
void ps_state_begin(ps_state_out *out, uint32_t kind, uint32_t index);

/* Appends `len` bytes to the section. */
void ps_state_put(ps_state_out *out, const void *bytes, size_t len);

/* Appends a number to the section. */
void ps_state_put_u32(ps_state_out *out, uint32_t x);

/* Appends a number to the section. */
void ps_state_put_u64(ps_state_out *out, uint64_t x);
/* Appends the length of a text of at most PS_STATE_TEXT bytes, and the text. */
enum { PS_STATE_TEXT = 64 };
void ps_state_put_text(ps_state_out *out, const char *text);
/* Ends the section: writes it with its length and checksum. */
void ps_state_finish(ps_state_out *out);

/* Ends a part of a file: frees the writer's memory, but writes no last section. ps_state_put_part
 * puts the sections of a part into another file. Returns the first failure of `write`. */
PS_MUST_USE ps_status ps_state_out_part(ps_state_out *out);

/* Appends the sections of a part to the file. `part` is what a writer that began with
 * ps_state_out_init and ended with ps_state_out_part has written: `len` bytes, the head of a file
 * first, then `sections` sections. */
void ps_state_put_part(ps_state_out *out, const uint8_t *part, size_t len, uint32_t sections);

/* Writes the last section and frees the writer's memory. Returns the first failure of `write`. */
PS_MUST_USE ps_status ps_state_out_end(ps_state_out *out);

/* ---- Reading ---- */

typedef struct ps_state_in {
    const uint8_t *bytes; /* borrowed until the last call */
    size_t len, at;       /* size of the file and offset of the next byte to read */
    size_t end;           /* end of the current payload */
    uint32_t sections;    /* sections that ps_state_next has moved to */
    ps_status status;     /* the first failure; after it all members read as zeros */
} ps_state_in;

/* Begins to read a file of `len` bytes. Fails with DATA_LOSS if it has another magic or version. */
PS_MUST_USE ps_status ps_state_in_init(ps_state_in *in, const char *magic, uint32_t version,
                                       const uint8_t *bytes, size_t len);

/* Begins to read a file as ps_state_in_init does and moves to its first section, whose checksum is
 * verified. Fails also as ps_state_next does, and with DATA_LOSS if the section is not of `kind` or
 * its index is not 0. */
PS_MUST_USE ps_status ps_state_open(ps_state_in *in, const char *magic, uint32_t version,
                                    uint32_t kind, const uint8_t *bytes, size_t len);

/* Moves to the next section, whose payload is then taken member by member. The section before it
 * must be ended by ps_state_done or ps_state_skip. *kind is 0 at the end of the file. With `checks`
 * the checksum is verified, else only the length; that of the last section is verified always.
 *
 * Fails with DATA_LOSS if the file is truncated or damaged or has bytes behind the last section.
 * After a failure of an earlier call it fails with that.
 */
PS_MUST_USE ps_status ps_state_next(ps_state_in *in, bool checks, uint32_t *kind, uint32_t *index);

/* Verifies the checksum of the current section. Nothing of the section may have been taken before.
 * DATA_LOSS: it is wrong. */
PS_MUST_USE ps_status ps_state_check(ps_state_in *in);

/* Takes the next `len` bytes. Fails and gives zeros if the payload has fewer. */
void ps_state_take(ps_state_in *in, void *to, size_t len);

/* Takes a number. Fails and returns 0 if the payload has too few bytes. */
uint32_t ps_state_take_u32(ps_state_in *in);

/* Takes a number. Fails and returns 0 if the payload has too few bytes. */
uint64_t ps_state_take_u64(ps_state_in *in);
/* Takes a number of at most `most`. Fails, naming it `what`, and returns 0 if it is larger. */
uint32_t ps_state_take_count(ps_state_in *in, const char *what, uint32_t most);

/* Takes a text as ps_state_put_text writes it; `to` then ends with a NUL. */
void ps_state_take_text(ps_state_in *in, char to[PS_STATE_TEXT + 1]);
/* Returns the next `len` bytes in place. Fails and returns NULL if the payload has fewer. */
const uint8_t *ps_state_view(ps_state_in *in, size_t len);
/* Ends the section without looking at the rest of its payload. */
void ps_state_skip(ps_state_in *in);

/* Stores a failure, DATA_LOSS with the current offset and this text, unless one is stored
 * already. */
PS_PRINTF(2, 3) void ps_state_fail(ps_state_in *in, const char *fmt, ...);

/* Returns whether no call has failed so far. */
bool ps_state_is_ok(const ps_state_in *in);

/* Ends the section. Fails if a part of its payload was not taken. Returns the first failure. */
PS_MUST_USE ps_status ps_state_done(ps_state_in *in);

#endif
