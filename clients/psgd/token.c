/* SPDX-License-Identifier: Apache-2.0 */
/* token.c - psgd token ACTION: the file of tokens with which users call a coordinator without a
 * certificate. The command calls no coordinator: one that runs reads the file again. */
#include "clients/psgd/cli.h"
#include "clients/psgd/text_table.h"

#include "common/base/files.h"
#include "common/pki/certificate.h"
#include "common/pki/tokens.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct token_options {
    const char *tokens;
    int64_t valid_us;
} token_options;

static const double day_us = 86400e6;

static const ps_option options[] = {
    PS_OPTION_STRING(token_options, tokens, .name = "tokens", .env = "PSGD_TOKENS",
                     .value = "psgd-tokens", .metavar = "FILE",
                     .help = "the file, as psgd-coordinator --tokens has it"),
    PS_OPTION_DURATION(token_options, valid_us, .name = "valid", .value = "90d", .min = 1e6,
                       .max = 3650 * day_us, .help = "create: how long the token is valid"),
    PS_OPTION_END,
};

/* Returns a token as JSON: its id, its principal, until when it is valid, and whether it still is.
 * The token itself is not stored, so it is not there. */
static json_t *describe(const ps_token *t)
{
    char who[PS_PRINCIPAL_TEXT_BYTES], until[PS_PKI_TIME_BYTES];

    return json_pack("{s:s, s:s, s:s, s:b}", "id", t->id, "principal",
                     ps_principal_text(&t->who, who), "valid_until",
                     ps_pki_time(t->not_after, until), "valid", t->not_after > (int64_t)time(NULL));
}

static ps_status create(ps_cli *cli, const token_options *o)
{
    char token[PS_TOKEN_BYTES] = "", who[PS_PRINCIPAL_TEXT_BYTES], until[PS_PKI_TIME_BYTES];
    ps_token t;
    ps_principal principal;
    ps_status st = ps_principal_parse(ps_cli_argument(cli, 1), &principal);
    json_t *json;

    if (ps_is_ok(&st)) {
        st = ps_tokens_add(o->tokens, &principal, (int64_t)time(NULL) + o->valid_us / 1000000,
                           token, &t);
    }
    if (ps_is_ok(&st) && cli->format != PS_FORMAT_TEXT) {
        json = describe(&t);
        json_object_set_new(json, "token", json_string(token));
        ps_cli_json_value(cli, json);
        json_decref(json);
    } else if (ps_is_ok(&st)) {
        printf("principal    %s\nid           %s\nvalid until  %s\ntoken        %s\n",
               ps_principal_text(&t.who, who), t.id, ps_pki_time(t.not_after, until), token);
        puts("Nobody can show the token again; the file has its SHA-256 only.");
    }
    return st;
}

static ps_status list(ps_cli *cli, const token_options *o)
{
    static const char *const heads[] = {"ID", "PRINCIPAL", "STATE", "VALID UNTIL"};
    ps_text_table table = {.n_columns = sizeof heads / sizeof heads[0]};
    json_t *rows = json_array();
    ps_tokens tokens;
    ps_status st = ps_tokens_read(o->tokens, &tokens);

    for (size_t i = 0; i < table.n_columns; i++) {
        ps_text_table_add(&table, heads[i]);
    }
    for (size_t i = 0; i < tokens.count; i++) {
        json_t *row = describe(&tokens.items[i]);

        ps_text_table_add(&table, json_string_value(json_object_get(row, "id")));
        ps_text_table_add(&table, json_string_value(json_object_get(row, "principal")));
        ps_text_table_add(&table,
                          json_is_true(json_object_get(row, "valid")) ? "valid" : "expired");
        ps_text_table_add(&table, json_string_value(json_object_get(row, "valid_until")));
        json_array_append_new(rows, row);
    }
    if (ps_is_ok(&st) && cli->format != PS_FORMAT_TEXT) {
        ps_cli_json_value(cli, rows);
    } else if (ps_is_ok(&st)) {
        ps_text_table_print(&table);
    }
    ps_tokens_fini(&tokens);
    ps_text_table_fini(&table);
    json_decref(rows);
    return st;
}

static ps_status revoke(ps_cli *cli, const token_options *o)
{
    size_t count = 0;
    ps_status st = ps_tokens_remove(o->tokens, ps_cli_argument(cli, 1), &count);
    json_t *json;

    if (ps_is_ok(&st) && cli->format != PS_FORMAT_TEXT) {
        json = json_pack("{s:I}", "revoked", (json_int_t)count);
        ps_cli_json_value(cli, json);
        json_decref(json);
    } else if (ps_is_ok(&st)) {
        printf("revoked      %zu\n", count);
    }
    return st;
}

static const struct action {
    const char *name;
    size_t argument_count;
    const char *arguments; /* names of the arguments, for messages */
    ps_status (*run)(ps_cli *cli, const token_options *o);
} actions[] = {
    {"create", 1, " PRINCIPAL", create},
    {"list", 0, "", list},
    {"revoke", 1, " ID|PRINCIPAL", revoke},
};

static const struct action *find_action(const char *name)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(name, actions[i].name) == 0) {
            return &actions[i];
        }
    }
    return NULL;
}

static bool prepare(ps_cli *cli, void *arg)
{
    const struct action *a = find_action(ps_cli_argument(cli, 0));

    (void)arg;
    if (a == NULL) {
        fprintf(stderr, "psgd: unknown action '%s'; create, list and revoke are allowed\n",
                ps_cli_argument(cli, 0));
        return false;
    }
    if (cli->config->n_args != a->argument_count + 1) {
        fprintf(stderr, "psgd: 'psgd token %s%s' has %zu arguments; %zu were given\n", a->name,
                a->arguments, a->argument_count, cli->config->n_args - 1);
        return false;
    }
    return true;
}

static void start(ps_cli *cli, void *arg)
{
    ps_status st = find_action(ps_cli_argument(cli, 0))->run(cli, arg);

    ps_cli_end(cli, ps_is_ok(&st) ? PS_EXIT_OK : ps_cli_status(&st));
}

const ps_subcommand ps_subcommand_token = {
    .command = {.name = "psgd token",
                .summary = "Makes, lists and revokes the tokens with which users call a "
                           "coordinator without a certificate. PRINCIPAL is KIND/NAME, such as "
                           "submitter/sue; KIND is admin, submitter or observer.",
                .usage = "[options] ACTION [PRINCIPAL]",
                .args_min = 1,
                .args_max = 2,
                .examples =
                    "psgd token create submitter/sue --tokens /etc/psgd/tokens --valid 30d\n"
                    "psgd token list --tokens /etc/psgd/tokens\n"
                    "psgd token revoke submitter/sue --tokens /etc/psgd/tokens"},
    .options = options,
    .options_size = sizeof(token_options),
    .is_local = true,
    .prepare = prepare,
    .start = start,
};
