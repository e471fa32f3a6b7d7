/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_store.c - see checkpoint_store.h. */
#include "services/coordinator/io/checkpoint_store_impl.h"

#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/strbuf.h"
#include "common/base/xalloc.h"
#include "common/job/checkpoint_clocks.h"
#include "services/coordinator/domain/checkpoints.h"
#include "services/coordinator/io/archive.h"
#include "services/coordinator/io/checkpoint_place.h"
#include "services/coordinator/io/room.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FACTS "state.json"
#define MANIFEST "MANIFEST.json"
#define KIND "checkpoint"

enum { FORMAT = 1, FACTS_MAX = 64 << 10, MANIFEST_MAX = 4 << 20 };

/* --- names ------------------------------------------------------------------------ */

static ps_status folder_of(char out[PS_FOLDER_MAX], const char *job_folder)
{
    return ps_path_join(out, PS_FOLDER_MAX, job_folder, PS_CHECKPOINTS_NAME);
}

ps_status ps_checkpoint_path(char out[PS_FOLDER_MAX], const char *job_folder, const char *name)
{
    char folder[PS_FOLDER_MAX];
    ps_status st = folder_of(folder, job_folder);

    return ps_is_ok(&st) ? ps_path_join(out, PS_FOLDER_MAX, folder, name) : st;
}

void ps_checkpoint_step_name(char out[PS_STEP_DIGITS + 1], uint64_t step)
{
    snprintf(out, PS_STEP_DIGITS + 1, "%0*" PRIu64, PS_STEP_DIGITS,
             step % UINT64_C(10000000000000));
}

ps_status ps_checkpoint_gather(char out[PS_FOLDER_MAX], const char *job_folder, uint64_t step,
                               uint32_t attempt)
{
    char name[64];

    snprintf(name, sizeof name, ".%" PRIu64 "-%" PRIu32 ".tmp", step, attempt);
    return ps_checkpoint_path(out, job_folder, name);
}

void ps_checkpoint_discard(const char *gathered)
{
    ps_status st = ps_dir_remove(gathered);

    (void)st; /* what is left only takes room, until the next start removes it */
}

/* --- facts ------------------------------------------------------------------------ */

static ps_status write_facts(const char *folder, const ps_checkpoint_facts *facts)
{
    char path[PS_FOLDER_MAX], hash[24], seed[24], *text;
    json_t *json;
    ps_status st = ps_path_join(path, sizeof path, folder, FACTS);

    if (!ps_is_ok(&st)) {
        return st;
    }
    snprintf(hash, sizeof hash, "%016" PRIx64, facts->plan_hash);
    snprintf(seed, sizeof seed, "%" PRIu64, facts->seed);
    json = json_pack("{s:i, s:s, s:I, s:I, s:s, s:I, s:s, s:s}", "format", FORMAT, "job",
                     facts->job_id, "step", (json_int_t)facts->step, "clock",
                     (json_int_t)facts->clock, "plan_hash", hash, "ranks", (json_int_t)facts->ranks,
                     "seed", seed, "version", facts->version);
    if (facts->data[0] != '\0') {
        json_object_set_new(json, "data", json_string(facts->data));
    }
    if (facts->is_passing) {
        json_object_set_new(json, "passing", json_true());
    }
    if (facts->metric[0] != '\0') {
        json_object_set_new(json, "metric", json_string(facts->metric));
        json_object_set_new(json, "best", json_string(facts->is_cost ? "min" : "max"));
        json_object_set_new(json, "value", json_real(facts->value));
        json_object_set_new(json, "evaluated_step",
                            json_integer((json_int_t)facts->evaluated_step));
    }
    if (facts->parent > 0) {
        json_object_set_new(json, "parent", json_integer((json_int_t)facts->parent));
        json_object_set_new(json, "parent_sha256", json_string(facts->parent_sha256));
    }
    text = json_dumps(json, JSON_INDENT(2));
    st = ps_file_write(path, text, strlen(text));
    free(text);
    json_decref(json);
    return st;
}

static bool take_count(const json_t *json, const char *name, uint64_t most, uint64_t *out)
{
    const json_t *value = json_object_get(json, name);

    *out = json_is_integer(value) ? (uint64_t)json_integer_value(value) : UINT64_MAX;
    return json_is_integer(value) && json_integer_value(value) >= 0 && *out <= most;
}

