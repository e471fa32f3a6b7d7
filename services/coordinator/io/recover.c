/* SPDX-License-Identifier: Apache-2.0 */
/* recover.c - restores jobs that are over from the files in their folders. */
#include "services/coordinator/io/recover.h"

#include "common/artifact/manifest.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/sha256.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/registry_sqlite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FILES_MAX = 4096,    /* most files in a manifest */
    JSON_MAX = 64 << 20, /* most bytes of summary.json, and of manifest.json */
    ID_MAX = 96          /* most bytes of a job's id, with its NUL */
};

/* --- one folder ------------------------------------------------------------------ */

/* Writes the path of a file and checks that it is a regular file, as opening another kind could
 * block. Returns NOT_FOUND if it is none. */
static ps_status path_of(char out[PS_FOLDER_MAX], const char *folder, const char *name)
{
    struct stat what;
    ps_status st = ps_path_join(out, PS_FOLDER_MAX, folder, name);

    if (ps_is_ok(&st) && (lstat(out, &what) != 0 || !S_ISREG(what.st_mode))) {
        st = ps_fail(PS_NOT_FOUND, "there is no file %s", PS_SHORT(name, 80));
    }
    return st;
}

static ps_status read_text(const char *folder, const char *name, char **text, size_t *n)
{
    char path[PS_FOLDER_MAX];
    ps_status st = path_of(path, folder, name);

    return ps_is_ok(&st) ? ps_file_read(path, JSON_MAX, text, n) : st;
}

static ps_status read_json(const char *folder, const char *name, json_t **out)
{
    char *text = NULL;
    json_error_t where;
    size_t n = 0;
    ps_status st = read_text(folder, name, &text, &n);

    if (!ps_is_ok(&st)) {
        return st;
    }
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    free(text);
    return json_is_object(*out) ? ps_ok()
                                : ps_fail(PS_DATA_LOSS, "%s:%d: %s", name, where.line, where.text);
}

/* Members of summary.json that are not fields of psgd.v1.Job, as the other members are. */
static const char *const more_members[] = {"seconds", "nodes"};

