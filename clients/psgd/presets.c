/* SPDX-License-Identifier: Apache-2.0 */
/* presets.c - psgd presets: lists the presets. */
#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include "common/job/catalogue.h"
#include "common/rpc/pbjson.h"

static void show(ps_cli *cli, const Psgd__V1__ListPresetsResponse *answer)
{
    ps_text_table table = {.n_columns = 2};
    json_t *list = json_array();

    ps_text_table_add(&table, "PRESET");
    ps_text_table_add(&table, "SUMMARY");
    for (size_t i = 0; i < answer->n_presets; i++) {
        const Psgd__V1__Preset *preset = answer->presets[i];

        if (cli->format == PS_FORMAT_JSONL) {
            ps_cli_json(cli, &preset->base);
        }
        json_array_append_new(list, ps_pb_to_json(&preset->base, PS_PB_TERSE));
        ps_text_table_add(&table, preset->name);
        ps_text_table_add(&table, preset->summary);
    }
    if (cli->format == PS_FORMAT_JSON) {
        ps_cli_json_value(cli, list);
    } else if (cli->format == PS_FORMAT_TEXT) {
        ps_text_table_print(&table);
    }
    json_decref(list);
    ps_text_table_fini(&table);
}

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    ps_cli *cli = arg;

    if (!ps_is_ok(&error->status)) {
        ps_cli_fail(cli, error);
        return;
    }
    show(cli, (const Psgd__V1__ListPresetsResponse *)reply);
    ps_cli_end(cli, PS_EXIT_OK);
}

static void start(ps_cli *cli, void *options)
{
    Psgd__V1__ListPresetsRequest request = PSGD__V1__LIST_PRESETS_REQUEST__INIT;

    (void)options;
    ps_cli_call(cli, "ListPresets", &request.base, on_reply, cli);
}

static void start_alone(ps_cli *cli, void *options)
{
    Psgd__V1__ListPresetsResponse *list = ps_catalogue_presets();

    (void)options;
    show(cli, list);
    psgd__v1__list_presets_response__free_unpacked(list, NULL);
    ps_cli_end(cli, PS_EXIT_OK);
}

const ps_subcommand ps_subcommand_presets = {
    .command = {.name = "psgd presets",
                .summary = "Lists the presets: named sets of choices for 'psgd submit --preset'. "
                           "--format json adds the fields that each sets. Without a "
                           "coordinator it lists those that are built into psgd.",
                .examples = "psgd presets\npsgd submit --preset int8 --epochs 1 --watch"},
    .start = start,
    .start_alone = start_alone,
};
