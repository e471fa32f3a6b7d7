/* SPDX-License-Identifier: Apache-2.0 */
/* document_line.c - finds the line of a value. It follows libyaml's events, which know their lines,
 * down one path. JSON is close enough to YAML for that. */
#include "common/base/document.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

typedef struct seeker {
    yaml_parser_t parser;
    yaml_event_t event; /* the current event */
    bool has_event;
} seeker;

static bool step(seeker *s)
{
    if (s->has_event) {
        yaml_event_delete(&s->event);
    }
    s->has_event = yaml_parser_parse(&s->parser, &s->event) != 0;
    return s->has_event;
}

static size_t line_here(const seeker *s)
{
    return s->event.start_mark.line + 1;
}

/* Moves to the last event of the value that starts at the current event. Returns false if the
 * document ends or is malformed before. */
static bool skip_value(seeker *s)
{
    size_t depth = 0;

    do {
        switch (s->event.type) {
        case YAML_SEQUENCE_START_EVENT:
        case YAML_MAPPING_START_EVENT:
            depth++;
            break;
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
            depth--;
            break;
        default:
            break;
        }
    } while (depth > 0 && step(s));
    return s->has_event;
}

/* Returns the rest of `path` behind `key`, and behind a dot that follows the key. Returns NULL if
 * the first key of the path is another one. Letter case and underscores do not matter. */
static const char *behind_key(const char *path, const char *key)
{
    for (;; path++, key++) {
        path += strspn(path, "_");
        key += strspn(key, "_");
        if (*key == '\0') {
            break;
        }
        if (tolower((unsigned char)*path) != tolower((unsigned char)*key)) {
            return NULL;
        }
    }
    if (*path == '.') {
        return path + 1;
    }
    return *path == '\0' || *path == '[' ? path : NULL;
}

/* Moves from the first event of a value to the value in it that the first part of the path names,
 * "key" or "[2]", and takes that part off the path. Stores the line of the key or item in *line.
 * Returns false if there is no such value. */
static bool descend(seeker *s, const char **path, size_t *line)
{
    if (**path == '[') {
        char *end;
        unsigned long i = strtoul(*path + 1, &end, 10);

        if (s->event.type != YAML_SEQUENCE_START_EVENT || *end != ']') {
            return false;
        }
        while (step(s) && s->event.type != YAML_SEQUENCE_END_EVENT && i > 0 && skip_value(s)) {
            i--;
        }
        if (!s->has_event || s->event.type == YAML_SEQUENCE_END_EVENT) {
            return false;
        }
        *line = line_here(s);
        *path = end + 1 + (end[1] == '.');
        return true;
    }
    if (s->event.type != YAML_MAPPING_START_EVENT) {
        return false;
    }
    while (step(s) && s->event.type == YAML_SCALAR_EVENT) {
        const char *rest = behind_key(*path, (const char *)s->event.data.scalar.value);

        *line = line_here(s);
        if (!step(s)) {
            return false;
        }
        if (rest != NULL) {
            *path = rest;
            return true;
        }
        if (!skip_value(s)) {
            return false;
        }
    }
    return false;
}

static size_t find(seeker *s, const char *path)
{
    size_t line = 0, item = 0;

    /* Moves over stream-start and document-start to the first event of the value. */
    for (size_t i = 0; i < 3; i++) {
        if (!step(s)) {
            return 0;
        }
    }
    while (*path != '\0') {
        bool is_item = *path == '[';

        if (!descend(s, &path, &line)) {
            return item;
        }
        item = is_item ? line : item;
    }
    return line;
}

size_t ps_document_line(const char *text, size_t n, const char *path)
{
    seeker s = {.has_event = false};
    size_t line;

    if (n > PS_TREE_MAX_BYTES || yaml_parser_initialize(&s.parser) == 0) {
        return 0;
    }
    yaml_parser_set_encoding(&s.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&s.parser, (const unsigned char *)text, n);
    line = find(&s, path);
    if (s.has_event) {
        yaml_event_delete(&s.event);
    }
    yaml_parser_delete(&s.parser);
    return line;
}
