/* SPDX-License-Identifier: Apache-2.0 */
/* pb_filler.c - see pb_filler.h. */
#include "tests/support/pb_filler.h"

#include "tests/support/cmocka_all.h"

#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbfield.h"
#include "common/rpc/pbjson.h"

#include "google/protobuf/timestamp.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* deepest nesting of messages that are filled: some types contain themselves */
enum { DEPTH_MAX = 5 };

uint64_t pb_draw(pb_filler *f)
{
    return ps_draw_u64(f->key, f->next++);
}

static char *drawn_text(pb_filler *f)
{
    static const char *const texts[] = {"a", "dense0.weight", "\"quoted\"\n", "gr\xc3\xbc\xc3\x9f",
                                        "\xf0\x9f\x99\x82"};
    char text[64];

    snprintf(text, sizeof text, "%s %u", texts[pb_draw(f) % 5], (unsigned)(pb_draw(f) % 1000000));
    return ps_xstrdup(text);
}

static void fill_bytes(pb_filler *f, void *slot)
{
    size_t len = 1 + pb_draw(f) % 9;
    uint8_t *data = ps_xmalloc(len);

    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)pb_draw(f);
    }
    ps_pb_put_bytes(slot, data, len);
}

static void fill_time(pb_filler *f, Google__Protobuf__Timestamp *time)
{
    static const int32_t nanos[] = {0, 250000000, 1000, 123456789};

    time->seconds = (int64_t)(pb_draw(f) % 4000000000) - 1000000000;
    time->nanos = nanos[pb_draw(f) % 4];
}

static void fill_slot(pb_filler *f, const ProtobufCFieldDescriptor *field, void *slot,
                      unsigned depth)
{
    const ProtobufCEnumDescriptor *tones = field->descriptor;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        *(uint32_t *)slot = (uint32_t)pb_draw(f) | 1;
        break;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        *(uint64_t *)slot = pb_draw(f) | 1; /* the upper 32 bits are set, too */
        break;
    case PROTOBUF_C_TYPE_FLOAT:
        *(float *)slot = (float)ps_draw_normal(f->key, f->next++) * 1e-3f;
        break;
    case PROTOBUF_C_TYPE_DOUBLE:
        *(double *)slot = ps_draw_normal(f->key, f->next++) * 1e6;
        break;
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)slot = 1;
        break;
    case PROTOBUF_C_TYPE_ENUM:
        *(int *)slot = tones->values[pb_draw(f) % tones->n_values].value;
        if (*(int *)slot == 0) {
            *(int *)slot = tones->values[tones->n_values - 1].value;
        }
        break;
    case PROTOBUF_C_TYPE_STRING:
        ps_pb_put_string(field, slot, drawn_text(f));
        break;
    case PROTOBUF_C_TYPE_BYTES:
        fill_bytes(f, slot);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        if (ps_pb_is_timestamp(field)) {
            fill_time(f, (Google__Protobuf__Timestamp *)ps_pb_message_in(field, slot));
        } else {
            pb_fill(f, ps_pb_message_in(field, slot), depth + 1);
        }
        break;
    }
}

void pb_fill(pb_filler *f, ProtobufCMessage *message, unsigned depth)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;

    for (unsigned i = 0; i < type->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &type->fields[i];

        if (field->type == PROTOBUF_C_TYPE_MESSAGE && depth >= DEPTH_MAX) {
            continue;
        }
        if (ps_pb_is_map(field)) {
            const ProtobufCMessageDescriptor *entry_type = field->descriptor;
            ProtobufCMessage *entry = ps_pb_create(entry_type);

            *(ProtobufCMessage **)ps_pb_append(message, field) = entry;
            fill_slot(f, &entry_type->fields[0], ps_pb_slot(entry, &entry_type->fields[0], 0),
                      depth);
            fill_slot(f, &entry_type->fields[1], ps_pb_slot(entry, &entry_type->fields[1], 0),
                      depth + 1);
        } else if (ps_pb_is_repeated(field)) {
            for (size_t n = depth < 3 ? 1 + pb_draw(f) % 3 : 1; n > 0; n--) {
                fill_slot(f, field, ps_pb_append(message, field), depth);
            }
        } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0 || pb_draw(f) % 3 == 0) {
            fill_slot(f, field, ps_pb_select(message, field), depth);
        }
    }
}

static size_t pack(const ProtobufCMessage *message, uint8_t **bytes)
{
    *bytes = ps_xmalloc(protobuf_c_message_get_packed_size(message) + 1);
    return protobuf_c_message_pack(message, *bytes);
}

static void assert_same_message(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    uint8_t *bytes_a, *bytes_b;
    size_t len_a = pack(a, &bytes_a), len_b = pack(b, &bytes_b);

    assert_int_equal(len_a, len_b);
    assert_memory_equal(bytes_a, bytes_b, len_a);
    free(bytes_a);
    free(bytes_b);
}

void pb_assert_round_trip(const ProtobufCMessage *message, unsigned flags)
{
    json_t *json = ps_pb_to_json(message, flags), *again;
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    ps_error error = {.status = ps_ok()};
    ProtobufCMessage *copy = NULL;
    json_error_t why;
    ps_status st;

    assert_non_null(text);
    again = json_loads(text, 0, &why);
    assert_non_null(again);
    st = ps_pb_from_json(message->descriptor, again, "", &error, &copy);
    if (!ps_is_ok(&st)) {
        print_error("%s: %s\n%s\n", message->descriptor->name, st.text, text);
    }
    assert_true(ps_is_ok(&st));
    assert_same_message(message, copy);
    protobuf_c_message_free_unpacked(copy, NULL);
    json_decref(json);
    json_decref(again);
    free(text);
}

uint64_t pb_test_seed(void)
{
    const char *text = getenv("PSGD_TEST_SEED");
    uint64_t seed = text == NULL ? 20261120 : strtoull(text, NULL, 10);

    print_message("seed %llu\n", (unsigned long long)seed);
    return seed;
}

void pb_assert_json(const ProtobufCMessage *message, unsigned flags, const char *want)
{
    json_t *json = ps_pb_to_json(message, flags);
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));

    assert_string_equal(text, want);
    free(text);
    json_decref(json);
}

void pb_mutate(pb_filler *f, char *text, size_t cap)
{
    static const char bytes[] = "{}[]\",:.0123456789-eEtrufalsn\\u \xff\x01";

    for (uint64_t n = 1 + pb_draw(f) % 4; n > 0; n--) {
        size_t len = strlen(text), at = pb_draw(f) % (len + 1), cut = pb_draw(f) % 8;

        switch (pb_draw(f) % 3) {
        case 0:
            if (at < len) {
                text[at] = bytes[pb_draw(f) % (sizeof bytes - 1)];
            }
            break;
        case 1:
            cut = cut < len - at ? cut : len - at;
            memmove(text + at, text + at + cut, len - at - cut + 1);
            break;
        default:
            cut = cut < len - at ? cut : len - at;
            if (len + cut < cap) {
                memmove(text + at + cut, text + at, len - at + 1);
            }
        }
    }
}
