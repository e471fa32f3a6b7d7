/* SPDX-License-Identifier: Apache-2.0 */
/* datasets.c - see datasets.h. */
#include "common/node/datasets.h"

#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/data/identify.h"
#include "common/data/learn.h"
#include "common/node/data_room.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    struct entry *next; /* the list has the most recently used set first */
    ps_data_wanted wanted;
    ps_dataset *data;
    unsigned refs;
} entry;

struct ps_datasets {
    ps_tasks *tasks;
    char *data_dir, *data_path;
    /* most bytes of the sets below data_dir; 0: a set is removed when no job uses it */
    uint64_t room_bytes;
    pthread_mutex_t mutex; /* guards `entries` and their refs; only the loop's thread writes them */
    entry *entries;
    unsigned busy;  /* requests in progress */
    unsigned trims; /* tasks in progress that remove sets */
    void (*idle)(void *arg);
    void *idle_arg;
};

struct ps_data_request {
    ps_task task;
    ps_datasets *sets;
    ps_data_wanted wanted;
    ps_datasets_fn *fn; /* NULL: cancelled */
    void *arg;
    /* Set by the task; only its thread uses them until the task is done. */
    ps_status status;
    bool has_own;
    ps_dataset *data;
};

static bool same(const ps_data_wanted *a, const ps_data_wanted *b)
{
    return strcmp(a->sha256, b->sha256) == 0 && ps_data_conf_same(&a->conf, &b->conf);
}

/* --- room on the disk -------------------------------------------------------- */

static bool is_in_use(void *arg, const char *name)
{
    ps_datasets *sets = arg;
    bool is_used = false;

    pthread_mutex_lock(&sets->mutex);
    for (const entry *e = sets->entries; e != NULL; e = e->next) {
        is_used = is_used || (e->refs > 0 && strcmp(e->wanted.sha256, name) == 0);
    }
    pthread_mutex_unlock(&sets->mutex);
    return is_used;
}

/* Removes complete sets below data_dir that no job uses, the longest unused first, until all that
 * remain have at most `keep_bytes`. Returns the bytes of all that remain, which may be more. */
static uint64_t trim_disk(ps_datasets *sets, uint64_t keep_bytes)
{
    char folder[512];
    ps_status st = ps_path_join(folder, sizeof folder, sets->data_dir, "datasets");

    return ps_is_ok(&st) ? ps_data_room_trim(folder, keep_bytes, is_in_use, sets) : 0;
}

typedef struct trim_task {
    ps_task task;
    ps_datasets *sets;
} trim_task;

static void run_trim(ps_task *task)
{
    (void)trim_disk(PS_CONTAINER_OF(task, trim_task, task)->sets, 0);
}

static void end_if_idle(const ps_datasets *sets)
{
    if (!ps_datasets_is_busy(sets) && sets->idle != NULL) {
        sets->idle(sets->idle_arg);
    }
}

static void trimmed(ps_task *task)
{
    trim_task *t = PS_CONTAINER_OF(task, trim_task, task);
    ps_datasets *sets = t->sets;

    free(t);
    sets->trims--;
    end_if_idle(sets);
}

/* Starts a task that removes the sets that no job uses from the disk, if room_bytes is 0. Does
 * nothing during a request, which may have found such a set; the request's end calls this function
 * again. */
static void keep_none(ps_datasets *sets)
{
    trim_task *t;

    if (sets->room_bytes > 0 || sets->busy > 0) {
        return;
    }
    t = ps_xcalloc(1, sizeof *t);
    *t = (trim_task){.task = {.run = run_trim, .done = trimmed}, .sets = sets};
    sets->trims++;
    ps_tasks_submit(sets->tasks, NULL, &t->task);
}

static uint64_t mib_of(uint64_t bytes)
{
    return (bytes >> 20) + ((bytes & ((1u << 20) - 1)) != 0);
}