static bool take_number(const json_t *json, const char *name, int base, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(json, name));
    const char *digits = base == 16 ? "0123456789abcdef" : "0123456789";
    char *end;

    if (text == NULL || text[0] == '\0' || strspn(text, digits) != strlen(text)) {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &end, base);
    return errno == 0 && *end == '\0';
}

static bool take_text(const json_t *json, const char *name, char *out, size_t cap)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text != NULL && ps_name_is_safe(text) && (size_t)snprintf(out, cap, "%s", text) < cap;
}

static bool take_sha256(const json_t *json, const char *name, char out[PS_SHA256_HEX_BYTES])
{
    return take_text(json, name, out, PS_SHA256_HEX_BYTES) &&
           strspn(out, "0123456789abcdef") == PS_SHA256_HEX_BYTES - 1;
}

/* Reads the members of state.json about the last evaluation, if `metric` is there. Returns the name
 * of the first one that is missing or wrong; NULL: none is. */
static const char *take_value(const json_t *json, uint64_t steps_max, ps_checkpoint_facts *out)
{
    const json_t *value = json_object_get(json, "value");
    const char *best = json_string_value(json_object_get(json, "best"));

    if (json_object_get(json, "metric") == NULL) {
        return NULL;
    }
    if (!take_text(json, "metric", out->metric, sizeof out->metric)) {
        return "metric";
    }
    if (!json_is_number(value) || !isfinite(json_number_value(value))) {
        return "value";
    }
    if (best == NULL || (strcmp(best, "min") != 0 && strcmp(best, "max") != 0)) {
        return "best";
    }
    out->value = json_number_value(value);
    out->is_cost = strcmp(best, "min") == 0;
    return take_count(json, "evaluated_step", steps_max, &out->evaluated_step) ? NULL
                                                                               : "evaluated_step";
}

/* Reads the members of state.json. Returns the name of the first one that is missing or wrong;
 * NULL: none is. */
static const char *take_facts(const json_t *json, ps_checkpoint_facts *out)
{
    const uint64_t steps_max = UINT64_C(1000000000000);
    uint64_t ranks = 0;

    if (!take_text(json, "job", out->job_id, sizeof out->job_id)) {
        return "job";
    }
    if (!take_count(json, "step", steps_max, &out->step)) {
        return "step";
    }
    if (!take_count(json, "clock", steps_max, &out->clock)) {
        return "clock";
    }
    if (!take_number(json, "plan_hash", 16, &out->plan_hash)) {
        return "plan_hash";
    }
    if (!take_count(json, "ranks", 256, &ranks)) {
        return "ranks";
    }
    out->ranks = (uint32_t)ranks;
    out->is_passing = json_is_true(json_object_get(json, "passing"));
    if (!take_number(json, "seed", 10, &out->seed)) {
        return "seed";
    }
    if (!take_text(json, "version", out->version, sizeof out->version)) {
        return "version";
    }
    if (json_object_get(json, "data") != NULL && !take_sha256(json, "data", out->data)) {
        return "data";
    }
    if (json_object_get(json, "parent") != NULL) {
        if (!take_count(json, "parent", steps_max, &out->parent) || out->parent == 0 ||
            out->parent >= out->step) {
            return "parent";
        }
        if (!take_sha256(json, "parent_sha256", out->parent_sha256)) {
            return "parent_sha256";
        }
    }
    return take_value(json, steps_max, out);
}

ps_status ps_checkpoint_parse(const char *text, size_t n, ps_checkpoint_facts *out)
{
    json_error_t where;
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    uint64_t format = 0;
    const char *wrong;
    ps_status st = ps_ok();

    *out = (ps_checkpoint_facts){0};
    if (json == NULL) {
        return ps_fail(PS_DATA_LOSS, FACTS ":%d: %s", where.line, where.text);
    }
    if (!take_count(json, "format", UINT32_MAX, &format) || format != FORMAT) {
        st = ps_fail(PS_DATA_LOSS, FACTS ": format is not %d", FORMAT);
    } else if ((wrong = take_facts(json, out)) != NULL) {
        st = ps_fail(PS_DATA_LOSS, FACTS ": %s is missing, or no such value", wrong);
    }
    json_decref(json);
    return st;
}

