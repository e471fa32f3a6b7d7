/* SPDX-License-Identifier: Apache-2.0 */
/* pb_filler.h - fills protobuf messages of any type with random values, by their descriptors. The
 * values depend only on the key. */
#ifndef PS_TESTS_SUPPORT_PB_FILLER_H
#define PS_TESTS_SUPPORT_PB_FILLER_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pb_filler {
    uint64_t key, next;
} pb_filler;

/* Returns the seed in the environment variable PSGD_TEST_SEED, else a fixed one, and prints it. */
uint64_t pb_test_seed(void);

uint64_t pb_draw(pb_filler *f);

/* Gives every field of the message a value that is not its default, and one member of each oneof.
 * depth: 1 fills messages within it too, several levels deep; a greater number fewer levels. */
void pb_fill(pb_filler *f, ProtobufCMessage *message, unsigned depth);

/* Changes, removes or doubles a few bytes of `text`, in place. */
void pb_mutate(pb_filler *f, char *text, size_t cap);

/* Fails the test unless the message, converted to JSON, to text and back, packs to the same bytes.
 */
void pb_assert_round_trip(const ProtobufCMessage *message, unsigned flags);

/* Fails the test unless the message as compact JSON is `want`. */
void pb_assert_json(const ProtobufCMessage *message, unsigned flags, const char *want);

#endif
