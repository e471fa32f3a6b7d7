/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.c - see vocabulary.h: open addressing; the texts lie in one allocation. */
#include "common/data/vocabulary.h"

#include "common/base/xalloc.h"
#include "common/data/decimal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

typedef struct word {
    uint64_t times;
    uint64_t hash;
    size_t at; /* offset of its text in `texts` */
    uint32_t len, id;
} word;

struct ps_vocabulary {
    /* (count): in the order of first occurrence; after ordering only numbered words, by number */
    word *words;
    uint32_t count, cap;
    uint32_t *slots; /* (slot_count, a power of two) 1 + index in words; 0: empty */
    uint32_t slot_count;
    char *texts;
    size_t text_bytes, text_cap;
    uint64_t total;
    uint32_t numbered;
    bool is_given; /* the words and the order of their numbers were given, by ps_vocabulary_give */
    bool is_ordered;
};

enum { SLOTS_FIRST = 1024 };

ps_vocabulary *ps_vocabulary_create(void)
{
    ps_vocabulary *v = ps_xcalloc(1, sizeof *v);

    v->slot_count = SLOTS_FIRST;
    v->slots = ps_xcalloc(v->slot_count, sizeof *v->slots);
    v->text_cap = 64;
    v->texts = ps_xmalloc(v->text_cap); /* not NULL even if all words are "" */
    return v;
}

void ps_vocabulary_destroy(ps_vocabulary *v)
{
    if (v == NULL) {
        return;
    }
    free(v->words);
    free(v->slots);
    free(v->texts);
    free(v);
}

/* Returns the slot of a word, or the empty slot where it would be inserted. */
static uint32_t *find_slot(const ps_vocabulary *v, const char *text, size_t len, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (v->slot_count - 1);

    while (v->slots[at] != 0) {
        const word *w = &v->words[v->slots[at] - 1];

        if (w->hash == hash && w->len == len && memcmp(v->texts + w->at, text, len) == 0) {
            break;
        }
        at = (at + 1) & (v->slot_count - 1);
    }
    return &v->slots[at];
}

static void fill_slots(ps_vocabulary *v)
{
    memset(v->slots, 0, v->slot_count * sizeof *v->slots);
    for (uint32_t i = 0; i < v->count; i++) {
        const word *w = &v->words[i];

        *find_slot(v, v->texts + w->at, w->len, w->hash) = i + 1;
    }
}

static void make_room(ps_vocabulary *v, size_t len)
{
    if (v->count == v->cap) {
        v->cap = v->cap == 0 ? 256 : 2 * v->cap;
        v->words = ps_xrealloc(v->words, v->cap * sizeof *v->words);
    }
    if (v->text_cap - v->text_bytes < len) {
        v->text_cap = 2 * v->text_cap + len + 4096;
        v->texts = ps_xrealloc(v->texts, v->text_cap);
    }
    if (2 * (v->count + 1) > v->slot_count) {
        v->slot_count *= 2;
        v->slots = ps_xrealloc(v->slots, v->slot_count * sizeof *v->slots);
        fill_slots(v);
    }
}

ps_status ps_vocabulary_count(ps_vocabulary *v, const char *text, size_t len, uint64_t times)
{
    uint64_t hash = XXH3_64bits(text, len);
    uint32_t *slot;

    assert(!v->is_ordered);
    if (len > PS_WORD_BYTES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "a word of %zu bytes, expected at most %d", len,
                       PS_WORD_BYTES_MAX);
    }
    v->total += times;
    slot = find_slot(v, text, len, hash);
    if (*slot != 0) {
        v->words[*slot - 1].times += times;
        return ps_ok();
    }
    if (v->is_given && times > 0) { /* a word that was not given shares the id of unknown words */
        return ps_ok();
    }
    if (v->count == PS_WORDS_MAX) {
        return ps_fail(PS_RESOURCE_EXHAUSTED, "more than %d different words", PS_WORDS_MAX);
    }
    make_room(v, len);
    if (len > 0) {
        memcpy(v->texts + v->text_bytes, text, len);
    }
    v->words[v->count] = (word){
        .times = times, .hash = hash, .at = v->text_bytes, .len = (uint32_t)len, .id = PS_NO_WORD};
    v->text_bytes += len;
    v->count++;
    *find_slot(v, text, len, hash) = v->count;
    return ps_ok();
}

