/* SPDX-License-Identifier: Apache-2.0 */
/* piece.h - the two groups of pieces in a message: slices, and rows of sparse variables.
 *
 * A message of a contribution has slices, rows, or both, and so has an answer; a contribution of
 * zeros is a message without slices. A request asks for slices, or for rows by key. Each end has a
 * table with its functions for each group (connection_impl.h, wire_server_impl.h). The slices of a
 * variable that is sent whole (matrix.h) belong to the group of slices.
 */
#ifndef PS_COMMON_WIRE_PIECE_H
#define PS_COMMON_WIRE_PIECE_H

/* The groups, in the order in which a contribution sends them and in which bytes stand in any
 * message. Requests and answers are filled in the reverse order, because rows are few bytes and the
 * worker waits for them first. */
enum { PS_PIECE_SLICES, PS_PIECE_ROWS, PS_PIECE_GROUPS };

#endif
