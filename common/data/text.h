/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - what the sources ngram and skipgram share: words of lines, and their numbers.
 *
 * Words stand between blanks; a word's number is its place by falling count, then bytes,
 * counted over training and test lines; words that come `cutoff` times or less, and "<unk>"
 * itself, share the last number (the rules of imikolov). For common/data alone.
 */
#ifndef PS_COMMON_DATA_TEXT_H
#define PS_COMMON_DATA_TEXT_H

#include "common/data/lines.h"
#include "common/data/sink.h"
#include "common/data/vocabulary.h"

typedef struct ps_text {
    const ps_data_conf *conf;
    bool has_marks; /* a line begins with <s> and ends with <e> */
    bool lowers;    /* A to Z are a to z */
    ps_vocabulary *words;
    uint32_t unknown; /* number of all words without one; the vocabulary has one more */

    uint32_t *ids; /* (count) of the line in hand */
    uint32_t count, cap;
} ps_text;

/* How the lines of a text are read. */
extern const ps_line_rule ps_text_rule;

/* Counts the words and numbers them; `each` (optional) is called with the count of every
 * line, marks included. */
PS_MUST_USE ps_status ps_text_open(ps_text *text, const ps_data_conf *conf, const char *folder,
                                   bool has_marks,
                                   void (*each)(void *arg, ps_split split, uint32_t words),
                                   void *arg);
void ps_text_close(ps_text *text);

/* Numbers of the words of a line, into text->ids. */
PS_MUST_USE ps_status ps_text_read(ps_text *text, ps_line *line);

/* ---- The two halves of a source of text: what differs is how a line makes samples ---- */

/* Fills in the conf's words and counts. `each` is ps_text_open's; it adds to `samples`
 * (train, test) how many a line makes. */
PS_MUST_USE ps_status ps_text_look(ps_data_conf *conf, const char *folder, bool has_marks,
                                   void (*each)(void *arg, ps_split split, uint32_t words),
                                   void *arg, const uint64_t samples[2]);

/* Opens the text and has every line made into rows of the sink, by add_line(arg, line), which
 * reads it with ps_text_read. *out is then a set whose splits are the caller's to fill
 * from the sink. Text and sink are the caller's to close, however it ends. */
PS_MUST_USE ps_status ps_text_load(ps_text *text, ps_sink *sink, const ps_data_conf *conf,
                                   const char *folder, const char *scratch, bool has_marks,
                                   ps_status (*add_line)(void *arg, ps_line *line), void *arg,
                                   ps_dataset **out);

/* How often the word of that number was counted; for the unknown: all those without one. */
uint64_t ps_text_times(const ps_text *text, uint32_t id);

/* The numbers of the conf that both sources have. */
#define PS_TEXT_PARAMS(cutoff_value)                                                               \
    {.name = "cutoff",                                                                             \
     .value = (cutoff_value),                                                                      \
     .min = 0,                                                                                     \
     .max = 1e9,                                                                                   \
     .is_integer = true,                                                                           \
     .help = "words that come so often or less are one, <unk>"},                                   \
        {.name = "most",                                                                           \
         .value = 0,                                                                               \
         .min = 0,                                                                                 \
         .max = PS_WORDS_MAX,                                                                      \
         .is_integer = true,                                                                       \
         .help = "most words kept, with <unk>; 0: all"},                                           \
        {.name = "words",                                                                          \
         .value = 0,                                                                               \
         .min = 0,                                                                                 \
         .max = PS_WORDS_MAX + 1.0,                                                                \
         .is_integer = true,                                                                       \
         .help = "words of the vocabulary with <unk>; 0: as many as the files have"},              \
        {.name = "lower",                                                                          \
         .value = 0,                                                                               \
         .min = 0,                                                                                 \
         .max = 1,                                                                                 \
         .is_integer = true,                                                                       \
         .help = "1: A to Z count as a to z"},                                                     \
        {.name = "test_share",                                                                     \
         .value = 0.1,                                                                             \
         .min = 0,                                                                                 \
         .max = 0.9,                                                                               \
         .help = "share of the lines kept for the test, without test files"},

#endif
