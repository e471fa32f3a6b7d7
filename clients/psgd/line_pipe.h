/* SPDX-License-Identifier: Apache-2.0 */
/* line_pipe.h - lines through descriptors that do not block: what psgd launch and its keepers write
 * to each other, a JSON document in each line. An empty line only says that the sender is alive. */
#ifndef PS_CLIENTS_PSGD_LINE_PIPE_H
#define PS_CLIENTS_PSGD_LINE_PIPE_H

#include "common/base/strbuf.h"

#include <jansson.h>
#include <stdbool.h>

enum { PS_LINE_MAX = 1 << 20 /* so many bytes without an end of a line are taken as a line */ };

/* Reads once from `fd` and appends to `buffer`; nothing if nothing is there now. Returns false at
 * the end of the input or after an error. */
bool ps_lines_read(int fd, ps_strbuf *buffer);

/* Moves the first line of `buffer` to `line`, without its end. Returns false if there is no whole
 * line, and less than PS_LINE_MAX bytes. is_last: nothing more will be read, so the rest counts as
 * a line. */
bool ps_lines_take(ps_strbuf *buffer, bool is_last, ps_strbuf *line);

/* Writes as much of `buffer` as `fd` takes now, and removes it from the buffer. Returns false if
 * nobody reads any more. */
bool ps_lines_write(int fd, ps_strbuf *buffer);

/* Appends a document as a line, and drops the caller's reference to the document. */
void ps_lines_put(ps_strbuf *buffer, json_t *document);

/* Returns the text of the document's member `member`; "" if there is no such text. */
const char *ps_lines_text(const json_t *document, const char *member);

#endif
