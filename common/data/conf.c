/* SPDX-License-Identifier: Apache-2.0 */
/* conf.c - see conf.h. */
#include "common/data/conf.h"

#include "common/base/files.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

ps_data_conf ps_data_conf_of(const ps_data_source *source)
{
    ps_data_conf conf;

    memset(&conf, 0, sizeof conf);
    conf.source = source;
    conf.params = ps_params_default(source->params);
    return conf;
}

static bool same_numbers(const ps_params *a, const ps_params *b)
{
    for (size_t i = 0; i < PS_PARAM_MAX; i++) {
        if (a->v[i] != b->v[i]) {
            return false;
        }
    }
    return true;
}

bool ps_data_conf_same(const ps_data_conf *a, const ps_data_conf *b)
{
    if (a->source != b->source || !same_numbers(&a->params, &b->params) ||
        a->train_limit != b->train_limit || a->test_limit != b->test_limit ||
        strcmp(a->folder, b->folder) != 0 || strcmp(a->vocabulary, b->vocabulary) != 0 ||
        a->train_files != b->train_files || a->test_files != b->test_files ||
        a->column_count != b->column_count || a->share.of != b->share.of ||
        a->share.first != b->share.first || a->share.count != b->share.count) {
        return false;
    }
    for (uint32_t i = 0; i < a->train_files + a->test_files; i++) {
        if (strcmp(a->files[i], b->files[i]) != 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < a->column_count; i++) {
        if (strcmp(a->columns[i].name, b->columns[i].name) != 0 ||
            a->columns[i].kind != b->columns[i].kind ||
            !same_numbers(&a->columns[i].params, &b->columns[i].params)) {
            return false;
        }
    }
    return true;
}

bool ps_data_is_part(const ps_data_conf *conf)
{
    return conf->share.count < conf->share.of;
}

double ps_data_number(const ps_data_conf *conf, const char *name)
{
    int at = ps_param_find(conf->source->params, name);

    assert(at >= 0);
    return conf->params.v[at];
}

uint32_t ps_data_count(const ps_data_conf *conf, const char *name)
{
    double value = ps_data_number(conf, name);

    assert(value >= 0 && value <= UINT32_MAX && value == (double)(uint32_t)value);
    return (uint32_t)value;
}

void ps_data_set(ps_data_conf *conf, const char *name, double value)
{
    int at = ps_param_find(conf->source->params, name);

    assert(at >= 0);
    conf->params.v[at] = value;
}

const char *ps_data_folder(const ps_data_conf *conf)
{
    if (conf->folder[0] != '\0') {
        return conf->folder;
    }
    return conf->source->folder != NULL ? conf->source->folder : conf->source->name;
}

size_t ps_data_file_count(const ps_data_conf *conf)
{
    size_t n = 0;

    if (conf->source->takes_files) {
        return (size_t)conf->train_files + conf->test_files;
    }
    while (conf->source->files != NULL && conf->source->files[n] != NULL) {
        n++;
    }
    assert(n <= PS_DATA_FILES_MAX);
    return n;
}

const char *ps_data_file_name(const ps_data_conf *conf, size_t i)
{
    assert(i < ps_data_file_count(conf));
    return conf->source->takes_files ? conf->files[i] : conf->source->files[i];
}

const char *ps_data_who(const ps_data_conf *conf, char text[PS_DATA_WHO_BYTES])
{
    size_t count = ps_data_file_count(conf);

    if (!conf->source->takes_files || count == 0) {
        return conf->source->name;
    }
    snprintf(text, PS_DATA_WHO_BYTES, "%.36s", conf->files[0]);
    if (count > 1) {
        size_t n = strlen(text);

        snprintf(text + n, PS_DATA_WHO_BYTES - n, " and %zu more", count - 1);
    }
    return text;
}

bool ps_data_folder_is_safe(const char *folder)
{
    char part[PS_DATA_FOLDER_MAX];

    if (strlen(folder) >= PS_DATA_FOLDER_MAX) {
        return false;
    }
    for (;;) {
        size_t n = strcspn(folder, "/");

        memcpy(part, folder, n);
        part[n] = '\0';
        if (!ps_name_is_safe(part)) { /* it refuses an empty name, too */
            return false;
        }
        if (folder[n] == '\0') {
            return true;
        }
        folder += n + 1;
    }
}

bool ps_data_file_number(const char *name, uint32_t *number)
{
    static const char digits[] = "0123456789";
    size_t end = strlen(name);
    uint64_t value = 0, place = 1;
    bool is_there = false;

    for (;;) { /* moves `end` before extensions without digits: ".csv", ".txt.gz" */
        size_t dot = end;

        while (dot > 0 && name[dot - 1] != '.') {
            dot--;
        }
        if (dot <= 1 || strcspn(name + dot, digits) < end - dot) {
            break;
        }
        end = dot - 1;
    }
    while (end > 0 && strchr(digits, name[end - 1]) != NULL && place <= UINT32_MAX) {
        value += place * (uint64_t)(name[--end] - '0');
        place *= 10;
        is_there = true;
    }
    if (!is_there || value > UINT32_MAX || (end > 0 && strchr(digits, name[end - 1]) != NULL)) {
        return false;
    }
    *number = (uint32_t)value;
    return true;
}
