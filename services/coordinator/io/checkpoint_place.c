/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_place.c - see checkpoint_place.h. */
#include "services/coordinator/io/checkpoint_place.h"

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns whether `path` is `dir` or below it; both are real paths. */
static bool is_within(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static ps_status check(const char *dir, const char *real, const char *data_dir)
{
    char *data = realpath(data_dir, NULL);
    struct stat what;
    ps_status st = ps_ok();

    if (stat(real, &what) != 0 || !S_ISDIR(what.st_mode)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s is no folder", PS_PATH_SHOWN(dir));
    } else if (access(real, W_OK | X_OK) != 0) {
        st = ps_fail_errno(errno, "%s", PS_PATH_SHOWN(dir));
    } else if (data != NULL && is_within(real, data)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s is within --data-dir; a folder elsewhere is allowed",
                     PS_PATH_SHOWN(dir));
    }
    free(data);
    return st;
}

ps_status ps_checkpoint_place_open(const char *dir, const char *data_dir, char **out, int *lock)
{
    static const char *const entries[] = {NULL};
    char *real = realpath(dir, NULL);
    ps_status st =
        real != NULL ? check(dir, real, data_dir) : ps_fail_errno(errno, "%s", PS_PATH_SHOWN(dir));

    if (ps_is_ok(&st) && lock != NULL) {
        st = ps_dir_lock(real, entries, lock);
    }
    if (!ps_is_ok(&st)) {
        free(real);
        return ps_wrap(st, "--checkpoint-path");
    }
    *out = real;
    return st;
}

/* Makes dir/job_id and the link to it. */
static ps_status make(const char *dir, const char *job_id, const char *link)
{
    char to[PATH_MAX];
    ps_status st = ps_path_join(to, sizeof to, dir, job_id);

    if (ps_is_ok(&st)) {
        st = ps_dir_make(to);
    }
    if (ps_is_ok(&st) && symlink(to, link) != 0) {
        st = ps_fail_errno(errno, "make the link %s", PS_PATH_SHOWN(link));
    }
    return st;
}

ps_status ps_checkpoint_place_give(const char *dir, const char *job_folder, const char *job_id)
{
    char link[PATH_MAX], to[PATH_MAX];
    struct stat what;
    ssize_t n;
    ps_status st = ps_path_join(link, sizeof link, job_folder, PS_CHECKPOINTS_NAME);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (lstat(link, &what) == 0) {
        n = S_ISLNK(what.st_mode) && stat(link, &what) != 0 ? readlink(link, to, sizeof to - 1) : 0;
        to[n > 0 ? n : 0] = '\0';
        return n > 0 ? ps_fail(PS_NOT_FOUND,
                               "the checkpoints of job %s are in %s, which is not there: mount "
                               "its disk",
                               PS_SHORT(job_id, 60), PS_PATH_SHOWN(to))
                     : ps_ok();
    }
    st = dir != NULL ? make(dir, job_id, link) : ps_ok();
    if (!ps_is_ok(&st)) {
        ps_log(PS_LOG_ERROR, "job", "checkpoints of job %s will be in its folder: %s",
               PS_SHORT(job_id, 60), st.text);
    }
    return ps_ok();
}

/* Follows the link only if it leads to a folder named as the job, as those that this program makes
 * do. Any other link is removed with the job's folder, and what it leads to stays. */
ps_status ps_checkpoint_place_remove(const char *job_folder, const char *job_id)
{
    char link[PATH_MAX], to[PATH_MAX];
    const char *name;
    ssize_t n;
    ps_status st = ps_path_join(link, sizeof link, job_folder, PS_CHECKPOINTS_NAME);

    if (!ps_is_ok(&st)) {
        return st;
    }
    n = readlink(link, to, sizeof to - 1);
    to[n > 0 ? n : 0] = '\0';
    name = strrchr(to, '/');
    if (name != NULL && strcmp(name + 1, job_id) == 0) {
        st = ps_dir_remove(to);
    }
    return ps_is_ok(&st) ? ps_dir_remove(job_folder) : st;
}
