/* SPDX-License-Identifier: Apache-2.0 */
/* check_conf.c - see check_conf.h. */
#include "common/job/check_conf.h"

#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/data/columns.h"
#include "common/data/dataset.h"
#include "common/data/file_list.h"

#include <stdio.h>
#include <string.h>

static void check_folder(ps_check *check, const Psgd__V1__DataSpec *spec, ps_data_conf *conf)
{
    if (spec->folder[0] == '\0') {
        return;
    }
    if (!conf->source->takes_files && conf->source->files == NULL) {
        ps_check_bad(check, "spec.data.folder", "is given, and %s has no files",
                     conf->source->name);
    } else if (!ps_data_folder_is_safe(spec->folder)) {
        ps_check_bad(check, "spec.data.folder",
                     "is \"%s\"; names of A-Z a-z 0-9 . _ ( ) - without a dot in front are "
                     "allowed, with / between them, %d bytes in all",
                     PS_SHORT(spec->folder, 80), PS_DATA_FOLDER_MAX - 1);
    } else {
        snprintf(conf->folder, sizeof conf->folder, "%s", spec->folder);
    }
}

/* Checks the file names of one list, and appends them to conf->files behind the first `held`.
 * Returns the number of files in conf->files then. */
static uint32_t check_names(ps_check *check, const char *list, char *const *names, size_t count,
                            ps_data_conf *conf, uint32_t held)
{
    char field[PS_FIELD_MAX];

    for (size_t i = 0; i < count; i++) {
        snprintf(field, sizeof field, "spec.data.%s[%zu]", list, i);
        if (!ps_file_entry_is_safe(names[i])) {
            ps_check_bad(check, field,
                         "is \"%s\"; 1 to %d of A-Z a-z 0-9 . _ ( ) - are allowed, no dot in "
                         "front, * and ? in a pattern, and one / behind a folder",
                         PS_SHORT(names[i], 80), PS_DATA_FILE_NAME_MAX - 1);
            continue;
        }
        for (uint32_t k = 0; k < held; k++) {
            if (strcmp(conf->files[k], names[i]) == 0) {
                ps_check_bad(check, field, "is \"%s\"; another entry has that name",
                             PS_SHORT(names[i], 63));
                break;
            }
        }
        snprintf(conf->files[held++], PS_DATA_FILE_NAME_MAX, "%s", names[i]);
    }
    return held;
}

static void check_files(ps_check *check, const Psgd__V1__DataSpec *spec, ps_data_conf *conf)
{
    if (!conf->source->takes_files) {
        if (spec->n_files > 0 || spec->n_test_files > 0) {
            ps_check_bad(check, spec->n_files > 0 ? "spec.data.files" : "spec.data.test_files",
                         "is given, and %s takes none", conf->source->name);
        }
        return;
    }
    if (spec->n_files == 0 || spec->n_files > PS_DATA_FILES_MAX ||
        spec->n_test_files > PS_DATA_FILES_MAX - spec->n_files) {
        ps_check_bad(check, "spec.data.files",
                     "has %zu names, test_files %zu; at least one training file and %d in all are "
                     "allowed; a pattern (\"part-*\") or a folder is one name for many",
                     spec->n_files, spec->n_test_files, PS_DATA_FILES_MAX);
        return;
    }
    conf->train_files = check_names(check, "files", spec->files, spec->n_files, conf, 0);
    conf->test_files = check_names(check, "test_files", spec->test_files, spec->n_test_files, conf,
                                   conf->train_files) -
                       conf->train_files;
}

static void check_vocabulary(ps_check *check, const Psgd__V1__DataSpec *spec, ps_data_conf *conf)
{
    const char *name = spec->vocabulary;

    if (name[0] == '\0') {
        return;
    }
    if (!conf->source->takes_vocabulary) {
        ps_check_bad(check, "spec.data.vocabulary",
                     "is \"%s\"; %s takes none, ngram and skipgram do", PS_SHORT(name, 80),
                     conf->source->name);
    } else if (!ps_file_entry_is_safe(name) || ps_file_is_pattern(name)) {
        ps_check_bad(
            check, "spec.data.vocabulary",
            "is \"%s\"; the name of a file in the data set's folder is allowed, 1 to %d of "
            "A-Z a-z 0-9 . _ ( ) -, and one / behind a folder",
            PS_SHORT(name, 80), PS_DATA_FILE_NAME_MAX - 1);
    } else {
        snprintf(conf->vocabulary, sizeof conf->vocabulary, "%s", name);
    }
}

static void check_column(ps_check *check, const char *field, Psgd__V1__ColumnSpec *spec,
                         ps_data_column *column)
{
    char path[PS_FIELD_MAX + 8];

    snprintf(path, sizeof path, "%s.name", field);
    if (spec->name[0] == '\0' || strlen(spec->name) >= PS_DATA_NAME_MAX) {
        ps_check_bad(check, path, "is \"%s\"; 1 to %d bytes are allowed", PS_SHORT(spec->name, 80),
                     PS_DATA_NAME_MAX - 1);
    }
    snprintf(column->name, sizeof column->name, "%s", spec->name);
    snprintf(path, sizeof path, "%s.kind", field);
    if (!ps_check_plugin(check, path, &ps_kind_column, &spec->kind, "numeric")) {
        return;
    }
    column->kind = ps_column_find(spec->kind);
    (void)ps_check_numbers(check, field, column->kind->params, &spec->base, &column->params);
}

static void check_columns(ps_check *check, Psgd__V1__DataSpec *spec, ps_data_conf *conf)
{
    char field[PS_FIELD_MAX], path[PS_FIELD_MAX + 8];

    if (!conf->source->takes_columns || spec->n_columns == 0 ||
        spec->n_columns > PS_DATA_COLUMNS_MAX) {
        if (conf->source->takes_columns || spec->n_columns > 0) {
            ps_check_bad(check, "spec.data.columns", "has %zu entries; %s takes %s",
                         spec->n_columns, conf->source->name,
                         conf->source->takes_columns ? "1 to 128" : "none");
        }
        return;
    }
    for (size_t i = 0; i < spec->n_columns; i++) {
        snprintf(field, sizeof field, "spec.data.columns[%zu]", i);
        check_column(check, field, spec->columns[i], &conf->columns[i]);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(conf->columns[k].name, conf->columns[i].name) == 0) {
                snprintf(path, sizeof path, "%s.name", field);
                ps_check_bad(check, path, "is \"%s\"; another entry has that name",
                             PS_SHORT(conf->columns[i].name, 63));
                break;
            }
        }
    }
    conf->column_count = (uint32_t)spec->n_columns;
}

bool ps_check_data_conf(ps_check *check, Psgd__V1__DataSpec *spec, ps_data_conf *conf)
{
    size_t before = check->count;

    if (strchr(spec->name, '/') != NULL) {
        ps_check_bad(check, "spec.data.name",
                     "is \"%s\", a path: that is for --data-path or PSGD_DATA; allowed here are "
                     "names as 'psgd info data' lists them",
                     PS_SHORT(spec->name, 40));
        return false;
    }
    if (!ps_check_plugin(check, "spec.data.name", &ps_kind_data, &spec->name, "glyphs")) {
        return false;
    }
    *conf = ps_data_conf_of(ps_data_source_find(spec->name));
    conf->train_limit = spec->train_limit;
    conf->test_limit = spec->test_limit;
    (void)ps_check_numbers(check, "spec.data", conf->source->params, &spec->base, &conf->params);
    check_folder(check, spec, conf);
    check_files(check, spec, conf);
    check_vocabulary(check, spec, conf);
    check_columns(check, spec, conf);
    return check->count == before;
}
