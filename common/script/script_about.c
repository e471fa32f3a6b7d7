/* SPDX-License-Identifier: Apache-2.0 */
/* script_about.c - reads what a sandbox says of a plugin. */
#include "common/base/shorten.h"
#include "common/script/script_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ps_script_trait_name(uint32_t trait)
{
    switch (trait) {
    case PS_TRAIT_UNBIASED:
        return "unbiased";
    case PS_TRAIT_SPARSE:
        return "sparse";
    case PS_TRAIT_KEEPS_ZEROS:
        return "keeps_zeros";
    case PS_TRAIT_COST:
        return "cost";
    default:
        return "";
    }
}

/* Reads the number before the next blank, and moves *at behind the blank. Returns false if there is
 * no finite number. */
static bool read_real(char **at, double *x)
{
    char *end;

    *x = strtod(*at, &end);
    if (end == *at || *end != ' ' || !isfinite(*x)) {
        return false;
    }
    *at = end + 1;
    return true;
}

/* Copies the word before the next blank, and moves *at behind the blank. Returns false if there is
 * no such word or it is too long. */
static bool read_word(char **at, char word[PS_SCRIPT_NAME])
{
    size_t n = strcspn(*at, " ");

    if (n == 0 || n >= PS_SCRIPT_NAME || (*at)[n] != ' ') {
        return false;
    }
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n + 1;
    return true;
}

static bool is_name(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n < PS_SCRIPT_NAME &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static bool read_text(const char *at, char *text, size_t room)
{
    return snprintf(text, room, "%s", at) < (int)room;
}

static bool read_name(const char *at, char name[PS_SCRIPT_NAME])
{
    return is_name(at) && read_text(at, name, PS_SCRIPT_NAME);
}

/* Returns whether a number of the plugin may have this name. Not free are the names of its earlier
 * numbers, `script`, and the numbers that every codec has (PS_WRAP_PARAMS). */
static bool is_free(const ps_script_about *about, const char *name)
{
    static const ps_param wraps[] = {PS_WRAP_PARAMS, {0}};

    for (uint32_t i = 0; i < about->number_count; i++) {
        if (strcmp(about->names[i], name) == 0) {
            return false;
        }
    }
    return strcmp(name, "script") != 0 && ps_param_find(wraps, name) < 0;
}

static bool read_number(char *at, ps_script_about *about)
{
    uint32_t i = about->number_count;
    ps_param *p;
    double is_integer;

    if (i == PS_SANDBOX_NUMBERS || !read_word(&at, about->names[i]) || !is_name(about->names[i]) ||
        !is_free(about, about->names[i])) {
        return false;
    }
    p = &about->numbers[i];
    if (!read_real(&at, &p->value) || !read_real(&at, &p->min) || !read_real(&at, &p->max) ||
        !read_real(&at, &is_integer)) {
        return false;
    }
    p->is_integer = is_integer != 0;
    p->name = about->names[i];
    p->help = about->help[i];
    about->number_count++;
    if (p->is_integer && (p->min < -0x1p53 || p->max > 0x1p53 || p->value != floor(p->value))) {
        return false;
    }
    return read_text(at, about->help[i], sizeof about->help[i]) && p->min <= p->value &&
           p->value <= p->max;
}

static bool read_line(char *line, ps_script_about *about)
{
    char key[PS_SCRIPT_NAME];

    if (!read_word(&line, key)) {
        return false;
    }
    if (strcmp(key, "number") == 0) {
        return read_number(line, about);
    }
    if (strcmp(key, "kind") == 0) {
        return read_name(line, about->kind);
    }
    if (strcmp(key, "name") == 0) {
        return read_name(line, about->name);
    }
    if (strcmp(key, "summary") == 0) {
        return read_text(line, about->summary, sizeof about->summary);
    }
    if (strcmp(key, "bits") == 0) {
        about->bits = strtod(line, NULL);
        return about->bits > 0 && about->bits <= 64;
    }
    for (uint32_t trait = 1; trait < PS_TRAIT_END; trait *= 2) {
        if (strcmp(key, "trait") == 0 && strcmp(line, ps_script_trait_name(trait)) == 0) {
            about->traits |= trait;
            return true;
        }
    }
    return false;
}

ps_status ps_script_about_read(char *lines, ps_script_about *about)
{
    *about = (ps_script_about){.bits = 32};
    /* The texts are shown in logs and on terminals, so only printable characters are allowed. */
    for (const char *c = lines; *c != '\0'; c++) {
        if (*c != '\n' && (*c < ' ' || *c > '~')) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "its description has the byte 0x%02x; printable "
                           "characters are allowed",
                           (unsigned char)*c);
        }
    }
    for (char *end; *lines != '\0'; lines = end + 1) {
        end = strchr(lines, '\n');
        if (end == NULL) {
            return ps_fail(PS_INVALID_ARGUMENT, "its description has no end");
        }
        *end = '\0';
        if (!read_line(lines, about)) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "its description has the line \"%s\"; bits are above 0 and at most 64, "
                           "a number's default is within its bounds, and its name is neither "
                           "another number's nor \"script\" nor one that every codec has",
                           PS_SHORT(lines, 60));
        }
    }
    if (about->number_count > ps_script_numbers_max(about->kind)) {
        return ps_fail(PS_INVALID_ARGUMENT, "params has %u numbers; a %s may have %u",
                       about->number_count, about->kind, ps_script_numbers_max(about->kind));
    }
    if (about->kind[0] == '\0' || about->name[0] == '\0') {
        return ps_fail(PS_INVALID_ARGUMENT, "its description has no kind and name");
    }
    return ps_ok();
}

uint32_t ps_script_numbers_max(const char *kind)
{
    return strcmp(kind, "codec") == 0 ? PS_PARAM_MAX - 1 - PS_WRAP_COUNT : PS_PARAM_MAX - 3;
}

void ps_script_about_settle(ps_script_about *about)
{
    for (uint32_t i = 0; i < about->number_count; i++) {
        about->numbers[i].name = about->names[i];
        about->numbers[i].help = about->help[i];
    }
}
