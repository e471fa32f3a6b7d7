/* SPDX-License-Identifier: Apache-2.0 */
/* init_from.c - see init_from.h. */
#include "services/coordinator/io/init_from.h"

#include "common/artifact/weights.h"
#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "common/job/plan.h"
#include "common/train/merge.h"
#include "services/coordinator/domain/access.h"
#include "services/coordinator/domain/job_message.h"
#include "services/coordinator/io/artifacts.h"
#include "services/coordinator/io/checkpoint_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Reads the record of a job. Fails if where->caller may not see the job; caller NULL: that is not
 * checked. */
static ps_status load_seen(const ps_init_where *where, const char *job_id, ps_record *out)
{
    ps_status st = ps_registry_load(where->reader, job_id, out);

    return ps_is_ok(&st) && where->caller ? ps_access_check(where->caller, out->job, PS_ACCESS_SEE)
                                          : st;
}

/* Reads the checkpoint of a job at `step`; fini it after success. */
static ps_status read_checkpoint(const ps_init_where *where, const char *job_id, uint64_t step,
                                 bool is_thorough, ps_checkpoint *out)
{
    char folder[PS_FOLDER_MAX];
    ps_record record = {0};
    ps_status st = load_seen(where, job_id, &record);

    if (ps_is_ok(&st)) {
        st = ps_artifacts_folder(folder, where->data_dir, job_id);
    }
    ps_record_fini(&record);
    return ps_is_ok(&st) ? ps_wrap(ps_checkpoint_read(folder, step, is_thorough, out), "job %s",
                                   PS_SHORT(job_id, 60))
                         : st;
}

static bool is_model(const Psgd__V1__Artifact *artifact, const char *ending)
{
    size_t n = strlen(artifact->name), end = strlen(ending);

    return artifact->kind == PSGD__V1__ARTIFACT_KIND__ARTIFACT_KIND_MODEL && n > end &&
           strcmp(artifact->name + n - end, ending) == 0;
}

/* Returns the job's model: the servers', or if there is none a worker's, which a codec may have
 * rounded. NULL: the job has left none. */
static const Psgd__V1__Artifact *model_of(const Psgd__V1__Job *job)
{
    static const char *const endings[] = {"-N(ps).safetensors", ".safetensors"};

    for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
        for (size_t i = 0; i < job->n_artifacts; i++) {
            if (is_model(job->artifacts[i], endings[e])) {
                return job->artifacts[i];
            }
        }
    }
    return NULL;
}

/* Reads the record of a job and finds its folder. Fails if the job is not over. The caller frees
 * the record, also after a failure. */
static ps_status load_job(const ps_init_where *where, const char *job_id, ps_record *record,
                          char folder[PS_FOLDER_MAX])
{
    ps_status st = load_seen(where, job_id, record);

    if (ps_is_ok(&st) && !ps_state_is_final(record->job->state)) {
        st = ps_fail(PS_FAILED_PRECONDITION, "job %s is %s; one that is over is expected",
                     PS_SHORT(job_id, 60), ps_state_name(record->job->state));
    }
    return ps_is_ok(&st) ? ps_artifacts_folder(folder, where->data_dir, job_id) : st;
}

static ps_status find_of_job(const ps_init_where *where, const char *job_id,
                             char path[PS_INIT_PATH_MAX], char sha256[PS_SHA256_HEX_BYTES])
{
    char folder[PS_FOLDER_MAX];
    ps_record record = {0};
    const Psgd__V1__Artifact *model;
    ps_status st = load_job(where, job_id, &record, folder);

    if (!ps_is_ok(&st)) {
        ps_record_fini(&record);
        return st;
    }
    model = model_of(record.job);
    st = model ? ps_path_join(path, PS_INIT_PATH_MAX, folder, model->name)
               : ps_fail(PS_FAILED_PRECONDITION, "job %s, which is %s, has left no model",
                         PS_SHORT(job_id, 60), ps_state_name(record.job->state));
    if (ps_is_ok(&st)) {
        snprintf(sha256, PS_SHA256_HEX_BYTES, "%s", model->sha256);
    }
    ps_record_fini(&record);
    return st;
}

