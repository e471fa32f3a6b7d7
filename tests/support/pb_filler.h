/* SPDX-License-Identifier: Apache-2.0 */
/* pb_filler.h - protobuf messages filled by their descriptors, for tests that
 * hold for every type. Draws follow from the key. */
#ifndef PS_TESTS_SUPPORT_PB_FILLER_H
#define PS_TESTS_SUPPORT_PB_FILLER_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pb_filler {
    uint64_t key, next;
} pb_filler;

/* PSGD_TEST_SEED, or a fixed one; prints it. */
uint64_t pb_test_seed(void);

uint64_t pb_draw(pb_filler *f);

/* Gives every field a value that is not its default; of a oneof, one member.
 * depth is 1 for a whole message, more for a smaller one. */
void pb_fill(pb_filler *f, ProtobufCMessage *message, unsigned depth);

/* Changes, drops or doubles a few bytes of the text, in place. */
void pb_mutate(pb_filler *f, char *text, size_t cap);

/* Fails unless message -> JSON -> text -> JSON -> message is the same bytes. */
void pb_assert_round_trip(const ProtobufCMessage *message, unsigned flags);

/* Fails unless the message is this compact JSON. */
void pb_assert_json(const ProtobufCMessage *message, unsigned flags, const char *want);

#endif
