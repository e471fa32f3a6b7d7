/* SPDX-License-Identifier: Apache-2.0 */
/* config_help.c - writes the text of --help from the tables. */
#include "common/base/config.h"
#include "common/base/config_impl.h"
#include "common/base/scalar.h"

#include <string.h>

enum {
    COLUMNS = 80,
    HELP_COLUMN = 30, /* column where descriptions start */
};

/* Returns how many columns n bytes of UTF-8 take, one for each character, also for wide ones. */
static size_t columns_of(const char *text, size_t n)
{
    size_t columns = 0;

    for (size_t i = 0; i < n; i++) {
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return columns;
}

/* Appends the words of `text` and a newline; the first word begins at column `at`. Wraps lines at
 * COLUMNS and indents all but the first by `indent`. Keeps newlines of `text`. */
static void wrap(ps_strbuf *out, const char *text, size_t at, size_t indent)
{
    bool is_first = true;

    while (*text != '\0') {
        size_t n = strcspn(text, " \n");
        size_t columns = columns_of(text, n);

        if (!is_first && at + 1 + columns > COLUMNS) {
            ps_strbuf_putc(out, '\n');
            ps_strbuf_pad(out, ' ', indent);
            at = indent;
        } else if (!is_first) {
            ps_strbuf_putc(out, ' ');
            at++;
        }
        ps_strbuf_append(out, text, n);
        at += columns;
        text += n;
        is_first = false;
        if (*text == '\n') {
            ps_strbuf_putc(out, '\n');
            ps_strbuf_pad(out, ' ', indent);
            at = indent;
            is_first = true;
        }
        text += *text != '\0';
    }
    ps_strbuf_putc(out, '\n');
}

/* Appends those of an option's facts that it has: range, "required", default, "may be repeated" and
 * environment variable, as in "1 to 64; default 4; PSGD_SLOTS". */
static void put_facts(ps_strbuf *out, const ps_option *option)
{
    char min[PS_DURATION_BYTES], max[PS_DURATION_BYTES];
    const char *between = "";

    if (option->min != 0.0 || option->max != 0.0) {
        if (option->kind == PS_KIND_DURATION) {
            ps_scalar_format_duration((int64_t)option->min, min);
            ps_scalar_format_duration((int64_t)option->max, max);
            ps_strbuf_printf(out, "%s to %s", min, max);
        } else {
            ps_strbuf_printf(out, "%.15g to %.15g", option->min, option->max);
        }
        between = "; ";
    }
    if (option->is_required) {
        ps_strbuf_printf(out, "%srequired", between);
        between = "; ";
    }
    if (option->value != NULL && option->value[0] != '\0' &&
        (option->kind != PS_KIND_BOOL || strcmp(option->value, "true") == 0)) {
        ps_strbuf_printf(out, "%sdefault %s", between,
                         option->kind == PS_KIND_BOOL ? "on" : option->value);
        between = "; ";
    }
    if (option->kind == PS_KIND_LIST) {
        ps_strbuf_printf(out, "%smay be repeated", between);
        between = "; ";
    }
    if (option->env != NULL) {
        ps_strbuf_printf(out, "%s%s", between, option->env);
    }
}

static void put_option(ps_strbuf *out, const ps_option *option)
{
    ps_strbuf facts = {0}, text = {0};
    size_t start = out->len, at;
    bool is_bool = option->kind == PS_KIND_BOOL;
    bool is_on = is_bool && option->value != NULL && strcmp(option->value, "true") == 0;

    if (option->letter != 0) {
        ps_strbuf_printf(out, "  -%c, ", option->letter);
    } else {
        ps_strbuf_puts(out, "      ");
    }
    ps_strbuf_printf(out, "--%s%s%s%s", is_on ? "[no-]" : "", option->name, is_bool ? "" : " ",
                     is_bool ? "" : ps_option_metavar(option));
    at = columns_of(out->data + start, out->len - start);
    if (at + 2 > HELP_COLUMN) {
        ps_strbuf_putc(out, '\n');
        at = 0;
    }
    ps_strbuf_pad(out, ' ', HELP_COLUMN - at);
    put_facts(&facts, option);
    ps_strbuf_puts(&text, option->help);
    if (facts.len > 0) {
        ps_strbuf_printf(&text, "%s(%s)", text.len > 0 ? " " : "", ps_strbuf_text(&facts));
    }
    wrap(out, ps_strbuf_text(&text), HELP_COLUMN, HELP_COLUMN);
    ps_strbuf_fini(&facts);
    ps_strbuf_fini(&text);
}

static void put_options(ps_strbuf *out, const ps_option *options)
{
    for (; options->name != NULL; options++) {
        if (options->help != NULL) {
            put_option(out, options);
        }
    }
}

/* Appends each line with two spaces before it. */
static void put_indented(ps_strbuf *out, const char *lines)
{
    while (*lines != '\0') {
        size_t n = strcspn(lines, "\n");

        ps_strbuf_puts(out, n > 0 ? "  " : "");
        ps_strbuf_append(out, lines, n);
        ps_strbuf_putc(out, '\n');
        lines += n + (lines[n] == '\n');
    }
}

void ps_config_help(const ps_command *command, ps_strbuf *out)
{
    const char *usage = command->usage == NULL ? "[options]" : command->usage;
    const ps_option_table *table = command->tables;

    ps_strbuf_printf(out, "Usage: %s ", command->name);
    wrap(out, usage, strlen("Usage:  ") + strlen(command->name), strlen("Usage: "));
    if (command->summary != NULL) {
        ps_strbuf_putc(out, '\n');
        wrap(out, command->summary, 0, 0);
    }
    for (; table != NULL && table->options != NULL; table++) {
        ps_strbuf_printf(out, "\n%s:\n", table->title == NULL ? "Options" : table->title);
        put_options(out, table->options);
    }
    ps_strbuf_puts(out, "\nGeneral:\n");
    if (command->has_file) {
        put_options(out, ps_config_file_options);
    }
    put_options(out, ps_config_help_options);
    if (command->examples != NULL) {
        ps_strbuf_puts(out, "\nExamples:\n");
        put_indented(out, command->examples);
    }
    if (command->notes != NULL) {
        ps_strbuf_putc(out, '\n');
        wrap(out, command->notes, 0, 0);
    }
}

void ps_config_version(const ps_command *command, const char *kernels, ps_strbuf *out)
{
    ps_strbuf_printf(out, "%s %s\n", command->name, PS_VERSION);
#ifdef PS_COMMIT
    ps_strbuf_puts(out, "commit " PS_COMMIT "\n");
#endif
    ps_strbuf_printf(out, "kernels: %s\n", kernels);
}
