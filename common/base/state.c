/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - see state.h. */
#include "common/base/state.h"
#include "common/base/shorten.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers lie as in memory");

typedef struct file_head {
    char magic[PS_STATE_MAGIC];
    uint32_t version, zero;
} file_head;

typedef struct section_head {
    uint32_t kind, index;
    uint64_t bytes;
} section_head;

enum { SUM_BYTES = 8, WRITE_BUF_LEAST = 64 << 10 };

_Static_assert(sizeof(file_head) == PS_STATE_HEAD_BYTES &&
                   sizeof(section_head) + SUM_BYTES == PS_STATE_SECTION_BYTES,
               "nothing between the members");

/* ---- Writing ---- */

ps_status ps_state_write_buf(void *arg, const void *bytes, size_t len)
{
    ps_buf **at = arg, *old = *at;
    size_t in = old != NULL ? old->len : 0, cap = old != NULL ? old->cap : 0;

    if (len > cap - in) {
        size_t more = cap < WRITE_BUF_LEAST ? WRITE_BUF_LEAST : cap;
        ps_buf *grown = ps_buf_try_create(in + len + more);

        if (grown == NULL) {
            return ps_fail(PS_RESOURCE_EXHAUSTED, "no memory for %zu bytes of state", in + len);
        }
        if (in > 0) {
            memcpy(grown->data, old->data, in);
        }
        grown->len = in;
        ps_buf_unref(old);
        *at = grown;
    }
    memcpy((*at)->data + in, bytes, len);
    (*at)->len = in + len;
    return ps_ok();
}

static void write_bytes(ps_state_out *out, const void *bytes, size_t len)
{
    if (ps_is_ok(&out->status)) {
        out->status = out->write(out->arg, bytes, len);
    }
}

void ps_state_out_init(ps_state_out *out, const char *magic, uint32_t version,
                       ps_state_write_fn *write, void *arg)
{
    file_head head = {.version = version};

    assert(strlen(magic) == PS_STATE_MAGIC);
    memcpy(head.magic, magic, PS_STATE_MAGIC);
    ps_state_out_init_part(out, write, arg);
    write_bytes(out, &head, sizeof head);
}

void ps_state_out_init_part(ps_state_out *out, ps_state_write_fn *write, void *arg)
{
    *out = (ps_state_out){.write = write, .arg = arg, .status = ps_ok()};
}

void ps_state_begin(ps_state_out *out, uint32_t kind, uint32_t index)
{
    section_head head = {.kind = kind, .index = index};

    ps_strbuf_clear(&out->section);
    ps_strbuf_append(&out->section, &head, sizeof head);
}

void ps_state_put(ps_state_out *out, const void *bytes, size_t len)
{
    if (len > 0) {
        ps_strbuf_append(&out->section, bytes, len);
    }
}

void ps_state_put_u32(ps_state_out *out, uint32_t x)
{
    ps_state_put(out, &x, sizeof x);
}

void ps_state_put_u64(ps_state_out *out, uint64_t x)
{
    ps_state_put(out, &x, sizeof x);
}

void ps_state_put_text(ps_state_out *out, const char *text)
{
    size_t len = strlen(text);

    assert(len <= PS_STATE_TEXT);
    ps_state_put_u32(out, (uint32_t)len);
    ps_state_put(out, text, len);
}

static void write_section(ps_state_out *out)
{
    uint64_t bytes = out->section.len - sizeof(section_head), sum;

    memcpy(out->section.data + offsetof(section_head, bytes), &bytes, sizeof bytes);
    sum = XXH3_64bits(out->section.data, out->section.len);
    write_bytes(out, out->section.data, out->section.len);
    write_bytes(out, &sum, sizeof sum);
}

void ps_state_finish(ps_state_out *out)
{
    write_section(out);
    out->sections++;
}

ps_status ps_state_out_part(ps_state_out *out)
{
    ps_strbuf_fini(&out->section);
    return out->status;
}

void ps_state_put_part(ps_state_out *out, const uint8_t *part, size_t len, uint32_t sections)
{
    assert(len >= sizeof(file_head));
    write_bytes(out, part + sizeof(file_head), len - sizeof(file_head));
    out->sections += sections;
}

ps_status ps_state_out_end(ps_state_out *out)
{
    ps_state_begin(out, 0, out->sections);
    write_section(out);
    ps_strbuf_fini(&out->section);
    return out->status;
}

/* ---- Reading ---- */

void ps_state_fail(ps_state_in *in, const char *fmt, ...)
{
    char text[sizeof in->status.text];
    va_list ap;

    if (ps_is_ok(&in->status)) {
        va_start(ap, fmt);
        ps_shorten_vprint(text, sizeof text, fmt, ap);
        va_end(ap);
        in->status = ps_fail(PS_DATA_LOSS, "offset %zu: %s", in->at, text);
    }
}

bool ps_state_is_ok(const ps_state_in *in)
{
    return ps_is_ok(&in->status);
}

