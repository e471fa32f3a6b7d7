/* SPDX-License-Identifier: Apache-2.0 */
/* plot_facts.c - see plot_facts.h. */
#include "clients/psgd/plot_facts.h"

#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS_MAX = 32, TEXT_BYTES_MAX = 400 };

static void add(ps_plot_facts *facts, const char *path, const char *text)
{
    if (facts->n < PS_PLOT_FACTS_MAX) {
        facts->at = ps_xrealloc(facts->at, (facts->n + 1) * sizeof *facts->at);
        facts->at[facts->n++] = (ps_plot_fact){ps_xstrdup(path), ps_xstrdup(text)};
    }
}

/* Appends a value that is no object and no list. */
static void put_scalar(ps_strbuf *text, const json_t *value)
{
    char *json;

    if (json_is_string(value)) {
        ps_strbuf_puts(text, json_string_value(value));
        return;
    }
    if (json_is_real(value)) {
        ps_strbuf_printf(text, "%.9g", json_real_value(value));
        return;
    }
    json = json_dumps(value, JSON_ENCODE_ANY);
    ps_strbuf_puts(text, json != NULL ? json : "?");
    free(json);
}

static bool is_plain(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_is_object(json_array_get(list, i)) || json_is_array(json_array_get(list, i))) {
            return false;
        }
    }
    return true;
}

static void walk(ps_plot_facts *facts, const char *path, const json_t *value, int level)
{
    ps_strbuf text = {0};
    const char *key;
    json_t *member;

    if (level > LEVELS_MAX || facts->n >= PS_PLOT_FACTS_MAX) {
        return;
    }
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, member)
        {
            ps_strbuf_clear(&text);
            ps_strbuf_printf(&text, "%s%s%s", path, path[0] != '\0' ? "." : "", key);
            walk(facts, ps_strbuf_text(&text), member, level + 1);
        }
    } else if (json_is_array(value) && !is_plain(value)) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            ps_strbuf_clear(&text);
            ps_strbuf_printf(&text, "%s[%zu]", path, i);
            walk(facts, ps_strbuf_text(&text), json_array_get(value, i), level + 1);
        }
    } else if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value) && text.len < TEXT_BYTES_MAX; i++) {
            ps_strbuf_puts(&text, i > 0 ? ", " : "");
            put_scalar(&text, json_array_get(value, i));
        }
        add(facts, path, PS_SHORT(ps_strbuf_text(&text), TEXT_BYTES_MAX));
    } else {
        put_scalar(&text, value);
        add(facts, path, PS_SHORT(ps_strbuf_text(&text), TEXT_BYTES_MAX));
    }
    ps_strbuf_fini(&text);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const ps_plot_fact *)a)->path, ((const ps_plot_fact *)b)->path);
}

static void sort(ps_plot_facts *facts)
{
    if (facts->n > 0) {
        qsort(facts->at, facts->n, sizeof *facts->at, by_path);
    }
}

void ps_plot_facts_init(ps_plot_facts *facts, const json_t *object)
{
    *facts = (ps_plot_facts){0};
    if (json_is_object(object)) {
        walk(facts, "", object, 0);
    }
    sort(facts);
}

const char *ps_plot_facts_get(const ps_plot_facts *facts, const char *path)
{
    ps_plot_fact key = {.path = (char *)path};
    const ps_plot_fact *found =
        facts->n > 0 ? bsearch(&key, facts->at, facts->n, sizeof key, by_path) : NULL;

    return found != NULL ? found->text : NULL;
}

static bool is_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

void ps_plot_facts_differ(const ps_plot_facts *jobs, size_t n, ps_plot_facts *paths)
{
    *paths = (ps_plot_facts){0};
    for (size_t j = 0; j < n; j++) {
        for (size_t i = 0; i < jobs[j].n; i++) {
            const char *path = jobs[j].at[i].path;
            bool differs = false, is_known = ps_plot_facts_get(paths, path) != NULL;

            for (size_t k = 0; k < n && !is_known && !differs; k++) {
                differs = !is_equal(jobs[j].at[i].text, ps_plot_facts_get(&jobs[k], path));
            }
            if (differs) {
                add(paths, path, "");
                sort(paths);
            }
        }
    }
}

/* Returns whether `path` is that of a number of a plugin, and `paths`, in which jobs differ, has
 * the path of that plugin's name. The jobs then use different plugins, whose numbers cannot be
 * compared. */
static bool is_of_other_choice(const ps_plot_facts *paths, const char *path)
{
    const char *params = strstr(path, ".params.");
    char name[TEXT_BYTES_MAX];

    if (params == NULL || (size_t)(params - path) >= sizeof name - 8) {
        return false;
    }
    snprintf(name, sizeof name, "%.*s.name", (int)(params - path), path);
    return ps_plot_facts_get(paths, name) != NULL;
}

/* Appends a fact in short form: "codec.up int8" for "codec.up.name", or "codec.up.levels 4" for
 * "codec.up.params.levels". */
static void put_fact(ps_strbuf *text, const char *path, const char *value)
{
    const char *params = strstr(path, ".params.");
    size_t n = strlen(path);

    ps_strbuf_puts(text, text->len > 0 ? ", " : "");
    if (params != NULL) {
        ps_strbuf_printf(text, "%.*s.%s", (int)(params - path), path, params + strlen(".params."));
    } else {
        ps_strbuf_append(text, path, n > 5 && strcmp(path + n - 5, ".name") == 0 ? n - 5 : n);
    }
    ps_strbuf_printf(text, " %s", value != NULL ? value : "-");
}

void ps_plot_facts_label(const ps_plot_facts *facts, const ps_plot_facts *paths,
                         char text[PS_PLOT_LABEL_BYTES])
{
    ps_strbuf label = {0};

    for (int pass = 0; pass < 2 && label.len == 0; pass++) {
        for (size_t i = 0; i < paths->n; i++) {
            const char *path = paths->at[i].path;
            bool is_name = strcmp(path, "title") == 0 || strcmp(path, "preset") == 0;

            if (is_name == (pass == 1) && !is_of_other_choice(paths, path)) {
                put_fact(&label, path, ps_plot_facts_get(facts, path));
            }
        }
    }
    ps_shorten(text, PS_PLOT_LABEL_BYTES, ps_strbuf_text(&label));
    ps_strbuf_fini(&label);
}

void ps_plot_facts_fini(ps_plot_facts *facts)
{
    for (size_t i = 0; i < facts->n; i++) {
        free(facts->at[i].path);
        free(facts->at[i].text);
    }
    free(facts->at);
    *facts = (ps_plot_facts){0};
}
