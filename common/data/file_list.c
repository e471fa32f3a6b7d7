/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.c - see file_list.h. */
#include "common/data/file_list.h"

#include "common/base/files.h"
#include "common/base/xalloc.h"
#include "common/data/learned.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef char file_name[PS_DATA_FILE_NAME_MAX];

/* A list of names of files that grows. */
typedef struct names {
    file_name *at; /* (cap) */
    uint32_t count, cap;
} names;

bool ps_file_is_pattern(const char *entry)
{
    return strpbrk(entry, "*?") != NULL;
}

bool ps_file_entry_is_safe(const char *entry)
{
    file_name plain;
    size_t n = strlen(entry);

    if (n >= sizeof plain) {
        return false;
    }
    for (size_t i = 0; i <= n; i++) {
        plain[i] = entry[i] == '*' || entry[i] == '?' ? 'x' : entry[i];
    }
    return ps_file_name_is_safe(plain);
}

/* Returns whether `name` (n) matches `pattern` (m). Neither '*' nor '?' stands for a slash. */
static bool matches(const char *pattern, size_t m, const char *name, size_t n)
{
    size_t p = 0, at = 0, star = SIZE_MAX, resume = 0;

    while (at < n) {
        if (p < m && pattern[p] == '*') {
            star = p++;
            resume = at;
        } else if (p < m && (pattern[p] == name[at] || (pattern[p] == '?' && name[at] != '/'))) {
            p++;
            at++;
        } else if (star != SIZE_MAX && name[resume] != '/') {
            p = star + 1;
            at = ++resume;
        } else {
            return false;
        }
    }
    while (p < m && pattern[p] == '*') {
        p++;
    }
    return p == m;
}

/* Returns the length of a name without a final ".gz". */
static size_t length_unpacked(const char *name)
{
    size_t n = strlen(name);

    return n > 3 && strcmp(name + n - 3, ".gz") == 0 ? n - 3 : n;
}

static bool stands_for(const char *entry, const char *name)
{
    size_t n = strlen(entry);

    if (ps_file_is_pattern(entry)) {
        return matches(entry, length_unpacked(entry), name, length_unpacked(name));
    }
    return strcmp(entry, name) == 0 || (strncmp(entry, name, n) == 0 && name[n] == '/');
}

bool ps_file_list_may_have(const ps_data_conf *conf, const char *name)
{
    for (size_t i = 0; i < ps_data_file_count(conf); i++) {
        if (stands_for(ps_data_file_name(conf, i), name)) {
            return true;
        }
    }
    return strcmp(conf->vocabulary, name) == 0 || strcmp(name, PS_LEARNED_FACTS) == 0 ||
           strcmp(name, PS_LEARNED_TEST) == 0;
}

uint32_t ps_file_list_count(const ps_file_list *list)
{
    return list->train + list->test + list->words + list->learned;
}

/* --- what is in a folder ---------------------------------------------------------- */

static ps_status add(names *list, const char *name)
{
    if (list->count == PS_DATA_LIST_MAX) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "data.files: more than %d files; join some, or name fewer",
                       PS_DATA_LIST_MAX);
    }
    if (list->count == list->cap) {
        list->cap = list->cap == 0 ? 64 : 2 * list->cap;
        list->at = ps_xrealloc(list->at, list->cap * sizeof *list->at);
    }
    snprintf(list->at[list->count++], sizeof *list->at, "%s", name);
    return ps_ok();
}

/* Returns whether an entry of the open folder is a folder, or a symbolic link to a folder. */
static bool is_folder(DIR *dir, const struct dirent *one)
{
    struct stat held;

    return one->d_type == DT_DIR ||
           ((one->d_type == DT_LNK || one->d_type == DT_UNKNOWN) &&
            fstatat(dirfd(dir), one->d_name, &held, 0) == 0 && S_ISDIR(held.st_mode));
}

/* Appends the file `d_name` of the folder `below` ("": the set's own), without a final ".gz", if
 * `entry` stands for it. Leaves out names that begin with a dot. */
