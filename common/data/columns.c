/* SPDX-License-Identifier: Apache-2.0 */
/* columns.c - see columns.h. */
#include "common/data/columns.h"

#include "common/base/draw.h"
#include "common/base/shorten.h"
#include "common/data/dataset.h"
#include "common/data/decimal.h"
#include "common/data/learned.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { CLASSES_MAX = 65536, ONE_HOT_MAX = 65536 };

/* Ways to scale numbers; values of the number `scale`. */
enum { AS_IT_IS, STANDARD, TO_UNIT };

#define SCALE_PARAM(default_value)                                                                 \
    {                                                                                              \
        .name = "scale", .value = (default_value), .min = AS_IT_IS, .max = TO_UNIT,                \
        .is_integer = true,                                                                        \
        .help = "0: unchanged; 1: (x - mean) / deviation of the training records; "                \
                "2: to [0, 1] by their least and greatest value",                                  \
    }
#define ONE_HOT_PARAM                                                                              \
    {                                                                                              \
        .name = "one_hot", .value = 0, .min = 0, .max = 1, .is_integer = true,                     \
        .help = "1: a feature of 0 or 1 for each category instead of an id",                       \
    }

static const ps_param numeric_params[] = {
    SCALE_PARAM(STANDARD),
    {.name = "blank",
     .value = 0,
     .min = 0,
     .max = 1,
     .is_integer = true,
     .help = "1: an empty field counts as the mean; 0: it is refused"},
    {.name = NULL},
};
static const ps_param hashed_params[] = {
    {.name = "buckets",
     .value = 1000,
     .min = 1,
     .max = PS_DATA_IDS_MAX,
     .is_integer = true,
     .help = "number of ids; a category's id is its hash modulo this"},
    ONE_HOT_PARAM,
    {.name = NULL},
};
static const ps_param vocabulary_params[] = {
    {.name = "size",
     .value = 0,
     .min = 0,
     .max = PS_DATA_IDS_MAX,
     .is_integer = true,
     .help = "number of ids, of which the last is for unknown categories; 0: as many as the files "
             "have"},
    {.name = "cutoff",
     .value = 0,
     .min = 0,
     .max = 1e9,
     .is_integer = true,
     .help = "categories that occur so often or less in training records are unknown"},
    ONE_HOT_PARAM,
    {.name = NULL},
};
static const ps_param label_params[] = {
    {.name = "classes",
     .value = 0,
     .min = 0,
     .max = CLASSES_MAX,
     .is_integer = true,
     .help =
         "different labels, in numeric order, else in the order of their bytes; 0: as many as the "
         "files have"},
    {.name = NULL},
};
static const ps_param target_params[] = {
    SCALE_PARAM(AS_IT_IS),
    {.name = NULL},
};

static const ps_column kinds[] = {
    {"numeric", "a number, scaled", numeric_params, PS_ROLE_NUMBER, false},
    {"hashed", "a category whose id is a hash of the column and the text", hashed_params,
     PS_ROLE_ID, false},
    {"vocabulary", "a category whose id is its rank by count in the training records",
     vocabulary_params, PS_ROLE_ID, true},
    {"label", "the class of the record", label_params, PS_ROLE_LABEL, true},
    {"target", "a target value of the record", target_params, PS_ROLE_TARGET, false},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

const ps_column *ps_column_find(const char *name)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

void ps_column_each(void (*fn)(const ps_column *column, void *arg), void *arg)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        fn(&kinds[i], arg);
    }
}

static double number_of(const ps_data_column *column, const char *name, double otherwise)
{
    int at = ps_param_find(column->kind->params, name);

    return at < 0 ? otherwise : column->params.v[at];
}

uint32_t ps_column_size(const ps_data_column *column)
{
    return (uint32_t)number_of(column, "buckets",
                               number_of(column, "size", number_of(column, "classes", 0)));
}

bool ps_column_is_one_hot(const ps_data_column *column)
{
    return number_of(column, "one_hot", 0) == 1;
}

uint32_t ps_category_hash(uint32_t column, const char *text, size_t len, uint32_t buckets)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) + column; /* FNV-1a */

    for (size_t i = 0; i < len; i++) {
        h = (h ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    }
    return (uint32_t)ps_draw_below(h, column, buckets);
}

/* --- learning ----------------------------------------------------------------- */

void ps_column_state_init(ps_column_state *state, const ps_data_column *column, uint32_t number)
{
    *state = (ps_column_state){.column = column, .number = number};
    if (column->kind->has_words) {
        state->words = ps_vocabulary_create();
    }
}

void ps_column_state_fini(ps_column_state *state)
{
    ps_vocabulary_destroy(state->words);
}

/* Reads a numeric field to *value. Sets *is_blank if the field is empty and the column allows that
 * (`blank` is 1); *value then stays as it is. */
static ps_status read_number(const ps_data_column *column, const char *text, size_t len,
                             double *value, bool *is_blank)
{
    *is_blank = len == 0 && number_of(column, "blank", 0) == 1;
    if (*is_blank || ps_text_number(text, len, value)) {
        return ps_ok();
    }
    return ps_fail(PS_INVALID_ARGUMENT, "%zu bytes that are no finite number%s", len,
                   len == 0 && column->kind->role == PS_ROLE_NUMBER ? " (or blank: 1)" : "");
}

