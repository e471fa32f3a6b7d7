/* SPDX-License-Identifier: Apache-2.0 */
/* build_spec.c - see build_spec.h. Most flags have a line in the table `fields`, which says where
 * the flag's text is and which field of the job it sets. The others have functions of their own. */
#include "clients/psgd/build_spec.h"

#include "clients/psgd/code_files.h"
#include "clients/psgd/nodes_file.h"
#include "clients/psgd/old_names.h"

#include "common/base/document.h"
#include "common/base/files.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/job/numbers.h"
#include "common/job/plan.h"
#include "common/job/spec.h"
#include "common/rpc/pbjson.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct field {
    size_t offset; /* offset of the flag's text in ps_spec_flags */
    const char *flag;
    const char *path;
    const char *choice; /* path of the Choice whose plugin the flag names; NULL: it names none */
    /* Path of the field if workers step by optimizer.local. NULL: the flag is not one of the
     * learning rule (LEARNS); `path` is the field in any case. */
    const char *local;
    /* Refuse 0: on the wire it means the default, which is not what the user asked for. */
    bool zero_is_unset;
    uint64_t max; /* whole numbers 1 to max are allowed; 0: only the field's own bounds hold */
} field;

#define FLAG(member, text, field_path)                                                             \
    {                                                                                              \
        .offset = offsetof(ps_spec_flags, member), .flag = (text), .path = (field_path)            \
    }
#define COUNT(member, text, field_path)                                                            \
    {                                                                                              \
        .offset = offsetof(ps_spec_flags, member), .flag = (text), .path = (field_path),           \
        .zero_is_unset = true                                                                      \
    }
#define BOUNDED(member, text, field_path, most)                                                    \
    {                                                                                              \
        .offset = offsetof(ps_spec_flags, member), .flag = (text), .path = (field_path),           \
        .max = (most)                                                                              \
    }
#define NAME(member, text, choice_path)                                                            \
    {                                                                                              \
        .offset = offsetof(ps_spec_flags, member), .flag = (text), .path = choice_path ".name",    \
        .choice = choice_path                                                                      \
    }

/* A flag that sets the learning rule: the one of the workers if they step by themselves
 * (optimizer.local), else the one of the servers (optimizer.rule). */
#define LEARNS(member, text, tail, choice_path)                                                    \
    {                                                                                              \
        .offset = offsetof(ps_spec_flags, member), .flag = (text), .path = "optimizer.rule" tail,  \
        .choice = (choice_path), .local = "optimizer.local" tail                                   \
    }

static const field fields[] = {
    FLAG(title, "--title", "title"),
    FLAG(preset, "--preset", "preset"),
    /* 0 is allowed here; check_servers refuses it if the job's exchange has servers */
    FLAG(pservers, "--pservers", "pservers"),
    COUNT(worker_threads, "--worker-threads", "worker_threads"),
    COUNT(epochs, "--epochs", "epochs"),
    FLAG(max_steps, "--max-steps", "max_steps"),
    FLAG(max_seconds, "--max-seconds", "max_seconds"),
    FLAG(checkpoint_every, "--checkpoint-every", "checkpoint.every_steps"),
    FLAG(checkpoint_seconds, "--checkpoint-seconds", "checkpoint.every_seconds"),
    BOUNDED(checkpoint_keep, "--checkpoint-keep", "checkpoint.keep", PS_CHECKPOINTS_KEPT_MAX),
    BOUNDED(max_restarts, "--max-restarts", "recovery.max_restarts", PS_RESTARTS_MAX),
    FLAG(on_divergence, "--on-divergence", "recovery.on_divergence"),
    BOUNDED(max_rollbacks, "--max-rollbacks", "recovery.max_rollbacks", PS_ROLLBACKS_MAX),
    BOUNDED(replicas, "--replicas", "recovery.replicas", PS_REPLICAS_MAX),
    BOUNDED(replay_mib, "--replay-mib", "recovery.replay_mib", PS_REPLAY_MIB_MAX),
    BOUNDED(workers_min, "--workers-min", "workers_min", 256),
    BOUNDED(workers_max, "--workers-max", "workers_max", 256),
    COUNT(block_size, "--block-size", "block_size"),
    FLAG(seed, "--seed", "seed"),
    FLAG(model, "--model", "model.preset"),
    FLAG(widths, "--widths", "model.widths"),
    FLAG(activation, "--activation", "model.activation"),
    FLAG(data, "--data", "data.name"),
    FLAG(train_limit, "--train-limit", "data.train_limit"),
    FLAG(test_limit, "--test-limit", "data.test_limit"),
    NAME(assignment, "--assignment", "assignment"),
    FLAG(redundancy, "--redundancy", "assignment.params.redundancy"),
    LEARNS(optimizer, "--optimizer", ".name", "optimizer.rule"),
    LEARNS(lr, "--lr", ".params.lr", NULL),
    NAME(server_optimizer, "--server-optimizer", "optimizer.rule"),
    FLAG(server_lr, "--server-lr", "optimizer.rule.params.lr"),
    FLAG(optimizer_side, "--optimizer-side", "optimizer.side"),
    NAME(update, "--update", "update"),
    FLAG(local_steps, "--local-steps", "update.params.steps"),
    FLAG(compensation, "--compensation", "update.params.compensation"),
    NAME(exchange, "--exchange", "exchange"),
    NAME(consistency, "--consistency", "consistency"),
    FLAG(bound, "--bound", "consistency.params.bound"),
    NAME(codec, "--codec", "codec.up"),
    NAME(codec, "--codec", "codec.down"),
    NAME(codec_up, "--codec-up", "codec.up"),
    NAME(codec_down, "--codec-down", "codec.down"),
    COUNT(bandwidth, "--bandwidth", "network_bandwidth"),
};

