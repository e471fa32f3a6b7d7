/* SPDX-License-Identifier: Apache-2.0 */
/* raw_text.c - files as one text, for jobs whose code reads it (JobSpec.compute).
 *
 * The text is that of the files in their order; a line feed is added to a file that ends without
 * one. Nobody gathers samples of it.
 */
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/data/dataset_impl.h"
#include "common/data/file_list.h"
#include "common/data/packed.h"

#include <stdlib.h>

enum { TEXT_MAX = 1 << 30, PIECE = 1 << 20 };

static ps_status text_facts(const ps_data_conf *conf, ps_data_facts *facts)
{
    if (conf->test_files > 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "text takes no test_files");
    }
    *facts =
        (ps_data_facts){.shape = {1, 1, 1}, .features = 1, .target_width = 1, .train_count = 1};
    return ps_ok();
}

/* Appends a file to the text, or if `data` is NULL only checks that the file exists. */
static ps_status add_file(const char *folder, const char *name, ps_dataset *data)
{
    ps_packed *file;
    size_t got = PIECE;
    ps_status st = ps_packed_open(folder, name, &file, NULL);

    if (!ps_is_ok(&st)) {
        return st;
    }
    while (data != NULL && ps_is_ok(&st) && got == PIECE) {
        if (data->text_bytes + PIECE > TEXT_MAX) {
            st = ps_fail(PS_INVALID_ARGUMENT, "%s: the text is longer than %d bytes",
                         PS_SHORT(name, 80), TEXT_MAX);
            break;
        }
        data->text = ps_xrealloc(data->text, data->text_bytes + PIECE + 1);
        st = ps_packed_read(file, data->text + data->text_bytes, PIECE, &got);
        data->text_bytes += ps_is_ok(&st) ? got : 0;
    }
    if (data != NULL && data->text_bytes > 0 && data->text[data->text_bytes - 1] != '\n') {
        data->text[data->text_bytes++] = '\n';
    }
    ps_packed_close(file);
    return st;
}

static ps_status each_file(const ps_data_conf *conf, const char *folder, ps_dataset *data)
{
    ps_file_list list = {.train = 0};
    ps_status st = ps_file_list_open(conf, folder, &list);

    for (uint32_t i = 0; ps_is_ok(&st) && i < list.train; i++) {
        st = add_file(folder, list.names[i], data);
    }
    ps_file_list_close(&list);
    return st;
}

static ps_status text_look(const char *folder, ps_data_conf *conf)
{
    return each_file(conf, folder, NULL);
}

static ps_status text_load(const ps_data_conf *conf, const char *folder, const char *scratch,
                           ps_dataset **out)
{
    ps_data_facts facts;
    ps_dataset *data;
    ps_status st = text_facts(conf, &facts);

    (void)scratch;
    if (!ps_is_ok(&st)) {
        return st;
    }
    data = ps_dataset_create(&facts);
    data->text = ps_xcalloc(1, 1);
    st = each_file(conf, folder, data);
    if (!ps_is_ok(&st)) {
        ps_dataset_destroy(data);
        return st;
    }
    *out = data;
    return st;
}

const ps_data_source ps_data_source_text = {
    .name = PS_DATA_TEXT,
    .summary = "files as one text, for the code of a job that computes (compute)",
    .takes_files = true,
    .facts = text_facts,
    .look = text_look,
    .load = text_load,
};
