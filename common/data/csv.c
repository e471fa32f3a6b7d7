/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - tables as text: a header, then records of fields (RFC 4180, any delimiter).
 *
 * The job names the columns that it reads. A sample is its numeric and one-hot columns in the
 * order of the job, then the ids of the other columns. The ids of each column follow those of
 * the column before, so one embedding holds all of them. A field may be quoted; "" inside
 * quotes is a quote. A quoted field may span lines. Spaces around fields are dropped unless the
 * delimiter is a space.
 */
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/data/columns.h"
#include "common/data/learned.h"
#include "common/data/sink.h"

#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 4096 };

static const ps_param params[] = {
    {.name = "delimiter",
     .value = ',',
     .min = 1,
     .max = 126,
     .is_integer = true,
     .help = "byte between fields: 44 is a comma, 9 a tab, 59 a semicolon"},
    {.name = "test_share",
     .value = 0.2,
     .min = 0,
     .max = 0.9,
     .help = "share of the records used for testing if there are no test files"},
    {.name = NULL},
};

/* Returns whether the line has an odd number of quotes, so that it begins or ends a quoted field
 * which spans lines. */
static bool goes_on(const char *text, size_t len)
{
    bool is_odd = false;

    for (size_t i = 0; i < len; i++) {
        is_odd ^= text[i] == '"';
    }
    return is_odd;
}

static const ps_line_rule rule = {.has_header = true, .goes_on = goes_on};

/* --- fields ------------------------------------------------------------------ */

typedef struct field {
    char *text; /* ended by a NUL */
    size_t len;
} field;

typedef struct table {
    const ps_data_conf *conf;
    char delimiter;
    field fields[FIELDS_MAX]; /* (field_count) fields of the current record */
    uint32_t field_count;
    uint32_t header_count;               /* number of fields in the current file's header */
    uint32_t place[PS_DATA_COLUMNS_MAX]; /* index in the header of each column of the job */
    ps_column_state states[PS_DATA_COLUMNS_MAX];

    bool is_learning; /* true in the first pass, which makes no samples */
    ps_sink sink;
    uint32_t order[PS_DATA_COLUMNS_MAX]; /* the job's columns in the order of a stored record */
    /* index: a column of the job; what is added to its ids; 0 for other columns */
    float offset[PS_DATA_COLUMNS_MAX];
    uint32_t sizes[PS_DATA_COLUMNS_MAX]; /* (stored) features of a one-hot column; 0 for others */
    uint32_t targets, stored;
} table;

/* Reads the quoted field at `from`: removes the outer quotes and the first of each two inner ones,
 * in place. Sets *end behind the closing quote. */
static ps_status take_quoted(const ps_line *line, char *from, field *out, char **end)
{
    char *to = from;

    out->text = from;
    for (char *at = from + 1;; at++) {
        if (*at == '\0') {
            return ps_line_bad(line, "a quoted field has no closing quote");
        }
        if (*at == '"' && *++at != '"') {
            *end = at;
            break;
        }
        *to++ = *at;
    }
    out->len = (size_t)(to - from);
    return ps_ok();
}

static ps_status split(table *t, ps_line *line)
{
    char *at = line->text;
    bool more = true;

    for (t->field_count = 0; more; t->field_count++) {
        field *f = &t->fields[t->field_count];
        char *end = NULL;

        if (t->field_count == FIELDS_MAX) {
            return ps_line_bad(line, "more than %d fields", FIELDS_MAX);
        }
        while (*at == ' ' && t->delimiter != ' ') {
            at++;
        }
        if (*at == '"') {
            ps_status st = take_quoted(line, at, f, &end);

            if (!ps_is_ok(&st)) {
                return st;
            }
            while (*end == ' ' && t->delimiter != ' ') {
                end++;
            }
            if (*end != '\0' && *end != t->delimiter) {
                return ps_line_bad(line, "field %u: text after a quote, expected \"%c\"",
                                   t->field_count + 1, t->delimiter);
            }
        } else {
            f->text = at;
            end = strchr(at, t->delimiter);
            end = end != NULL ? end : line->text + line->len;
            f->len = (size_t)(end - at);
            while (f->len > 0 && f->text[f->len - 1] == ' ') {
                f->len--;
            }
        }
        more = *end != '\0';
        f->text[f->len] = '\0'; /* what it overwrites was read already */
        at = end + more;
    }
    return ps_ok();
}