/* Returns the message at `path` within `message`, or NULL if one on the way is not set. Every part
 * of the path names a message field. */
static ProtobufCMessage *at_path(ProtobufCMessage *message, const char *path)
{
    while (message != NULL && *path != '\0') {
        size_t n = strcspn(path, ".");
        char *name = ps_xstrndup(path, n);
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

        free(name);
        assert(f != NULL && f->type == PROTOBUF_C_TYPE_MESSAGE);
        memcpy(&message, (const char *)message + f->offset, sizeof message);
        path += n + (path[n] == '.');
    }
    return message;
}

/* Removes the numbers of the choice at `path` if `name`, which the flag gives, is not its plugin:
 * the numbers belong to that plugin. Those of an assignment with redundancy stay if the new
 * assignment has redundancy too. */
static void drop_numbers(Psgd__V1__JobSpec *spec, const char *path, const char *name)
{
    Psgd__V1__Choice *choice = (Psgd__V1__Choice *)at_path(&spec->base, path);

    if (choice == NULL || strcmp(choice->name, name) == 0) {
        return;
    }
    if (ps_numbers_have(&choice->base, "redundancy") && ps_assign_has_redundancy(name)) {
        return;
    }
    for (size_t i = 0; i < choice->n_params; i++) {
        protobuf_c_message_free_unpacked(&choice->params[i]->base, NULL);
    }
    free(choice->params);
    choice->params = NULL;
    choice->n_params = 0;
}

/* Sets the field at `path` from `text`. A failure is added to *error as one violation, by the name
 * of the flag. */
static void set(Psgd__V1__JobSpec *spec, const char *flag, const char *path, const char *text,
                ps_error *error)
{
    ps_error own;
    ps_status st;

    ps_error_init(&own, ps_ok(), NULL);
    st = ps_pb_set(&spec->base, path, text, &own);
    if (!ps_is_ok(&st)) {
        ps_error_violate(error, flag, "%s",
                         own.violation_count > 0 ? own.violations[0].text : st.text);
    }
}

static bool is_zero(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0")] == '\0';
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Returns whether the text is a whole number of 1 to max. */
static bool is_within(const char *text, uint64_t max)
{
    return is_number(text) && strlen(text) <= 18 && !is_zero(text) &&
           strtoull(text, NULL, 10) <= max;
}

/* Sets the fields of the given flags in `fields`: with `that_learn` those of the learning rule
 * (LEARNS), else all others. `is_local`, which needs that_learn: the workers step by
 * optimizer.local, so its fields are set. */
static void set_fields(Psgd__V1__JobSpec *spec, const ps_spec_flags *flags, bool that_learn,
                       bool is_local, ps_error *error)
{
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const field *f = &fields[i];
        const char *text;

        memcpy(&text, (const char *)flags + f->offset, sizeof text);
        if (text == NULL || that_learn != (f->local != NULL)) {
            continue;
        }
        if (f->zero_is_unset && is_zero(text)) {
            ps_error_violate(error, f->flag, "is '%s'; allowed: a whole number from 1 on",
                             PS_SHORT(text, 40));
            continue;
        }
        if (f->max > 0 && !is_within(text, f->max)) {
            ps_error_violate(error, f->flag, "is '%s'; allowed: a whole number from 1 to %" PRIu64,
                             PS_SHORT(text, 40), f->max);
            continue;
        }
        text = ps_old_value(f->flag, text, i == 0 || f->offset != f[-1].offset);
        if (f->choice != NULL) {
            drop_numbers(spec, is_local ? "optimizer.local" : f->choice, text);
        }
        set(spec, f->flag, is_local ? f->local : f->path, text, error);
    }
}

