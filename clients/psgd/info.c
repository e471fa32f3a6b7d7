/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - psgd info [KIND]: shows the coordinator and its plugins; without a coordinator, those of
 * psgd itself. */
#include "clients/psgd/job_fields.h"
#include "clients/psgd/show.h"
#include "clients/psgd/text_table.h"

#include "common/base/nearest.h"
#include "common/job/catalogue.h"
#include "common/rpc/pbjson.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { KINDS_MAX = 32 };

/* Writes a number of a plugin with default, bounds and help, as "lr = 0.001  [0 .. 10]  learning
 * rate". */
static void describe(const Psgd__V1__PluginParam *p, char *text, size_t cap)
{
    snprintf(text, cap, "%s = %.15g  [%.15g .. %.15g]%s  %s", p->name, p->default_value, p->min,
             p->max, p->integer ? " whole" : "", p->help);
}

static bool is_same(const Psgd__V1__PluginParam *a, const Psgd__V1__PluginParam *b)
{
    return strcmp(a->name, b->name) == 0 && a->default_value == b->default_value &&
           a->min == b->min && a->max == b->max && a->integer == b->integer &&
           strcmp(a->help, b->help) == 0;
}

static bool is_of(const Psgd__V1__Plugin *plugin, const char *kind)
{
    return kind == NULL || strcmp(plugin->kind, kind) == 0;
}

static size_t count_same(const Psgd__V1__Plugin *plugin, const Psgd__V1__PluginParam *p)
{
    size_t n = 0;

    for (size_t k = 0; k < plugin->n_params; k++) {
        n += is_same(plugin->params[k], p);
    }
    return n;
}

/* Returns whether the kind has three or more plugins, all of them have a number with p's name, and
 * for more than half of them it equals p. Such a number is shown once for the kind. */
static bool is_usual(const Psgd__V1__GetServerInfoResponse *info, const char *kind,
                     const Psgd__V1__PluginParam *p)
{
    size_t plugins = 0, named = 0, same = 0;

    for (size_t i = 0; i < info->n_plugins; i++) {
        const Psgd__V1__Plugin *plugin = info->plugins[i];

        if (!is_of(plugin, kind)) {
            continue;
        }
        plugins++;
        same += count_same(plugin, p);
        for (size_t k = 0; k < plugin->n_params; k++) {
            named += strcmp(plugin->params[k]->name, p->name) == 0;
        }
    }
    return plugins > 2 && named == plugins && 2 * same > plugins;
}

/* Returns whether no plugin of the kind before `of` has a number that equals `p`. add_usual shows
 * the number only then, so once. */
static bool is_first(const Psgd__V1__GetServerInfoResponse *info, const Psgd__V1__Plugin *of,
                     const Psgd__V1__PluginParam *p)
{
    for (size_t i = 0; info->plugins[i] != of; i++) {
        if (is_of(info->plugins[i], of->kind) && count_same(info->plugins[i], p) > 0) {
            return false;
        }
    }
    return true;
}

static void add(ps_text_table *table, const char *kind, const char *name, const char *text)
{
    ps_text_table_add(table, kind);
    ps_text_table_add(table, name);
    ps_text_table_add(table, text);
}

/* Adds lines for a plugin's own numbers: those that is_usual refuses. */
static void add_own(ps_text_table *table, const Psgd__V1__GetServerInfoResponse *info,
                    const Psgd__V1__Plugin *plugin)
{
    char text[512];

    for (size_t k = 0; k < plugin->n_params; k++) {
        if (!is_usual(info, plugin->kind, plugin->params[k])) {
            describe(plugin->params[k], text, sizeof text);
            add(table, "", "", text);
        }
    }
}

/* Adds lines for the numbers that is_usual accepts, each once for the kind. */
static void add_usual(ps_text_table *table, const Psgd__V1__GetServerInfoResponse *info,
                      const char *kind)
{
    bool is_any = false;
    char text[512];

    for (size_t i = 0; i < info->n_plugins; i++) {
        const Psgd__V1__Plugin *plugin = info->plugins[i];

        for (size_t k = 0; is_of(plugin, kind) && k < plugin->n_params; k++) {
            if (!is_usual(info, kind, plugin->params[k]) ||
                !is_first(info, plugin, plugin->params[k])) {
                continue;
            }
            if (!is_any) {
                add(table, kind, "(each)", "these numbers too, unless listed above:");
                is_any = true;
            }
            describe(plugin->params[k], text, sizeof text);
            add(table, "", "", text);
        }
    }
}

static void show_plugins(const Psgd__V1__GetServerInfoResponse *info, const char *kind)
{
    ps_text_table table = {.n_columns = 3};

    add(&table, "KIND", "NAME", "DESCRIPTION, AND NUMBERS = DEFAULT [RANGE]");
    for (size_t i = 0; i < info->n_plugins; i++) {
        const Psgd__V1__Plugin *plugin = info->plugins[i];

        if (!is_of(plugin, kind)) {
            continue;
        }
        add(&table, plugin->kind, plugin->name, plugin->summary);
        add_own(&table, info, plugin);
        if (i + 1 == info->n_plugins || !is_of(info->plugins[i + 1], plugin->kind)) {
            add_usual(&table, info, plugin->kind);
        }
    }
    ps_text_table_print(&table);
    ps_text_table_fini(&table);
}

