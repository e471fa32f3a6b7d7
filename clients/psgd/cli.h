/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what the subcommands of psgd share.
 *
 * A subcommand reads its options, starts a call and returns; the loop runs
 * until one of its callbacks ends the program with ps_cli_end. Results go to
 * stdout, everything else to stderr; with --format json stdout holds exactly
 * one JSON document, with jsonl one a line.
 *
 * Everything here belongs to the loop's thread.
 */
#ifndef PS_CLIENTS_PSGD_CLI_H
#define PS_CLIENTS_PSGD_CLI_H

#include "common/base/config.h"
#include "common/rpc/client.h"

#include "psgd/v1/coordinator.pb-c.h"

#include <jansson.h>

/* Exit codes, part of the contract with scripts. */
typedef enum ps_exit {
    PS_EXIT_OK = 0,
    PS_EXIT_SERVER = 1,     /* the job failed, or the server refused */
    PS_EXIT_CONNECTION = 2, /* the coordinator cannot be reached */
    PS_EXIT_TIMEOUT = 3,
    PS_EXIT_ARGUMENTS = 4,
    PS_EXIT_BUG = 5, /* ours */
    PS_EXIT_INTERRUPTED = 130
} ps_exit;

typedef enum ps_format { PS_FORMAT_TEXT, PS_FORMAT_JSON, PS_FORMAT_JSONL } ps_format;

/* Options of every subcommand. */
typedef struct ps_general {
    const char *coordinator;
    const char *format;
    int64_t timeout_us;
} ps_general;

typedef struct ps_cli {
    ps_general general;
    ps_format format;
    const ps_config *config; /* of the subcommand */
    const char *program;     /* as it was called, for hints: "build/bin/psgd" */
    bool is_default_coordinator;
    bool is_coordinator_named; /* by a flag or the environment */
    ps_loop *loop;
    ps_channel *channel;
    ps_exit code;
    bool ended;
    /* Called at the first Ctrl-C; it must lead to ps_cli_end. NULL: the program
     * ends at once, as it does at the second. */
    void (*on_interrupt)(void *arg);
    void *arg;
} ps_cli;

/* One subcommand. `options` is a zeroed struct of options_size bytes that the
 * table fills; what the subcommand needs while it runs may stand behind the
 * options in it. */
typedef struct ps_subcommand {
    ps_command command; /* without tables */
    const ps_option *options;
    size_t options_size;
    bool is_local; /* needs no coordinator: there is a loop, but no channel */
    /* (optional) Reads the arguments, before there is a connection. False: they
     * are wrong, and it has said so. */
    bool (*prepare)(ps_cli *cli, void *options);
    void (*start)(ps_cli *cli, void *options); /* starts the work */
    /* (optional) In place of start, when no coordinator was named and none answers. */
    void (*start_alone)(ps_cli *cli, void *options);
    void (*fini)(void *options); /* (optional) always, at the end */
} ps_subcommand;

/* Ends the program; once. No call may be running but the one whose last
 * callback this is. */
void ps_cli_end(ps_cli *cli, ps_exit code);

/* A unary call of CoordinatorService with the general timeout. */
void ps_cli_call(ps_cli *cli, const char *method, const ProtobufCMessage *request,
                 ps_reply_fn *on_reply, void *arg);

/* Writes a failure with its violations to stderr; the exit code for it. */
ps_exit ps_cli_error(const ps_error *error);
ps_exit ps_cli_status(const ps_status *st);

/* Writes the failure and ends the program. */
void ps_cli_fail(ps_cli *cli, const ps_error *error);

/* The one argument of those that take a JOB. */
const char *ps_cli_job(const ps_cli *cli);

/* One JSON document on stdout. */
void ps_cli_json(ps_cli *cli, const ProtobufCMessage *message);
void ps_cli_json_value(ps_cli *cli, const json_t *value);

/* "psgd" or "psgd --coordinator HOST:PORT", for commands to copy. */
const char *ps_cli_self(const ps_cli *cli, char *text, size_t cap);

#endif