/* Sets the metrics of --metric, which replace those of the file. */
static void set_metrics(Psgd__V1__JobSpec *spec, const ps_spec_flags *flags, ps_error *error)
{
    if (flags->metrics.n > 0) {
        set(spec, "--metric", "metrics", "[]", error);
    }
    for (size_t i = 0; i < flags->metrics.n; i++) {
        char path[48];

        snprintf(path, sizeof path, "metrics[%zu].name", i);
        set(spec, "--metric", path, flags->metrics.items[i], error);
    }
}

/* Sets the goal of --stop-at: METRIC=VALUE, or the value alone. */
static void set_goal(Psgd__V1__JobSpec *spec, const char *text, ps_error *error)
{
    const char *equals, *value;
    char *metric;

    if (text == NULL) {
        return;
    }
    equals = strchr(text, '=');
    value = equals != NULL ? equals + 1 : text;
    if (value[0] == '\0' || equals == text) {
        ps_error_violate(error, "--stop-at", "is '%s'; allowed: METRIC=VALUE, as accuracy=0.95",
                         PS_SHORT(text, 40));
        return;
    }
    set(spec, "--stop-at", "stop_at.value", value, error);
    if (equals != NULL) {
        metric = ps_xstrndup(text, (size_t)(equals - text));
        set(spec, "--stop-at", "stop_at.metric", metric, error);
        free(metric);
    }
}

/* Sets what happens after the loss of a worker and of a server, from the text of --recovery. */
static void set_recovery(Psgd__V1__JobSpec *spec, const char *text, ps_error *error)
{
    if (text == NULL) {
        return;
    }
    if (strcmp(text, "restart") != 0 && strcmp(text, "repeat") != 0 && strcmp(text, "fail") != 0) {
        ps_error_violate(error, "--recovery", "is '%s'; allowed: restart, repeat or fail",
                         PS_SHORT(text, 40));
        return;
    }
    set(spec, "--recovery", "recovery.on_worker_loss", text, error);
    set(spec, "--recovery", "recovery.on_server_loss", text, error);
}

static void set_paths(Psgd__V1__JobSpec *spec, const ps_option_list *sets, ps_error *error)
{
    for (size_t i = 0; i < sets->n; i++) {
        const char *item = sets->items[i], *equals = strchr(item, '=');
        char *path;

        if (equals == NULL || equals == item) {
            ps_error_violate(error, "--set", "is '%s'; allowed: PATH=VALUE", PS_SHORT(item, 60));
            continue;
        }
        path = ps_xstrndup(item, (size_t)(equals - item));
        set(spec, item, path, equals + 1, error);
        free(path);
    }
}

/* Refuses --pservers 0 if the job's workers exchange through servers: on the wire 0 would mean the
 * default number. */
static void check_servers(const Psgd__V1__JobSpec *spec, const ps_spec_flags *flags,
                          ps_error *error)
{
    if (flags->pservers != NULL && is_zero(flags->pservers) && ps_spec_has_servers(spec)) {
        ps_error_violate(error, "--pservers",
                         "is '%s', and the workers of this job exchange through servers: 1 or more "
                         "are needed, or an exchange among workers, as --exchange ring (psgd info "
                         "exchange)",
                         "0");
    }
}

/* Sets the fields of all flags but --workers and --node-count. Which rule --lr and --optimizer mean
 * depends on the job's update, which --set may name; so these two are applied after the other
 * flags, and --set to a copy for the question. The fields of --set are set last of all. */
static void set_flags(Psgd__V1__JobSpec *spec, const ps_spec_flags *flags, ps_error *error)
{
    Psgd__V1__JobSpec *whole;
    ps_error unused;

    set_fields(spec, flags, false, false, error);
    set_metrics(spec, flags, error);
    set_goal(spec, flags->stop_at, error);
    set_recovery(spec, flags->recovery, error);
    if (flags->maximise) {
        set(spec, "--maximise", "optimizer.maximise", "true", error);
    }
    whole = ps_spec_copy(spec);
    ps_error_init(&unused, ps_ok(), NULL);
    set_paths(whole, &flags->set, &unused);
    set_fields(spec, flags, true, ps_spec_steps_locally(whole), error);
    check_servers(whole, flags, error);
    ps_spec_free(whole);
    set_paths(spec, &flags->set, error);
}

/* Reads a flag that says how many entries of a worker.json to take. Returns 0, which takes all, if
 * the flag was not given (`text` NULL), and 0 after a violation if it is wrong. */
