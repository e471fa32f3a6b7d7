/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - see numbers.h. */
#include "common/job/numbers.h"

#include "common/base/xalloc.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* The map `params` of a message as protobuf-c stores it: an array of pointers to entries, and its
 * length. */
typedef struct map {
    const ProtobufCMessageDescriptor *entry; /* fields[0] is the key, fields[1] the value */
    ProtobufCMessage ***entries;
    size_t *count;
} map;

static map map_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "params");
    char *base = (char *)(uintptr_t)message; /* callers with a const message only read the map */

    assert(field != NULL && field->label == PROTOBUF_C_LABEL_REPEATED);
    return (map){
        .entry = field->descriptor,
        .entries = (ProtobufCMessage ***)(void *)(base + field->offset),
        .count = (size_t *)(void *)(base + field->quantifier_offset),
    };
}

static char **key_of(const map *m, ProtobufCMessage *entry)
{
    return (char **)(void *)((char *)entry + m->entry->fields[0].offset);
}

static double *value_of(const map *m, ProtobufCMessage *entry)
{
    return (double *)(void *)((char *)entry + m->entry->fields[1].offset);
}

/* Returns the last entry with this key, which wins over earlier ones; NULL: there is none. */
static ProtobufCMessage *find(const map *m, const char *key)
{
    for (size_t i = *m->count; i > 0; i--) {
        ProtobufCMessage *entry = (*m->entries)[i - 1];

        if (strcmp(*key_of(m, entry), key) == 0) {
            return entry;
        }
    }
    return NULL;
}

size_t ps_numbers_count(const ProtobufCMessage *message)
{
    return *map_of(message).count;
}

ps_number ps_numbers_at(const ProtobufCMessage *message, size_t i)
{
    map m = map_of(message);
    ProtobufCMessage *entry = (*m.entries)[i];

    return (ps_number){.key = *key_of(&m, entry), .value = *value_of(&m, entry)};
}

bool ps_numbers_have(const ProtobufCMessage *message, const char *key)
{
    map m = map_of(message);

    return find(&m, key) != NULL;
}

void ps_numbers_set(ProtobufCMessage *message, const char *key, double value)
{
    map m = map_of(message);
    ProtobufCMessage *entry = find(&m, key);

    if (entry == NULL) {
        *m.entries = ps_xrealloc(*m.entries, (*m.count + 1) * sizeof **m.entries);
        entry = ps_xmalloc(m.entry->sizeof_message);
        protobuf_c_message_init(m.entry, entry);
        *key_of(&m, entry) = ps_xstrdup(key);
        (*m.entries)[(*m.count)++] = entry;
    }
    *value_of(&m, entry) = value;
}

void ps_numbers_underlay(ProtobufCMessage *message, const ProtobufCMessage *under)
{
    for (size_t i = 0; i < ps_numbers_count(under); i++) {
        ps_number number = ps_numbers_at(under, i);

        if (!ps_numbers_have(message, number.key)) {
            ps_numbers_set(message, number.key, number.value);
        }
    }
}

void ps_numbers_store(ProtobufCMessage *message, const ps_param *table, const ps_params *values)
{
    for (size_t i = 0; table != NULL && table[i].name != NULL; i++) {
        if (table[i].min < table[i].max) { /* a number that allows one value is left out */
            ps_numbers_set(message, table[i].name, values->v[i]);
        }
    }
}
