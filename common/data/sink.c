/* SPDX-License-Identifier: Apache-2.0 */
/* sink.c - see sink.h. */
#include "common/data/sink.h"

#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/data/learned.h"

#include <stdlib.h>
#include <string.h>

void ps_sink_init(ps_sink *sink, const ps_data_conf *conf, const char *scratch, unsigned parts)
{
    memset(sink, 0, sizeof *sink);
    sink->limit[PS_TRAIN] = conf->share.of > 0 ? 0 : conf->train_limit;
    sink->limit[PS_TEST] = conf->test_limit;
    sink->learner = ps_is_learning(conf) ? conf->learned : NULL;
    for (size_t s = 0; parts > 0 && s < 2; s++) {
        sink->spill[s] = ps_spill_create(scratch, ps_split_memory((ps_split)s) / parts);
    }
}

void ps_sink_fini(ps_sink *sink)
{
    for (size_t s = 0; s < 2; s++) {
        ps_spill_destroy(sink->spill[s]);
        sink->spill[s] = NULL;
    }
    free(sink->files);
    sink->files = NULL;
}

/* Notes that the next training sample is the first of its file. */
static void begin_file(ps_sink *sink, const ps_line *line)
{
    ps_file_start start = {.first = (uint32_t)sink->count[PS_TRAIN]};

    if (sink->files_seen == sink->files_cap) {
        sink->files_cap = sink->files_cap == 0 ? 64 : 2 * sink->files_cap;
        sink->files = ps_xrealloc(sink->files, sink->files_cap * sizeof *sink->files);
    }
    start.place = line->learned != NULL ? line->learned->first : start.first;
    if (!ps_data_file_number(line->file, &start.number)) {
        sink->has_unnumbered = true;
    }
    sink->files[sink->files_seen++] = start;
    sink->next_file = line->file_index + 1;
}

bool ps_sink_wants(const ps_sink *sink, ps_split split)
{
    return sink->spill[split] != NULL &&
           (sink->limit[split] == 0 || sink->count[split] < sink->limit[split]);
}

ps_status ps_sink_add(ps_sink *sink, const ps_line *line, const void *record, size_t n)
{
    bool wants = ps_sink_wants(sink, line->split);

    if (line->split == PS_TRAIN && wants) {
        if (line->file_index >= sink->next_file) {
            begin_file(sink, line);
        }
    }
    sink->count[line->split]++;
    if (sink->learner != NULL && line->split == PS_TRAIN) {
        ps_learned_count(sink->learner, line->file_index, 1);
    }
    return wants ? ps_spill_add(sink->spill[line->split], record, n) : ps_ok();
}

ps_status ps_sink_end(ps_sink *sink, ps_data_conf *conf)
{
    ps_status st = ps_data_found_counts(conf, sink->count[PS_TRAIN], sink->count[PS_TEST]);

    for (size_t s = 0; s < 2 && ps_is_ok(&st); s++) {
        if (sink->spill[s] != NULL) {
            st = ps_spill_end(sink->spill[s]);
        }
    }
    return st;
}

/* Checks that each file gave as many training samples as when all files of the set were learned
 * from. The files here are a part of them. */
static ps_status check_places(const ps_sink *sink, const ps_data_conf *conf)
{
    uint32_t i = 0;

    for (uint32_t k = 0; k < conf->learned->file_count; k++) {
        const ps_learned_file *f = &conf->learned->files[k];
        const ps_file_start *start = &sink->files[i];
        uint64_t end = i + 1 < sink->files_seen ? start[1].first : sink->count[PS_TRAIN];

        if (i == sink->files_seen || f->samples == 0 || f->first != start->place) {
            continue; /* a file of other workers, or one without samples */
        }
        if (end - start->first != f->samples) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: has %llu training samples, %u are expected",
                           PS_SHORT(f->name, 80), (unsigned long long)(end - start->first),
                           f->samples);
        }
        i++;
    }
    if (i < sink->files_seen) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "the file with number %u has training samples, none are expected",
                       sink->files[i].number);
    }
    return ps_ok();
}

ps_status ps_sink_dataset(ps_sink *sink, const ps_data_conf *conf, ps_dataset **out)
{
    ps_data_facts facts;
    ps_dataset *data;
    ps_status st = ps_data_get_facts(conf, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (ps_has_learned(conf)) {
        st = check_places(sink, conf);
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    if (conf->share.of > 0) {
        facts.train_count = (uint32_t)sink->count[PS_TRAIN];
    }
    data = ps_dataset_create(&facts);
    ps_dataset_limit(data, sink->limit[PS_TRAIN], conf->test_limit);
    if (!sink->has_unnumbered) {
        data->files = sink->files;
        data->file_count = sink->files_seen;
        sink->files = NULL;
    }
    *out = data;
    return st;
}

ps_spill *ps_sink_take(ps_sink *sink, size_t split)
{
    ps_spill *spill = sink->spill[split];

    sink->spill[split] = NULL;
    return spill;
}
