/* SPDX-License-Identifier: Apache-2.0 */
/* find.c - see find.h; describing is here too, as finding is describing and comparing. */
#include "common/data/find.h"

#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/data/packed.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* The names are compared as well: one file may be linked under two. */
static const ps_data_file *recall(const ps_data_cache *cache, const char *name,
                                  const struct stat *facts)
{
    size_t held = cache == NULL ? 0 : cache->count;

    for (size_t i = 0; i < held && i < PS_DATA_CACHE_FILES; i++) {
        if (cache->entry[i].device == facts->st_dev && cache->entry[i].inode == facts->st_ino &&
            cache->entry[i].packed_bytes == (uint64_t)facts->st_size &&
            same_time(cache->entry[i].modified, facts->st_mtim) &&
            same_time(cache->entry[i].changed, facts->st_ctim) &&
            strcmp(cache->entry[i].file.name, name) == 0) {
            return &cache->entry[i].file;
        }
    }
    return NULL;
}

static void remember(ps_data_cache *cache, const struct stat *facts, const ps_data_file *file)
{
    size_t at;

    if (cache == NULL) {
        return;
    }
    at = cache->count++ % PS_DATA_CACHE_FILES;
    cache->entry[at].device = facts->st_dev;
    cache->entry[at].inode = facts->st_ino;
    cache->entry[at].packed_bytes = (uint64_t)facts->st_size;
    cache->entry[at].modified = facts->st_mtim;
    cache->entry[at].changed = facts->st_ctim;
    cache->entry[at].file = *file;
}

static ps_status hash(ps_packed *from, ps_data_file *file)
{
    enum { CHUNK_BYTES = 256 * 1024 };
    uint8_t *chunk = ps_xmalloc(CHUNK_BYTES), digest[PS_SHA256_BYTES];
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
    ps_sha256_finish(&sha, digest);
    ps_sha256_hex(digest, file->sha256);
    free(chunk);
    return st;
}

static ps_status describe_file(ps_data_cache *cache, const char *folder, const char *name,
                               ps_data_file *out)
{
    ps_data_file file = {.size = 0};
    const ps_data_file *known = NULL;
    ps_packed *from = NULL;
    struct stat facts;
    ps_status st = ps_packed_open(folder, name, &from, &facts);

    if (!ps_is_ok(&st)) {
        return st;
    }
    known = recall(cache, name, &facts);
    if (known != NULL) {
        *out = *known;
    } else {
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

ps_status ps_data_describe_cached(ps_data_cache *cache, const ps_data_conf *conf,
                                  const char *folder, ps_data_file files[PS_DATA_FILES_MAX],
                                  size_t *count, char sha256[65])
{
    ps_strbuf lines = {0};
    ps_status st = ps_ok(), missing = ps_ok();
    size_t n = 0, names = ps_data_file_count(conf);

    if (names == 0) {
        ps_strbuf_printf(&lines, "%s:%u", conf->source->name, conf->source->version);
    }
    for (size_t i = 0; i < names && ps_is_ok(&st); i++) {
        ps_status one = describe_file(cache, folder, ps_data_file_name(conf, i), &files[n]);

        if (one.code == PS_NOT_FOUND && conf->source->some_files_suffice) {
            missing = one;
        } else if (ps_is_ok(&one)) {
            ps_strbuf_printf(&lines, "%s %llu %s\n", files[n].name,
                             (unsigned long long)files[n].size, files[n].sha256);
            n++;
        } else {
            st = one;
        }
    }
    if (names > 0 && n == 0 && ps_is_ok(&st)) {
        st = missing;
    }
    if (ps_is_ok(&st)) {
        ps_sha256_of(lines.data, lines.len, sha256);
        *count = n;
    }
    ps_strbuf_fini(&lines);
    return st;
}

ps_status ps_data_describe(const ps_data_conf *conf, const char *folder,
                           ps_data_file files[PS_DATA_FILES_MAX], size_t *count, char sha256[65])
{
    return ps_data_describe_cached(NULL, conf, folder, files, count, sha256);
}

uint64_t ps_data_bytes(const ps_data_conf *conf, const char *folder)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < ps_data_file_count(conf); i++) {
        bytes += ps_packed_bytes(folder, ps_data_file_name(conf, i));
    }
    return bytes;
}

/* Is the set with this checksum in parent/name? *folder then says so. */
static ps_status look(ps_data_cache *cache, const ps_data_conf *conf, const char *parent,
                      const char *name, const char *sha256, char *folder, size_t folder_cap)
{
    ps_data_file files[PS_DATA_FILES_MAX];
    char path[PATH_MAX], found[65];
    size_t count = 0;
    ps_status st = ps_path_join(path, sizeof path, parent, name);

    if (ps_is_ok(&st)) {
        st = ps_data_describe_cached(cache, conf, path, files, &count, found);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (sha256 != NULL && strcmp(sha256, found) != 0) {
        return ps_fail(PS_NOT_FOUND, "%.12s... is in %s, not %.12s...", found, ps_path_tail(path),
                       sha256);
    }
    if (strlen(path) >= folder_cap) {
        return ps_fail(PS_OUT_OF_RANGE, "path too long: %s", ps_path_tail(path));
    }
    strcpy(folder, path);
    return ps_ok();
}

/* A peer says it, and it becomes a directory's name. */
static bool is_checksum(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool is_given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

static ps_status find_drawn(const ps_data_conf *conf, const char *sha256, char *folder)
{
    ps_data_file files[PS_DATA_FILES_MAX];
    char drawn[65];
    size_t count = 0;
    ps_status st = ps_data_describe(conf, "", files, &count, drawn);

    if (ps_is_ok(&st) && sha256 != NULL && strcmp(sha256, drawn) != 0) {
        return ps_fail(PS_NOT_FOUND, "%s: this build draws %.12s..., not %.12s...",
                       conf->source->name, drawn, sha256);
    }
    folder[0] = '\0';
    return st;
}

ps_status ps_data_find(ps_data_cache *cache, const ps_data_conf *conf, const char *data_path,
                       const char *cache_dir, const char *sha256, char *folder, size_t folder_cap)
{
    ps_status given, kept;

    assert(folder_cap > 0);
    if (sha256 != NULL && !is_checksum(sha256)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: \"%.64s\" is no SHA-256 in lower-case hexadecimal",
                       conf->source->name, sha256);
    }
    if (ps_data_file_count(conf) == 0) {
        return find_drawn(conf, sha256, folder);
    }
    given = is_given(data_path)
                ? look(cache, conf, data_path, ps_data_folder(conf), sha256, folder, folder_cap)
                : ps_fail(PS_NOT_FOUND, "no data path is set");
    if (ps_is_ok(&given) || sha256 == NULL || !is_given(cache_dir)) {
        return ps_wrap(given, "%s", conf->source->name);
    }
    kept = look(cache, conf, cache_dir, sha256, sha256, folder, folder_cap);
    if (ps_is_ok(&kept)) {
        return kept;
    }
    /* What is in the user's own folder is what the user can mend. */
    return ps_fail(PS_NOT_FOUND, "%s: not in the cache; %s", conf->source->name, given.text);
}
