/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h. */
#include "common/base/log.h"

#include "common/base/clock.h"
#include "common/base/strbuf.h"
#include "common/base/utf8.h"
#include "common/base/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_BYTES = 2048 };

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const format_names[] = {"text", "json"};

/* The log's settings and state. They are global because a process has one stderr. */
static struct {
    const char *service; /* set before threads start, then constant */
    ps_log_format format;
    atomic_int level;
    atomic_bool has_sink; /* false: there is no sink, so a line need not take the lock */
    atomic_bool is_quiet; /* true: while there is a sink, nothing goes to stderr */
    pthread_mutex_t lock; /* guards sink and arg; held while the sink runs */
    ps_log_sink sink;
    void *arg;
    /* guards kept and kept_end; not `lock`, because a sink may log while it holds that */
    pthread_mutex_t kept_lock;
    char *kept;        /* ring of kept_cap bytes: byte i is at i % kept_cap */
    uint64_t kept_end; /* bytes put into the ring so far, also those that it has overwritten */
    size_t kept_cap;   /* set before threads start; 0: no line is kept */
} the_log = {.service = "psgd",
             .level = PS_LOG_INFO,
             .lock = PTHREAD_MUTEX_INITIALIZER,
             .kept_lock = PTHREAD_MUTEX_INITIALIZER};

/* True while this thread runs the sink and holds the lock: its lines do not go to the sink
 * again. */
static _Thread_local bool is_in_sink;

void ps_log_init(const char *service, ps_log_level level, ps_log_format format)
{
    the_log.service = service;
    the_log.format = format;
    ps_log_set_level(level);
}

void ps_log_set_level(ps_log_level level)
{
    atomic_store(&the_log.level, (int)level);
}

bool ps_log_is_on(ps_log_level level)
{
    return (int)level <= atomic_load_explicit(&the_log.level, memory_order_relaxed);
}

void ps_log_set_sink(ps_log_sink sink, void *arg)
{
    pthread_mutex_lock(&the_log.lock);
    the_log.sink = sink;
    the_log.arg = arg;
    atomic_store(&the_log.has_sink, sink != NULL);
    pthread_mutex_unlock(&the_log.lock);
}

void ps_log_set_quiet(bool is_quiet)
{
    atomic_store(&the_log.is_quiet, is_quiet);
}

static bool find(const char *name, const char *const *names, size_t n, size_t *out)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

bool ps_log_level_find(const char *name, ps_log_level *out)
{
    size_t i;
    bool found = find(name, level_names, sizeof level_names / sizeof level_names[0], &i);

    if (found) {
        *out = (ps_log_level)i;
    }
    return found;
}

bool ps_log_format_find(const char *name, ps_log_format *out)
{
    size_t i;
    bool found = find(name, format_names, sizeof format_names / sizeof format_names[0], &i);

    if (found) {
        *out = (ps_log_format)i;
    }
    return found;
}

/* Appends n bytes of `text` to a text line. Escapes control characters, which could start a line or
 * move the cursor. Bytes that are not UTF-8 become U+FFFD. */
static void put_plain(ps_strbuf *line, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = ps_utf8_length(text + i, n - i);
        unsigned char c = (unsigned char)text[i];

        if (len == 0) {
            ps_strbuf_puts(line, "\xef\xbf\xbd"); /* U+FFFD for a byte that is not UTF-8 */
            len = 1;
        } else if (c == '\n') {
            ps_strbuf_puts(line, "\\n");
        } else if (c < 0x20 || c == 0x7f) {
            ps_strbuf_printf(line, "\\x%02x", c);
        } else if (len == 2 && c == 0xc2 && (unsigned char)text[i + 1] < 0xa0) {
            ps_strbuf_printf(line, "\\u%04x", (unsigned char)text[i + 1]); /* C1 control */
        } else {
            ps_strbuf_append(line, text + i, len);
        }
        i += len;
    }
}

static void put_text_line(ps_strbuf *line, ps_log_level level, const char *room,
                          const ps_log_field *fields, const char *message)
{
    int64_t now = ps_clock_wall_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm tm;

    localtime_r(&seconds, &tm);
    ps_strbuf_printf(line, "%02d:%02d:%02d.%03d %-5s %s: ", tm.tm_hour, tm.tm_min, tm.tm_sec,
                     (int)(now / 1000 % 1000), level_names[level], room);
    put_plain(line, message, strlen(message));
    for (; fields != NULL && fields->key != NULL; fields++) {
        ps_strbuf_printf(line, " %s=", fields->key);
        if (fields->text == NULL) {
            ps_strbuf_printf(line, "%lld", (long long)fields->number);
        } else if (fields->text[0] == '\0' || strpbrk(fields->text, " \t\"=") != NULL) {
            ps_strbuf_json_string(line, fields->text, strlen(fields->text));
        } else {
            put_plain(line, fields->text, strlen(fields->text));
        }
    }
}

