/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_wire.c - any bytes, cut into any slices, as messages of several types.
 *
 * The first byte picks the type, the second how the slices are cut. What is
 * accepted must be what protobuf-c alone makes of the same bytes in one run.
 */
#include "common/rpc/error_wire.h"
#include "common/rpc/wire.h"

#include "psgd/v1/coordinator.pb-c.h"
#include "psgd/v1/node.pb-c.h"
#include "psgd/v1/parameter.pb-c.h"

#include <grpc/grpc.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    grpc_init(); /* slices need it */
    return 0;
}

static const ProtobufCMessageDescriptor *const types[] = {
    &psgd__v1__push_gradient_request__descriptor,
    &psgd__v1__pull_weights_response__descriptor,
    &psgd__v1__submit_job_request__descriptor,
    &psgd__v1__heartbeat_request__descriptor,
};

/* Slices of lengths that change; now and then one is empty. */
static grpc_byte_buffer *cut_up(const uint8_t *bytes, size_t n, size_t cut)
{
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(NULL, 0);
    size_t len = 1;

    for (size_t at = 0; at < n; at += len) {
        len = (len + 1 + cut) % 61;
        len = len < n - at ? len : n - at;
        grpc_slice_buffer_add_indexed(&buffer->data.raw.slice_buffer,
                                      grpc_slice_from_copied_buffer((const char *)bytes + at, len));
    }
    return buffer;
}

static const ProtobufCBinaryData *payload_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(message->descriptor, PS_PAYLOAD_TAG);

    return field == NULL ? NULL : (const void *)((const uint8_t *)message + field->offset);
}

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_accepted(ps_received *in, const uint8_t *bytes, size_t n)
{
    ProtobufCMessage *whole = protobuf_c_message_unpack(in->message->descriptor, NULL, n, bytes);
    const ProtobufCBinaryData *payload;
    size_t len = ps_payload_len(ps_received_payload(in));
    uint8_t *scratch = malloc(len + 1);

    check(whole != NULL && scratch != NULL);
    payload = payload_of(whole);
    check(len == (in->has_payload ? payload->len : 0));
    for (size_t at = 0; at < len;) {
        size_t step = len - at < 19 ? len - at : 19;

        check(memcmp(ps_payload_view(&in->payload, at, step, scratch), payload->data + at, step) ==
              0);
        at += step;
    }
    check(protobuf_c_message_get_packed_size(in->message) <=
          protobuf_c_message_get_packed_size(whole));
    free(scratch);
    protobuf_c_message_free_unpacked(whole, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ps_received in;
    ps_error error;
    ps_status st;

    if (size < 2) {
        return 0;
    }
    ps_received_init(&in);
    st = ps_received_unpack(&in, cut_up(data + 2, size - 2, data[1]),
                            types[data[0] % (sizeof types / sizeof types[0])], 0, PS_SPLIT);
    if (ps_is_ok(&st)) {
        check_accepted(&in, data + 2, size - 2);
    } else {
        check(in.message == NULL && in.buffer == NULL);
    }
    ps_received_fini(&in);

    ps_error_init(&error, ps_fail(PS_UNKNOWN, "fuzz"), NULL);
    ps_error_unpack(&error, data + 1, size - 1);
    return 0;
}