static ps_status find_of_checkpoint(const ps_init_where *where, const char *job_id, uint64_t step,
                                    char path[PS_INIT_PATH_MAX], char sha256[PS_SHA256_HEX_BYTES])
{
    ps_checkpoint c;
    ps_status st = read_checkpoint(where, job_id, step, false, &c);

    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_path_join(path, PS_INIT_PATH_MAX, c.folder, PS_CHECKPOINT_MODEL);
    snprintf(sha256, PS_SHA256_HEX_BYTES, "%s", ps_checkpoint_sha256(&c, PS_CHECKPOINT_MODEL));
    ps_checkpoint_fini(&c);
    return st;
}

/* Writes the path of a file that a specification names relative to --data-path. Fails if there is
 * no data path, or if the file would not be below it. */
static ps_status find_below(const ps_init_where *where, const char *from,
                            char path[PS_INIT_PATH_MAX])
{
    if (!where->data_path || where->data_path[0] == '\0') {
        return ps_fail(PS_NOT_FOUND, "the coordinator has no --data-path (PSGD_DATA)");
    }
    return ps_path_below(path, PS_INIT_PATH_MAX, where->data_path, from);
}

ps_status ps_init_find(const ps_init_where *where, const ps_plan *plan, char path[PS_INIT_PATH_MAX],
                       char sha256[PS_SHA256_HEX_BYTES])
{
    const char *from = plan->spec->init_from, *job_id = ps_init_from_job(from);
    char of[PS_CHECKPOINT_JOB_MAX];
    uint64_t step;

    path[0] = sha256[0] = '\0';
    if (from[0] == '\0') {
        return ps_ok();
    }
    if (ps_init_from_checkpoint(from, of, &step)) {
        return find_of_checkpoint(where, of, step, path, sha256);
    }
    return job_id ? find_of_job(where, job_id, path, sha256) : find_below(where, from, path);
}

/* Checks that the checkpoint in spec.init_from, if it names one, is there, and that the job can go
 * on from it. */
static ps_status check_checkpoint(const ps_init_where *where, const ps_plan *plan)
{
    ps_init_tables servers = {0}, ranks = {0};
    uint64_t clock;
    ps_status st = ps_init_find_checkpoint(where, plan, false, &servers, &ranks, &clock);

    ps_init_tables_fini(&servers);
    ps_init_tables_fini(&ranks);
    return st;
}

ps_status ps_init_check(const ps_init_where *where, const ps_plan *plan)
{
    char path[PS_INIT_PATH_MAX], sha256[PS_SHA256_HEX_BYTES];
    ps_status st = ps_init_find(where, plan, path, sha256);

    if (ps_is_ok(&st)) {
        st = check_checkpoint(where, plan);
    }
    if (!ps_is_ok(&st) || path[0] == '\0') {
        return st;
    }
    return ps_weights_check(path, plan->layout.stored, plan->layout.stored_count);
}

/* --- sparse tables ---------------------------------------------------------------- */

static void add_path(ps_init_tables *out, const char *path, uint64_t size, const char *sha256)
{
    out->paths = ps_xrealloc(out->paths, (out->count + 1) * sizeof *out->paths);
    out->sizes = ps_xrealloc(out->sizes, (out->count + 1) * sizeof *out->sizes);
    out->sha256 = ps_xrealloc(out->sha256, (out->count + 1) * sizeof *out->sha256);
    snprintf(out->sha256[out->count], sizeof *out->sha256, "%s", sha256);
    out->paths[out->count] = ps_xstrdup(path);
    out->sizes[out->count++] = size;
}

