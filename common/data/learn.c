/* SPDX-License-Identifier: Apache-2.0 */
/* learn.c - see learn.h. */
#include "common/data/learn.h"

#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/feed.h"
#include "common/data/file_list.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)PS_TRANSFORMS_MAX <= (int)PS_LEARNED_VALUES_MAX,
               "each transform has its values");

/* Loads the whole set and stores in `l` what the job's transforms measure on its training samples.
 * Does nothing if no transform measures any. */
static ps_status measure(ps_learned *l, const ps_data_conf *conf, const ps_feed_conf *feed_conf,
                         const char *folder, const char *scratch)
{
    ps_dataset *data = NULL;
    ps_feed *feed = NULL;
    bool is_needed = false;
    ps_status st;

    for (uint32_t i = 0; i < feed_conf->transform_count; i++) {
        const ps_transform_choice *choice = &feed_conf->transforms[i];

        is_needed = is_needed || (choice->transform->learns != NULL &&
                                  choice->transform->learns(&choice->params));
    }
    if (!is_needed) {
        return ps_ok();
    }
    st = ps_data_load(conf, folder, scratch, &data);
    if (ps_is_ok(&st)) {
        st = ps_feed_create(data, feed_conf, &feed);
    }
    for (uint32_t i = 0; ps_is_ok(&st) && i < feed_conf->transform_count; i++) {
        size_t count;
        const float *values = ps_feed_measured(feed, i, &count);

        if (values != NULL) {
            ps_learned_put_values(l, i, values, count);
        }
    }
    ps_feed_destroy(feed);
    ps_dataset_destroy(data);
    return st;
}

static ps_status list_files(ps_learned *l, const ps_data_conf *conf, const char *folder)
{
    ps_file_list list = {.train = 0};
    ps_status st = ps_file_list_open(conf, folder, &list);

    l->files = ps_xcalloc(list.train + 1, sizeof *l->files);
    l->file_count = list.train;
    for (uint32_t i = 0; ps_is_ok(&st) && i < list.train; i++) {
        memcpy(l->files[i].name, list.names[i], sizeof l->files[i].name);
    }
    ps_file_list_close(&list);
    return st;
}

ps_status ps_data_learn(const ps_data_conf *conf, const ps_feed_conf *feed, const char *folder,
                        const char *scratch, ps_learned_parts *out)
{
    ps_learned *l = ps_learned_begin(out, scratch, conf->test_files > 0);
    ps_data_conf *copy = ps_xmalloc(sizeof *copy);
    ps_status st = list_files(l, conf, folder);

    *copy = *conf;
    copy->learned = l;
    if (ps_is_ok(&st)) {
        st = ps_data_look(folder, copy);
    }
    if (ps_is_ok(&st)) {
        st = measure(l, conf, feed, folder, scratch);
    }
    free(copy);
    return ps_learned_end(l, out, st);
}

ps_status ps_data_load_share(const ps_data_conf *conf, const char *folder,
                             const char *learned_folder, const char *scratch, ps_dataset **out)
{
    ps_data_conf *copy;
    ps_status st;

    if (!ps_data_is_part(conf)) {
        return ps_data_load(conf, folder, scratch, out);
    }
    copy = ps_xmalloc(sizeof *copy);
    *copy = *conf;
    st = ps_learned_open(learned_folder, conf, &copy->learned);
    if (ps_is_ok(&st)) {
        st = conf->source->load(copy, folder, scratch, out);
        if (ps_is_ok(&st)) {
            (*out)->is_part = true;
            (*out)->measured = ps_learned_take_values(copy->learned);
        }
        ps_learned_destroy(copy->learned);
    }
    free(copy);
    return st;
}
