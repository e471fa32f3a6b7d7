/* SPDX-License-Identifier: Apache-2.0 */
/* live.c - see live.h. */
#include "clients/psgd/live.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_BYTES = 512, COLUMNS = 80 };

void ps_live_init(ps_live *live)
{
    *live = (ps_live){.is_terminal = isatty(STDOUT_FILENO) == 1};
}

static size_t columns(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return COLUMNS;
}

void ps_live_clear(ps_live *live)
{
    if (live->is_shown) {
        fputs("\r\033[K", stdout);
        fflush(stdout);
        live->is_shown = false;
    }
}

void ps_live_progress(ps_live *live, const Psgd__V1__Progress *progress, int64_t now_us)
{
    char text[LINE_BYTES];

    if (live->is_terminal) {
        size_t width = columns();

        ps_show_progress(progress, width - 1, text, sizeof text);
        printf("\r%.*s\033[K", (int)(width - 1), text);
        live->is_shown = true;
    } else if (progress->step > 0 &&
               (live->last_us == 0 || now_us - live->last_us >= PS_LIVE_PERIOD_US)) {
        ps_show_progress(progress, 0, text, sizeof text);
        puts(text);
        live->last_us = now_us;
    }
    fflush(stdout);
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