static ps_status read_summary(const char *folder, const char *job_id, Psgd__V1__Job **out)
{
    json_t *json = NULL;
    ProtobufCMessage *message = NULL;
    ps_error error = {0};
    Psgd__V1__Job *job;
    ps_status st = read_json(folder, "summary.json", &json);

    for (size_t i = 0; ps_is_ok(&st) && i < sizeof more_members / sizeof *more_members; i++) {
        json_object_del(json, more_members[i]);
    }
    if (ps_is_ok(&st)) {
        st = ps_pb_from_json(&psgd__v1__job__descriptor, json, "job", &error, &message);
        if (!ps_is_ok(&st)) {
            st = ps_fail(PS_DATA_LOSS, "summary.json: %s", st.text);
        }
    }
    json_decref(json);
    if (!ps_is_ok(&st)) {
        return st;
    }
    job = (Psgd__V1__Job *)message;
    if (strcmp(job->id, job_id) != 0) {
        st = ps_fail(PS_DATA_LOSS, "summary.json is of job %s", PS_SHORT(job->id, 60));
    } else if (!job->spec || !ps_state_is_final(job->state)) {
        st = ps_fail(PS_DATA_LOSS, "summary.json is of no job that is over");
    }
    if (ps_is_ok(&st)) {
        ps_text_set(&ps_job_progress(job)->waiting_for,
                    ""); /* the summary may name nodes that were waited for when it was written */
        *out = job;
    } else {
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return st;
}

static ps_status add_file(void *arg, const ps_manifest_file *file)
{
    Psgd__V1__ArtifactKind kind;

    if (!ps_artifact_kind_find(file->kind, &kind)) {
        return ps_fail(PS_DATA_LOSS, "manifest: %s is of kind \"%s\", which no file has",
                       PS_SHORT(file->name, 60), PS_SHORT(file->kind, 30));
    }
    ps_job_add_artifact(arg, file->name, kind, file->size, file->sha256, file->node_id);
    return ps_ok();
}

/* Adds the manifest to the files of the job, as it does not list itself. */
static ps_status add_manifest(const char *folder, Psgd__V1__Job *job)
{
    char path[PS_FOLDER_MAX], hex[PS_SHA256_HEX_BYTES];
    uint64_t size = 0;
    ps_status st = path_of(path, folder, "manifest.json");

    if (ps_is_ok(&st)) {
        st = ps_sha256_of_file(path, hex, &size);
    }
    if (ps_is_ok(&st)) {
        ps_job_add_artifact(job, "manifest.json", PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_SUMMARY,
                            size, hex, "");
    }
    return st;
}

static ps_status read_manifest(const char *folder, Psgd__V1__Job *job)
{
    char *text = NULL;
    size_t n = 0;
    ps_status st = read_text(folder, "manifest.json", &text, &n);

    if (ps_is_ok(&st)) {
        st = ps_manifest_parse(text, n, FILES_MAX, add_file, job);
    }
    free(text);
    return ps_is_ok(&st) ? add_manifest(folder, job) : st;
}

ps_status ps_recover_read(const char *data_dir, const char *job_id, ps_record *out)
{
    char folder[PS_FOLDER_MAX];
    ps_record record = {0};
    ps_status st = ps_artifacts_folder(folder, data_dir, job_id);

    if (ps_is_ok(&st) && (!ps_name_is_safe(job_id) || strlen(job_id) >= ID_MAX)) {
        st = ps_fail(PS_DATA_LOSS, "the name is no id of a job");
    }
    if (ps_is_ok(&st)) {
        st = read_summary(folder, job_id, &record.job);
    }
    if (ps_is_ok(&st)) {
        st = read_manifest(folder, record.job);
    }
    if (ps_is_ok(&st)) {
        *out = record;
    } else {
        ps_record_fini(&record);
    }
    return st;
}

/* Appends to `text` which files of the job are missing, cannot be read, or have another size or
 * SHA-256 than the record says. Returns their number. */
static size_t check_files(const char *data_dir, const Psgd__V1__Job *job, ps_strbuf *text)
{
    char folder[PS_FOLDER_MAX], path[PS_FOLDER_MAX], hex[PS_SHA256_HEX_BYTES];
    ps_status st = ps_artifacts_folder(folder, data_dir, job->id);
    size_t wrong = 0;

    for (size_t i = 0; ps_is_ok(&st) && i < job->n_artifacts; i++) {
        const Psgd__V1__Artifact *a = job->artifacts[i];
        uint64_t size = 0;
        ps_status read = path_of(path, folder, a->name);

        if (ps_is_ok(&read)) {
            read = ps_sha256_of_file(path, hex, &size);
        }
        if (!ps_is_ok(&read) || size != a->size || strcmp(hex, a->sha256) != 0) {
            const char *why = read.code == PS_NOT_FOUND ? "missing"
                              : !ps_is_ok(&read)        ? read.text
                              : size != a->size         ? "another size"
                                                        : "another SHA-256";

            ps_strbuf_printf(text, "%s%s (%s)", wrong++ > 0 ? ", " : "", a->name, why);
        }
    }
    return wrong;
}

/* --- all folders ----------------------------------------------------------------- */

typedef struct found {
    char id[ID_MAX];
    int64_t created_us;
} found;

typedef struct recovery {
    const char *data_dir;
    FILE *out;
    ps_registry *registry;
    bool is_older; /* jobs.db is not the one used before: its rows may be older than the files */
    ps_recovery *totals;
    found *items; /* (count): the jobs that are to be restored from their folders */
    size_t count;
} recovery;

/* Returns whether the job has to be restored from its folder: the registry lacks it, its row is
 * damaged, or its row is older than the files and says that the job is not over. Writes a line if
 * not. */
static bool is_needed(recovery *r, const char *job_id)
{
    ps_record record = {0};
    ps_status st = ps_registry_load(r->registry, job_id, &record);
    bool needed = st.code == PS_NOT_FOUND || st.code == PS_DATA_LOSS;

    if (ps_is_ok(&st)) {
        needed = r->is_older && !ps_state_is_final(record.job->state);
    }
    if (!needed) {
        r->totals->known++;
        fprintf(r->out, "%s: in the registry already: %s\n", job_id,
                ps_is_ok(&st) ? ps_state_name(record.job->state) : st.text);
    }
    ps_record_fini(&record);
    return needed;
}

static int64_t created_us(const Psgd__V1__Job *job)
{
    const Google__Protobuf__Timestamp *time = job->create_time;

    return time && time->seconds < INT64_MAX / 1000000 - 1
               ? time->seconds * 1000000 + time->nanos / 1000
               : 0;
}

static void consider(void *arg, const char *job_id)
{
    recovery *r = arg;
    ps_record record = {0};
    ps_status st;

    if (!is_needed(r, job_id)) {
        return;
    }
    st = ps_recover_read(r->data_dir, job_id, &record);
    if (ps_is_ok(&st)) {
        r->items = ps_xrealloc(r->items, (r->count + 1) * sizeof *r->items);
        snprintf(r->items[r->count].id, ID_MAX, "%s", job_id);
        r->items[r->count++].created_us = created_us(record.job);
    } else {
        r->totals->left++;
        fprintf(r->out, "%s: left as it is: %s\n", job_id, st.text);
    }
    ps_record_fini(&record);
}

static ps_status recover_one(recovery *r, const char *job_id)
{
    ps_record record = {0};
    ps_strbuf wrong = {0};
    size_t count;
    ps_status st = ps_recover_read(r->data_dir, job_id, &record);

    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s", PS_SHORT(job_id, 60));
    }
    count = check_files(r->data_dir, record.job, &wrong);
    st = ps_registry_put(r->registry, &record, ps_clock_wall_us());
    if (ps_is_ok(&st)) {
        r->totals->recovered++;
        fprintf(r->out, "%s: in the registry again: %s, ", job_id,
                ps_state_name(record.job->state));
    }
    if (ps_is_ok(&st) && count == 0) {
        fprintf(r->out, "%zu files as stored\n", record.job->n_artifacts);
    } else if (ps_is_ok(&st)) {
        r->totals->differing++;
        fprintf(r->out, "%zu of %zu files not as stored: %s\n", count, record.job->n_artifacts,
                ps_strbuf_text(&wrong));
    }
    ps_strbuf_fini(&wrong);
    ps_record_fini(&record);
    return st;
}

