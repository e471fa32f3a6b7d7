/* SPDX-License-Identifier: Apache-2.0 */
/* explain_words.c - what bounds a job, in sentences. */
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/explain/explain_answer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 32, SENTENCE_BYTES = 512 };

typedef struct words {
    char **sentences;
    size_t n;
} words;

/* Appends a sentence. */
PS_PRINTF(2, 3)
static void say(words *w, const char *format, ...)
{
    char text[SENTENCE_BYTES];
    va_list args;

    assert(w->n < PS_EXPLAIN_SENTENCES_MAX);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    w->sentences[w->n++] = ps_xstrdup(text);
}

/* Writes a number with three digits, from 100 on as a whole one, into text (NUMBER_BYTES) and
 * returns it. */
static const char *shown(char *text, double value)
{
    snprintf(text, NUMBER_BYTES, value >= 100 ? "%.0f" : "%.3g", value);
    return text;
}

#define SHOWN(value) shown((char[NUMBER_BYTES]){0}, value)

static const ps_explain_rank *slowest_of(const ps_explained *e)
{
    return &e->ranks[e->found.slowest];
}

/* Appends two sentences: which part of the exchange bounds the job, and the shares of all parts. */
static void say_way(words *w, const ps_explain_steps *s)
{
    static const char *const names[] = {
        [PS_WAY_UP] = "The way up bounds this job: the links from workers to servers.",
        [PS_WAY_DOWN] = "The way down bounds this job: the links from servers to workers.",
        [PS_WAY_CODEC] = "Coding on the workers bounds this job: their codecs take the time.",
    };

    if (s->way == PS_WAY_SERVER) {
        say(w, "A thread of a server bounds this job: %s.", s->thread);
    } else {
        say(w, "%s", names[s->way]);
    }
    say(w,
        "Of a step, %.0f %% goes to the way up, %.0f %% to that server, %.0f %% to the way down, "
        "%.0f %% to coding; %zu steps of %s ms were recorded.",
        100 * s->shares[PS_WAY_UP], 100 * s->shares[PS_WAY_SERVER], 100 * s->shares[PS_WAY_DOWN],
        100 * s->shares[PS_WAY_CODEC], s->count, SHOWN(1e3 * s->step_s));
}

/* Appends two sentences: what bounds the job, and the measured evidence. If the parts of the
 * exchange are known, say_way is called instead. */
static void say_cause(words *w, const ps_explained *e)
{
    const ps_explain_rank *slowest = slowest_of(e);
    const double *shares = e->found.shares;
    bool is_on = slowest->node_id[0] != '\0';
    const char *node = is_on ? ", node " : "";

    switch (e->found.cause) {
    case PS_EXPLAIN_COMPUTE:
        say(w, "Computing bounds this job: it takes %.0f %% of a step.",
            100 * shares[PS_EXPLAIN_COMPUTE]);
        say(w, "Worker %u computes longest, and waits for %.0f %% of its time.", slowest->number,
            100 * shares[PS_EXPLAIN_EXCHANGE]);
        break;
    case PS_EXPLAIN_DATA:
        say(w,
            "Reading samples from a disk bounds this job: its training data is larger than what a "
            "worker keeps in memory.");
        say(w, "Worker %u%s%s, stands still for %.0f %% of a step until its samples are there.",
            slowest->number, node, slowest->node_id, 100 * shares[PS_EXPLAIN_DATA]);
        break;
    case PS_EXPLAIN_STRAGGLER:
        say(w, "A straggler bounds this job: worker %u%s%s.", slowest->number, node,
            slowest->node_id);
        say(w,
            "What it computes longer than the others is %.0f %% of a step, and they wait "
            "meanwhile.%s",
            100 * shares[PS_EXPLAIN_STRAGGLER],
            e->found.is_straggler_read ? " Most of that is reading samples from its disk." : "");
        break;
    case PS_EXPLAIN_EXCHANGE:
        say(w, "The exchange bounds this job: links, servers or their disks.");
        say(w, "Even worker %u, which computes longest, waits for %.0f %% of its time.",
            slowest->number, 100 * shares[PS_EXPLAIN_EXCHANGE]);
        break;
    default:
        say(w, "Neither computing nor waiting bounds this job: %.0f %% of its time is neither.",
            100 * shares[PS_EXPLAIN_OTHER]);
        say(w, "That is evaluating or saving checkpoints.");
        break;
    }
}

