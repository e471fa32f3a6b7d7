/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h. */
#include "common/artifact/events.h"

#include "common/artifact/crc32c.h"
#include "common/artifact/fields.h"
#include "common/artifact/outlet.h"
#include "common/base/xalloc.h"

#include <stdlib.h>

/* Numbers of fields. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_FILE_VERSION = 3,
    EVENT_SUMMARY = 5,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE_VALUE = 2,
};

struct ps_events {
    ps_outlet out;
    ps_strbuf event, summary, value; /* kept for their memory */
};

static void put_u32(ps_strbuf *out, uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                                    (unsigned char)(value >> 16), (unsigned char)(value >> 24)};

    ps_strbuf_append(out, bytes, sizeof bytes);
}

static uint32_t masked(const void *bytes, size_t n)
{
    uint32_t c = ps_crc32c(bytes, n);

    return (c >> 15 | c << 17) + 0xa282ead8;
}

/* Frames the event in hand and empties it. */
static void put_record(ps_events *e)
{
    ps_strbuf *rows = &e->out.rows;
    size_t n = e->event.len;

    put_u32(rows, (uint32_t)n);
    put_u32(rows, (uint32_t)((uint64_t)n >> 32));
    put_u32(rows, masked(rows->data + rows->len - 8, 8));
    ps_strbuf_append(rows, ps_strbuf_text(&e->event), n);
    put_u32(rows, masked(ps_strbuf_text(&e->event), n));
    ps_strbuf_clear(&e->event);
}

ps_status ps_events_open(const char *path, double wall_s, ps_events **out)
{
    ps_events *e = ps_xcalloc(1, sizeof *e);
    ps_status st = ps_outlet_open(&e->out, path);

    if (!ps_is_ok(&st)) {
        free(e);
        return st;
    }
    ps_field_f64(&e->event, EVENT_WALL_TIME, wall_s);
    ps_field_text(&e->event, EVENT_FILE_VERSION, "brain.Event:2");
    put_record(e);
    ps_outlet_flush(&e->out);
    e->out.flushed_s = wall_s;
    *out = e;
    return ps_ok();
}

void ps_events_add(ps_events *events, double wall_s, uint64_t step, const ps_scalar *scalars,
                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ps_field_text(&events->value, VALUE_TAG, scalars[i].tag);
        ps_field_f32(&events->value, VALUE_SIMPLE_VALUE, (float)scalars[i].value);
        ps_field_message(&events->summary, SUMMARY_VALUE, &events->value);
    }
    ps_field_f64(&events->event, EVENT_WALL_TIME, wall_s);
    ps_field_u64(&events->event, EVENT_STEP, step);
    ps_field_message(&events->event, EVENT_SUMMARY, &events->summary);
    put_record(events);
    ps_outlet_row(&events->out, wall_s);
}

ps_status ps_events_close(ps_events *events)
{
    ps_status st = ps_outlet_close(&events->out);

    ps_strbuf_fini(&events->event);
    ps_strbuf_fini(&events->summary);
    ps_strbuf_fini(&events->value);
    free(events);
    return st;
}
