/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h. */
#include "clients/psgd/live.h"

#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS = 80, ROWS = 24 };

/* Returns whether the environment's locale has UTF-8. */
static bool has_utf8(void)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool found = false;

    if (locale != (locale_t)0) {
        found = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
        freelocale(locale);
    }
    return found;
}

void ps_live_init(ps_live *live)
{
    *live = (ps_live){.is_terminal = isatty(STDOUT_FILENO) == 1, .is_utf8 = has_utf8()};
}

static struct winsize screen(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
        size = (struct winsize){0};
    }
    size.ws_col = size.ws_col > 0 ? size.ws_col : COLUMNS;
    size.ws_row = size.ws_row > 0 ? size.ws_row : ROWS;
    return size;
}

void ps_live_clear(ps_live *live)
{
    if (live->is_shown) {
        if (live->above > 0) {
            printf("\033[%zuA", live->above);
        }
        fputs("\r\033[J", stdout);
        fflush(stdout);
        live->is_shown = false;
        live->above = 0;
    }
}

void ps_live_progress(ps_live *live, const Psgd__V1__Progress *progress, int64_t now_us)
{
    char text[PS_SHOW_PROGRESS_BYTES];

    if (live->is_terminal) {
        size_t width = screen().ws_col;

        ps_show_progress(progress, live->computes, width - 1, text, sizeof text);
        printf("\r%.*s\033[K", (int)(width - 1), text);
        live->is_shown = true;
    } else if (progress->step > 0 &&
               (live->last_us == 0 || now_us - live->last_us >= PS_LIVE_PERIOD_US)) {
        ps_show_progress(progress, live->computes, 0, text, sizeof text);
        puts(text);
        live->last_us = now_us;
    }
    fflush(stdout);
}

void ps_live_curves(ps_live *live, const Psgd__V1__Progress *progress, const ps_curves *curves,
                    int64_t now_us)
{
    struct winsize size = screen();
    size_t width = size.ws_col, above;
    ps_strbuf lines = {0}, out = {0};
    char text[PS_SHOW_PROGRESS_BYTES];

    if (!live->is_terminal) {
        ps_live_progress(live, progress, now_us);
        return;
    }
    /* Leave one column of the screen free, because a full line would move the cursor to the next
     * one, and one line for the line of progress. */
    above = ps_curves_draw(&lines, curves, width - 1, size.ws_row - 1U, live->is_utf8);
    if (live->is_shown && live->columns != width) {
        /* The terminal may have wrapped the old lines at its new width, so it is unknown how many
         * there are now: clear the whole screen. */
        ps_strbuf_puts(&out, "\033[H\033[J");
    } else if (live->is_shown && live->above > 0) {
        ps_strbuf_printf(&out, "\033[%zuA", live->above);
    }
    ps_strbuf_putc(&out, '\r');
    for (const char *at = ps_strbuf_text(&lines); *at != '\0'; at = strchr(at, '\n') + 1) {
        ps_strbuf_append(&out, at, strcspn(at, "\n"));
        ps_strbuf_puts(&out, "\033[K\n");
    }
    ps_show_progress(progress, live->computes, width - 1, text, sizeof text);
    ps_strbuf_printf(&out, "%.*s\033[J", (int)(width - 1), text);
    fwrite(out.data, 1, out.len, stdout);
    fflush(stdout);
    live->is_shown = true;
    live->above = above;
    live->columns = width;
    ps_strbuf_fini(&lines);
    ps_strbuf_fini(&out);
}

void ps_live_keep(ps_live *live)
{
    if (live->is_shown) {
        putchar('\n');
        fflush(stdout);
        live->is_shown = false;
        live->above = 0;
    }
}

void ps_live_line(ps_live *live, const char *fmt, ...)
{
    va_list ap;

    ps_live_clear(live);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}
