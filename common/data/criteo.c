/* SPDX-License-Identifier: Apache-2.0 */
/* criteo.c - click logs: the lines of Criteo, and the slot lines that are made of them.
 *
 * A Criteo line has a label, 13 counts and 26 categories of hexadecimal text, separated by
 * tabs; counts and categories may be empty. A slot line is `click:1 dense_feature:0.05 ...
 * 1:737395 ... 26:123`, as in Paddle's examples. Either way a sample has 13 numbers and 26 ids,
 * and its class is the label, 0 or 1. A count x of a Criteo line becomes (x - least) / range with
 * the fixed numbers of Paddle's wide_deep example; an empty one is 0. A dense feature of a slot
 * line is used as it is. Ids lie below `buckets`: a Criteo
 * category is hashed with its slot, an id of a slot line is taken modulo `buckets`. All slots
 * share the same range of ids.
 */
#include "common/base/xalloc.h"
#include "common/data/columns.h"
#include "common/data/decimal.h"
#include "common/data/sink.h"

#include <stdlib.h>
#include <string.h>

enum { DENSE = 13, SLOTS = 26, FIELDS = 1 + DENSE + SLOTS };

static const float least[DENSE] = {0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
static const float range[DENSE] = {20, 603, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50};

static const ps_param params[] = {
    {.name = "buckets",
     .value = 1000001,
     .min = 2,
     .max = PS_DATA_IDS_MAX,
     .is_integer = true,
     .help = "number of ids that all categories share"},
    {.name = "test_share",
     .value = 0.2,
     .min = 0,
     .max = 0.9,
     .help = "share of the lines used for testing if there are no test files"},
    {.name = NULL},
};

static const ps_line_rule rule = {.has_header = false};

extern const ps_data_source ps_data_source_slots;

static ps_status click_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    facts->shape[0] = facts->shape[1] = 1;
    facts->shape[2] = facts->features = DENSE + SLOTS;
    facts->ids = SLOTS;
    facts->vocabulary = ps_data_count(conf, "buckets");
    facts->classes = 2;
    facts->target_width = 1;
    return ps_data_known_counts(conf, facts);
}

/* --- lines -------------------------------------------------------------------- */

typedef struct clicks {
    ps_sink sink;
    uint32_t buckets;
    /* Turns a line into a record: class, numbers, ids. */
    ps_status (*read)(const struct clicks *c, ps_line *line, float record[FIELDS]);
} clicks;

static ps_status read_label(const ps_line *line, const char *text, size_t len, float *label)
{
    if (len != 1 || (text[0] != '0' && text[0] != '1')) {
        return ps_line_bad(line, "label of %zu bytes, expected 0 or 1", len);
    }
    *label = (float)(text[0] - '0');
    return ps_ok();
}

static ps_status read_criteo(const clicks *c, ps_line *line, float record[FIELDS])
{
    const char *at = line->text;
    ps_status st = ps_ok();
    uint32_t i;

    for (i = 0; i < FIELDS; i++) {
        size_t len = strcspn(at, "\t");
        float value = 0;

        if (i == 0) {
            st = read_label(line, at, len, &record[0]);
            if (!ps_is_ok(&st)) {
                return st;
            }
        } else if (i > DENSE) {
            record[i] = (float)ps_category_hash(i - DENSE, at, len, c->buckets);
        } else if (len > 0 && !ps_text_float(at, len, &value)) {
            return ps_line_bad(line, "field %u: %zu bytes that are no finite number", i + 1, len);
        } else {
            record[i] = len == 0 ? 0.0f : (value - least[i - 1]) / range[i - 1];
        }
        at += len;
        if (*at == '\0') {
            break;
        }
        at++;
    }
    if (i + 1 != FIELDS) {
        return ps_line_bad(line, "%s fields between tabs, expected %d",
                           i < FIELDS ? "fewer" : "more", FIELDS);
    }
    return st;
}