static ps_status add_table(ps_init_tables *out, const char *path, const char *sha256)
{
    struct stat what;
    ps_status st;

    if (stat(path, &what) != 0) {
        return ps_fail_errno(errno, "%s", PS_PATH_SHOWN(path));
    }
    if (!S_ISREG(what.st_mode)) {
        return ps_fail(PS_INVALID_ARGUMENT, "%s is no file", PS_PATH_SHOWN(path));
    }
    st = ps_table_check_size((uint64_t)what.st_size);
    if (!ps_is_ok(&st)) {
        return ps_wrap(st, "%s", PS_PATH_SHOWN(path));
    }
    add_path(out, path, (uint64_t)what.st_size, sha256);
    return st;
}

static ps_status add_tables_of_job(const ps_init_where *where, const char *job_id,
                                   ps_init_tables *out)
{
    char folder[PS_FOLDER_MAX], path[PS_INIT_PATH_MAX];
    ps_record record = {0};
    ps_status st = load_job(where, job_id, &record, folder);
    size_t before = out->count;

    for (size_t i = 0; ps_is_ok(&st) && i < record.job->n_artifacts; i++) {
        if (is_model(record.job->artifacts[i], PS_TABLE_FILE_ENDING)) {
            st = ps_path_join(path, sizeof path, folder, record.job->artifacts[i]->name);
            if (ps_is_ok(&st)) {
                st = add_table(out, path, record.job->artifacts[i]->sha256);
            }
        }
    }
    if (ps_is_ok(&st) && out->count == before) {
        st = ps_fail(PS_FAILED_PRECONDITION, "job %s, which is %s, has left no sparse tables",
                     PS_SHORT(job_id, 60), ps_state_name(record.job->state));
    }
    ps_record_fini(&record);
    return st;
}

ps_status ps_init_find_tables(const ps_init_where *where, const ps_plan *plan, ps_init_tables *out)
{
    char *const *from, path[PS_INIT_PATH_MAX];
    size_t count = ps_table_inits(plan, &from);
    ps_status st = ps_ok();

    for (size_t i = 0; ps_is_ok(&st) && i < count; i++) {
        const char *job_id = ps_init_from_job(from[i]);

        if (job_id) {
            st = add_tables_of_job(where, job_id, out);
            continue;
        }
        st = find_below(where, from[i], path);
        if (ps_is_ok(&st)) {
            st = add_table(out, path, "");
        }
    }
    return st;
}

void ps_init_tables_fini(ps_init_tables *tables)
{
    for (size_t i = 0; i < tables->count; i++) {
        free(tables->paths[i]);
    }
    free(tables->paths);
    free(tables->sizes);
    free(tables->sha256);
    *tables = (ps_init_tables){0};
}

ps_status ps_init_check_tables(const ps_init_where *where, const ps_plan *plan)
{
    ps_init_tables found = {0};
    ps_status st = ps_init_find_tables(where, plan, &found);
    ps_tables *tables;

    if (!ps_is_ok(&st) || found.count == 0) {
        ps_init_tables_fini(&found);
        return st;
    }
    tables = ps_merge_tables(plan, NULL, 0);
    st = ps_merge_read_tables(tables, (const char *const *)found.paths, found.count, true);
    ps_tables_destroy(tables);
    ps_init_tables_fini(&found);
    return st;
}

/* --- checkpoints ------------------------------------------------------------------- */

/* Checks that a job with this plan can go on from the checkpoint: that it is of job_id, that both
 * have as many ranks and compute the same, and that its clock is after the first and before the
 * plan's end. */
static ps_status check_facts(const ps_checkpoint_facts *facts, const ps_plan *plan,
                             const char *job_id)
{
    if (strcmp(facts->job_id, job_id) != 0) {
        return ps_fail(PS_FAILED_PRECONDITION, "the checkpoint is of job %s, which is not %s",
                       PS_SHORT(facts->job_id, 40), PS_SHORT(job_id, 40));
    }
    if (facts->ranks != plan->spec->workers) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "the checkpoint has %u ranks and this job %u workers; as many are needed, "
                       "and worker_processes may differ",
                       facts->ranks, plan->spec->workers);
    }
    if (facts->plan_hash != ps_plan_hash(plan)) {
        return ps_fail(PS_FAILED_PRECONDITION,
                       "this job computes something else than the checkpoint's; pservers, "
                       "worker_processes, title and others may differ: docs/checkpoints.md");
    }
    if (facts->clock == 0 || facts->clock > ps_plan_last_begin(plan)) {
        return ps_fail(PS_FAILED_PRECONDITION, "the checkpoint is at clock %llu of %llu",
                       (unsigned long long)facts->clock, (unsigned long long)plan->total_clocks);
    }
    return ps_ok();
}

