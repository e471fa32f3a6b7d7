/* SPDX-License-Identifier: Apache-2.0 */
/* sink.c - see sink.h. */
#include "common/data/sink.h"

#include <string.h>

void ps_sink_init(ps_sink *sink, const ps_data_conf *conf, const char *scratch, unsigned parts)
{
    memset(sink, 0, sizeof *sink);
    sink->limit[PS_TRAIN] = conf->train_limit;
    sink->limit[PS_TEST] = conf->test_limit;
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
        while (sink->files_seen <= line->file_index) {
            sink->file_first[sink->files_seen++] = (uint32_t)sink->count[PS_TRAIN];
        }
    }
    sink->count[line->split]++;
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

ps_status ps_sink_dataset(const ps_sink *sink, const ps_data_conf *conf, ps_dataset **out)
{
    ps_data_facts facts;
    ps_dataset *data;
    bool are_numbered = true;
    ps_status st = ps_data_get_facts(conf, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    data = ps_dataset_create(&facts);
    ps_dataset_limit(data, conf->train_limit, conf->test_limit);
    for (uint32_t i = 0; i < sink->files_seen && are_numbered; i++) {
        data->file_first[i] = sink->file_first[i];
        are_numbered = ps_data_file_number(conf->files[i], &data->file_number[i]);
    }
    data->file_count = are_numbered ? sink->files_seen : 0;
    *out = data;
    return st;
}

ps_spill *ps_sink_take(ps_sink *sink, size_t split)
{
    ps_spill *spill = sink->spill[split];

    sink->spill[split] = NULL;
    return spill;
}