/* Stores one "name:value" of a slot line in the record. *dense counts the line's dense features. */
static ps_status read_slot(const clicks *c, const ps_line *line, const char *name, size_t name_len,
                           const char *value, size_t len, float record[FIELDS], uint32_t *dense)
{
    double number = 0, slot = 0;
    float feature = 0;

    if (name_len == 5 && memcmp(name, "click", 5) == 0) {
        return read_label(line, value, len, &record[0]);
    }
    if (!ps_text_number(value, len, &number) || !ps_text_float(value, len, &feature)) {
        return ps_line_bad(line, "character %zu: expected a finite number after the colon",
                           (size_t)(value - line->text) + 1);
    }
    if (name_len == 13 && memcmp(name, "dense_feature", 13) == 0) {
        if (*dense == DENSE) {
            return ps_line_bad(line, "more dense features, expected %d", DENSE);
        }
        record[1 + (*dense)++] = feature;
        return ps_ok();
    }
    if (!ps_text_number(name, name_len, &slot) || slot < 1 || slot > SLOTS ||
        slot != (double)(uint32_t)slot || number < 0 || number > 9007199254740992.0 ||
        number != (double)(uint64_t)number) {
        return ps_line_bad(
            line, "character %zu: expected click, dense_feature or a slot 1 to %d, and an id",
            (size_t)(name - line->text) + 1, SLOTS);
    }
    record[DENSE + (uint32_t)slot] = (float)((uint64_t)number % c->buckets);
    return ps_ok();
}

static ps_status read_slots(const clicks *c, ps_line *line, float record[FIELDS])
{
    const char *at = line->text;
    uint32_t dense = 0;

    memset(record, 0, FIELDS * sizeof *record); /* a slot that the line lacks has id 0 */
    record[0] = -1.0f;
    for (;;) {
        size_t len, name_len;
        ps_status st;

        at += strspn(at, " \t");
        len = strcspn(at, " \t");
        if (len == 0) {
            break;
        }
        name_len = strcspn(at, ": \t");
        if (name_len >= len) {
            return ps_line_bad(line, "character %zu: expected name:value",
                               (size_t)(at - line->text) + 1);
        }
        st =
            read_slot(c, line, at, name_len, at + name_len + 1, len - name_len - 1, record, &dense);
        if (!ps_is_ok(&st)) {
            return st;
        }
        at += len;
    }
    if (record[0] < 0 || dense != DENSE) {
        return ps_line_bad(line, "%s and %u dense features, expected click:0 or click:1 and %d",
                           record[0] < 0 ? "no click" : "click", dense, DENSE);
    }
    return ps_ok();
}

static ps_status add_line(void *arg, ps_line *line)
{
    clicks *c = arg;
    float record[FIELDS];
    ps_status st = c->read(c, line, record);

    return ps_is_ok(&st) ? ps_sink_add(&c->sink, line, record, sizeof record) : st;
}

/* --- the two sources ----------------------------------------------------------- */

static ps_status walk(clicks *c, ps_data_conf *conf, const char *folder)
{
    ps_status st;

    c->buckets = ps_data_count(conf, "buckets");
    c->read = conf->source == &ps_data_source_slots ? read_slots : read_criteo;
    st = ps_lines_walk(conf, folder, &rule, add_line, c);
    return ps_is_ok(&st) ? ps_sink_end(&c->sink, conf) : st;
}

static ps_status look(const char *folder, ps_data_conf *conf)
{
    clicks c;

    ps_sink_init(&c.sink, conf, NULL, 0);
    return walk(&c, conf, folder);
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    ps_data_conf found = *conf;
    clicks c;
    ps_status st;

    ps_sink_init(&c.sink, conf, scratch, 1);
    st = walk(&c, &found, folder);
    if (ps_is_ok(&st)) {
        st = ps_sink_dataset(&c.sink, &found, out);
    }
    for (size_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        (*out)->split[s] = ps_float_records_create(1, FIELDS - 1, NULL, ps_sink_take(&c.sink, s));
    }
    ps_sink_fini(&c.sink);
    return st;
}

const ps_data_source ps_data_source_criteo = {
    .name = "criteo",
    .summary = "click logs: lines of a label, 13 counts and 26 categories between tabs",
    .params = params,
    .takes_files = true,
    .facts = click_facts,
    .look = look,
    .load = load,
};

const ps_data_source ps_data_source_slots = {
    .name = "slots",
    .summary = "click logs: lines of click:L, 13 dense_feature:x and ids 1:id to 26:id",
    .params = params,
    .takes_files = true,
    .facts = click_facts,
    .look = look,
    .load = load,
};