ps_status ps_column_see(ps_column_state *state, const char *text, size_t len)
{
    double value = 0, step;
    bool is_blank;
    ps_status st = ps_ok();

    if (state->words != NULL) {
        return ps_vocabulary_count(state->words, text, len, 1);
    }
    if (state->column->kind->role == PS_ROLE_ID) {
        return ps_ok(); /* the id is a hash of the text, so nothing is learned */
    }
    st = read_number(state->column, text, len, &value, &is_blank);
    if (!ps_is_ok(&st) || is_blank) {
        return st;
    }
    if (state->count == 0) {
        state->least = state->most = value;
    }
    state->least = value < state->least ? value : state->least;
    state->most = value > state->most ? value : state->most;
    state->count++;
    step = value - state->mean; /* running mean and sum of squares (Welford 1962) */
    state->mean += step / (double)state->count;
    state->squares += step * (value - state->mean);
    return st;
}

ps_status ps_column_learn(ps_column_state *state, uint32_t *size)
{
    const ps_data_column *column = state->column;
    bool is_label = column->kind->role == PS_ROLE_LABEL;
    uint32_t given = ps_column_size(column), most;

    *size = given;
    if (state->words == NULL) {
        return ps_ok();
    }
    most = is_label ? 0 : given > 0 ? given - 1 : PS_DATA_IDS_MAX - 1;
    state->kept = most == 0 && !is_label
                      ? 0
                      : ps_vocabulary_order(state->words, is_label ? PS_BY_TEXT : PS_BY_COUNT,
                                            (uint64_t)number_of(column, "cutoff", 0), most);
    *size = is_label ? state->kept : given > 0 ? given : state->kept + 1;
    if (is_label && (*size < 2 || *size > CLASSES_MAX || (given > 0 && *size != given))) {
        return ps_fail(PS_INVALID_ARGUMENT, "column %s: %u different labels, expected %u to %u",
                       PS_SHORT(column->name, 48), *size, given > 0 ? given : 2,
                       given > 0 ? given : CLASSES_MAX);
    }
    if (ps_column_is_one_hot(column) && *size > ONE_HOT_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "column %s: %u categories, at most %d can be one_hot",
                       PS_SHORT(column->name, 48), *size, ONE_HOT_MAX);
    }
    return ps_ok();
}

/* Returns whether values of a column of numbers depend on all training records: on their mean,
 * their deviation or their bounds. */
static bool is_scaled(const ps_data_column *column)
{
    return number_of(column, "scale", AS_IT_IS) != AS_IT_IS || number_of(column, "blank", 0) == 1;
}

void ps_column_keep(const ps_column_state *s, ps_learned *learned)
{
    if (s->words != NULL) {
        ps_learned_put_words(learned, s->number, s->words, s->kept,
                             "data.columns: size or cutoff bounds the categories of a column");
    } else if (is_scaled(s->column)) {
        ps_learned_put_column(
            learned, s->number,
            &(ps_learned_column){s->count, s->mean, s->squares, s->least, s->most});
    }
}

ps_status ps_column_recall(ps_column_state *s, ps_learned *learned)
{
    ps_learned_column column = {.count = 0};
    ps_status st;

    if (s->words != NULL) {
        return ps_learned_take_words(learned, s->number, &s->words);
    }
    if (!is_scaled(s->column)) {
        return ps_ok();
    }
    st = ps_learned_take_column(learned, s->number, &column);
    s->count = column.count;
    s->mean = column.mean;
    s->squares = column.squares;
    s->least = column.least;
    s->most = column.most;
    return st;
}

static float scaled(const ps_column_state *state, double value)
{
    double deviation, span = state->most - state->least;

    switch ((int)number_of(state->column, "scale", AS_IT_IS)) {
    case STANDARD:
        deviation = state->count > 0 ? sqrt(state->squares / (double)state->count) : 0;
        return (float)((value - state->mean) / (deviation > 0 ? deviation : 1));
    case TO_UNIT:
        return (float)((value - state->least) / (span > 0 ? span : 1));
    default:
        return (float)value;
    }
}

ps_status ps_column_read(const ps_column_state *state, const char *text, size_t len, float *value)
{
    const ps_data_column *column = state->column;
    double number = state->mean;
    bool is_blank;
    uint32_t id;
    ps_status st;

    if (column->kind->role == PS_ROLE_ID && state->words == NULL) {
        *value = (float)ps_category_hash(state->number, text, len, ps_column_size(column));
        return ps_ok();
    }
    if (state->words != NULL) {
        id = state->kept > 0 ? ps_vocabulary_id(state->words, text, len) : PS_NO_WORD;
        if (id == PS_NO_WORD && column->kind->role == PS_ROLE_LABEL) {
            return ps_fail(PS_INVALID_ARGUMENT, "a label that no training record has");
        }
        /* Unknown categories have the last id, even if fewer words occurred than there are ids. */
        *value = (float)(id == PS_NO_WORD ? (ps_column_size(column) > 0 ? ps_column_size(column) - 1
                                                                        : state->kept)
                                          : id);
        return ps_ok();
    }
    st = read_number(column, text, len, &number, &is_blank);
    if (ps_is_ok(&st)) {
        *value = scaled(state, number);
        if (!isfinite(*value)) {
            return ps_fail(PS_INVALID_ARGUMENT, "a number that does not fit into 32 bits");
        }
    }
    return st;
}
