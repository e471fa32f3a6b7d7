/* SPDX-License-Identifier: Apache-2.0 */
/* rowset.c - see rowset.h. */
#include "common/base/rowset.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

enum { BITS = 64 };

struct ps_rowset {
    uint32_t rows;
    bool is_listed;     /* whether list and count match the bits */
    size_t words, tops; /* lengths of `bits` and `used` */
    uint64_t *bits;     /* a bit for each row */
    uint64_t *used;     /* a bit for each word of `bits` that is not 0 */
    uint32_t *list;     /* (rows, of which count are set): the set's rows, ascending */
    size_t count;
};

static size_t words_for(size_t bits)
{
    return (bits + BITS - 1) / BITS;
}

size_t ps_rowset_bytes(uint32_t rows)
{
    size_t words = words_for(rows);

    return sizeof(ps_rowset) + (words + words_for(words)) * sizeof(uint64_t) +
           rows * sizeof(uint32_t);
}

ps_rowset *ps_rowset_create(uint32_t rows)
{
    ps_rowset *set = calloc(1, sizeof *set);

    if (set == NULL) {
        return NULL;
    }
    set->rows = rows;
    set->words = words_for(rows);
    set->tops = words_for(set->words);
    set->is_listed = true;
    set->bits = calloc(set->words + 1, sizeof *set->bits);
    set->used = calloc(set->tops + 1, sizeof *set->used);
    set->list = malloc((rows + (size_t)1) * sizeof *set->list);
    if (set->bits == NULL || set->used == NULL || set->list == NULL) {
        ps_rowset_destroy(set);
        return NULL;
    }
    return set;
}

void ps_rowset_destroy(ps_rowset *set)
{
    if (set == NULL) {
        return;
    }
    free(set->bits);
    free(set->used);
    free(set->list);
    free(set);
}

void ps_rowset_add(ps_rowset *set, uint32_t row)
{
    size_t word = row / BITS;

    assert(row < set->rows);
    set->bits[word] |= UINT64_C(1) << (row % BITS);
    set->used[word / BITS] |= UINT64_C(1) << (word % BITS);
    set->is_listed = false;
}

void ps_rowset_clear(ps_rowset *set)
{
    for (size_t top = 0; top < set->tops; top++) {
        for (uint64_t left = set->used[top]; left != 0; left &= left - 1) {
            set->bits[top * BITS + (size_t)__builtin_ctzll(left)] = 0;
        }
        set->used[top] = 0;
    }
    set->count = 0;
    set->is_listed = true;
}

/* Appends the rows whose bits are set in one word of `bits` to the list. */
static void list_word(ps_rowset *set, size_t word)
{
    for (uint64_t left = set->bits[word]; left != 0; left &= left - 1) {
        set->list[set->count++] = (uint32_t)(word * BITS + (size_t)__builtin_ctzll(left));
    }
}

const uint32_t *ps_rowset_list(ps_rowset *set, size_t *count)
{
    if (!set->is_listed) {
        set->count = 0;
        for (size_t top = 0; top < set->tops; top++) {
            for (uint64_t left = set->used[top]; left != 0; left &= left - 1) {
                list_word(set, top * BITS + (size_t)__builtin_ctzll(left));
            }
        }
        set->is_listed = true;
    }
    *count = set->count;
    return set->list;
}
