/* SPDX-License-Identifier: Apache-2.0 */
/* identify.c - see identify.h. */
#include "common/data/identify.h"

#include "common/base/sha256.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/data/file_list.h"
#include "common/data/packed.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* guards the entries of all caches; never held while a file is read */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Copies the cached description of a file to *out. Returns false if there is none. The name is
 * compared too, because one file may be linked under two names. */
static bool recall(const ps_data_cache *cache, const char *name, const struct stat *facts,
                   ps_data_file *out)
{
    bool is_known = false;
    size_t held;

    if (cache == NULL) {
        return false;
    }
    pthread_mutex_lock(&lock);
    held = cache->count;
    for (size_t i = 0; !is_known && i < held && i < PS_DATA_CACHE_FILES; i++) {
        if (cache->entry[i].device == facts->st_dev && cache->entry[i].inode == facts->st_ino &&
            cache->entry[i].packed_bytes == (uint64_t)facts->st_size &&
            same_time(cache->entry[i].modified, facts->st_mtim) &&
            same_time(cache->entry[i].changed, facts->st_ctim) &&
            strcmp(cache->entry[i].file.name, name) == 0) {
            *out = cache->entry[i].file;
            is_known = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return is_known;
}

static void remember(ps_data_cache *cache, const struct stat *facts, const ps_data_file *file)
{
    size_t at;

    if (cache == NULL) {
        return;
    }
    pthread_mutex_lock(&lock);
    at = cache->count++ % PS_DATA_CACHE_FILES;
    cache->entry[at].device = facts->st_dev;
    cache->entry[at].inode = facts->st_ino;
    cache->entry[at].packed_bytes = (uint64_t)facts->st_size;
    cache->entry[at].modified = facts->st_mtim;
    cache->entry[at].changed = facts->st_ctim;
    cache->entry[at].file = *file;
    pthread_mutex_unlock(&lock);
}

static ps_status hash(ps_packed *from, ps_data_file *file)
{
    enum { CHUNK_BYTES = 256 * 1024 };
    uint8_t *chunk = ps_xmalloc(CHUNK_BYTES);
    size_t got = CHUNK_BYTES;
    ps_status st = ps_ok();
    ps_sha256 sha;

    ps_sha256_init(&sha);
    while (ps_is_ok(&st) && got == CHUNK_BYTES) {
        st = ps_packed_read(from, chunk, CHUNK_BYTES, &got);
        if (ps_is_ok(&st)) {
            ps_sha256_add(&sha, chunk, got);
            file->size += got;
        }
    }
    ps_sha256_finish(&sha, file->sha256);
    free(chunk);
    return st;
}

static ps_status describe_file(ps_data_cache *cache, const char *folder, const char *name,
                               ps_data_file *out)
{
    ps_data_file file = {.size = 0};
    ps_packed *from = NULL;
    struct stat facts;
    ps_status st = ps_packed_open(folder, name, &from, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (!recall(cache, name, &facts, out)) {
        assert(strlen(name) < sizeof file.name);
        strcpy(file.name, name);
        st = hash(from, &file);
        if (ps_is_ok(&st)) {
            remember(cache, &facts, &file);
            *out = file;
        }
    }
    ps_packed_close(from);
    return st;
}

void ps_data_files_free(ps_data_files *files)
{
    free(files->at);
    *files = (ps_data_files){.count = 0};
}

void ps_data_files_share(const ps_data_files *files, const ps_data_share *share, ps_data_files *out)
{
    *out = (ps_data_files){.at = ps_xcalloc(files->count + 1, sizeof *out->at)};
    for (size_t i = 0; i < files->count; i++) {
        if (i >= files->train || ps_file_is_shared(share, files->at[i].name)) {
            out->at[out->count++] = files->at[i];
            out->train += i < files->train;
        }
    }
    ps_data_files_sum(out);
}

void ps_data_files_add_learned(ps_data_files *files, const ps_data_file *file)
{
    files->at = ps_xrealloc(files->at, (files->count + 1) * sizeof *files->at);
    files->at[files->count++] = *file;
    files->learned++;
}

void ps_data_files_sum(ps_data_files *files)
{
    ps_strbuf lines = {0};

    for (size_t i = 0; i < files->count; i++) {
        ps_strbuf_printf(&lines, "%s %llu %s\n", files->at[i].name,
                         (unsigned long long)files->at[i].size, files->at[i].sha256);
    }
    ps_sha256_of(ps_strbuf_text(&lines), lines.len, files->sha256);
    ps_strbuf_fini(&lines);
}

/* Describes the files of the list, without the learned ones if learned_folder is NULL. Returns
 * NOT_FOUND if a file is missing. If some files suffice, leaves missing ones out and returns
 * NOT_FOUND only if all are missing. */
static ps_status describe_list(ps_data_cache *cache, const ps_data_conf *conf, const char *folder,
                               const char *learned_folder, const ps_file_list *list,
                               ps_data_files *out)
{
    ps_status st = ps_ok(), missing = ps_ok();
    size_t names = ps_file_list_count(list), own = names - list->learned;

    out->at = ps_xcalloc(names, sizeof *out->at);
    for (size_t i = 0; i < (learned_folder != NULL ? names : own) && ps_is_ok(&st); i++) {
        ps_status one = describe_file(cache, i < own ? folder : learned_folder, list->names[i],
                                      &out->at[out->count]);

        if (one.code == PS_NOT_FOUND && conf->source->some_files_suffice) {
            missing = one;
        } else if (ps_is_ok(&one)) {
            out->count++;
            out->train += i < list->train;
            out->learned += i >= own;
        } else {
            st = one;
        }
    }
    return out->count == 0 && ps_is_ok(&st) ? missing : st;
}

static ps_status describe(ps_data_cache *cache, const ps_data_conf *conf, const char *folder,
                          const char *learned_folder, ps_data_files *out)
{
    ps_data_files files = {.count = 0};
    ps_file_list list = {.train = 0};
    ps_status st;

    if (ps_data_file_count(conf) == 0) {
        ps_strbuf line = {0};

        ps_strbuf_printf(&line, "%s:%u", conf->source->name, conf->source->version);
        ps_sha256_of(line.data, line.len, files.sha256);
        ps_strbuf_fini(&line);
        *out = files;
        return ps_ok();
    }
    st = ps_file_list_open(conf, folder, &list);
    if (ps_is_ok(&st)) {
        st = describe_list(cache, conf, folder, learned_folder, &list, &files);
    }
    ps_file_list_close(&list);
    if (!ps_is_ok(&st)) {
        ps_data_files_free(&files);
        return st;
    }
    ps_data_files_sum(&files);
    *out = files;
    return st;
}

ps_status ps_data_describe_cached(ps_data_cache *cache, const ps_data_conf *conf,
                                  const char *folder, ps_data_files *out)
{
    return describe(cache, conf, folder, folder, out);
}

ps_status ps_data_describe(const ps_data_conf *conf, const char *folder, ps_data_files *out)
{
    return describe(NULL, conf, folder, folder, out);
}

ps_status ps_data_describe_share(const ps_data_conf *conf, const char *folder,
                                 const char *learned_folder, ps_data_files *out)
{
    return describe(NULL, conf, folder, learned_folder, out);
}