static ps_status read_header(table *t, const ps_line *line)
{
    t->header_count = t->field_count;
    for (uint32_t c = 0; c < t->conf->column_count; c++) {
        uint32_t found = 0;

        for (uint32_t i = 0; i < t->field_count; i++) {
            if (strcmp(t->fields[i].text, t->conf->columns[c].name) == 0) {
                t->place[c] = i;
                found++;
            }
        }
        if (found != 1) {
            return ps_line_bad(line, "%s column \"%s\" in the header, expected one",
                               found == 0 ? "no" : "a second",
                               PS_SHORT(t->conf->columns[c].name, 40));
        }
    }
    return ps_ok();
}

/* --- records -------------------------------------------------------------------- */

static ps_status bad_field(const ps_line *line, const ps_data_column *column, ps_status st)
{
    return ps_line_bad(line, "column %s: %s", PS_SHORT(column->name, 32), st.text);
}

static ps_status add_record(table *t, const ps_line *line)
{
    float record[PS_DATA_COLUMNS_MAX];

    for (uint32_t i = 0; i < t->targets + t->stored; i++) {
        uint32_t c = t->order[i];
        const field *f = &t->fields[t->place[c]];
        ps_status st = ps_column_read(&t->states[c], f->text, f->len, &record[i]);

        if (!ps_is_ok(&st)) {
            return bad_field(line, &t->conf->columns[c], st);
        }
        record[i] += t->offset[c];
    }
    return ps_sink_add(&t->sink, line, record, (t->targets + t->stored) * sizeof *record);
}

static ps_status take_line(void *arg, ps_line *line)
{
    table *t = arg;
    ps_status st = split(t, line);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (line->is_header) {
        return read_header(t, line);
    }
    if (t->field_count != t->header_count) {
        return ps_line_bad(line, "%u fields, expected %u as in the header", t->field_count,
                           t->header_count);
    }
    if (!t->is_learning) {
        return add_record(t, line);
    }
    for (uint32_t c = 0; c < t->conf->column_count && line->split == PS_TRAIN; c++) {
        const field *f = &t->fields[t->place[c]];

        st = ps_column_see(&t->states[c], f->text, f->len);
        if (!ps_is_ok(&st)) {
            return bad_field(line, &t->conf->columns[c], st);
        }
    }
    return st;
}

/* --- facts -------------------------------------------------------------------- */

/* Decides the order in which a record stores the columns: targets, then numbers and one-hot
 * columns, then ids. Sets `sizes`, and the offsets of the ids. */
static void arrange(table *t)
{
    const ps_data_conf *conf = t->conf;
    uint32_t n = 0, ids = 0;

    for (uint32_t pass = 0; pass < 3; pass++) {
        for (uint32_t c = 0; c < conf->column_count; c++) {
            const ps_data_column *column = &conf->columns[c];
            ps_column_role role = column->kind->role;
            bool is_target = role == PS_ROLE_LABEL || role == PS_ROLE_TARGET;
            bool is_id = role == PS_ROLE_ID && !ps_column_is_one_hot(column);

            if (pass != (is_target ? 0u : is_id ? 2u : 1u)) {
                continue;
            }
            t->order[n] = c;
            if (pass == 0) {
                t->targets++;
            } else {
                t->sizes[t->stored++] = role == PS_ROLE_ID && !is_id ? ps_column_size(column) : 0;
            }
            if (is_id) {
                t->offset[c] = (float)ids;
                ids += ps_column_size(column);
            }
            n++;
        }
    }
}

static ps_status csv_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    uint64_t numbers = 0, ids = 0, vocabulary = 0;
    uint32_t labels = 0, targets = 0;

    for (uint32_t c = 0; c < conf->column_count; c++) {
        const ps_data_column *column = &conf->columns[c];
        uint32_t size = ps_column_size(column);

        if (column->kind->has_words && size == 0) {
            return ps_fail(PS_FAILED_PRECONDITION,
                           "the number of categories of column %s is known only from the files",
                           PS_SHORT(column->name, 48));
        }
        switch (column->kind->role) {
        case PS_ROLE_NUMBER:
            numbers++;
            break;
        case PS_ROLE_ID:
            numbers += ps_column_is_one_hot(column) ? size : 0;
            ids += !ps_column_is_one_hot(column);
            vocabulary += ps_column_is_one_hot(column) ? 0 : size;
            break;
        case PS_ROLE_LABEL:
            labels++;
            facts->classes = size;
            break;
        case PS_ROLE_TARGET:
            targets++;
            break;
        }
    }
    if (labels + (targets > 0) != 1 || numbers + ids == 0 || numbers + ids > PS_DATA_FEATURES_MAX ||
        vocabulary > PS_DATA_IDS_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "columns have %u labels, %u targets, %llu features and %llu ids; one label "
                       "or targets, 1 to %d features and %d ids are allowed",
                       labels, targets, (unsigned long long)(numbers + ids),
                       (unsigned long long)vocabulary, PS_DATA_FEATURES_MAX, PS_DATA_IDS_MAX);
    }
    facts->shape[0] = facts->shape[1] = 1;
    facts->shape[2] = facts->features = (uint32_t)(numbers + ids);
    facts->ids = (uint32_t)ids;
    facts->vocabulary = (uint32_t)vocabulary;
    facts->target_width = labels > 0 ? 1 : targets;
    return ps_data_known_counts(conf, facts);
}

