/* SPDX-License-Identifier: Apache-2.0 */
/* libsvm.c - sparse records: `label index:value index:value ...` with ascending indices from 1.
 * Text after a # is ignored.
 *
 * A sample is dense; values that a line does not name are 0. Only the named values are stored.
 * Labels are classes in numeric order; if the number `values` is 1, they are target values.
 */
#include "common/base/container_of.h"
#include "common/base/xalloc.h"
#include "common/data/decimal.h"
#include "common/data/learned.h"
#include "common/data/sink.h"
#include "common/data/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ps_param params[] = {
    {.name = "features",
     .value = 0,
     .min = 0,
     .max = PS_DATA_FEATURES_MAX,
     .is_integer = true,
     .help = "values of a sample; 0: the greatest index in the files"},
    {.name = "classes",
     .value = 0,
     .min = 0,
     .max = 65536,
     .is_integer = true,
     .help = "different labels; 0: as many as the training lines have"},
    {.name = "values",
     .value = 0,
     .min = 0,
     .max = 1,
     .is_integer = true,
     .help = "1: labels are values, not classes"},
    {.name = "test_share",
     .value = 0.2,
     .min = 0,
     .max = 0.9,
     .help = "share of the lines used for testing if there are no test files"},
    {.name = NULL},
};

static const ps_line_rule rule = {.has_header = false};

static ps_status libsvm_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    bool are_values = ps_data_count(conf, "values") == 1;
    uint32_t features = ps_data_count(conf, "features"), classes = ps_data_count(conf, "classes");

    if (features == 0 || (classes == 0 && !are_values)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "the numbers of features and classes are known only from the files");
    }
    facts->shape[0] = facts->shape[1] = 1;
    facts->shape[2] = facts->features = features;
    facts->classes = are_values ? 0 : classes;
    facts->target_width = 1;
    return ps_data_known_counts(conf, facts);
}

/* --- samples ------------------------------------------------------------------- */

typedef struct entry {
    uint32_t index; /* index of the feature from 0: one less than in the file */
    float value;
} entry;

typedef struct record {
    uint64_t first; /* index of its first entry among those of the split */
    uint32_t count;
    float target;
} record;

typedef struct sparse {
    ps_samples samples;
    uint32_t features;
    ps_spill *records, *entries;
} sparse;

/* The stored form of a sample, with room for entries that are read from a file. */
typedef struct held {
    record record;
    const entry *entries; /* (record.count) in memory or in `room` */
    entry room[];
} held;

static ps_stored sparse_stored(const ps_samples *samples, uint32_t at, void *room)
{
    const sparse *s = PS_CONTAINER_OF(samples, const sparse, samples);
    held *h = room;
    record *r = &h->record;

    if (!ps_spill_read(s->records, (uint64_t)at * sizeof *r, sizeof *r, r)) {
        return (ps_stored){NULL, 0};
    }
    h->entries = ps_spill_at(s->entries, r->first * sizeof *h->entries,
                             r->count * sizeof *h->entries, h->room);
    return (ps_stored){h->entries != NULL ? h : NULL, sizeof *h};
}

static void sparse_make(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                        float *targets)
{
    const sparse *s = PS_CONTAINER_OF(samples, const sparse, samples);
    const held *h = stored;

    (void)key; /* these samples have no random draws */
    memset(x, 0, s->features * sizeof *x);
    targets[0] = h->record.target;
    for (uint32_t i = 0; i < h->record.count; i++) {
        x[h->entries[i].index] = h->entries[i].value;
    }
}

static void sparse_destroy(ps_samples *samples)
{
    sparse *s = PS_CONTAINER_OF(samples, sparse, samples);

    ps_spill_destroy(s->records);
    ps_spill_destroy(s->entries);
    free(s);
}