ps_status ps_datasets_make_room(ps_datasets *sets, const ps_data_wanted *wanted, uint64_t bytes)
{
    const char *name = wanted->conf.source->name;
    uint64_t left;

    if (sets->room_bytes == 0) {
        return ps_ok();
    }
    if (bytes > sets->room_bytes) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "data set %s: %" PRIu64 " MiB; --data-cache allows %" PRIu64
                       ": set it to %" PRIu64 " or more, or to 0",
                       name, mib_of(bytes), sets->room_bytes >> 20, mib_of(bytes));
    }
    left = trim_disk(sets, sets->room_bytes - bytes);
    if (left > sets->room_bytes - bytes) {
        return ps_fail(PS_RESOURCE_EXHAUSTED,
                       "data set %s: %" PRIu64 " MiB; others that must stay have %" PRIu64
                       " of --data-cache %" PRIu64 ": raise it",
                       name, mib_of(bytes), mib_of(left), sets->room_bytes >> 20);
    }
    return ps_ok();
}

ps_datasets *ps_datasets_create(ps_tasks *tasks, const char *data_dir, const char *data_path,
                                uint64_t room_bytes)
{
    ps_datasets *sets = ps_xcalloc(1, sizeof *sets);

    sets->tasks = tasks;
    sets->data_dir = ps_xstrdup(data_dir);
    sets->data_path = data_path != NULL ? ps_xstrdup(data_path) : NULL;
    sets->room_bytes = room_bytes;
    pthread_mutex_init(&sets->mutex, NULL);
    (void)trim_disk(sets, room_bytes);
    return sets;
}

/* Frees the sets in memory that have no references, except the `keep` most recently used of them.
 */
static void trim(ps_datasets *sets, size_t keep)
{
    entry **at = &sets->entries;
    size_t unused = 0;

    pthread_mutex_lock(&sets->mutex);
    while (*at != NULL) {
        entry *e = *at;

        if (e->refs == 0 && ++unused > keep) {
            *at = e->next;
            ps_dataset_destroy(e->data);
            free(e);
        } else {
            at = &e->next;
        }
    }
    pthread_mutex_unlock(&sets->mutex);
}

void ps_datasets_destroy(ps_datasets *sets)
{
    if (sets == NULL) {
        return;
    }
    assert(!ps_datasets_is_busy(sets));
    trim(sets, 0);
    assert(sets->entries == NULL);
    pthread_mutex_destroy(&sets->mutex);
    free(sets->data_dir);
    free(sets->data_path);
    free(sets);
}

ps_dataset *ps_datasets_cached(ps_datasets *sets, const ps_data_wanted *wanted)
{
    char folder[512];
    ps_status st = ps_datasets_folder(sets, wanted->sha256, folder, sizeof folder);

    for (entry **at = &sets->entries; *at != NULL; at = &(*at)->next) {
        entry *e = *at;

        if (same(&e->wanted, wanted)) {
            pthread_mutex_lock(&sets->mutex);
            *at = e->next;
            e->next = sets->entries;
            sets->entries = e;
            e->refs++;
            pthread_mutex_unlock(&sets->mutex);
            if (ps_is_ok(&st)) {
                ps_data_room_touch(folder);
            }
            return e->data;
        }
    }
    return NULL;
}

void ps_datasets_put(ps_datasets *sets, ps_dataset *data)
{
    if (data == NULL) {
        return;
    }
    for (entry *e = sets->entries; e != NULL; e = e->next) {
        if (e->data == data) {
            assert(e->refs > 0);
            pthread_mutex_lock(&sets->mutex);
            e->refs--;
            pthread_mutex_unlock(&sets->mutex);
            trim(sets, 1);
            keep_none(sets);
            return;
        }
    }
    assert(false && "a data set of this cache");
}

ps_status ps_datasets_folder(const ps_datasets *sets, const char *sha256, char *out, size_t cap)
{
    char above[512];
    ps_status st = ps_path_join(above, sizeof above, sets->data_dir, "datasets");

    return ps_is_ok(&st) ? ps_path_join(out, cap, above, sha256) : st;
}

/* --- on the thread of the tasks --------------------------------------------- */

/* Returns whether `folder` has the wanted data files, and `learned_folder` the files with what was
 * learned from all data. Compares the checksum of all these files; if `learned_folder` is NULL,
 * only that of the data files. */