/* --- reading ----------------------------------------------------------------------- */

static ps_status add_file(void *arg, const ps_manifest_file *file)
{
    ps_checkpoint *c = arg;
    ps_manifest_file *copy = &c->files[c->count];

    if (strchr(file->name, '/') != NULL) {
        return ps_fail(PS_DATA_LOSS, MANIFEST ": %s is in another folder",
                       PS_SHORT(file->name, 60));
    }
    *copy = *file;
    copy->name = ps_xstrdup(file->name);
    copy->kind = KIND;
    copy->node_id = "";
    c->bytes += file->size;
    c->count++;
    return ps_ok();
}

static ps_status read_text(const char *folder, const char *name, size_t most, char **text,
                           size_t *n)
{
    char path[PS_FOLDER_MAX];
    ps_status st = ps_path_join(path, sizeof path, folder, name);

    if (ps_is_ok(&st)) {
        st = ps_file_read(path, most, text, n);
    }
    return st.code == PS_NOT_FOUND ? ps_fail(PS_DATA_LOSS, "%s is missing", name) : st;
}

static ps_status check_file(const char *folder, const ps_manifest_file *file, bool is_thorough)
{
    char path[PS_FOLDER_MAX], hex[PS_SHA256_HEX_BYTES];
    struct stat facts;
    uint64_t size = 0;
    ps_status st = ps_path_join(path, sizeof path, folder, file->name);

    if (!ps_is_ok(&st)) {
        return st;
    }
    if (lstat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        return ps_fail(PS_DATA_LOSS, "%s is missing", file->name);
    }
    if ((uint64_t)facts.st_size != file->size) {
        return ps_fail(PS_DATA_LOSS, "%s has %lld bytes; its manifest says %" PRIu64, file->name,
                       (long long)facts.st_size, file->size);
    }
    st = is_thorough ? ps_sha256_of_file(path, hex, &size) : ps_ok();
    if (is_thorough && ps_is_ok(&st) && strcmp(hex, file->sha256) != 0) {
        st = ps_fail(PS_DATA_LOSS, "%s is damaged: its SHA-256 is not the stored one", file->name);
    }
    return st;
}

static ps_status read_manifest(ps_checkpoint *c)
{
    char *text = NULL;
    size_t n = 0;
    ps_status st = read_text(c->folder, MANIFEST, MANIFEST_MAX, &text, &n);

    if (ps_is_ok(&st)) {
        c->files = ps_xcalloc(PS_CHECKPOINT_FILES_MAX, sizeof *c->files);
        st = ps_manifest_parse(text, n, PS_CHECKPOINT_FILES_MAX, add_file, c);
    }
    free(text);
    return st;
}

static ps_status read_facts(ps_checkpoint *c)
{
    char *text = NULL;
    size_t n = 0;
    ps_status st = read_text(c->folder, FACTS, FACTS_MAX, &text, &n);

    if (ps_is_ok(&st)) {
        st = ps_checkpoint_parse(text, n, &c->facts);
    }
    free(text);
    return st;
}

/* Reads manifest and facts of the checkpoint in c->folder, and checks each file's size; with
 * is_thorough also its SHA-256. */
static ps_status read_folder(ps_checkpoint *c, bool is_thorough)
{
    ps_status st = read_manifest(c);

    for (size_t i = 0; ps_is_ok(&st) && i < c->count; i++) {
        st = check_file(c->folder, &c->files[i], is_thorough);
    }
    if (ps_is_ok(&st) && (ps_checkpoint_sha256(c, FACTS) == NULL ||
                          ps_checkpoint_sha256(c, PS_CHECKPOINT_MODEL) == NULL)) {
        st = ps_fail(PS_DATA_LOSS, MANIFEST " lacks " FACTS " or " PS_CHECKPOINT_MODEL);
    }
    return ps_is_ok(&st) ? read_facts(c) : st;
}

ps_status ps_checkpoint_manifest_sha256(const ps_checkpoint *c, char out[PS_SHA256_HEX_BYTES])
{
    char path[PS_FOLDER_MAX];
    uint64_t size;
    ps_status st = ps_path_join(path, sizeof path, c->folder, MANIFEST);

    return ps_is_ok(&st) ? ps_sha256_of_file(path, out, &size) : st;
}

