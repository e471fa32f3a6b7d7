/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - what the sources ngram and skipgram share: the words of lines, and their ids.
 *
 * Words are separated by blanks. Ids go by falling count over training and test lines, then by
 * bytes. Words that occur `cutoff` times or less, those beyond the number `most`, and "<unk>"
 * itself share the last id (the rules of imikolov). Or the conf names a file with a word a line, in
 * the order of their ids;
 * words that are not in it, and "<unk>" itself, share the last id, of which it may have the line.
 * Private to common/data.
 */
#ifndef PS_COMMON_DATA_TEXT_H
#define PS_COMMON_DATA_TEXT_H

#include "common/data/lines.h"
#include "common/data/sink.h"
#include "common/data/vocabulary.h"

typedef struct ps_text {
    const ps_data_conf *conf;
    bool has_marks;   /* a line begins with <s> and ends with <e> */
    bool lowers;      /* A to Z count as a to z */
    bool has_unknown; /* the file of words has the line "<unk>", for words that are not in it */
    ps_vocabulary *words;
    /* id shared by all words without one of their own; the vocabulary has unknown + 1 ids */
    uint32_t unknown;

    uint32_t *ids; /* (count): ids of the current line */
    uint32_t count, cap;
} ps_text;

/* How lines.h reads the lines of a text. */
extern const ps_line_rule ps_text_rule;

/* Returns how many samples a line of so many words makes, marks included. */
typedef uint64_t ps_text_samples_fn(const ps_data_conf *conf, uint32_t words);

/* Opens a text: counts its words, or takes those that were learned if it is a part, and gives them
 * ids. Adds what `each` (optional) returns for each line to samples[], by ps_split. `needs_counts`:
 * words are counted also if the conf gives the vocabulary. */
PS_MUST_USE ps_status ps_text_open(ps_text *text, const ps_data_conf *conf, const char *folder,
                                   bool has_marks, bool needs_counts, ps_text_samples_fn *each,
                                   uint64_t samples[2]);
/* Frees the words and ids of a text. */
void ps_text_close(ps_text *text);

/* Writes the ids of the words of a line to text->ids. */
PS_MUST_USE ps_status ps_text_read(ps_text *text, ps_line *line);

/* ---- The common part of a source of text; sources differ in how a line makes samples ---- */

/* Fills in the conf's numbers of words and samples. The arguments are those of ps_text_open. */
PS_MUST_USE ps_status ps_text_look(ps_data_conf *conf, const char *folder, bool has_marks,
                                   bool needs_counts, ps_text_samples_fn *each);

/* Opens the text and calls add_line(arg, line) for every line. add_line reads the line with
 * ps_text_read and adds samples to the sink. *out is then a data set whose splits the caller makes
 * from the sink. The caller closes text and sink in any case. */
PS_MUST_USE ps_status ps_text_load(ps_text *text, ps_sink *sink, const ps_data_conf *conf,
                                   const char *folder, const char *scratch, bool has_marks,
                                   bool needs_counts,
                                   ps_status (*add_line)(void *arg, ps_line *line), void *arg,
                                   ps_dataset **out);

/* Returns the count of the word with this id; for `unknown`, of all words that share it. */
uint64_t ps_text_times(const ps_text *text, uint32_t id);

/* The numbers that the sources ngram and skipgram both have. */
#define PS_TEXT_PARAMS(cutoff_value)                                                               \
    {.name = "cutoff",                                                                             \
     .value = (cutoff_value),                                                                      \
     .min = 0,                                                                                     \
     .max = 1e9,                                                                                   \
     .is_integer = true,                                                                           \
     .help = "words that occur so often or less become <unk>"},                                    \
        {.name = "most",                                                                           \
         .value = 0,                                                                               \
         .min = 0,                                                                                 \
         .max = PS_WORDS_MAX,                                                                      \
         .is_integer = true,                                                                       \
         .help = "maximum of words kept, with <unk>; 0: all"},                                     \
        {.name = "words",                                                                          \
         .value = 0,                                                                               \
         .min = 0,                                                                                 \
         .max = PS_WORDS_MAX + 1.0,                                                                \
         .is_integer = true,                                                                       \
         .help = "size of the vocabulary, with <unk>; 0: as many as the files have"},              \
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
         .help = "share of the lines used for testing if there are no test files"},

#endif
