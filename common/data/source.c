/* SPDX-License-Identifier: Apache-2.0 */
/* source.c - the registry of data sources (list.h). */
#include "common/data/dataset.h"

#include <string.h>

#define PS_DATA_SOURCE(name) extern const ps_data_source ps_data_source_##name;
#include "common/data/list.h"
#undef PS_DATA_SOURCE

static const ps_data_source *const sources[] = {
#define PS_DATA_SOURCE(name) &ps_data_source_##name,
#include "common/data/list.h"
#undef PS_DATA_SOURCE
};

void ps_data_source_each(void (*fn)(const ps_data_source *source, void *arg), void *arg)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        fn(sources[i], arg);
    }
}

const ps_data_source *ps_data_source_find(const char *name)
{
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(sources[i]->name, name) == 0) {
            return sources[i];
        }
    }
    return NULL;
}

ps_status ps_data_get_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    *facts = (ps_data_facts){.features = 0};
    return conf->source->facts(conf, facts);
}

ps_status ps_data_look(const char *folder, ps_data_conf *conf)
{
    return conf->source->look != NULL ? conf->source->look(folder, conf) : ps_ok();
}

ps_status ps_data_load(const ps_data_conf *conf, const char *folder, const char *scratch,
                       ps_dataset **out)
{
    return conf->source->load(conf, folder, scratch, out);
}
