/* SPDX-License-Identifier: Apache-2.0 */
/* printable.h - text from outside, for people who read it on a terminal. */
#ifndef PS_COMMON_BASE_PRINTABLE_H
#define PS_COMMON_BASE_PRINTABLE_H

/* Replaces every byte of the following by '?', because it could deceive a reader at a terminal:
 * control characters, invisible characters (but the joiners U+200C and U+200D, which scripts need),
 * characters that change the direction of writing or end a line, and bytes that are no UTF-8. */
void ps_printable(char *text);

#endif
