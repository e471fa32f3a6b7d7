/* SPDX-License-Identifier: Apache-2.0 */
/* link_memory.c - see link_memory.h. */
#include "common/wire/link_memory.h"

#include "common/base/log.h"

#include <string.h>

ps_shared_memory *ps_link_memory_create(ps_link_offer *out)
{
    ps_shared_memory *m = NULL;
    ps_status st = ps_shared_memory_create(&m);

    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_DEBUG, "wire", "payloads go by sockets: %s", st.text);
        return NULL;
    }
    out->offer = ps_shared_memory_offer(m);
    out->message = (Psgd__V1__SharedMemory)PSGD__V1__SHARED_MEMORY__INIT;
    out->message.process = out->offer.process;
    out->message.descriptor_number = out->offer.descriptor;
    out->message.token =
        (ProtobufCBinaryData){.len = sizeof out->offer.token, .data = out->offer.token};
    return m;
}

bool ps_link_memory_read(const Psgd__V1__SharedMemory *message, ps_memory_offer *out)
{
    if (message == NULL || message->token.len != sizeof out->token) {
        return false;
    }
    out->process = message->process;
    out->descriptor = message->descriptor_number;
    memcpy(out->token, message->token.data, sizeof out->token);
    return true;
}

ps_shared_memory *ps_link_memory_open(const ps_memory_offer *offer)
{
    ps_shared_memory *m = NULL;
    ps_status st = ps_shared_memory_open(offer, &m);

    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_DEBUG, "wire", "payloads go by sockets: %s", st.text);
        return NULL;
    }
    ps_log(PS_LOG_DEBUG, "wire", "payloads of a stream go through memory of process %u",
           offer->process);
    return m;
}

/* Returns by how many bytes a message would be longer if it had the payload itself instead of its
 * place (`place`). */
static uint64_t bytes_spared(const Psgd__V1__PayloadPlace *place)
{
    size_t tag_and_length = 2, length = 1;

    for (uint32_t n = place->bytes; n >= 0x80; n >>= 7) {
        length++;
    }
    return 1 + length + place->bytes - tag_and_length -
           protobuf_c_message_get_packed_size(&place->base);
}

bool ps_link_memory_put(ps_shared_memory *m, const ps_piece *pieces, size_t count,
                        Psgd__V1__PayloadPlace *place, ps_traffic *traffic)
{
    ps_memory_place at;

    if (m == NULL || !ps_shared_memory_put(m, pieces, count, &at)) {
        return false;
    }
    *place = (Psgd__V1__PayloadPlace)PSGD__V1__PAYLOAD_PLACE__INIT;
    place->position = at.position;
    place->bytes = at.bytes;
    if (traffic != NULL) {
        traffic->bytes_out += bytes_spared(place);
        traffic->bytes_through_memory += place->bytes;
    }
    return true;
}

static const uint8_t *view(void *arg, size_t at, size_t len, void *scratch)
{
    return ps_shared_memory_view(arg, at, len, scratch);
}

static const uint8_t *view_floats(void *arg, size_t at, size_t len, void *scratch, bool *are_finite)
{
    return ps_shared_memory_view_floats(arg, at, len, scratch, are_finite);
}

ps_status ps_link_memory_take(ps_shared_memory *m, const Psgd__V1__PayloadPlace *place,
                              ps_incoming *in, ps_traffic *traffic)
{
    ps_memory_place at = {.position = place->position, .bytes = place->bytes};
    ps_status st;

    if (m == NULL || in->len > 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "place: %s",
                       m == NULL ? "this stream has no shared memory"
                                 : "the message has a payload besides");
    }
    st = ps_shared_memory_take(m, &at);
    if (!ps_is_ok(&st)) {
        return st;
    }
    *in = (ps_incoming){.len = place->bytes, .view = view, .view_floats = view_floats, .arg = m};
    if (traffic != NULL) {
        traffic->bytes_in += bytes_spared(place);
        traffic->bytes_through_memory += place->bytes;
    }
    return ps_ok();
}