ps_status ps_state_in_init(ps_state_in *in, const char *magic, uint32_t version,
                           const uint8_t *bytes, size_t len)
{
    file_head head;

    *in = (ps_state_in){.bytes = bytes, .len = len, .status = ps_ok()};
    if (len < sizeof head || memcmp(bytes, magic, PS_STATE_MAGIC) != 0) {
        ps_state_fail(in, "not a file that begins with %s", magic);
        return in->status;
    }
    memcpy(&head, bytes, sizeof head);
    if (head.version != version || head.zero != 0) {
        ps_state_fail(in, "version %" PRIu32 " of %s; %" PRIu32 " is allowed", head.version, magic,
                      version);
    }
    in->at = in->end = sizeof head;
    return in->status;
}

ps_status ps_state_open(ps_state_in *in, const char *magic, uint32_t version, uint32_t kind,
                        const uint8_t *bytes, size_t len)
{
    uint32_t first, index;
    ps_status st = ps_state_in_init(in, magic, version, bytes, len);

    if (ps_is_ok(&st)) {
        st = ps_state_next(in, true, &first, &index);
    }
    if (ps_is_ok(&st) && (first != kind || index != 0)) {
        ps_state_fail(in, "the first section is number %" PRIu32 " of kind %" PRIu32, index, first);
        st = in->status;
    }
    return st;
}

ps_status ps_state_check(ps_state_in *in)
{
    size_t from = in->at - sizeof(section_head);
    uint64_t sum;

    if (ps_is_ok(&in->status)) {
        memcpy(&sum, in->bytes + in->end, sizeof sum);
        if (sum != XXH3_64bits(in->bytes + from, in->end - from)) {
            ps_state_fail(in, "the checksum of section %" PRIu32 " is another one",
                          in->sections - 1);
        }
    }
    return in->status;
}

ps_status ps_state_next(ps_state_in *in, bool checks, uint32_t *kind, uint32_t *index)
{
    section_head head = {0};
    size_t left;

    *kind = *index = 0;
    if (ps_is_ok(&in->status) && in->at != in->end) {
        ps_state_fail(in, "%zu bytes of the section are left over", in->end - in->at);
    }
    if (ps_is_ok(&in->status) && in->len - in->at < PS_STATE_SECTION_BYTES) {
        ps_state_fail(in, "cut in the head of a section");
    }
    if (!ps_is_ok(&in->status)) {
        return in->status;
    }
    memcpy(&head, in->bytes + in->at, sizeof head);
    left = in->len - in->at - PS_STATE_SECTION_BYTES;
    if (head.bytes > left) {
        ps_state_fail(in, "a section of %" PRIu64 " bytes is cut", head.bytes);
        return in->status;
    }
    in->at += sizeof head;
    in->end = in->at + (size_t)head.bytes;
    if (head.kind == 0 && (head.index != in->sections || head.bytes > 0 || left != head.bytes)) {
        ps_state_fail(in, "the file ends behind %" PRIu32 " sections; it has %" PRIu32,
                      in->sections, head.index);
    }
    in->sections++;
    *kind = head.kind;
    *index = head.index;
    return checks || head.kind == 0 ? ps_state_check(in) : in->status;
}

const uint8_t *ps_state_view(ps_state_in *in, size_t len)
{
    const uint8_t *from = in->bytes + in->at;

    if (len > in->end - in->at) {
        ps_state_fail(in, "%zu bytes are expected, the section has %zu more", len,
                      in->end - in->at);
    }
    if (!ps_is_ok(&in->status)) {
        return NULL;
    }
    in->at += len;
    return from;
}

void ps_state_take(ps_state_in *in, void *to, size_t len)
{
    const uint8_t *from = ps_state_view(in, len);

    if (len > 0 && from != NULL) {
        memcpy(to, from, len);
    } else if (len > 0) {
        memset(to, 0, len);
    }
}

uint32_t ps_state_take_u32(ps_state_in *in)
{
    uint32_t x;

    ps_state_take(in, &x, sizeof x);
    return x;
}

uint64_t ps_state_take_u64(ps_state_in *in)
{
    uint64_t x;

    ps_state_take(in, &x, sizeof x);
    return x;
}

uint32_t ps_state_take_count(ps_state_in *in, const char *what, uint32_t most)
{
    uint32_t x = ps_state_take_u32(in);

    if (x > most) {
        ps_state_fail(in, "%s: %" PRIu32 "; at most %" PRIu32 " is allowed", what, x, most);
        return 0;
    }
    return x;
}

void ps_state_take_text(ps_state_in *in, char to[PS_STATE_TEXT + 1])
{
    uint32_t len = ps_state_take_count(in, "length of a text", PS_STATE_TEXT);

    memset(to, 0, PS_STATE_TEXT + 1);
    ps_state_take(in, to, len);
}

/* Moves from anywhere in a section to its end, behind payload and checksum. */
static void leave(ps_state_in *in)
{
    in->at = in->end = in->end + SUM_BYTES;
}

void ps_state_skip(ps_state_in *in)
{
    if (ps_is_ok(&in->status)) {
        leave(in);
    }
}

ps_status ps_state_done(ps_state_in *in)
{
    if (ps_is_ok(&in->status) && in->at != in->end) {
        ps_state_fail(in, "%zu bytes of the section are left over", in->end - in->at);
    }
    if (ps_is_ok(&in->status)) {
        leave(in);
    }
    return in->status;
}
