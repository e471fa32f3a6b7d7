/* SPDX-License-Identifier: Apache-2.0 */
/* skipgram.c - text as pairs of neighbouring words, with negative sampling.
 *
 * A sample is the ids of a word, of a word at most `window` words from it in its line, and of
 * `negatives` random words: (centre, context, noise, ..., noise). Its targets are 1 for the
 * context and 0 for each noise word, so the loss of Mikolov et al. 2013 (arXiv 1310.4546,
 * equation 4) is binary cross-entropy on the dot products. A noise word is drawn with
 * probability proportional to count^0.75, anew for each sample in each epoch. It differs from
 * the context unless eight tries fail.
 */
#include "common/base/container_of.h"
#include "common/base/draw.h"
#include "common/base/xalloc.h"
#include "common/data/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_MAX = 64, NEGATIVES_MAX = 64, TRIES = 8, GUIDES = 4096 };

static const ps_param params[] = {
    {.name = "window",
     .value = 5,
     .min = 1,
     .max = WINDOW_MAX,
     .is_integer = true,
     .help = "words to each side that are context"},
    {.name = "negatives",
     .value = 5,
     .min = 1,
     .max = NEGATIVES_MAX,
     .is_integer = true,
     .help = "noise words of a sample"},
    PS_TEXT_PARAMS(4){.name = NULL},
};

static ps_status skipgram_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    uint32_t words = ps_data_count(conf, "words"), negatives = ps_data_count(conf, "negatives");

    if (words == 0) {
        return ps_fail(PS_FAILED_PRECONDITION, "the number of words is known only from its files");
    }
    facts->shape[0] = facts->shape[1] = 1;
    facts->shape[2] = facts->features = facts->ids = 2 + negatives;
    facts->vocabulary = words;
    facts->target_width = 1 + negatives;
    return ps_data_known_counts(conf, facts);
}

/* --- samples ---------------------------------------------------------------- */

/* The distribution of noise words. A draw below the total is looked up by bisection. */
typedef struct noise {
    unsigned users; /* number of splits that use it */
    uint32_t words;
    uint64_t *below; /* (words): sum of the weights of words 0 to i */
    uint64_t part;   /* the least integer above a GUIDES-th of the total */
    /* guide[g]: the first word whose `below` exceeds g * part, or the last word */
    uint32_t guide[GUIDES + 1];
} noise;

static noise *noise_create(const ps_text *text)
{
    noise *n = ps_xcalloc(1, sizeof *n);
    uint64_t sum = 0;

    n->users = 2;
    n->words = text->unknown + 1;
    n->below = ps_xcalloc(n->words, sizeof *n->below);
    for (uint32_t i = 0; i < n->words; i++) {
        /* count^(3/4) by square roots, which every host rounds alike. */
        double root = sqrt((double)ps_text_times(text, i));

        sum += (uint64_t)(root * sqrt(root) * 1024.0);
        n->below[i] = sum;
    }
    if (sum == 0) { /* no word was counted: every word of the text is literally <unk> */
        n->below[n->words - 1] = 1;
    }
    n->part = n->below[n->words - 1] / GUIDES + 1;
    for (uint32_t g = 0, i = 0; g <= GUIDES; g++) {
        while (i + 1 < n->words && n->below[i] <= g * n->part) {
            i++;
        }
        n->guide[g] = i;
    }
    return n;
}