/* Returns the advice for an exchange of which the timeline shows that `way` is the slowest part. */
static const char *advice_for(ps_explain_way way)
{
    static const char *const advice[] = {
        [PS_WAY_UP] =
            "A codec for gradients (--codec-up) with fewer bytes, or rounds of several local "
            "steps would help; faster servers or processors would not.",
        [PS_WAY_SERVER] = "More servers, more --threads of a server, or a codec that is decoded "
                          "faster would help; faster links would not.",
        [PS_WAY_DOWN] =
            "A codec for weights (--codec-down) with fewer bytes, or rounds of several local "
            "steps would help; faster servers or processors would not.",
        [PS_WAY_CODEC] = "A codec that costs less would help: psgd bench measures all of them.",
    };

    return advice[way];
}

/* Appends the sentence with the advice against the slowest part of the exchange, if that is known
 * and no other part is close; else against the cause that bounds the job. */
static void say_advice(words *w, const ps_explained *e)
{
    static const char *const advice[] = {
        [PS_EXPLAIN_COMPUTE] = "Faster processors, a smaller model or smaller batches would help; "
                               "codecs and faster links would not.",
        [PS_EXPLAIN_DATA] =
            "A faster disk, memory for the system's file cache, or more workers, of which each "
            "reads less, would help; codecs and faster links would not.",
        [PS_EXPLAIN_STRAGGLER] = "Look at what else runs on that worker's machine, or let the job "
                                 "not wait for it: consistency 'backup', 'ssp' or 'asp'.",
        [PS_EXPLAIN_EXCHANGE] = "A codec with fewer bytes, rounds of several local steps or more "
                                "servers would help; faster processors would not.",
        [PS_EXPLAIN_OTHER] = "Evaluate and save less often, or on smaller sets.",
    };

    say(w, "%s",
        e->steps != NULL && !ps_explain_is_close(e->steps) ? advice_for(e->steps->way)
                                                           : advice[e->found.cause]);
}

/* Appends the sentence with the steps a second of now, and those that the job would make without
 * what bounds it, or with half of it. For computing they are those with half of it, and those with
 * a free exchange. */
static void say_gain(words *w, const ps_explained *e)
{
    const ps_explanation *x = &e->found;
    double share = x->shares[x->cause], exchange = x->shares[PS_EXPLAIN_EXCHANGE];

    switch (x->cause) {
    case PS_EXPLAIN_COMPUTE:
        say(w,
            "It makes %s steps/s; with half of the computing, as with half the batch, about %s; "
            "with an exchange that costs nothing at most %s.",
            SHOWN(x->steps_per_s), SHOWN(ps_explain_without(x, share / 2)),
            SHOWN(ps_explain_without(x, exchange)));
        break;
    case PS_EXPLAIN_DATA:
        say(w, "It makes %s steps/s; with samples that are there at once about %s.",
            SHOWN(x->steps_per_s), SHOWN(ps_explain_without(x, share)));
        break;
    case PS_EXPLAIN_STRAGGLER:
        say(w, "It makes %s steps/s; were worker %u as fast as the others, about %s.",
            SHOWN(x->steps_per_s), slowest_of(e)->number, SHOWN(ps_explain_without(x, share)));
        break;
    case PS_EXPLAIN_EXCHANGE:
        say(w, "It makes %s steps/s; with half the waits %s, with none at most %s.",
            SHOWN(x->steps_per_s), SHOWN(ps_explain_without(x, share / 2)),
            SHOWN(ps_explain_without(x, share)));
        break;
    default:
        say(w, "It makes %s steps/s; without that at most %s.", SHOWN(x->steps_per_s),
            SHOWN(ps_explain_without(x, share)));
        break;
    }
}

size_t ps_explain_words(const ps_explained *e, char *sentences[PS_EXPLAIN_SENTENCES_MAX])
{
    words w = {.sentences = sentences};

    if (e->steps != NULL) {
        say_way(&w, e->steps);
    } else {
        say_cause(&w, e);
    }
    if (e->live_s > 0) {
        say(&w, "The job trains: this is what its workers did in %s s.", SHOWN(e->live_s));
    }
    say(&w, "This is %s: measured over %llu steps%s.",
        ps_explain_surety_name(ps_explain_how_sure(e)), (unsigned long long)e->found.steps,
        e->steps != NULL && ps_explain_is_close(e->steps) ? ", and another part is nearly as large"
                                                          : "");
    say_advice(&w, e);
    say_gain(&w, e);
    return w.n;
}
