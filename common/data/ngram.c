/* SPDX-License-Identifier: Apache-2.0 */
/* ngram.c - text as n-grams: the ids of n - 1 words, and the next word as the class.
 *
 * The rules are those of Paddle's imikolov data set: a line is a sentence <s> ... <e>, and both
 * marks count once per line. Words that occur more than `cutoff` (50) times are numbered by
 * falling count, then bytes; all others are <unk>, the last number. Every n consecutive words
 * of a line are a sample; lines with fewer than n words give none.
 */
#include "common/base/xalloc.h"
#include "common/data/text.h"

#include <stdlib.h>

enum { N_MAX = 16 };

static const ps_param params[] = {
    {.name = "n",
     .value = 5,
     .min = 2,
     .max = N_MAX,
     .is_integer = true,
     .help = "words of a sample: n - 1, and the next one"},
    PS_TEXT_PARAMS(50){.name = NULL},
};

static ps_status ngram_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    uint32_t words = ps_data_count(conf, "words");

    if (words == 0) {
        return ps_fail(PS_FAILED_PRECONDITION, "the number of words is known only from its files");
    }
    facts->shape[0] = facts->shape[1] = 1;
    facts->shape[2] = facts->features = facts->ids = ps_data_count(conf, "n") - 1;
    facts->vocabulary = facts->classes = words;
    facts->target_width = 1;
    return ps_data_known_counts(conf, facts);
}

static uint64_t samples_of(const ps_data_conf *conf, uint32_t words)
{
    uint32_t n = ps_data_count(conf, "n");

    return words >= n ? words - n + 1 : 0;
}

static ps_status look(const char *folder, ps_data_conf *conf)
{
    return ps_text_look(conf, folder, true, false, samples_of);
}

typedef struct loading {
    ps_text text;
    ps_sink sink;
    uint32_t n;
} loading;

static ps_status add_line(void *arg, ps_line *line)
{
    loading *l = arg;
    float record[N_MAX]; /* the class, then the words before it */
    ps_status st = ps_text_read(&l->text, line);

    for (uint32_t end = l->n; ps_is_ok(&st) && end <= l->text.count; end++) {
        record[0] = (float)l->text.ids[end - 1];
        for (uint32_t i = 0; i + 1 < l->n; i++) {
            record[1 + i] = (float)l->text.ids[end - l->n + i];
        }
        st = ps_sink_add(&l->sink, line, record, l->n * sizeof *record);
    }
    return st;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    loading *l = ps_xcalloc(1, sizeof *l);
    ps_status st;

    l->n = ps_data_count(conf, "n");
    st = ps_text_load(&l->text, &l->sink, conf, folder, scratch, true, false, add_line, l, out);
    if (ps_is_ok(&st)) {
        for (size_t s = 0; s < 2; s++) {
            (*out)->split[s] =
                ps_float_records_create(1, l->n - 1, NULL, ps_sink_take(&l->sink, s));
        }
    }
    ps_text_close(&l->text);
    ps_sink_fini(&l->sink);
    free(l);
    return st;
}

const ps_data_source ps_data_source_ngram = {
    .name = "ngram",
    .summary = "text files as n-grams: ids of n - 1 words, and the next word as the class",
    .params = params,
    .takes_files = true,
    .takes_vocabulary = true,
    .folder = "text",
    .facts = ngram_facts,
    .look = look,
    .load = load,
};