static uint32_t draw_noise(const noise *n, uint64_t key, uint64_t index)
{
    uint64_t at = ps_draw_below(key, index, n->below[n->words - 1]);
    uint32_t low = n->guide[at / n->part], high = n->guide[at / n->part + 1];

    while (low < high) { /* finds the first word whose sum exceeds `at` */
        uint32_t middle = low + (high - low) / 2;

        if (n->below[middle] > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

typedef struct skipgrams {
    ps_samples samples;
    uint32_t negatives;
    noise *noise;
    ps_spill *pairs; /* (count, 2) of uint32_t: centre, context */
} skipgrams;

enum { PAIR_BYTES = 2 * sizeof(uint32_t) };

static ps_stored skipgram_stored(const ps_samples *samples, uint32_t at, void *room)
{
    const skipgrams *s = PS_CONTAINER_OF(samples, const skipgrams, samples);

    return (ps_stored){ps_spill_at(s->pairs, (uint64_t)at * PAIR_BYTES, PAIR_BYTES, room),
                       PAIR_BYTES};
}

static void skipgram_make(const ps_samples *samples, const void *stored, uint64_t key, float *x,
                          float *targets)
{
    const skipgrams *s = PS_CONTAINER_OF(samples, const skipgrams, samples);
    const uint32_t *pair = stored;

    x[0] = (float)pair[0];
    x[1] = (float)pair[1];
    targets[0] = 1.0f;
    for (uint32_t i = 0; i < s->negatives; i++) {
        uint32_t word = pair[1];

        for (uint32_t k = 0; k < TRIES && word == pair[1]; k++) {
            word = draw_noise(s->noise, key, (uint64_t)i * TRIES + k);
        }
        x[2 + i] = (float)word;
        targets[1 + i] = 0.0f;
    }
}

static void skipgram_destroy(ps_samples *samples)
{
    skipgrams *s = PS_CONTAINER_OF(samples, skipgrams, samples);

    if (--s->noise->users == 0) {
        free(s->noise->below);
        free(s->noise);
    }
    ps_spill_destroy(s->pairs);
    free(s);
}

static ps_samples *create(uint32_t negatives, noise *n, ps_spill *pairs)
{
    skipgrams *s = ps_xcalloc(1, sizeof *s);

    s->samples = (ps_samples){.stored = skipgram_stored,
                              .room = PAIR_BYTES,
                              .make = skipgram_make,
                              .destroy = skipgram_destroy,
                              .draws = true};
    s->samples.is_far = ps_spill_is_in_file(pairs);
    s->negatives = negatives;
    s->noise = n;
    s->pairs = pairs;
    return &s->samples;
}

/* --- from files -------------------------------------------------------------- */

/* Writes the range [*from, *to) of the contexts of word i of `words`; it contains i itself. */
static void context_of(uint32_t i, uint32_t words, uint32_t window, uint32_t *from, uint32_t *to)
{
    *from = i < window ? 0 : i - window;
    *to = words - i <= window ? words : i + window + 1;
}

static uint64_t samples_of(const ps_data_conf *conf, uint32_t words)
{
    uint32_t window = ps_data_count(conf, "window");
    uint64_t samples = 0;

    for (uint32_t i = 0; i < words; i++) {
        uint32_t from, to;

        context_of(i, words, window, &from, &to);
        samples += to - from - 1;
    }
    return samples;
}

/* Looks like any source of text (text.h), with the counts of all words even if the words are given,
 * because noise words are drawn by these counts. */
static ps_status look(const char *folder, ps_data_conf *conf)
{
    return ps_text_look(conf, folder, false, true, samples_of);
}

typedef struct loading {
    ps_text text;
    ps_sink sink;
    uint32_t window;
} loading;

static ps_status add_line(void *arg, ps_line *line)
{
    loading *l = arg;
    ps_status st = ps_text_read(&l->text, line);

    for (uint32_t i = 0; i < l->text.count && ps_is_ok(&st); i++) {
        uint32_t from, to;

        context_of(i, l->text.count, l->window, &from, &to);
        for (uint32_t j = from; j < to && ps_is_ok(&st); j++) {
            uint32_t pair[2] = {l->text.ids[i], l->text.ids[j]};

            if (j != i) {
                st = ps_sink_add(&l->sink, line, pair, sizeof pair);
            }
        }
    }
    return st;
}

static ps_status load(const ps_data_conf *conf, const char *folder, const char *scratch,
                      ps_dataset **out)
{
    loading *l = ps_xcalloc(1, sizeof *l);
    ps_status st;

    l->window = ps_data_count(conf, "window");
    st = ps_text_load(&l->text, &l->sink, conf, folder, scratch, false, true, add_line, l, out);
    if (ps_is_ok(&st)) {
        noise *n = noise_create(&l->text);

        for (size_t s = 0; s < 2; s++) {
            (*out)->split[s] =
                create(ps_data_count(conf, "negatives"), n, ps_sink_take(&l->sink, s));
        }
    }
    ps_text_close(&l->text);
    ps_sink_fini(&l->sink);
    free(l);
    return st;
}

const ps_data_source ps_data_source_skipgram = {
    .name = "skipgram",
    .summary =
        "text files as pairs of neighbouring words with noise words: ids (centre, context, noise "
        "...), targets (1, 0 ...)",
    .params = params,
    .takes_files = true,
    .takes_vocabulary = true,
    .folder = "text",
    .facts = skipgram_facts,
    .look = look,
    .load = load,
};
