/* SPDX-License-Identifier: Apache-2.0 */
/* vocabulary.h - words counted, and numbered by how often they come.
 *
 * The numbers follow from the words and their counts alone, so every node that reads the
 * same files has the same ones. One thread at a time until it is ordered, then any.
 */
#ifndef PS_COMMON_DATA_VOCABULARY_H
#define PS_COMMON_DATA_VOCABULARY_H

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PS_WORDS_MAX = 1 << 22, /* different words counted */
    PS_WORD_BYTES_MAX = 255
};
#define PS_NO_WORD UINT32_MAX

typedef struct ps_vocabulary ps_vocabulary;

ps_vocabulary *ps_vocabulary_create(void);
void ps_vocabulary_destroy(ps_vocabulary *v); /* NULL is allowed */

/* Counts a word `times` times more. INVALID_ARGUMENT: longer than PS_WORD_BYTES_MAX;
 * RESOURCE_EXHAUSTED: more than PS_WORDS_MAX different ones. */
PS_MUST_USE ps_status ps_vocabulary_count(ps_vocabulary *v, const char *word, size_t len,
                                          uint64_t times);

/* How words are numbered. */
typedef enum ps_word_order {
    PS_BY_COUNT, /* falling count, then bytes */
    PS_BY_TEXT   /* as numbers if all are, else by bytes */
} ps_word_order;

/* Numbers those that come more often than `cutoff`, from 0, at most `most` of them (0: all).
 * Returns how many; once, after the last count. */
uint32_t ps_vocabulary_order(ps_vocabulary *v, ps_word_order by, uint64_t cutoff, uint32_t most);

/* Number of a word, PS_NO_WORD if it has none. */
uint32_t ps_vocabulary_id(const ps_vocabulary *v, const char *word, size_t len);

uint64_t ps_vocabulary_times(const ps_vocabulary *v, uint32_t id);
uint64_t ps_vocabulary_total(const ps_vocabulary *v); /* of all that was counted */

#endif