static void put_json_member(ps_strbuf *line, const char *key, const char *text)
{
    ps_strbuf_printf(line, ",\"%s\":", key);
    ps_strbuf_json_string(line, text, strlen(text));
}

static void put_json_line(ps_strbuf *line, ps_log_level level, const char *room,
                          const ps_log_field *fields, const char *message)
{
    int64_t now = ps_clock_wall_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    ps_strbuf_printf(line, "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%06dZ\"", tm.tm_year + 1900,
                     tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     (int)(now % 1000000));
    put_json_member(line, "level", level_names[level]);
    put_json_member(line, "service", the_log.service);
    put_json_member(line, "room", room);
    put_json_member(line, "msg", message);
    for (; fields != NULL && fields->key != NULL; fields++) {
        if (fields->text != NULL) {
            put_json_member(line, fields->key, fields->text);
        } else {
            ps_strbuf_printf(line, ",\"%s\":%lld", fields->key, (long long)fields->number);
        }
    }
    ps_strbuf_putc(line, '}');
}

static void give_to_sink(ps_log_level level, const char *line)
{
    if (is_in_sink || !atomic_load(&the_log.has_sink)) {
        return;
    }
    pthread_mutex_lock(&the_log.lock);
    if (the_log.sink != NULL) {
        is_in_sink = true;
        the_log.sink(the_log.arg, level, line);
        is_in_sink = false;
    }
    pthread_mutex_unlock(&the_log.lock);
}

void ps_log_keep(size_t bytes)
{
    the_log.kept = ps_xmalloc(bytes);
    the_log.kept_cap = bytes;
}

static void keep_bytes(const char *bytes, size_t n)
{
    size_t at = (size_t)(the_log.kept_end % the_log.kept_cap);
    size_t first = n < the_log.kept_cap - at ? n : the_log.kept_cap - at;

    memcpy(the_log.kept + at, bytes, first);
    memcpy(the_log.kept, bytes + first, n - first);
    the_log.kept_end += n;
}

static void keep_line(const char *line, size_t n)
{
    if (n >= the_log.kept_cap) {
        return;
    }
    pthread_mutex_lock(&the_log.kept_lock);
    keep_bytes(line, n);
    keep_bytes("\n", 1);
    pthread_mutex_unlock(&the_log.kept_lock);
}

size_t ps_log_recent(char *out, size_t cap)
{
    size_t n = 0, skip = 0;

    pthread_mutex_lock(&the_log.kept_lock);
    n = the_log.kept_end < the_log.kept_cap ? (size_t)the_log.kept_end : the_log.kept_cap;
    n = n < cap ? n : cap;
    for (size_t i = 0; i < n; i++) {
        out[i] = the_log.kept[(the_log.kept_end - n + i) % the_log.kept_cap];
    }
    /* Older bytes are left out, so the first line may lack its beginning: skips it. */
    if (n < the_log.kept_end) {
        const char *newline = memchr(out, '\n', n);

        skip = newline == NULL ? n : (size_t)(newline - out) + 1;
    }
    pthread_mutex_unlock(&the_log.kept_lock);
    memmove(out, out + skip, n - skip);
    return n - skip;
}

/* Writes a line to stderr. A failure is ignored, because it could be reported nowhere. */
static void write_line(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(STDERR_FILENO, bytes, n);

        if (done < 0 && errno != EINTR) {
            return;
        }
        if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
}

PS_PRINTF(4, 0)
static void log_line(ps_log_level level, const char *room, const ps_log_field *fields,
                     const char *fmt, va_list ap)
{
    int held_errno = errno;
    char message[MESSAGE_BYTES];
    ps_strbuf line = {0};

    if (vsnprintf(message, sizeof message, fmt, ap) >= (int)sizeof message) {
        memcpy(message + sizeof message - 4, "...", 4);
    }
    if (the_log.format == PS_LOG_JSON) {
        put_json_line(&line, level, room, fields, message);
    } else {
        put_text_line(&line, level, room, fields, message);
    }
    keep_line(ps_strbuf_text(&line), line.len);
    give_to_sink(level, ps_strbuf_text(&line));
    if (!atomic_load(&the_log.is_quiet) || !atomic_load(&the_log.has_sink)) {
        ps_strbuf_putc(&line, '\n');
        write_line(line.data, line.len);
    }
    ps_strbuf_fini(&line);
    errno = held_errno;
}

void ps_log(ps_log_level level, const char *room, const char *fmt, ...)
{
    va_list ap;

    if (ps_log_is_on(level)) {
        va_start(ap, fmt);
        log_line(level, room, NULL, fmt, ap);
        va_end(ap);
    }
}

void ps_log_with(ps_log_level level, const char *room, const ps_log_field *fields, const char *fmt,
                 ...)
{
    va_list ap;

    if (ps_log_is_on(level)) {
        va_start(ap, fmt);
        log_line(level, room, fields, fmt, ap);
        va_end(ap);
    }
}