/* Compares by the time of submission: jobs get their numbers in this order, and are listed by
 * number. */
static int by_time(const void *a, const void *b)
{
    const found *x = a, *y = b;

    return x->created_us < y->created_us   ? -1
           : x->created_us > y->created_us ? 1
                                           : strcmp(x->id, y->id);
}

ps_status ps_recover(const char *data_dir, FILE *out, ps_recovery *totals)
{
    recovery r = {.data_dir = data_dir, .out = out, .totals = totals};
    ps_status st;

    *totals = (ps_recovery){0};
    if (!ps_artifacts_exist(data_dir, "")) {
        return ps_fail(PS_NOT_FOUND, "there is no folder %s/jobs", PS_PATH_SHOWN(data_dir));
    }
    st = ps_registry_open_sqlite(data_dir, &r.registry);
    if (!ps_is_ok(&st)) {
        return st;
    }
    r.is_older = ps_registry_database(r.registry)->news != PS_DATABASE_AS_BEFORE;
    ps_artifacts_each(data_dir, consider, &r);
    if (r.count > 0) {
        qsort(r.items, r.count, sizeof *r.items, by_time);
    }
    for (size_t i = 0; ps_is_ok(&st) && i < r.count; i++) {
        st = recover_one(&r, r.items[i].id);
    }
    free(r.items);
    ps_registry_close(r.registry);
    return st;
}