static ps_status take(names *list, const char *entry, const char *below, const char *d_name)
{
    char name[PS_DATA_FILE_NAME_MAX + NAME_MAX + 2];
    size_t n;

    snprintf(name, sizeof name, "%s%s%s", below, below[0] != '\0' ? "/" : "", d_name);
    if (d_name[0] == '.' || !stands_for(entry, name)) {
        return ps_ok();
    }
    n = length_unpacked(name);
    name[n] = '\0';
    if (!ps_file_name_is_safe(name) || n >= PS_DATA_FILE_NAME_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "data.files: %s has the file \"%s\"; names have 1 to %d of A-Z a-z 0-9 . _ "
                       "( ) -: rename it, or give a narrower pattern",
                       PS_SHORT(entry, 40), PS_SHORT(name, 80), PS_DATA_FILE_NAME_MAX - 1);
    }
    return add(list, name);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Sorts names by their bytes and drops equal ones: a file may exist both plain and packed. */
static void sort(names *list)
{
    uint32_t kept = 0;

    qsort(list->at, list->count, sizeof *list->at, by_bytes);
    for (uint32_t i = 0; i < list->count; i++) {
        if (kept == 0 || strcmp(list->at[kept - 1], list->at[i]) != 0) {
            memmove(list->at[kept++], list->at[i], sizeof *list->at);
        }
    }
    list->count = kept;
}

/* Reads the folder `below` ("": the set's own) and appends those of its files that `entry` stands
 * for. `folder` is the path of the set's own. */
static ps_status read_folder(names *list, const char *folder, const char *below, const char *entry)
{
    char path[PATH_MAX];
    ps_status st = ps_path_below(path, sizeof path, folder, below[0] != '\0' ? below : ".");
    DIR *dir;

    if (below[0] == '\0') { /* the path of the set's own folder is used as it is, links included */
        st = ps_path_join(path, sizeof path, "", folder);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    dir = opendir(path);
    if (dir == NULL) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
    }
    while (ps_is_ok(&st)) {
        const struct dirent *one;

        errno = 0;
        one = readdir(dir);
        if (one == NULL) {
            st = errno != 0 ? ps_fail_errno(errno, "read %s", PS_PATH_SHOWN(path)) : ps_ok();
            break;
        }
        if (!is_folder(dir, one)) {
            st = take(list, entry, below, one->d_name);
        }
    }
    closedir(dir);
    return st;
}

/* Returns whether an entry that is no pattern is the name of a folder. */
static bool names_folder(const char *folder, const char *entry)
{
    char path[PATH_MAX];
    ps_status st = ps_path_below(path, sizeof path, folder, entry);
    struct stat held;

    return ps_is_ok(&st) && stat(path, &held) == 0 && S_ISDIR(held.st_mode);
}

/* Writes the names of the files that an entry stands for to `out`, sorted. The entry is a pattern,
 * or with is_all a folder, which stands for all its files. */
static ps_status expand(names *out, const char *folder, const char *entry, bool is_all)
{
    const char *slash = strrchr(entry, '/');
    file_name below = "";
    ps_status st;

    if (is_all) {
        snprintf(below, sizeof below, "%s", entry);
    } else if (slash != NULL) {
        snprintf(below, sizeof below, "%.*s", (int)(slash - entry), entry);
    }
    if (ps_file_is_pattern(below)) {
        return ps_fail(PS_INVALID_ARGUMENT,
                       "data.files: \"%s\" has a pattern for the folder; name the folder, and "
                       "give an entry for each",
                       PS_SHORT(entry, 80));
    }
    st = read_folder(out, folder, below, entry);
    if (ps_is_ok(&st) && out->count == 0) {
        st = ps_fail(PS_NOT_FOUND, "data.files: \"%s\" stands for no file in %s",
                     PS_SHORT(entry, 80), PS_PATH_SHOWN(folder));
    }
    if (ps_is_ok(&st)) {
        sort(out);
    }
    return st;
}

/* --- the list of a conf ------------------------------------------------------------ */

/* Returns whether the file `name`, which entry i stands for, belongs to entry i. A file belongs to
 * the first of these: the conf's file of words, if it has that name; an entry that is its name; the
 * first test entry that stands for it; the first training entry that stands for it. */
static bool is_first(const ps_data_conf *conf, size_t i, const char *name)
{
    size_t count = ps_data_file_count(conf);

    if (strcmp(conf->vocabulary, name) == 0) {
        return false;
    }
    for (size_t k = 0; k < count; k++) {
        const char *entry = ps_data_file_name(conf, k);
        bool is_before = i < conf->train_files ? k < i || k >= conf->train_files
                                               : k >= conf->train_files && k < i;

        if (k != i && (strcmp(entry, name) == 0 || (is_before && stands_for(entry, name)))) {
            return false;
        }
    }
    return true;
}