static ps_status add_state(const ps_checkpoint *c, const ps_manifest_file *file,
                           ps_init_tables *out)
{
    char path[PS_INIT_PATH_MAX];
    ps_status st = ps_path_join(path, sizeof path, c->folder, file->name);

    if (ps_is_ok(&st)) {
        add_path(out, path, file->size, file->sha256);
    }
    return st;
}

/* Adds the files of all ranks, in their order. */
static ps_status add_ranks(const ps_checkpoint *c, uint32_t ranks, ps_init_tables *out)
{
    ps_status st = ps_ok();

    for (uint32_t rank = 0; rank < ranks && ps_is_ok(&st); rank++) {
        char name[PS_CHECKPOINT_NAME_MAX];
        size_t i = 0;

        ps_checkpoint_rank_name(name, rank);
        while (i < c->count && strcmp(c->files[i].name, name) != 0) {
            i++;
        }
        st = i < c->count ? add_state(c, &c->files[i], out)
                          : ps_fail(PS_DATA_LOSS, "the checkpoint lacks %s", name);
    }
    return st;
}

static ps_status add_server(void *arg, const char *path, const ps_manifest_file *file)
{
    add_path(arg, path, file->size, file->sha256);
    return ps_ok();
}

static ps_status add_servers(const ps_checkpoint *c, ps_init_tables *out)
{
    ps_status st = ps_checkpoint_each_server(c, add_server, out);

    return ps_is_ok(&st) && out->count == 0
               ? ps_fail(PS_DATA_LOSS, "the checkpoint lacks the files of servers")
               : st;
}

ps_status ps_init_find_checkpoint(const ps_init_where *where, const ps_plan *plan, bool is_thorough,
                                  ps_init_tables *servers, ps_init_tables *ranks, uint64_t *clock)
{
    char job_id[PS_CHECKPOINT_JOB_MAX];
    ps_checkpoint c;
    uint64_t step;
    ps_status st;

    *clock = 0;
    if (!ps_init_from_checkpoint(plan->spec->init_from, job_id, &step)) {
        return ps_ok();
    }
    st = read_checkpoint(where, job_id, step, is_thorough, &c);
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = check_facts(&c.facts, plan, job_id);
    if (ps_is_ok(&st)) {
        st = add_ranks(&c, plan->spec->workers, ranks);
    }
    if (ps_is_ok(&st) && plan->mesh == NULL) {
        st = add_servers(&c, servers);
    }
    *clock = c.facts.clock;
    ps_checkpoint_fini(&c);
    return st;
}

ps_status ps_init_check_data(const ps_init_where *where, const ps_plan *plan, const char *sha256)
{
    char job_id[PS_CHECKPOINT_JOB_MAX];
    ps_checkpoint c = {0};
    uint64_t step;
    ps_status st;

    if (!ps_init_from_checkpoint(plan->spec->init_from, job_id, &step)) {
        return ps_ok();
    }
    st = read_checkpoint(where, job_id, step, false, &c);
    if (ps_is_ok(&st) && c.facts.data[0] != '\0' && strcmp(c.facts.data, sha256) != 0) {
        st = ps_fail(PS_FAILED_PRECONDITION,
                     "the data set has SHA-256 %.16s..., that of the checkpoint %.16s...: put the "
                     "files back that job %s was trained on",
                     sha256, c.facts.data, PS_SHORT(job_id, 60));
    }
    ps_checkpoint_fini(&c);
    return st;
}