/* Creates the samples of records that have at most `most` entries each. Takes both spills. */
static ps_samples *create(uint32_t features, uint32_t most, ps_spill *records, ps_spill *entries)
{
    sparse *s = ps_xcalloc(1, sizeof *s);
    size_t read = ps_spill_is_in_file(entries) ? most : 0;

    s->samples = (ps_samples){.stored = sparse_stored,
                              .room = sizeof(held) + read * sizeof(entry),
                              .make = sparse_make,
                              .destroy = sparse_destroy};
    s->samples.is_far = ps_spill_is_in_file(records) || ps_spill_is_in_file(entries);
    s->features = features;
    s->records = records;
    s->entries = entries;
    return &s->samples;
}

/* --- lines ---------------------------------------------------------------------- */

typedef struct loading {
    ps_data_conf *conf;
    bool are_values, is_learning;
    ps_vocabulary *labels;
    uint32_t features; /* while learning, the greatest index so far; then those of a sample */
    ps_sink sink;
    ps_spill *entries[2]; /* index: a ps_split; NULL: a look, which stores no entries */
    uint64_t entry_count[2];
    uint32_t most[2]; /* maximum of stored entries in a record, by split */
} loading;

/* Reads a label to *value. Writes to `name` its word for the vocabulary, which is the same for
 * "+1", "1" and "1.0". */
static ps_status read_label(const ps_line *line, const char *text, size_t len, float *value,
                            char name[32])
{
    double number = 0;

    if (!ps_text_number(text, len, &number) || !ps_text_float(text, len, value)) {
        return ps_line_bad(line, "label of %zu bytes that are no finite number", len);
    }
    snprintf(name, 32, "%.17g", number + 0.0); /* turns -0 into 0 */
    return ps_ok();
}

static ps_status read_entry(loading *l, const ps_line *line, const char *text, size_t len, entry *e,
                            uint32_t *last)
{
    const char *colon = memchr(text, ':', len);
    double index = 0;

    if (colon == NULL || !ps_text_number(text, (size_t)(colon - text), &index) || index <= *last ||
        index > PS_DATA_FEATURES_MAX || index != (double)(uint32_t)index ||
        !ps_text_float(colon + 1, len - (size_t)(colon + 1 - text), &e->value)) {
        return ps_line_bad(line,
                           "character %zu: expected index:value with a finite value and an index "
                           "above %u, at most %d",
                           (size_t)(text - line->text) + 1, *last, PS_DATA_FEATURES_MAX);
    }
    *last = (uint32_t)index;
    e->index = *last - 1;
    if (*last > l->features) {
        if (!l->is_learning) {
            return ps_line_bad(line, "index %u, expected at most %u (features)", *last,
                               l->features);
        }
        l->features = *last;
    }
    return ps_ok();
}

static ps_status add_record(loading *l, const ps_line *line, const char *name, record *r)
{
    uint32_t id;

    if (!l->are_values) {
        id = ps_vocabulary_id(l->labels, name, strlen(name));
        if (id == PS_NO_WORD) {
            return ps_line_bad(line, "a label that no training line has");
        }
        r->target = (float)id;
    }
    return ps_sink_add(&l->sink, line, r, sizeof *r);
}

static ps_status take_line(void *arg, ps_line *line)
{
    loading *l = arg;
    bool keeps = !l->is_learning && ps_sink_wants(&l->sink, line->split);
    record r = {.first = l->entry_count[line->split]};
    char *hash = strchr(line->text, '#');
    const char *at = line->text;
    char name[32] = "";
    uint32_t last = 0;
    ps_status st = ps_ok();

    if (hash != NULL) {
        *hash = '\0';
    }
    for (bool is_label = true; ps_is_ok(&st); is_label = false) {
        entry e = {.index = 0};
        size_t len;

        at += strspn(at, " \t");
        len = strcspn(at, " \t");
        if (is_label) {
            st = read_label(line, at, len, &r.target, name);
        } else if (len == 0) {
            break;
        } else {
            st = read_entry(l, line, at, len, &e, &last);
            if (ps_is_ok(&st) && keeps) {
                st = ps_spill_add(l->entries[line->split], &e, sizeof e);
                l->entry_count[line->split]++;
                r.count++;
            }
        }
        at += len;
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!l->is_learning) {
        l->most[line->split] = r.count > l->most[line->split] ? r.count : l->most[line->split];
        return add_record(l, line, name, &r);
    }
    if (line->split == PS_TRAIN && !l->are_values) {
        return ps_vocabulary_count(l->labels, name, strlen(name), 1);
    }
    return st;
}