ps_status ps_vocabulary_give(ps_vocabulary *v, const char *text, size_t len)
{
    ps_status st;

    assert(v->is_given || v->count == 0);
    if (*find_slot(v, text, len, XXH3_64bits(text, len)) != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "\"%.*s\" is another word's line, too",
                       len > 80 ? 80 : (int)len, text);
    }
    st = ps_vocabulary_count(v, text, len, 0);
    if (ps_is_ok(&st)) {
        v->is_given = true;
        v->words[v->count - 1].id = v->numbered++;
    }
    return st;
}

void ps_vocabulary_count_rest(ps_vocabulary *v, uint64_t times)
{
    v->total += times;
}

/* --- order ------------------------------------------------------------------ */

/* The sort key of a word. */
typedef struct key {
    const char *text;
    double number;
    uint64_t times;
    uint32_t len, index;
} key;

static int by_bytes(const key *a, const key *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    int order = n > 0 ? memcmp(a->text, b->text, n) : 0;

    return order != 0 ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare_counts(const void *left, const void *right)
{
    const key *a = left, *b = right;

    return a->times != b->times ? (a->times < b->times) - (a->times > b->times) : by_bytes(a, b);
}

static int compare_texts(const void *left, const void *right)
{
    return by_bytes(left, right);
}

static int compare_numbers(const void *left, const void *right)
{
    const key *a = left, *b = right;

    return a->number != b->number ? (a->number > b->number) - (a->number < b->number)
                                  : by_bytes(a, b); /* "1" and "1.0" are equal numbers */
}

uint32_t ps_vocabulary_order(ps_vocabulary *v, ps_word_order by, uint64_t cutoff, uint32_t most)
{
    key *keys;
    word *ordered;
    bool are_numbers = true;

    assert(!v->is_ordered);
    if (v->is_given) {
        v->is_ordered = true;
        return v->numbered;
    }
    keys = ps_xcalloc(v->count, sizeof *keys);
    ordered = ps_xcalloc(v->count, sizeof *ordered);
    for (uint32_t i = 0; i < v->count; i++) {
        const word *w = &v->words[i];

        keys[i] = (key){.text = v->texts + w->at, .times = w->times, .len = w->len, .index = i};
        are_numbers = are_numbers && ps_text_number(keys[i].text, w->len, &keys[i].number);
    }
    if (v->count > 0) {
        qsort(keys, v->count, sizeof *keys,
              by == PS_BY_COUNT ? compare_counts
              : are_numbers     ? compare_numbers
                                : compare_texts);
    }
    for (uint32_t i = 0; i < v->count; i++) { /* only words that get a number are kept */
        const word *w = &v->words[keys[i].index];

        if (w->times > cutoff && (most == 0 || v->numbered < most)) {
            ordered[v->numbered] = *w;
            ordered[v->numbered].id = v->numbered;
            v->numbered++;
        }
    }
    free(v->words);
    v->words = ordered;
    v->count = v->cap = v->numbered; /* from now on, look-ups find only words with a number */
    fill_slots(v);
    v->is_ordered = true;
    free(keys);
    return v->numbered;
}

uint32_t ps_vocabulary_id(const ps_vocabulary *v, const char *text, size_t len)
{
    uint32_t slot = *find_slot(v, text, len, XXH3_64bits(text, len));

    assert(v->is_ordered);
    return slot == 0 ? PS_NO_WORD : v->words[slot - 1].id;
}

const char *ps_vocabulary_word(const ps_vocabulary *v, uint32_t id, size_t *len)
{
    assert(id < v->numbered);
    *len = v->words[id].len;
    return v->texts + v->words[id].at;
}

uint64_t ps_vocabulary_times(const ps_vocabulary *v, uint32_t id)
{
    assert(id < v->numbered);
    return v->words[id].times;
}

uint64_t ps_vocabulary_total(const ps_vocabulary *v)
{
    return v->total;
}
