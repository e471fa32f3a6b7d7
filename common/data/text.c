/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - see text.h. */
#include "common/data/text.h"

#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/learned.h"

#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\v\f\r";
static const char unknown_word[] = "<unk>";

/* A blank line is a sentence without words, as in imikolov. */
const ps_line_rule ps_text_rule = {.keeps_blank = true};

static void lower(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] >= 'A' && text[i] <= 'Z') {
            text[i] = (char)(text[i] - 'A' + 'a');
        }
    }
}

/* Finds the next word from *at on and moves *at behind it. Returns false if there is none. */
static bool next_word(const char **at, const char **word, size_t *len)
{
    *word = *at + strspn(*at, blanks);
    *len = strcspn(*word, blanks);
    *at = *word + *len;
    return *len > 0;
}

typedef struct counting {
    ps_text *text;
    ps_text_samples_fn *each;
    uint64_t *samples; /* (2, by ps_split) sums of what `each` returns */
} counting;

static ps_status count_line(void *arg, ps_line *line)
{
    counting *c = arg;
    const char *at = line->text, *word;
    uint32_t n = 0;
    size_t len;
    ps_status st = ps_ok();

    if (c->text->lowers) {
        lower(line->text, line->len);
    }
    while (ps_is_ok(&st) && next_word(&at, &word, &len)) {
        n++;
        if (len != strlen(unknown_word) || memcmp(word, unknown_word, len) != 0) {
            st = ps_vocabulary_count(c->text->words, word, len, 1);
        }
    }
    if (ps_is_ok(&st) && c->text->has_marks) {
        n += 2;
        st = ps_vocabulary_count(c->text->words, "<s>", 3, 1);
        if (ps_is_ok(&st)) {
            st = ps_vocabulary_count(c->text->words, "<e>", 3, 1);
        }
    }
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s: line %llu", PS_SHORT(line->file, 48),
                       (unsigned long long)line->number);
    }
    if (c->each != NULL) {
        uint64_t samples = c->each(c->text->conf, n);

        c->samples[line->split] += samples;
        if (ps_is_learning(c->text->conf) && line->split == PS_TRAIN) {
            ps_learned_count(c->text->conf->learned, line->file_index, samples);
        }
    }
    return st;
}

/* Gives the word of a line of the vocabulary file the next id. Fails unless the line is one word.
 * "<unk>" may only be the last word, because it has the last id. */
static ps_status give_word(void *arg, ps_line *line)
{
    ps_text *text = arg;
    const char *at = line->text, *word;
    size_t len;
    bool is_word = next_word(&at, &word, &len) && at[strspn(at, blanks)] == '\0';

    if (!is_word) {
        return ps_line_bad(line, "is \"%s\"; one word is expected", PS_SHORT(line->text, 60));
    }
    if (text->has_unknown) {
        return ps_line_bad(line, "comes after %s, which has the last id", unknown_word);
    }
    if (len == strlen(unknown_word) && memcmp(word, unknown_word, len) == 0) {
        text->has_unknown = true;
        return ps_ok();
    }
    return ps_wrap(ps_vocabulary_give(text->words, word, len), "%s: line %llu",
                   PS_SHORT(line->file, 48), (unsigned long long)line->number);
}

ps_status ps_text_open(ps_text *text, const ps_data_conf *conf, const char *folder, bool has_marks,
                       bool needs_counts, ps_text_samples_fn *each, uint64_t samples[2])
{
    counting c = {.text = text, .each = each, .samples = samples};
    uint32_t most = ps_data_count(conf, "most");
    bool is_given = conf->vocabulary[0] != '\0', is_learned = needs_counts || !is_given;
    ps_status st = ps_ok();

    *text = (ps_text){.conf = conf, .has_marks = has_marks, .words = ps_vocabulary_create()};
    text->lowers = ps_data_count(conf, "lower") == 1;
    if (ps_has_learned(conf) && is_learned) {
        st = ps_learned_take_words(conf->learned, 0, &text->words);
    } else if (is_given) {
        st = ps_lines_of_file(folder, conf->vocabulary, give_word, text);
    }
    if (ps_is_ok(&st) && !ps_has_learned(conf)) {
        st = ps_lines_walk(conf, folder, &ps_text_rule, count_line, &c);
    }
    if (ps_is_ok(&st)) {
        text->unknown = ps_vocabulary_order(text->words, PS_BY_COUNT, ps_data_count(conf, "cutoff"),
                                            most > 1 ? most - 1 : most);
    }
    if (ps_is_ok(&st) && ps_is_learning(conf) && is_learned) {
        ps_learned_put_words(conf->learned, 0, text->words, text->unknown,
                             "data.params.most, cutoff (or data.vocabulary) bounds the words");
    }
    return st;
}

