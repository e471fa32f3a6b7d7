/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h. */
#include "common/artifact/events.h"

#include "common/artifact/crc32c.h"
#include "common/base/xalloc.h"

#include "tensorboard/event.pb-c.h"

#include <stdlib.h>

typedef Tensorboard__Summary__Value value;

struct ps_events {
    ps_outlet out;
    value *values, **list; /* (cap) the points of one call, whose memory the next call reuses */
    size_t cap;
};

static void put_u32(ps_strbuf *out, uint32_t number)
{
    const unsigned char bytes[4] = {(unsigned char)number, (unsigned char)(number >> 8),
                                    (unsigned char)(number >> 16), (unsigned char)(number >> 24)};

    ps_strbuf_append(out, bytes, sizeof bytes);
}

/* Appends the checksum of the last n bytes in the form of TensorBoard's files: their CRC-32C,
 * rotated, plus a constant. */
static void put_checksum(ps_strbuf *out, size_t n)
{
    uint32_t c = ps_crc32c(out->data + out->len - n, n);

    put_u32(out, (c >> 15 | c << 17) + 0xa282ead8);
}

static void put_record(ps_strbuf *out, const Tensorboard__Event *event)
{
    size_t n = tensorboard__event__get_packed_size(event);

    put_u32(out, (uint32_t)n);
    put_u32(out, (uint32_t)((uint64_t)n >> 32));
    put_checksum(out, 8);
    ps_strbuf_pad(out, '\0', n);
    tensorboard__event__pack(event, (uint8_t *)out->data + out->len - n);
    put_checksum(out, n);
}

ps_status ps_events_open(const char *path, double wall_s, ps_events **out)
{
    Tensorboard__Event first = TENSORBOARD__EVENT__INIT;
    ps_events *e = ps_xcalloc(1, sizeof *e);
    ps_status st = ps_outlet_open(&e->out, path, true);

    if (!ps_is_ok(&st)) {
        free(e);
        return st;
    }
    first.wall_time = wall_s;
    first.file_version = (char *)"brain.Event:2";
    put_record(&e->out.rows, &first);
    ps_outlet_flush(&e->out);
    e->out.flushed_s = wall_s;
    *out = e;
    return ps_ok();
}

static void make_room(ps_events *events, size_t count)
{
    if (events->cap < count) {
        events->cap = count;
        events->values = ps_xrealloc(events->values, count * sizeof *events->values);
        events->list = ps_xrealloc(events->list, count * sizeof *events->list);
    }
}

void ps_events_add(ps_events *events, double wall_s, uint64_t step, const ps_scalar *scalars,
                   size_t count)
{
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;

    make_room(events, count);
    for (size_t i = 0; i < count; i++) {
        tensorboard__summary__value__init(&events->values[i]);
        events->values[i].tag = (char *)scalars[i].tag;
        events->values[i].simple_value = (float)scalars[i].value;
        events->list[i] = &events->values[i];
    }
    summary.value = events->list;
    summary.n_value = count;
    event.wall_time = wall_s;
    event.has_step = true;
    event.step = (int64_t)step;
    event.summary = &summary;
    put_record(&events->out.rows, &event);
    ps_outlet_row(&events->out, wall_s);
}

ps_status ps_events_flush(ps_events *events)
{
    return ps_outlet_flush(&events->out);
}

ps_outlet *ps_events_outlet(ps_events *events)
{
    return &events->out;
}

ps_status ps_events_close(ps_events *events)
{
    ps_status st = ps_outlet_close(&events->out);

    free(events->values);
    free(events->list);
    free(events);
    return st;
}
