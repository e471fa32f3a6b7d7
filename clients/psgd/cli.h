/* SPDX-License-Identifier: Apache-2.0 */
/* cli.h - what the subcommands of psgd share.
 *
 * A subcommand reads its options, starts a call and returns. The loop runs until one of its
 * callbacks ends the program by ps_cli_end. Results go to stdout, everything else to stderr. With
 * --format json, stdout holds one JSON document, or none after a failure; with jsonl, one a line.
 *
 * Everything here is used on the loop's thread only.
 */
#ifndef PS_CLIENTS_PSGD_CLI_H
#define PS_CLIENTS_PSGD_CLI_H

#include "common/base/config.h"
#include "common/rpc/client.h"
#include "common/rpc/follow.h"
#include "common/rpc/tls.h"

#include "psgd/v1/coordinator.pb-c.h"

#include <jansson.h>

/* Exit codes; scripts rely on them. */
typedef enum ps_exit {
    PS_EXIT_OK = 0,
    PS_EXIT_SERVER = 1,     /* the job has failed, or the server has refused */
    PS_EXIT_CONNECTION = 2, /* the coordinator cannot be reached */
    PS_EXIT_TIMEOUT = 3,
    PS_EXIT_ARGUMENTS = 4,
    PS_EXIT_BUG = 5, /* a bug of psgd */
    PS_EXIT_INTERRUPTED = 130
} ps_exit;

typedef enum ps_format { PS_FORMAT_TEXT, PS_FORMAT_JSON, PS_FORMAT_JSONL } ps_format;

/* Options of every subcommand. */
typedef struct ps_general {
    const char *coordinator;
    const char *format, *tls_dir, *token_file;
    int64_t timeout_us;
} ps_general;

typedef struct ps_cli {
    ps_general general;
    ps_format format;
    const ps_config *config; /* settings of the subcommand */
    const char *program;     /* argv[0], for hints: "build/bin/psgd" */
    bool is_default_coordinator;
    bool is_coordinator_named; /* --coordinator was given, as a flag or by the environment */
    /* a flag was given: --coordinator; --tls-dir or --token-file */
    bool is_coordinator_flag, is_tls_flag;
    bool is_local; /* the subcommand needs no coordinator; ps_subcommand.prepare may change it */
    ps_tls *tls;   /* NULL: plaintext */
    ps_loop *loop;
    ps_follow *follow; /* NULL: the subcommand is local */
    ps_exit code;
    bool ended;
    /* (optional) Called at the first Ctrl-C; it must lead to ps_cli_end. If NULL, the first Ctrl-C
     * ends the program at once. The second Ctrl-C always does. */
    void (*on_interrupt)(void *arg);
    void *arg;
} ps_cli;

/* A subcommand. Its functions get a struct of options_size bytes, zeroed at first. The member
 * `options` is the table of flags, which says where in that struct each value is written. Behind
 * these the struct may have members that the subcommand uses while it runs. */
typedef struct ps_subcommand {
    ps_command command; /* its members for tables are not set */
    const ps_option *options;
    size_t options_size;
    bool is_local;  /* needs no coordinator: there is a loop but no channel */
    bool takes_job; /* takes the flags that describe a job, also by the names of older systems */
    /* bits of common/base/older.h: of which older systems it takes the names of flags, besides
     * PS_OLDER_JOB if takes_job */
    unsigned older;
    /* (optional) Checks the arguments before there is a connection. Returns false, after a message,
     * if they are wrong. */
    bool (*prepare)(ps_cli *cli, void *options);
    void (*start)(ps_cli *cli, void *options); /* starts the work */
    /* (optional) Called instead of `start` if no coordinator was named and none answers. */
    void (*start_alone)(ps_cli *cli, void *options);
    /* (optional) Does all of the work instead of `start`, without a loop; returns the exit code. */
    ps_exit (*run)(ps_cli *cli, void *options);
    /* (optional) called at the end, also if `prepare` has returned false */
    void (*fini)(void *options);
} ps_subcommand;

/* Ends the program with this exit code. Call it once. No RPC may be running, except one whose last
 * callback is the caller. */
void ps_cli_end(ps_cli *cli, ps_exit code);

/* Starts a unary call of CoordinatorService with the timeout of --timeout. As long as that allows,
 * a call that a coordinator refuses because it does not lead is repeated, and so is a call that
 * gets no answer if another coordinator is known, which may lead now. */
void ps_cli_call(ps_cli *cli, const char *method, const ProtobufCMessage *request,
                 ps_reply_fn *on_reply, void *arg);
/* Calls SubmitJob by ps_cli_call. For each file of code it waits PS_SCRIPT_TRIAL_US longer than
 * --timeout, because the coordinator tries the code first (common/script/script_check.h). */
void ps_cli_submit(ps_cli *cli, const Psgd__V1__SubmitJobRequest *request, ps_reply_fn *on_reply,
                   void *arg);

/* Microseconds between two calls while no coordinator leads. */
enum { PS_CLI_AGAIN_US = 150 * 1000 };

/* Returns a deep copy. Free it by protobuf_c_message_free_unpacked. */
ProtobufCMessage *ps_cli_copy(const ProtobufCMessage *message);

/* Returns how long, in microseconds, one try of a call may take, if the call has left_us of its
 * time left. That is left_us, but less if --coordinator names several, so that there is time to ask
 * another one. */
int64_t ps_cli_try_us(const ps_cli *cli, int64_t left_us);

/* Writes a failure with its violations to stderr and returns the exit code for it. */
ps_exit ps_cli_error(const ps_error *error);

/* Writes a failure to stderr and returns the exit code for it. */
ps_exit ps_cli_status(const ps_status *st);

/* Writes the failure and ends the program. */
void ps_cli_fail(ps_cli *cli, const ps_error *error);

/* Returns the first argument, for subcommands where it is JOB. */
const char *ps_cli_job(const ps_cli *cli);

/* Returns argument i. args_min of the subcommand must ensure that it exists. */
const char *ps_cli_argument(const ps_cli *cli, size_t i);

/* Writes a message to stdout as one JSON document. */
void ps_cli_json(ps_cli *cli, const ProtobufCMessage *message);

/* Writes a value to stdout as one JSON document. */
void ps_cli_json_value(ps_cli *cli, const json_t *value);

/* Writes the beginning of a command that a person may copy to `text`, and returns it: the program
 * and the options by which it reaches this coordinator, as "psgd --coordinator HOST:PORT". */
const char *ps_cli_self(const ps_cli *cli, char *text, size_t cap);

#endif
