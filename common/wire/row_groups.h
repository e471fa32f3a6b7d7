/* SPDX-License-Identifier: Apache-2.0 */
/* row_groups.h - encodes and decodes the rows of one table in a message, in groups that do not
 * depend on which server has which rows.
 *
 * Most codecs round a value by the values that are encoded with it: int8 by the largest of them. So
 * that the bits do not depend on the number of servers, only rows that are on one server under
 * every placement are encoded together. The rows of a message that form a group are:
 * - of a table that grows, those of one virtual shard (ps_table_shard_of);
 * - of a fixed vocabulary, those of one slice of the layout, or of as many rows of it as a message
 *   may have;
 * - of any table, all rows if the codec is plain (ps_codec_is_plain), whose bits depend on nothing.
 * Groups are encoded one after the other by the number of their shard or slice, the rows of a group
 * in the order of the message. Each is encoded as parts.h does, with draws by the first key.
 *
 * For the same reason the rows of a group must not be divided by the end of a message. Senders cut
 * what they send into stretches of ps_table_keys_of_message rows, counted over the rows of all
 * servers, and send the rows of two stretches in two messages (ps_row_groups_stretch); or they cut
 * between two groups (ps_row_groups_cut).
 *
 * Keys may be any numbers. A message has at most PS_TABLE_KEYS of them. Any thread. */
#ifndef PS_COMMON_WIRE_ROW_GROUPS_H
#define PS_COMMON_WIRE_ROW_GROUPS_H

#include "common/base/draw.h"
#include "common/codec/parts.h"
#include "common/job/plan.h"
#include "common/rpc/payload.h"

enum {
    /* most encodings of rows in a message: one for each group, and one for each 16384 values */
    PS_ROW_HEADS_MAX = PS_ROW_GROUPS_MAX + PS_PAYLOAD_MAX / (4 * PS_CODEC_VALUES) + 1
};

/* The rows of a message that belong to one table. */
typedef struct ps_row_groups {
    const ps_plan *plan;
    uint32_t table;
    const ps_codec_choice *choice; /* plan->up or plan->down of the table's variable */
    const uint64_t *keys;          /* (count) */
    size_t count;
} ps_row_groups;

/* Returns the number of bytes that the encodings of the rows take, at most. */
size_t ps_row_groups_bytes(const ps_row_groups *rows);

/* Encodes the rows x (count, width) to `out` (ps_row_groups_bytes) and their heads to `heads`
 * (PS_ROW_HEADS_MAX less those that the message has already). `draws` and `purpose` determine
 * random rounding, each group's together with its first key. Returns the number of bytes and sets
 * *head_count. */
size_t ps_row_groups_encode(const ps_row_groups *rows, uint64_t draws, ps_purpose purpose,
                            const float *x, uint8_t *out, ps_encoding *heads, size_t *head_count);

/* Reads the rows to y (count, width). Fails as ps_parts_read does; y may then be partly written. */
PS_MUST_USE ps_status ps_row_groups_read(const ps_row_groups *rows, ps_parts_reader *reader,
                                         float *y);

/* Of the rows that a worker sends or asks for, counted over all servers: returns the end of the
 * stretch that has number i, the number of the first row that must be in another message than row
 * i. SIZE_MAX: there is none. */
size_t ps_row_groups_stretch(const ps_plan *plan, const ps_codec_choice *choice, size_t i);

/* Returns how many of the rows, from the first, a message may have if more follow: at least 1, at
 * most ps_table_keys_of_message. Only for a fixed vocabulary. */
size_t ps_row_groups_cut(const ps_row_groups *rows);

#endif
