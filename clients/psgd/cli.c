/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c - see cli.h. */
#include "clients/psgd/cli.h"

#include "clients/psgd/show_progress.h"

#include "common/rpc/pbjson.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void ps_cli_end(ps_cli *cli, ps_exit code)
{
    assert(!cli->ended);
    cli->ended = true;
    cli->code = code;
    ps_channel_destroy(cli->channel);
    ps_loop_stop(cli->loop);
}

void ps_cli_call(ps_cli *cli, const char *method, const ProtobufCMessage *request,
                 ps_reply_fn *on_reply, void *arg)
{
    (void)ps_unary_start(cli->channel, &psgd__v1__coordinator_service__descriptor, method, request,
                         cli->general.timeout_us, on_reply, arg);
}

static ps_exit exit_of(ps_code code)
{
    switch (code) {
    case PS_OK:
    case PS_CANCELLED:
        return PS_EXIT_OK;
    case PS_UNAVAILABLE:
        return PS_EXIT_CONNECTION;
    case PS_DEADLINE_EXCEEDED:
        return PS_EXIT_TIMEOUT;
    case PS_INVALID_ARGUMENT:
        return PS_EXIT_ARGUMENTS;
    case PS_UNKNOWN:
    case PS_NOT_FOUND:
    case PS_ALREADY_EXISTS:
    case PS_PERMISSION_DENIED:
    case PS_RESOURCE_EXHAUSTED:
    case PS_FAILED_PRECONDITION:
    case PS_ABORTED:
    case PS_OUT_OF_RANGE:
    case PS_UNIMPLEMENTED:
    case PS_INTERNAL:
    case PS_DATA_LOSS:
    case PS_UNAUTHENTICATED:
        break;
    }
    return PS_EXIT_SERVER;
}

ps_exit ps_cli_error(const ps_error *error)
{
    char text[sizeof error->violations[0].field + sizeof error->violations[0].text + 8];
    size_t wrong = error->violation_count + error->violations_dropped;

    fflush(stdout);
    if (error->violation_count == 0) {
        snprintf(text, sizeof text, "%s", error->status.text);
        ps_show_plain(text);
        fprintf(stderr, "psgd: %s\n", text);
    } else if (wrong > 1) {
        fprintf(stderr, "psgd: %zu fields are wrong\n", wrong);
    }
    for (size_t i = 0; i < error->violation_count; i++) {
        snprintf(text, sizeof text, "%s: %s", error->violations[i].field,
                 error->violations[i].text);
        ps_show_plain(text);
        fprintf(stderr, "%s%s\n", wrong > 1 ? "  " : "psgd: ", text);
    }
    if (error->violations_dropped > 0) {
        fprintf(stderr, "  and %zu more\n", error->violations_dropped);
    }
    return exit_of(error->status.code);
}

ps_exit ps_cli_status(const ps_status *st)
{
    ps_error error;

    ps_error_init(&error, *st, NULL);
    return ps_cli_error(&error);
}

void ps_cli_fail(ps_cli *cli, const ps_error *error)
{
    ps_exit code = ps_cli_error(error);

    if (cli->tls == NULL && strcmp(error->reason, "UNREACHABLE") == 0) {
        fputs("It accepts connections. If it speaks TLS, say --tls-dir DIR.\n", stderr);
    }
    ps_cli_end(cli, code);
}

const char *ps_cli_job(const ps_cli *cli)
{
    return ps_cli_argument(cli, 0);
}

const char *ps_cli_argument(const ps_cli *cli, size_t i)
{
    assert(i < cli->config->n_args);
    return cli->config->args[i];
}

void ps_cli_json_value(ps_cli *cli, const json_t *value)
{
    size_t flags = JSON_REAL_PRECISION(15);

    flags |= cli->format == PS_FORMAT_JSONL ? JSON_COMPACT : JSON_INDENT(2);
    json_dumpf(value, stdout, flags);
    fputc('\n', stdout);
    fflush(stdout);
}

void ps_cli_json(ps_cli *cli, const ProtobufCMessage *message)
{
    json_t *json = ps_pb_to_json(message, PS_PB_DEFAULTS);

    ps_cli_json_value(cli, json);
    json_decref(json);
}

const char *ps_cli_self(const ps_cli *cli, char *text, size_t cap)
{
    const char *tls_dir = cli->tls != NULL ? cli->general.tls_dir : "";

    snprintf(text, cap, "%s%s%s%s%s", cli->program, tls_dir[0] != '\0' ? " --tls-dir " : "",
             tls_dir, cli->is_default_coordinator ? "" : " --coordinator ",
             cli->is_default_coordinator ? "" : cli->general.coordinator);
    return text;
}