void ps_text_close(ps_text *text)
{
    ps_vocabulary_destroy(text->words);
    free(text->ids);
}

static void add(ps_text *text, const char *word, size_t len)
{
    uint32_t id = ps_vocabulary_id(text->words, word, len);

    if (text->count == text->cap) {
        text->cap = text->cap == 0 ? 256 : 2 * text->cap;
        text->ids = ps_xrealloc(text->ids, text->cap * sizeof *text->ids);
    }
    text->ids[text->count++] = id == PS_NO_WORD ? text->unknown : id;
}

ps_status ps_text_read(ps_text *text, ps_line *line)
{
    const char *at = line->text, *word;
    size_t len;

    text->count = 0;
    if (text->lowers) {
        lower(line->text, line->len);
    }
    if (text->has_marks) {
        add(text, "<s>", 3);
    }
    while (next_word(&at, &word, &len)) {
        add(text, word, len);
    }
    if (text->has_marks) {
        add(text, "<e>", 3);
    }
    return ps_ok();
}

uint64_t ps_text_times(const ps_text *text, uint32_t id)
{
    uint64_t known = 0;

    if (id < text->unknown) {
        return ps_vocabulary_times(text->words, id);
    }
    for (uint32_t i = 0; i < text->unknown; i++) {
        known += ps_vocabulary_times(text->words, i);
    }
    return ps_vocabulary_total(text->words) - known;
}

ps_status ps_text_look(ps_data_conf *conf, const char *folder, bool has_marks, bool needs_counts,
                       ps_text_samples_fn *each)
{
    uint64_t samples[2] = {0, 0};
    ps_text text;
    ps_status st = ps_text_open(&text, conf, folder, has_marks, needs_counts, each, samples);

    if (ps_is_ok(&st)) {
        st = ps_data_found(conf, "words", (uint64_t)text.unknown + 1);
    }
    if (ps_is_ok(&st)) {
        st = ps_data_found_counts(conf, samples[PS_TRAIN], samples[PS_TEST]);
    }
    ps_text_close(&text);
    return st;
}

/* Stores the words in the data set: a line each, by id, then "<unk>". */
static void keep_words(const ps_text *text, ps_dataset *data)
{
    ps_strbuf lines = {0};

    for (uint32_t i = 0; i < text->unknown; i++) {
        size_t len;
        const char *word = ps_vocabulary_word(text->words, i, &len);

        ps_strbuf_append(&lines, word, len);
        ps_strbuf_putc(&lines, '\n');
    }
    ps_strbuf_printf(&lines, "%s\n", unknown_word);
    data->word_bytes = lines.len;
    data->words = ps_strbuf_take(&lines);
}

ps_status ps_text_load(ps_text *text, ps_sink *sink, const ps_data_conf *conf, const char *folder,
                       const char *scratch, bool has_marks, bool needs_counts,
                       ps_status (*add_line)(void *arg, ps_line *line), void *arg, ps_dataset **out)
{
    ps_data_conf found = *conf;
    ps_status st;

    ps_sink_init(sink, conf, scratch, 1);
    st = ps_text_open(text, conf, folder, has_marks, needs_counts, NULL, NULL);
    if (ps_is_ok(&st)) {
        st = ps_data_found(&found, "words", (uint64_t)text->unknown + 1);
    }
    if (ps_is_ok(&st)) {
        st = ps_lines_walk(conf, folder, &ps_text_rule, add_line, arg);
    }
    if (ps_is_ok(&st)) {
        st = ps_sink_end(sink, &found);
    }
    if (ps_is_ok(&st)) {
        st = ps_sink_dataset(sink, &found, out);
    }
    if (ps_is_ok(&st)) {
        keep_words(text, *out);
    }
    return st;
}