/* --- from files --------------------------------------------------------------- */

/* Learns the columns from all training records, in a first pass over the files, and sets the sizes
 * that the conf leaves open. If the files are a part of the set, takes what was learned from all
 * of them instead. */
static ps_status learn(table *t, ps_data_conf *conf, const char *folder)
{
    char who[PS_DATA_WHO_BYTES];
    ps_status st;

    t->conf = conf;
    t->delimiter = (char)ps_data_count(conf, "delimiter");
    t->is_learning = true;
    for (uint32_t c = 0; c < conf->column_count; c++) {
        ps_column_state_init(&t->states[c], &conf->columns[c], c);
    }
    st = ps_has_learned(conf) ? ps_ok() : ps_lines_walk(conf, folder, &rule, take_line, t);
    for (uint32_t c = 0; c < conf->column_count && ps_is_ok(&st); c++) {
        ps_data_column *column = &conf->columns[c];
        int at = ps_param_find(column->kind->params,
                               column->kind->role == PS_ROLE_LABEL ? "classes" : "size");
        uint32_t size = 0;

        if (ps_has_learned(conf)) {
            st = ps_column_recall(&t->states[c], conf->learned);
        }
        if (ps_is_ok(&st)) {
            st = ps_column_learn(&t->states[c], &size);
        }
        if (!ps_is_ok(&st)) {
            st = ps_wrap(st, "%s", ps_data_who(conf, who));
        } else if (at >= 0) {
            column->params.v[at] = size;
        }
        if (ps_is_ok(&st) && ps_is_learning(conf)) {
            ps_column_keep(&t->states[c], conf->learned);
        }
    }
    return st;
}

/* Makes a sample of every record, in a second pass over the files, and adds it to the sink. */
static ps_status read_records(table *t, ps_data_conf *conf, const char *folder)
{
    ps_status st;

    t->is_learning = false;
    arrange(t);
    st = ps_lines_walk(conf, folder, &rule, take_line, t);
    return ps_is_ok(&st) ? ps_sink_end(&t->sink, conf) : st;
}

static void finish(table *t)
{
    for (uint32_t c = 0; t->conf != NULL && c < t->conf->column_count; c++) {
        ps_column_state_fini(&t->states[c]);
    }
    ps_sink_fini(&t->sink);
    free(t);
}

static ps_status look(const char *folder, ps_data_conf *conf)
{
    table *t = ps_xcalloc(1, sizeof *t);
    ps_data_facts facts = {.features = 0};
    ps_status st;

    ps_sink_init(&t->sink, conf, NULL, 0);
    st = learn(t, conf, folder);
    if (ps_is_ok(&st)) {
        st = read_records(t, conf, folder);
    }
    if (ps_is_ok(&st)) {
        st = csv_facts(conf, &facts);
    }
    finish(t);
    return st;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    table *t = ps_xcalloc(1, sizeof *t);
    ps_data_conf found = *conf;
    ps_status st;

    ps_sink_init(&t->sink, conf, scratch, 1);
    st = learn(t, &found, folder);
    if (ps_is_ok(&st)) {
        st = read_records(t, &found, folder);
    }
    if (ps_is_ok(&st)) {
        st = ps_sink_dataset(&t->sink, &found, out);
    }
    for (size_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        (*out)->split[s] =
            ps_float_records_create(t->targets, t->stored, t->sizes, ps_sink_take(&t->sink, s));
    }
    finish(t);
    return st;
}

const ps_data_source ps_data_source_csv = {
    .name = "csv",
    .summary = "tables with a header: columns of numbers, categories and labels as the job names "
               "them",
    .params = params,
    .takes_files = true,
    .takes_columns = true,
    .facts = csv_facts,
    .look = look,
    .load = load,
};
