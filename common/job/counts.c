/* SPDX-License-Identifier: Apache-2.0 */
/* counts.c - see counts.h. */
#include "common/job/counts.h"

#include <assert.h>
#include <stddef.h>

/* Returns the member of the message for the counter, and writes its type to *type. Returns NULL if
 * none of `of` (PS_OF_...) has the counter. */
static void *slot_of(const ps_counter *counter, unsigned of, ProtobufCMessage *message,
                     ProtobufCType *type)
{
    const ProtobufCFieldDescriptor *field;

    if ((counter->of & of) == 0) {
        return NULL;
    }
    field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, counter->name);
    assert(field != NULL); /* tests/unit/test_counters.c checks this for all counters */
    *type = field->type;
    return (char *)message + field->offset;
}

void ps_counts_put(const ps_counts *counts, unsigned of, ProtobufCMessage *message)
{
    for (size_t i = 0; i < PS_COUNTERS; i++) {
        ProtobufCType type;
        void *slot = slot_of(&ps_counters[i], of, message, &type);
        bool is_own = of == PS_OF_JOB && ps_counters[i].merge == PS_MERGE_NONE;

        if (slot == NULL || is_own) {
            continue;
        }
        if (type == PROTOBUF_C_TYPE_UINT32) {
            *(uint32_t *)slot = (uint32_t)counts->v[i];
        } else if (type == PROTOBUF_C_TYPE_UINT64) {
            *(uint64_t *)slot = (uint64_t)counts->v[i];
        } else {
            *(double *)slot = counts->v[i];
        }
    }
}

ps_counts ps_counts_get(const ProtobufCMessage *message, unsigned of)
{
    ps_counts counts = {0};

    for (size_t i = 0; i < PS_COUNTERS; i++) {
        ProtobufCType type;
        const void *slot =
            slot_of(&ps_counters[i], of, (ProtobufCMessage *)(uintptr_t)message, &type);

        if (slot == NULL) {
            continue;
        }
        counts.v[i] = type == PROTOBUF_C_TYPE_UINT32   ? *(const uint32_t *)slot
                      : type == PROTOBUF_C_TYPE_UINT64 ? (double)*(const uint64_t *)slot
                                                       : *(const double *)slot;
    }
    return counts;
}