ps_status ps_checkpoint_read_alone(const char *job_folder, uint64_t step, bool is_thorough,
                                   ps_checkpoint *out)
{
    char name[PS_STEP_DIGITS + 1];
    struct stat what;
    ps_status st;

    *out = (ps_checkpoint){0};
    ps_checkpoint_step_name(name, step);
    st = ps_checkpoint_path(out->folder, job_folder, name);
    if (ps_is_ok(&st) && (lstat(out->folder, &what) != 0 || !S_ISDIR(what.st_mode))) {
        return ps_fail(PS_NOT_FOUND, "there is no checkpoint of step %" PRIu64, step);
    }
    out->stored_s = ps_is_ok(&st) ? (int64_t)what.st_mtime : 0;
    if (ps_is_ok(&st)) {
        st = read_folder(out, is_thorough);
    }
    if (ps_is_ok(&st) && out->facts.step != step) {
        st = ps_fail(PS_DATA_LOSS, FACTS " is of step %" PRIu64, out->facts.step);
    }
    if (!ps_is_ok(&st)) {
        ps_checkpoint_fini(out);
        return ps_wrap(st, "checkpoint of step %" PRIu64, step);
    }
    return st;
}

void ps_checkpoint_fini(ps_checkpoint *c)
{
    if (c->parent != NULL) {
        ps_checkpoint_fini(c->parent);
        free(c->parent);
        c->parent = NULL;
    }
    for (size_t i = 0; i < c->count; i++) {
        free((char *)c->files[i].name);
    }
    free(c->files);
    c->files = NULL;
    c->count = 0;
}

const char *ps_checkpoint_sha256(const ps_checkpoint *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->files[i].name, name) == 0) {
            return c->files[i].sha256;
        }
    }
    return NULL;
}

size_t ps_checkpoint_best(const ps_checkpoint_facts *facts, size_t count)
{
    const ps_checkpoint_facts *last = count > 0 ? &facts[count - 1] : NULL;
    double *values = ps_xcalloc(count + 1, sizeof *values);
    size_t best;

    for (size_t i = 0; i < count; i++) {
        bool has = facts[i].metric[0] != '\0' && strcmp(facts[i].metric, last->metric) == 0;

        values[i] = has ? facts[i].value : NAN;
    }
    best = ps_checkpoints_best(values, count, last != NULL && last->is_cost);
    free(values);
    return best;
}

