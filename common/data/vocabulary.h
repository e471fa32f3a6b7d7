/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.h - counts words and numbers them by count.
 *
 * The numbers depend only on the words and their counts, so nodes that read the same files agree.
 * One thread at a time until ps_vocabulary_order has returned, then any thread.
 */
#ifndef PS_COMMON_DATA_VOCABULARY_H
#define PS_COMMON_DATA_VOCABULARY_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_WORDS_MAX = 1 << 22, /* limit of distinct words */
    PS_WORD_BYTES_MAX = 255
};
/* What ps_vocabulary_id returns for a word without a number. */
#define PS_NO_WORD UINT32_MAX

typedef struct ps_vocabulary ps_vocabulary;

/* Creates an empty vocabulary. The caller destroys it. */
ps_vocabulary *ps_vocabulary_create(void);
/* Frees the vocabulary. NULL is allowed. */
void ps_vocabulary_destroy(ps_vocabulary *v);

/* Adds `times` to the count of a word. Returns INVALID_ARGUMENT if it is longer than
 * PS_WORD_BYTES_MAX, RESOURCE_EXHAUSTED if there would be more than PS_WORDS_MAX distinct
 * words. */
PS_MUST_USE ps_status ps_vocabulary_count(ps_vocabulary *v, const char *word, size_t len,
                                          uint64_t times);

/* Gives a word the next number, from 0. Either all numbers are given by this function, before the
 * first count, and words that were not given then count only in the total; or ps_vocabulary_order
 * makes all numbers. Returns INVALID_ARGUMENT if the word has a number, else as
 * ps_vocabulary_count. */
PS_MUST_USE ps_status ps_vocabulary_give(ps_vocabulary *v, const char *word, size_t len);

/* Adds `times` to the sum of all counts, and to the count of no word. */
void ps_vocabulary_count_rest(ps_vocabulary *v, uint64_t times);

/* The order of the numbers. */
typedef enum ps_word_order {
    PS_BY_COUNT, /* falling count, then bytes */
    PS_BY_TEXT   /* as numbers if all words are numbers, else by bytes */
} ps_word_order;

/* Numbers the words that occur more than `cutoff` times, from 0, at most `most` of them (0:
 * all); numbers that were given stay. Returns how many words have a number. Call it once, after
 * the last count. */
uint32_t ps_vocabulary_order(ps_vocabulary *v, ps_word_order by, uint64_t cutoff, uint32_t most);

/* Returns the number of a word, or PS_NO_WORD if it has none. */
uint32_t ps_vocabulary_id(const ps_vocabulary *v, const char *word, size_t len);

/* Returns the word with number `id`, which must exist, and its length. Valid as long as the
 * vocabulary; not terminated by NUL. */
const char *ps_vocabulary_word(const ps_vocabulary *v, uint32_t id, size_t *len);

/* Returns the count of the word with number `id`, which must exist. */
uint64_t ps_vocabulary_times(const ps_vocabulary *v, uint32_t id);
/* Returns the sum of all counts, with those of words without a number. */
uint64_t ps_vocabulary_total(const ps_vocabulary *v);

#endif