/* Appends the files that entry i stands for, without those that belong to another entry. */
static ps_status add_entry(names *list, const ps_data_conf *conf, const char *folder, size_t i)
{
    const char *entry = ps_data_file_name(conf, i);
    bool is_all = !ps_file_is_pattern(entry) && names_folder(folder, entry);
    names found = {.count = 0};
    ps_status st;

    if (!is_all && !ps_file_is_pattern(entry)) {
        return add(list, entry);
    }
    st = expand(&found, folder, entry, is_all);
    for (uint32_t k = 0; k < found.count && ps_is_ok(&st); k++) {
        if (is_first(conf, i, found.at[k])) {
            st = add(list, found.at[k]);
        }
    }
    free(found.at);
    return st;
}

bool ps_file_is_shared(const ps_data_share *share, const char *name)
{
    uint32_t number;

    return share->of == 0 || share->count == share->of || !ps_data_file_number(name, &number) ||
           (number % share->of >= share->first && number % share->of - share->first < share->count);
}

/* Removes the training files of other shares from the list, whose first `train` names are those of
 * all training files. Returns how many training files remain. */
static uint32_t keep_share(const ps_data_share *share, names *list, uint32_t train)
{
    uint32_t kept = 0, all = list->count;

    for (uint32_t i = 0; i < all; i++) {
        if (i >= train || ps_file_is_shared(share, list->at[i])) {
            memmove(list->at[kept++], list->at[i], sizeof *list->at);
        }
    }
    list->count = kept;
    return train - (all - kept);
}

ps_status ps_file_list_open(const ps_data_conf *conf, const char *folder, ps_file_list *out)
{
    size_t count = ps_data_file_count(conf);
    names list = {.count = 0};
    uint32_t train = 0;
    ps_status st = ps_ok();

    for (size_t i = 0; i < count && ps_is_ok(&st); i++) {
        st = conf->source->takes_files ? add_entry(&list, conf, folder, i)
                                       : add(&list, ps_data_file_name(conf, i));
        if (i < conf->train_files) {
            train = list.count;
        }
    }
    if (ps_is_ok(&st) && conf->source->takes_files &&
        (train == 0 || (conf->test_files > 0 && train == list.count))) {
        st = ps_fail(PS_NOT_FOUND, "data.%s: every file that \"%s\" stands for is another entry's",
                     train == 0 ? "files" : "test_files",
                     PS_SHORT(ps_data_file_name(conf, train == 0 ? 0 : conf->train_files), 80));
    }
    if (ps_is_ok(&st) && conf->share.of > 0) {
        train = keep_share(&conf->share, &list, train);
        if (train == 0) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "data.files: none is of workers %u to %u of %u, by its number modulo %u",
                         conf->share.first, conf->share.first + conf->share.count - 1,
                         conf->share.of, conf->share.of);
        }
    }
    *out = (ps_file_list){.train = train, .test = list.count - train};
    if (ps_is_ok(&st) && conf->vocabulary[0] != '\0') {
        out->words = 1;
        st = add(&list, conf->vocabulary);
    }
    if (ps_is_ok(&st) && ps_data_is_part(conf)) {
        uint32_t before = list.count;

        st = conf->test_files == 0 ? add(&list, PS_LEARNED_TEST) : st;
        st = ps_is_ok(&st) ? add(&list, PS_LEARNED_FACTS) : st;
        out->learned = list.count - before;
    }
    if (!ps_is_ok(&st)) {
        free(list.at);
        return st;
    }
    out->names = list.at;
    return st;
}

void ps_file_list_close(ps_file_list *list)
{
    free(list->names);
    *list = (ps_file_list){.train = 0};
}

ps_status ps_file_list_check_numbers(const ps_file_list *list, uint32_t workers)
{
    bool *has_file = ps_xcalloc(workers, sizeof *has_file);
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < list->train && ps_is_ok(&st); i++) {
        uint32_t number;

        if (ps_data_file_number(list->names[i], &number)) {
            has_file[number % workers] = true;
        } else {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "data.files: \"%s\" does not end in a number, as part-00007.csv does; "
                         "assignment modulo needs one",
                         PS_SHORT(list->names[i], 80));
        }
    }
    for (uint32_t w = 0; w < workers && ps_is_ok(&st); w++) {
        if (!has_file[w]) {
            st = ps_fail(PS_INVALID_ARGUMENT,
                         "data.files: none of %u files is worker %u's, of the %u of workers: a "
                         "number that is %u modulo %u; name more files, or have fewer workers",
                         list->train, w, workers, w, workers);
        }
    }
    free(has_file);
    return st;
}