static int by_step(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

size_t ps_checkpoint_list(const char *job_folder, uint64_t **steps)
{
    char folder[PS_FOLDER_MAX];
    ps_status st = folder_of(folder, job_folder);
    DIR *dir = ps_is_ok(&st) ? opendir(folder) : NULL;
    const struct dirent *at;
    size_t count = 0;

    *steps = NULL;
    while (dir != NULL && (at = readdir(dir)) != NULL) {
        if (strlen(at->d_name) == PS_STEP_DIGITS &&
            strspn(at->d_name, "0123456789") == PS_STEP_DIGITS) {
            *steps = ps_xrealloc(*steps, (count + 1) * sizeof **steps);
            (*steps)[count++] = strtoull(at->d_name, NULL, 10);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    if (count > 1) {
        qsort(*steps, count, sizeof **steps, by_step);
    }
    return count;
}

/* --- writing ----------------------------------------------------------------------- */

static void drop_parts(const ps_checkpoint_conf *conf, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++) {
        char name[32], path[PS_FOLDER_MAX];
        ps_status st;

        ps_artifacts_part_name(name, rank);
        st = ps_path_join(path, sizeof path, conf->gathered, name);
        if (ps_is_ok(&st)) {
            st = ps_dir_remove(path);
        }
        (void)st; /* the manifest does not list the file, so it only takes room */
    }
}

/* Writes the model of the weights that servers left, and removes these files. In a mesh worker 0
 * left all weights, as if it were the only server. */
static ps_status write_model(const ps_checkpoint_conf *conf, ps_written *model)
{
    const ps_placement *of = conf->placement;
    ps_placement one;
    ps_status st;

    if (conf->plan->mesh != NULL) {
        ps_placement_init(&one, &conf->plan->layout, 1, 0);
        st = ps_placement_set_server(&one, 0, "worker 0", "-");
        of = &one;
    } else {
        st = ps_ok();
    }
    if (ps_is_ok(&st)) {
        st = ps_archive_write_weights(conf->plan, of, conf->facts.job_id, conf->gathered,
                                      PS_CHECKPOINT_MODEL, model);
    }
    if (ps_is_ok(&st)) {
        drop_parts(conf, of->server_count);
    }
    if (of == &one) {
        ps_placement_fini(&one);
    }
    return st;
}

static bool is_gathered(const ps_checkpoint_conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->count; i++) {
        if (strcmp(conf->files[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Copies the file `name` of the checkpoint `before` to the gathered files, and describes it in
 * *out. Returns NOT_FOUND if `before` does not have it. */
static ps_status copy_file(const ps_checkpoint_conf *conf, const ps_checkpoint *before,
                           const char *name, ps_manifest_file *out)
{
    char from[PS_FOLDER_MAX], to[PS_FOLDER_MAX];
    ps_status st;

    for (size_t i = 0; i < before->count; i++) {
        if (strcmp(before->files[i].name, name) == 0) {
            *out = before->files[i];
            out->name = name;
            st = ps_path_join(from, sizeof from, before->folder, name);
            st = ps_is_ok(&st) ? ps_path_join(to, sizeof to, conf->gathered, name) : st;
            st = ps_is_ok(&st) ? ps_room_for(conf->gathered, out->size) : st;
            return ps_is_ok(&st) ? ps_file_copy(from, to) : st;
        }
    }
    return ps_fail(PS_NOT_FOUND, "%s was not sent, and no checkpoint before has it", name);
}

/* Where ranks are not in step: gives a rank that could not save itself the file that it has in the
 * newest checkpoint that is whole. It goes on from there, and servers do not add again what they
 * have of its steps since. Writes the names of all ranks' files to names (workers), and appends the
 * copied files to files (*count). */
static ps_status fill_ranks(const ps_checkpoint_conf *conf, char (*names)[PS_CHECKPOINT_NAME_MAX],
                            ps_manifest_file *files, size_t *count)
{
    ps_checkpoint before = {0};
    uint64_t *steps = NULL;
    size_t at = ps_checkpoint_list(conf->job_folder, &steps);
    ps_status st = ps_fail(PS_NOT_FOUND, "none");

    while (at > 0 && !ps_is_ok(&st)) {
        st = ps_checkpoint_read(conf->job_folder, steps[--at], false, &before);
    }
    st = ps_ok();
    for (uint32_t r = 0; r < conf->plan->spec->workers && ps_is_ok(&st); r++) {
        ps_checkpoint_rank_name(names[r], r);
        if (!is_gathered(conf, names[r])) {
            st = copy_file(conf, &before, names[r], &files[(*count)++]);
        }
    }
    ps_checkpoint_fini(&before);
    free(steps);
    return st;
}

static ps_status write_manifest(const ps_checkpoint_conf *conf, const ps_written *model)
{
    uint32_t ranks = conf->plan->spec->workers;
    ps_manifest_file *files = ps_xcalloc(conf->count + ranks + 2, sizeof *files);
    char path[PS_FOLDER_MAX], (*names)[PS_CHECKPOINT_NAME_MAX] = ps_xcalloc(ranks, sizeof *names);
    size_t count = 0;
    ps_status st = ps_path_join(path, sizeof path, conf->gathered, MANIFEST);

    for (size_t i = 0; i < conf->count; i++) {
        if (conf->files[i].name[0] != '.') {
            files[count] = (ps_manifest_file){.name = conf->files[i].name,
                                              .kind = KIND,
                                              .node_id = "",
                                              .size = conf->files[i].size};
            memcpy(files[count++].sha256, conf->files[i].sha256, PS_SHA256_HEX_BYTES);
        }
    }
    if (ps_is_ok(&st) && !ps_plan_is_in_step(conf->plan)) {
        st = fill_ranks(conf, names, files, &count);
    }
    files[count] = (ps_manifest_file){
        .name = PS_CHECKPOINT_MODEL, .kind = KIND, .node_id = "", .size = model->size};
    memcpy(files[count++].sha256, model->sha256, PS_SHA256_HEX_BYTES);
    files[count] = (ps_manifest_file){.name = FACTS, .kind = KIND, .node_id = ""};
    if (ps_is_ok(&st)) {
        st = ps_manifest_measure(conf->gathered, &files[count++]);
    }
    if (ps_is_ok(&st)) {
        st = ps_manifest_write(path, files, count);
    }
    free(names);
    free(files);
    return st;
}

/* Renames the gathered folder to `name`. First moves away a folder of that name, of an earlier
 * attempt. `aside` becomes the path of the moved folder, "" if there was none. */
static ps_status give_name(const ps_checkpoint_conf *conf, const char *name,
                           char aside[PS_FOLDER_MAX])
{
    char to[PS_FOLDER_MAX], old[64];
    struct stat what;
    ps_status st = ps_checkpoint_path(to, conf->job_folder, name);

    aside[0] = '\0';
    if (ps_is_ok(&st) && lstat(to, &what) == 0) {
        snprintf(old, sizeof old, ".%s-old.tmp", name);
        st = ps_checkpoint_path(aside, conf->job_folder, old);
        if (ps_is_ok(&st) && rename(to, aside) != 0) {
            st = ps_fail_errno(errno, "move %s", PS_PATH_SHOWN(to));
            aside[0] = '\0';
        }
    }
    return ps_is_ok(&st) ? ps_file_replace(conf->gathered, to) : st;
}

/* Removes a checkpoint that could not be stored, and gives the one that it replaces its name back.
 */
static void take_back(const ps_checkpoint_conf *conf, const char *name, const char *aside)
{
    char to[PS_FOLDER_MAX];
    struct stat what;
    ps_status st = ps_checkpoint_path(to, conf->job_folder, name);

    if (lstat(conf->gathered, &what) == 0) {
        ps_checkpoint_discard(conf->gathered);
    } else { /* the folder has its final name already */
        ps_checkpoint_forget(conf->job_folder, conf->facts.step);
    }
    if (ps_is_ok(&st) && aside[0] != '\0' && rename(aside, to) != 0) {
        ps_log(PS_LOG_ERROR, "job", "the checkpoint of step %" PRIu64 " before is lost: %s",
               conf->facts.step, strerror(errno));
    }
}

/* Writes the files that the coordinator adds to the gathered ones: model, facts and manifest. */
static ps_status complete(const ps_checkpoint_conf *conf)
{
    ps_written model = {0};
    ps_status st =
        ps_room_for(conf->gathered, conf->plan->layout.param_count * sizeof(float) + FACTS_MAX);

    if (ps_is_ok(&st)) {
        st = write_model(conf, &model);
    }
    if (ps_is_ok(&st)) {
        st = write_facts(conf->gathered, &conf->facts);
    }
    return ps_is_ok(&st) ? write_manifest(conf, &model) : st;
}

ps_status ps_checkpoint_store(const ps_checkpoint_conf *asked, ps_checkpoint_rows *rows)
{
    ps_checkpoint_conf with_parent = *asked;
    const ps_checkpoint_conf *conf = &with_parent;
    char name[PS_STEP_DIGITS + 1], aside[PS_FOLDER_MAX];
    ps_checkpoint back = {0};
    ps_status st = ps_checkpoint_find_parent(asked, &with_parent.facts, rows);

    if (ps_is_ok(&st)) {
        st = complete(conf);
    }
    ps_checkpoint_step_name(name, conf->facts.step);
    if (!ps_is_ok(&st)) {
        ps_checkpoint_discard(conf->gathered);
        return st;
    }
    st = give_name(conf, name, aside);
    if (ps_is_ok(&st)) {
        /* parents were read back when they were stored */
        st =
            ps_checkpoint_read_with_parents(conf->job_folder, conf->facts.step, true, false, &back);
        ps_checkpoint_fini(&back);
    }
    if (ps_is_ok(&st)) {
        st = ps_checkpoint_set_latest(conf->job_folder, name);
    }
    if (!ps_is_ok(&st)) {
        take_back(conf, name, aside);
        return st;
    }
    if (aside[0] != '\0') {
        ps_checkpoint_discard(aside);
    }
    ps_checkpoint_retain(conf);
    return st;
}