/* Learns the greatest index and the labels, in a first pass over the files, and writes both to the
 * conf. If the files are a part of the set, takes what was learned from all of them instead. */
static ps_status learn(loading *l, const char *folder)
{
    uint32_t given = ps_data_count(l->conf, "features"), classes;
    char who[PS_DATA_WHO_BYTES];
    ps_status st;

    l->is_learning = true;
    if (!ps_has_learned(l->conf)) {
        st = ps_lines_walk(l->conf, folder, &rule, take_line, l);
    } else {
        l->features = given;
        st = l->are_values ? ps_ok() : ps_learned_take_words(l->conf->learned, 0, &l->labels);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    classes = ps_vocabulary_order(l->labels, PS_BY_TEXT, 0, 0);
    if (!l->are_values && (classes < 2 || classes > 65536)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: %u different labels, expected 2 to 65536",
                       ps_data_who(l->conf, who), classes);
    }
    if (l->features == 0 || (given > 0 && l->features > given)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: the greatest index is %u, expected 1 to %u",
                       ps_data_who(l->conf, who), l->features,
                       given > 0 ? given : PS_DATA_FEATURES_MAX);
    }
    l->features = given > 0 ? given : l->features;
    ps_data_set(l->conf, "features", l->features);
    if (ps_is_learning(l->conf) && !l->are_values) {
        ps_learned_put_words(l->conf->learned, 0, l->labels, classes, "data.params.classes");
    }
    return l->are_values ? st : ps_data_found(l->conf, "classes", classes);
}

static ps_status read_all(loading *l, ps_data_conf *conf, const char *folder)
{
    ps_status st;

    l->conf = conf;
    l->are_values = ps_data_count(conf, "values") == 1;
    l->labels = ps_vocabulary_create();
    st = learn(l, folder);
    if (ps_is_ok(&st)) {
        l->is_learning = false;
        st = ps_lines_walk(conf, folder, &rule, take_line, l);
    }
    return ps_is_ok(&st) ? ps_sink_end(&l->sink, conf) : st;
}

static ps_status look(const char *folder, ps_data_conf *conf)
{
    loading *l = ps_xcalloc(1, sizeof *l);
    ps_status st;

    ps_sink_init(&l->sink, conf, NULL, 0);
    st = read_all(l, conf, folder);
    ps_vocabulary_destroy(l->labels);
    free(l);
    return st;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    loading *l = ps_xcalloc(1, sizeof *l);
    ps_data_conf found = *conf;
    ps_status st;

    ps_sink_init(&l->sink, conf, scratch, 2);
    for (size_t s = 0; s < 2; s++) {
        l->entries[s] = ps_spill_create(scratch, ps_split_memory((ps_split)s) / 2);
    }
    st = read_all(l, &found, folder);
    for (size_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        st = ps_spill_end(l->entries[s]);
    }
    if (ps_is_ok(&st)) {
        st = ps_sink_dataset(&l->sink, &found, out);
    }
    for (size_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        (*out)->split[s] =
            create(l->features, l->most[s], ps_sink_take(&l->sink, s), l->entries[s]);
        l->entries[s] = NULL;
    }
    ps_sink_fini(&l->sink);
    ps_spill_destroy(l->entries[0]);
    ps_spill_destroy(l->entries[1]);
    ps_vocabulary_destroy(l->labels);
    free(l);
    return st;
}

const ps_data_source ps_data_source_libsvm = {
    .name = "libsvm",
    .summary = "sparse records: label index:value index:value ..., as dense samples",
    .params = params,
    .takes_files = true,
    .facts = libsvm_facts,
    .look = look,
    .load = load,
};