static void show_disk(const Psgd__V1__DiskInfo *disk)
{
    if (disk->free_bytes == UINT64_MAX) {
        return; /* all ones: the free space is unknown, so nothing is shown */
    }
    printf("disk        %" PRIu64 " MiB free", disk->free_bytes >> 20);
    if (disk->is_low) {
        printf("; %" PRIu64 " MiB are needed for new jobs (--min-free of the coordinator)",
               disk->needed_bytes >> 20);
    }
    putchar('\n');
}

static void show(ps_cli *cli, const Psgd__V1__GetServerInfoResponse *info, const char *kind)
{
    char text[PS_SHOW_BYTES];
    json_t *list;

    if (cli->format == PS_FORMAT_TEXT && kind == NULL) {
        printf("version     %s\n", info->version);
        printf("kernels     %s\n", info->kernels);
        /* there is no start time if psgd itself answers, without a coordinator */
        if (info->start_time != NULL) {
            printf("address     %s\n", info->address);
            printf("links       %s\n",
                   ps_show_enum(&psgd__v1__link_protection__descriptor, (int)info->links));
            printf("started     %s\n", ps_show_time(info->start_time, text));
            printf("max chunk   %u bytes\n", info->max_chunk_bytes);
        }
        if (info->disk != NULL) {
            show_disk(info->disk);
        }
        putchar('\n');
    }
    if (cli->format == PS_FORMAT_TEXT) {
        show_plugins(info, kind);
        return;
    }
    if (kind == NULL) {
        ps_cli_json(cli, &info->base);
        return;
    }
    list = json_array();
    for (size_t i = 0; i < info->n_plugins; i++) {
        if (strcmp(kind, info->plugins[i]->kind) == 0) {
            json_array_append_new(list, ps_pb_to_json(&info->plugins[i]->base, PS_PB_DEFAULTS));
        }
    }
    ps_cli_json_value(cli, list);
    json_decref(list);
}

/* Returns whether `word` names the kind, in singular or plural. */
static bool is_named(const char *kind, const char *word)
{
    size_t n = strlen(kind);

    return strncmp(word, kind, n) == 0 && (word[n] == '\0' || strcmp(word + n, "s") == 0);
}

/* Prints that `kind` is unknown, and which kinds there are. */
static void refuse(const Psgd__V1__GetServerInfoResponse *info, const char *kind)
{
    const char *kinds[KINDS_MAX] = {NULL}, *nearest;
    size_t n = 0;

    for (size_t i = 0; i < info->n_plugins && n < KINDS_MAX; i++) {
        if (n == 0 || strcmp(kinds[n - 1], info->plugins[i]->kind) != 0) {
            kinds[n++] = info->plugins[i]->kind;
        }
    }
    nearest = ps_nearest(kind, kinds, n);
    fprintf(stderr, "psgd: unknown kind '%s'", kind);
    if (nearest != NULL) {
        fprintf(stderr, "; did you mean '%s'?", nearest);
    }
    fputs("; there are", stderr);
    for (size_t i = 0; i < n; i++) {
        fprintf(stderr, "%s %s", i > 0 ? "," : "", kinds[i]);
    }
    fputs(", fields\n", stderr);
}

static void show_fields(ps_cli *cli)
{
    json_t *list;

    if (cli->format == PS_FORMAT_TEXT) {
        ps_job_fields_show();
        return;
    }
    list = ps_job_fields_json();
    ps_cli_json_value(cli, list);
    json_decref(list);
}

static ps_exit answer(ps_cli *cli, const Psgd__V1__GetServerInfoResponse *info)
{
    const char *kind = cli->config->n_args > 0 ? cli->config->args[0] : NULL;
    bool is_known = kind == NULL;

    if (kind != NULL && strcmp(kind, "fields") == 0) {
        show_fields(cli);
        return PS_EXIT_OK;
    }
    for (size_t i = 0; i < info->n_plugins && !is_known; i++) {
        is_known = is_named(info->plugins[i]->kind, kind);
        kind = is_known ? info->plugins[i]->kind : kind;
    }
    if (!is_known) {
        refuse(info, kind);
        return PS_EXIT_ARGUMENTS;
    }
    show(cli, info, kind);
    return PS_EXIT_OK;
}

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_cli *cli = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    ps_cli_end(cli, answer(cli, (const Psgd__V1__GetServerInfoResponse *)reply));
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__GetServerInfoRequest request = PSGD__V1__GET_SERVER_INFO_REQUEST__INIT;

    (void)options;
    ps_cli_call(cli, "GetServerInfo", &request.base, on_reply, cli);
}

static void start_alone(ps_cli *cli, void *options)
{
    Psgd__V1__GetServerInfoResponse *info = ps_catalogue_info();
    ps_exit code = answer(cli, info);

    (void)options;
    psgd__v1__get_server_info_response__free_unpacked(info, NULL);
    ps_cli_end(cli, code);
}

const ps_subcommand ps_subcommand_info = {
    .command = {.name = "psgd info",
                .summary = "Shows version and limits of the coordinator and every plugin with its "
                           "numbers: codecs, optimizers, layers, consistency policies, ... Without "
                           "a coordinator it shows what is built into psgd. KIND fields lists the "
                           "fields of a job.",
                .usage = "[options] [KIND]",
                .args_max = 1,
                .examples = "psgd info\npsgd info codecs\npsgd info fields"},
    .start = start,
    .start_alone = start_alone,
};