static uint64_t count_of(const char *flag, const char *text, ps_error *error)
{
    if (text == NULL) {
        return 0;
    }
    if (!is_number(text) || strlen(text) > 9 || strtoul(text, NULL, 10) == 0) {
        ps_error_violate(error, flag, "is '%s'; allowed: a whole number from 1 on",
                         PS_SHORT(text, 40));
        return 0;
    }
    return strtoul(text, NULL, 10);
}

static void set_workers(Psgd__V1__JobSpec *spec, const ps_spec_flags *flags, ps_error *error)
{
    size_t before = error->violation_count;
    uint64_t workers, pservers;
    ps_status st;

    if (flags->workers == NULL || is_number(flags->workers)) {
        const char *names[] = {"--workers", "--node-count"};
        const char *texts[] = {flags->workers, flags->node_count};

        for (size_t i = 0; i < 2; i++) {
            if (texts[i] != NULL && is_zero(texts[i])) {
                ps_error_violate(error, names[i], "is '%s'; allowed: a whole number from 1 on",
                                 PS_SHORT(texts[i], 40));
            } else if (texts[i] != NULL) {
                set(spec, names[i], "workers", texts[i], error);
            }
        }
        return;
    }
    workers = count_of("--node-count", flags->node_count, error);
    pservers = flags->pservers != NULL && is_zero(flags->pservers)
                   ? 0
                   : count_of("--pservers", flags->pservers, error);
    if (error->violation_count > before) {
        return;
    }
    st = ps_nodes_take_file(flags->workers, workers, pservers, spec);
    if (!ps_is_ok(&st)) {
        ps_error_violate(error, "--workers", "%s", st.text);
    }
}

ps_status ps_spec_build_json(const json_t *json, const char *what, const ps_spec_flags *flags,
                             ps_error *error, Psgd__V1__JobSpec **out)
{
    ProtobufCMessage *message = NULL;
    Psgd__V1__JobSpec *spec;
    ps_status st = ps_ok();

    ps_error_init(error, ps_ok(), NULL);
    if (!json_is_object(json)) {
        st = ps_fail(PS_INVALID_ARGUMENT, "%s: a job is a mapping of fields, as title: mnist",
                     PS_SHORT(what, 80));
    } else {
        st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, json, "", error, &message);
    }
    if (!ps_is_ok(&st)) {
        error->status = error->violation_count > 0
                            ? ps_fail(PS_INVALID_ARGUMENT, "%s is no job", PS_SHORT(what, 80))
                            : st;
        return error->status;
    }
    spec = (Psgd__V1__JobSpec *)message;
    set_flags(spec, flags, error);
    set_workers(spec, flags, error);
    if (error->violation_count > 0) {
        psgd__v1__job_spec__free_unpacked(spec, NULL);
        error->status = ps_fail(PS_INVALID_ARGUMENT, "not a job");
        return error->status;
    }
    *out = spec;
    return ps_ok();
}

ps_status ps_spec_build(const char *path, const ps_spec_flags *flags, ps_error *error,
                        Psgd__V1__JobSpec **out)
{
    json_t *json = NULL;
    ps_status st = ps_ok();

    if (path != NULL) {
        st = ps_document_parse_file(path, &json);
    } else {
        json = json_object();
    }
    if (ps_is_ok(&st)) {
        st = ps_code_files_read(json, path != NULL ? path : "", &flags->code);
    }
    if (ps_is_ok(&st)) {
        st = ps_spec_build_json(json, path != NULL ? path : "", flags, error, out);
    } else {
        ps_error_init(error, st, NULL);
    }
    json_decref(json);
    return st;
}

static void locate(const char *text, size_t n, const char *file, ps_violation *v)
{
    static const char root[] = "spec.";
    bool is_below = strncmp(v->field, root, sizeof root - 1) == 0;
    size_t line = ps_document_line(text, n, v->field + (is_below ? sizeof root - 1 : 0));
    char found[sizeof v->field + 64];

    if (line > 0) {
        snprintf(found, sizeof found, "%s:%zu: %s", PS_SHORT(file, 40), line, v->field);
        ps_shorten(v->field, sizeof v->field, found);
    }
}

void ps_spec_locate(const char *path, ps_error *error)
{
    char *text = NULL;
    size_t n = 0;
    ps_status st;

    if (path == NULL || strcmp(path, "-") == 0 || error->violation_count == 0) {
        return;
    }
    st = ps_file_read(path, PS_TREE_MAX_BYTES, &text, &n);
    for (size_t i = 0; ps_is_ok(&st) && i < error->violation_count; i++) {
        locate(text, n, PS_PATH_SHOWN(path), &error->violations[i]);
    }
    free(text);
}