static bool holds(const ps_data_wanted *wanted, const char *folder, const char *learned_folder)
{
    ps_data_files files = {.count = 0};
    ps_status st = ps_data_describe_share(&wanted->conf, folder, learned_folder, &files);
    bool is_wanted =
        ps_is_ok(&st) &&
        strcmp(files.sha256, learned_folder != NULL ? wanted->sha256 : wanted->own_sha256) == 0;

    ps_data_files_free(&files);
    return is_wanted;
}

/* Finds the folder of the wanted data files: `sent`, which a set with this checksum is received
 * into, or one below data_path. Files with what was learned from all data must be in `sent`.
 * Otherwise fails with NOT_FOUND. *has_own is then set if data_path has the data files, so that
 * only the learned files are missing. */
static ps_status locate(const ps_datasets *sets, const ps_data_wanted *wanted, const char *sent,
                        char *folder, size_t cap, bool *has_own)
{
    ps_status st;

    snprintf(folder, cap, "%s", sent);
    if (ps_data_file_count(&wanted->conf) == 0) { /* a set that is drawn has no files */
        return ps_ok();
    }
    if (holds(wanted, sent, sent)) {
        ps_data_room_touch(sent);
        return ps_ok();
    }
    if (sets->data_path != NULL) {
        st = ps_path_below(folder, cap, sets->data_path, ps_data_folder(&wanted->conf));
        if (ps_is_ok(&st) && holds(wanted, folder, sent)) {
            ps_data_room_touch(sent);
            return ps_ok();
        }
        *has_own = ps_is_ok(&st) && ps_data_is_part(&wanted->conf) && holds(wanted, folder, NULL);
    }
    return ps_fail(PS_NOT_FOUND, "no data set %s with checksum %s here", wanted->conf.source->name,
                   PS_SHORT(wanted->sha256, 12));
}

static void find_and_load(ps_task *task)
{
    ps_data_request *request = PS_CONTAINER_OF(task, ps_data_request, task);
    char folder[512], sent[512];

    request->status = ps_datasets_folder(request->sets, request->wanted.sha256, sent, sizeof sent);
    if (ps_is_ok(&request->status)) {
        request->status =
            locate(request->sets, &request->wanted, sent, folder, sizeof folder, &request->has_own);
    }
    if (ps_is_ok(&request->status)) {
        request->status = ps_data_load_share(&request->wanted.conf, folder, sent,
                                             request->sets->data_dir, &request->data);
    }
}

/* --- on the loop's thread --------------------------------------------- */

static void loaded(ps_task *task)
{
    ps_data_request *request = PS_CONTAINER_OF(task, ps_data_request, task);
    ps_datasets *sets = request->sets;
    ps_dataset *data = NULL;

    sets->busy--;
    if (ps_is_ok(&request->status)) {
        data = ps_datasets_cached(sets, &request->wanted);
        if (data != NULL) { /* another request loaded it meanwhile */
            ps_dataset_destroy(request->data);
        } else {
            entry *e = ps_xcalloc(1, sizeof *e);

            *e = (entry){sets->entries, request->wanted, request->data, 1};
            pthread_mutex_lock(&sets->mutex);
            sets->entries = e;
            pthread_mutex_unlock(&sets->mutex);
            data = e->data;
        }
    }
    if (request->fn != NULL) {
        request->fn(request->arg, &request->status, request->has_own, data);
    } else {
        ps_datasets_put(sets, data);
    }
    free(request);
    keep_none(sets);
    end_if_idle(sets);
}

ps_data_request *ps_datasets_get(ps_datasets *sets, const ps_data_wanted *wanted,
                                 ps_datasets_fn *fn, void *arg)
{
    ps_data_request *request = ps_xcalloc(1, sizeof *request);

    request->task.run = find_and_load;
    request->task.done = loaded;
    request->sets = sets;
    request->wanted = *wanted;
    request->fn = fn;
    request->arg = arg;
    sets->busy++;
    ps_tasks_submit(sets->tasks, NULL, &request->task);
    return request;
}

void ps_datasets_cancel(ps_data_request *request)
{
    if (request != NULL) {
        request->fn = NULL;
    }
}

bool ps_datasets_is_busy(const ps_datasets *sets)
{
    return sets->busy > 0 || sets->trims > 0;
}

void ps_datasets_on_idle(ps_datasets *sets, void (*idle)(void *arg), void *arg)
{
    sets->idle = idle;
    sets->idle_arg = arg;
}
