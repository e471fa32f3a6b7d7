/* SPDX-License-Identifier: Apache-2.0 */
/* artifacts.c - the files of jobs in the data directory. */
#include "services/coordinator/io/artifacts.h"

#include "common/base/nonfinite.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/script/result.h"
#include "services/coordinator/io/checkpoint_place.h"
#include "services/coordinator/io/room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

ps_status ps_artifacts_folder(char out[PS_FOLDER_MAX], const char *data_dir, const char *job_id)
{
    int n = snprintf(out, PS_FOLDER_MAX, "%s/jobs/%s", data_dir, job_id);

    if (n < 0 || n >= PS_FOLDER_MAX) {
        return ps_fail(PS_OUT_OF_RANGE, "the data directory's path is too long");
    }
    return ps_ok();
}

/* Removes unfinished files in the folder of a job and in the folders directly below it. */
static void sweep_job(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *at;

    ps_dir_sweep(folder);
    while (dir && (at = readdir(dir)) != NULL) {
        char inner[PS_FOLDER_MAX];
        ps_status st = ps_path_join(inner, sizeof inner, folder, at->d_name);

        if (at->d_name[0] != '.' && ps_is_ok(&st)) {
            ps_dir_sweep(inner);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* Prefix of the folder of a job that a client deleted. No job has such an id, because an id begins
 * with the job's title, and no title with a dot. */
static const char deleted_prefix[] = ".deleted-";

static ps_status deleted_folder(char out[PS_FOLDER_MAX], const char *data_dir, const char *job_id)
{
    char name[PS_NAME_MAX + sizeof deleted_prefix];

    snprintf(name, sizeof name, "%s%.*s", deleted_prefix, PS_NAME_MAX, job_id);
    return ps_artifacts_folder(out, data_dir, name);
}

static ps_status move(const char *from, const char *to)
{
    return rename(from, to) == 0 ? ps_ok() : ps_fail_errno(errno, "move %s", PS_PATH_SHOWN(from));
}

ps_status ps_artifacts_set_aside(const char *data_dir, const char *job_id, char out[PS_FOLDER_MAX])
{
    char folder[PS_FOLDER_MAX];
    ps_status st = ps_artifacts_folder(folder, data_dir, job_id);

    if (ps_is_ok(&st)) {
        st = deleted_folder(out, data_dir, job_id);
    }
    return ps_is_ok(&st) ? move(folder, out) : st;
}

ps_status ps_artifacts_take_back(const char *data_dir, const char *job_id)
{
    char folder[PS_FOLDER_MAX], aside[PS_FOLDER_MAX];
    ps_status st = ps_artifacts_folder(folder, data_dir, job_id);

    if (ps_is_ok(&st)) {
        st = deleted_folder(aside, data_dir, job_id);
    }
    return ps_is_ok(&st) ? move(aside, folder) : st;
}

bool ps_artifacts_exist(const char *data_dir, const char *job_id)
{
    char folder[PS_FOLDER_MAX];
    ps_status st = ps_artifacts_folder(folder, data_dir, job_id);
    struct stat s;

    return ps_is_ok(&st) && lstat(folder, &s) == 0;
}

static bool is_folder(const char *path)
{
    struct stat s;

    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Removes a folder of a deleted job, if the registry does not know the job any more. If the
 * registry still has the job, gives the folder its old name; if it cannot tell, leaves the
 * folder. */
static void sweep_deleted(const char *data_dir, const char *name, ps_known known)
{
    char jobs[PS_FOLDER_MAX], folder[PS_FOLDER_MAX];
    ps_status st = ps_path_join(jobs, sizeof jobs, data_dir, "jobs");

    if (ps_is_ok(&st) && known == PS_JOB_UNKNOWN) {
        st = ps_path_join(folder, sizeof folder, jobs, name);
        if (ps_is_ok(&st)) {
            st = ps_checkpoint_place_remove(folder, name + sizeof deleted_prefix - 1);
        }
    } else if (known == PS_JOB_KNOWN) {
        st = ps_artifacts_take_back(data_dir, name + sizeof deleted_prefix - 1);
    }
    (void)st; /* after a failure the folder keeps the prefix, and the next start tries again */
}

/* Calls fn for each name below DATA_DIR/jobs that begins with the prefix. */
static void each_name(const char *data_dir, const char *prefix,
                      void (*fn)(void *arg, const char *name), void *arg)
{
    char jobs[PS_FOLDER_MAX];
    const struct dirent *at;
    ps_status st = ps_path_join(jobs, sizeof jobs, data_dir, "jobs");
    DIR *dir = ps_is_ok(&st) ? opendir(jobs) : NULL;

    while (dir && (at = readdir(dir)) != NULL) {
        if (strncmp(at->d_name, prefix, strlen(prefix)) == 0) {
            fn(arg, at->d_name);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

typedef struct visit {
    const char *data_dir;
    void (*fn)(void *arg, const char *job_id);
    void *arg;
} visit;

static void visit_folder(void *arg, const char *name)
{
    const visit *v = arg;
    char folder[PS_FOLDER_MAX];
    ps_status st = ps_artifacts_folder(folder, v->data_dir, name);

    if (name[0] != '.' && ps_is_ok(&st) && is_folder(folder)) {
        v->fn(v->arg, name);
    }
}

void ps_artifacts_each(const char *data_dir, void (*fn)(void *arg, const char *job_id), void *arg)
{
    each_name(data_dir, "", visit_folder, &(visit){data_dir, fn, arg});
}

typedef struct sweeping {
    const char *data_dir;
    ps_known (*known)(void *arg, const char *job_id);
    void (*unknown)(void *arg, const char *job_id);
    void *arg;
} sweeping;

static void sweep_one_deleted(void *arg, const char *name)
{
    const sweeping *s = arg;

    sweep_deleted(s->data_dir, name, s->known(s->arg, name + sizeof deleted_prefix - 1));
}

static void sweep_one_job(void *arg, const char *job_id)
{
    const sweeping *s = arg;
    char folder[PS_FOLDER_MAX];
    ps_known how = s->known(s->arg, job_id);
    ps_status st = ps_artifacts_folder(folder, s->data_dir, job_id);

    if (how == PS_JOB_KNOWN && ps_is_ok(&st)) {
        sweep_job(folder);
    } else if (how == PS_JOB_UNKNOWN) {
        s->unknown(s->arg, job_id);
    }
}

void ps_artifacts_sweep(const char *data_dir, ps_known (*known)(void *arg, const char *job_id),
                        void (*unknown)(void *arg, const char *job_id), void *arg)
{
    sweeping s = {data_dir, known, unknown, arg};

    each_name(data_dir, deleted_prefix, sweep_one_deleted, &s);
    ps_artifacts_each(data_dir, sweep_one_job, &s);
}

void ps_artifacts_log_name(char out[PS_NAME_MAX + 1], const char *title, const char *node_id,
                           uint32_t attempt)
{
    if (attempt > 1) {
        snprintf(out, PS_NAME_MAX + 1, "LOG-%.36s-N(%.64s).%u.jsonl", title, node_id, attempt);
    } else {
        snprintf(out, PS_NAME_MAX + 1, "LOG-%.36s-N(%.64s).jsonl", title, node_id);
    }
}

void ps_artifacts_part_name(char out[32], uint32_t rank)
{
    snprintf(out, 32, ".weights-%u.f32", rank);
}

void ps_artifacts_rounds_name(char out[32], uint32_t rank)
{
    snprintf(out, 32, ".rounds-%u", rank);
}

void ps_artifacts_worker_trace_name(char out[32], uint32_t rank)
{
    snprintf(out, 32, ".trace-worker-%u", rank);
}

void ps_artifacts_server_trace_name(char out[32], uint32_t rank)
{
    snprintf(out, 32, ".trace-server-%u", rank);
}

/* Writes the path of a file. Names were checked before, so the path fits. */
static void path_of(char out[PS_FOLDER_MAX + PS_NAME_MAX + 2], const char *folder, const char *name)
{
    snprintf(out, PS_FOLDER_MAX + PS_NAME_MAX + 2, "%.*s/%.*s", PS_FOLDER_MAX - 1, folder,
             PS_NAME_MAX, name);
}

uint64_t ps_artifacts_size(const char *folder, const char *name)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    struct stat s;

    path_of(path, folder, name);
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
}

ps_status ps_artifacts_append(const char *folder, const char *name, uint64_t offset,
                              const void *bytes, size_t n, uint64_t *stored)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    uint64_t have = ps_artifacts_size(folder, name);
    ps_status st;
    size_t skip;

    *stored = have;
    if (offset > have || offset + n <= have) {
        return ps_ok();
    }
    if (have >= PS_LOG_BYTES_MAX) {
        /* The log has its largest size: the bytes count as stored, but are dropped. */
        *stored = offset + n;
        return ps_ok();
    }
    skip = (size_t)(have - offset);
    path_of(path, folder, name);
    st = ps_file_append(path, (const char *)bytes + skip, n - skip);
    if (ps_is_ok(&st)) {
        *stored = offset + n;
    }
    return st;
}

ps_status ps_artifacts_read(const char *folder, const char *name, uint64_t offset, void *bytes,
                            size_t n, size_t *got)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    ps_status st = ps_ok();
    int fd;

    path_of(path, folder, name);
    *got = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return ps_fail_errno(errno, "open %s", PS_PATH_SHOWN(path));
    }
    while (*got < n) {
        ssize_t r = pread(fd, (char *)bytes + *got, n - *got, (off_t)(offset + *got));

        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            st = ps_fail_errno(errno, "read %s", PS_PATH_SHOWN(path));
        }
        if (r <= 0) {
            break;
        }
        *got += (size_t)r;
    }
    close(fd);
    return st;
}

/* --- collected files -------------------------------------------------------- */

void ps_intake_init(ps_intake *in, const char *folder, const char *log_name, const ps_leaver *who)
{
    *in = (ps_intake){.who = *who};
    snprintf(in->folder, sizeof in->folder, "%s", folder);
    snprintf(in->log_name, sizeof in->log_name, "%s", log_name);
    ps_artifacts_part_name(in->part_name, who->rank);
}

void ps_intake_fini(ps_intake *in)
{
    if (in->is_open) {
        ps_file_writer_abandon(&in->writer);
    }
    in->is_open = false;
    ps_sha256_fini(&in->sha);
}

/* Writes the name under which a file of the node is stored: of its log log_name, of parts of model,
 * record of rounds, timeline and result a hidden name, else its own. */
static void stored_name(const ps_intake *in, const Psgd__V1__CollectResponse *head,
                        char out[PS_NAME_MAX + 1])
{
    bool is_log = head->kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_LOG;
    bool is_part = !is_log && strcmp(head->name, PS_WEIGHTS_FILE) == 0;
    char hidden[PS_MERGE_NAME_BYTES] = "";
    uint32_t rank;

    if (!is_log && ps_left_file_is_rounds(&in->who, head->name, &rank)) {
        ps_artifacts_rounds_name(hidden, rank);
    } else if (!is_log && ps_left_file_is_trace(&in->who, head->name)) {
        (in->who.is_server ? ps_artifacts_server_trace_name
                           : ps_artifacts_worker_trace_name)(hidden, in->who.rank);
    } else if (!is_log && in->who.is_server && strcmp(head->name, PS_REDUCED_FILE) == 0) {
        ps_reduced_name(hidden, in->who.rank);
    }
    snprintf(out, PS_NAME_MAX + 1, "%.*s", PS_NAME_MAX,
             is_log              ? in->log_name
             : is_part           ? in->part_name
             : hidden[0] != '\0' ? hidden
                                 : head->name);
}

/* Checks that the node may leave this file and has not sent it before in this stream. */
static ps_status check_file(const ps_intake *in, const Psgd__V1__CollectResponse *head)
{
    if (!ps_file_name_is_safe(head->name)) {
        return ps_fail(PS_INVALID_ARGUMENT, "\"%s\" is no file name", PS_SHORT(head->name, 60));
    }
    for (size_t i = 0; i < in->file_count; i++) {
        if (strcmp(in->files[i].name, in->now.name) == 0) {
            return ps_fail(PS_INVALID_ARGUMENT, "%s: came before", PS_SHORT(head->name, 60));
        }
    }
    return ps_left_file_check(&in->who, head->name, head->kind, head->size);
}

static ps_status begin_file(ps_intake *in, const Psgd__V1__CollectResponse *head)
{
    char path[PS_FOLDER_MAX + PS_NAME_MAX + 2];
    ps_status st;

    stored_name(in, head, in->now.name);
    st = check_file(in, head);
    if (!ps_is_ok(&st)) {
        return st;
    }
    if (head->offset != 0) {
        return ps_fail(PS_DATA_LOSS, "%s begins at byte %llu", PS_SHORT(head->name, 60),
                       (unsigned long long)head->offset);
    }
    if (in->file_count == PS_INTAKE_FILES_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "more than %d files of one node", PS_INTAKE_FILES_MAX);
    }
    path_of(path, in->folder, in->now.name);
    st = ps_dir_make_for(path);
    if (ps_is_ok(&st)) {
        st = ps_wrap(ps_room_for(in->folder, head->size), "%s", in->now.name);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = strcmp(in->now.name, in->part_name) == 0
             /* a server's weights: the model is made of them soon, so they need not be durable */
             ? ps_file_writer_open_passing(&in->writer, path)
             : ps_file_writer_open(&in->writer, path);
    if (!ps_is_ok(&st)) {
        return st;
    }
    in->is_open = true;
    snprintf(in->at, sizeof in->at, "%s", head->name);
    in->now.kind = head->kind;
    in->now.size = head->size;
    in->received = 0;
    ps_sha256_init(&in->sha);
    return ps_ok();
}

/* Ends a file and checks its digest, which the last chunk has. */
static ps_status end_file(ps_intake *in, const char *sha256)
{
    ps_status st;

    ps_sha256_finish(&in->sha, in->now.sha256);
    if (strcmp(in->now.sha256, sha256) != 0) {
        return ps_fail(PS_DATA_LOSS, "%s: wrong SHA-256", PS_SHORT(in->at, 60));
    }
    in->is_open = false;
    st = ps_file_writer_commit(&in->writer);
    if (ps_is_ok(&st)) {
        in->files[in->file_count++] = in->now;
    }
    return st;
}

/* Checks that the weights of a server, which become the model, are finite. If one is not, sets
 * in->has_diverged and fails. */
static ps_status check_weights(ps_intake *in, const uint8_t *bytes, size_t n)
{
    size_t count = n / sizeof(float), first;

    if (n % sizeof(float) != 0) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s: a chunk of %zu bytes, which are no float32",
                       PS_SHORT(in->at, 60), n);
    }
    first = ps_first_nonfinite(bytes, count);
    in->has_diverged |= first < count;
    return first == count
               ? ps_ok()
               : ps_fail(PS_OUT_OF_RANGE, "the model is of no use: value %llu of %s is not finite",
                         (unsigned long long)(in->received / sizeof(float) + first),
                         PS_SHORT(in->at, 60));
}

