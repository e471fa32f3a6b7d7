/* SPDX-License-Identifier: Apache-2.0 */
/* line_pipe.c - see line_pipe.h. */
#include "clients/psgd/line_pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10 };

bool ps_lines_read(int fd, ps_strbuf *buffer)
{
    char bytes[READ_BYTES];
    ssize_t n = read(fd, bytes, sizeof bytes);

    if (n > 0) {
        ps_strbuf_append(buffer, bytes, (size_t)n);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* Removes the first `n` bytes of the buffer. */
static void drop(ps_strbuf *buffer, size_t n)
{
    memmove(buffer->data, buffer->data + n, buffer->len - n);
    ps_strbuf_truncate(buffer, buffer->len - n);
}

bool ps_lines_take(ps_strbuf *buffer, bool is_last, ps_strbuf *line)
{
    const char *end = buffer->len > 0 ? memchr(buffer->data, '\n', buffer->len) : NULL;
    size_t n = end != NULL ? (size_t)(end - buffer->data) : buffer->len;

    if (end == NULL && buffer->len < PS_LINE_MAX && !(is_last && buffer->len > 0)) {
        return false;
    }
    ps_strbuf_clear(line);
    ps_strbuf_append(line, buffer->data, n);
    drop(buffer, n + (end != NULL));
    return true;
}

bool ps_lines_write(int fd, ps_strbuf *buffer)
{
    ssize_t n = buffer->len > 0 ? write(fd, buffer->data, buffer->len) : 0;

    if (n > 0) {
        drop(buffer, (size_t)n);
    }
    return n >= 0 || errno == EAGAIN || errno == EINTR;
}

void ps_lines_put(ps_strbuf *buffer, json_t *document)
{
    char *text = json_dumps(document, JSON_COMPACT);

    ps_strbuf_puts(buffer, text);
    ps_strbuf_putc(buffer, '\n');
    free(text);
    json_decref(document);
}

const char *ps_lines_text(const json_t *document, const char *member)
{
    const char *text = json_string_value(json_object_get(document, member));

    return text != NULL ? text : "";
}
