/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - reads and writes the numbers that a message gives a plugin: its field `params`.
 *
 * Choice, ModelSpec, LayerSpec, DataSpec, ColumnSpec and ComputeSpec have that field, a map from
 * names to doubles. protobuf-c generates a type of its own for the entries of each map; the
 * functions here use descriptors and take any of these messages. Messages are malloc's. Pure; any
 * thread.
 */
#ifndef PS_COMMON_JOB_NUMBERS_H
#define PS_COMMON_JOB_NUMBERS_H

#include "common/base/param.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct ps_number {
    const char *key; /* points into the message */
    double value;
} ps_number;

/* Returns how many numbers the message has. */
size_t ps_numbers_count(const ProtobufCMessage *message);

/* Returns number i, in the order received. A key may occur twice; its last value counts. */
ps_number ps_numbers_at(const ProtobufCMessage *message, size_t i);

/* Returns whether the message has a number of this name. */
bool ps_numbers_have(const ProtobufCMessage *message, const char *key);

/* Sets a number: replaces its value, or adds a copy of `key`. */
void ps_numbers_set(ProtobufCMessage *message, const char *key, double value);

/* Adds the numbers of `under` that `message` does not have. */
void ps_numbers_underlay(ProtobufCMessage *message, const ProtobufCMessage *under);

/* Sets every number of a plugin: those of `table`, with their values, but for numbers that allow
 * one value (min equals max). A NULL table has none. */
void ps_numbers_store(ProtobufCMessage *message, const ps_param *table, const ps_params *values);

#endif