ps_status ps_intake_chunk(ps_intake *in, const Psgd__V1__CollectResponse *head,
                          const uint8_t *bytes, size_t n)
{
    ps_status st;

    if (!in->is_open) {
        st = begin_file(in, head);
        if (!ps_is_ok(&st)) {
            return st;
        }
    }
    if (n > PS_CHUNK_MAX) {
        return ps_fail(PS_INVALID_ARGUMENT, "a chunk of more than 1 MiB");
    }
    if (strcmp(in->at, head->name) != 0 || head->offset != in->received ||
        head->size != in->now.size || n > in->now.size - in->received) {
        return ps_fail(PS_DATA_LOSS, "chunks of %s are out of order", PS_SHORT(in->at, 60));
    }
    if ((uint32_t)crc32_z(0, bytes, n) != head->crc32) {
        return ps_fail(PS_DATA_LOSS, "%s: wrong CRC-32 at byte %llu", PS_SHORT(in->at, 60),
                       (unsigned long long)head->offset);
    }
    st = strcmp(in->now.name, in->part_name) == 0 ? check_weights(in, bytes, n) : ps_ok();
    if (ps_is_ok(&st)) {
        st = ps_file_writer_add(&in->writer, bytes, n);
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    ps_sha256_add(&in->sha, bytes, n);
    in->received += n;
    return in->received == in->now.size ? end_file(in, head->sha256) : ps_ok();
}

ps_status ps_intake_end(ps_intake *in)
{
    if (in->is_open) {
        return ps_fail(PS_DATA_LOSS, "%s ended after %llu of %llu bytes", PS_SHORT(in->at, 60),
                       (unsigned long long)in->received, (unsigned long long)in->now.size);
    }
    return ps_ok();
}
