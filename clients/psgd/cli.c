/* SPDX-License-Identifier: Apache-2.0 */
/* cli.c - see cli.h. */
#include "clients/psgd/cli.h"

#include "clients/psgd/show_progress.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/printable.h"
#include "common/base/xalloc.h"
#include "common/rpc/pbjson.h"
#include "common/script/script_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    /* Least microseconds that one of several coordinators has to answer, if --timeout leaves it so
     * much. */
    TRY_US = 3000000,
    /* Microseconds for which a call is repeated before the user is told why. */
    QUIET_US = 3000000
};

void ps_cli_end(ps_cli *cli, ps_exit code)
{
    assert(!cli->ended);
    cli->ended = true;
    cli->code = code;
    ps_follow_destroy(cli->follow);
    ps_loop_stop(cli->loop);
}

int64_t ps_cli_try_us(const ps_cli *cli, int64_t left_us)
{
    int64_t third_us = cli->general.timeout_us / 3, try_us = third_us > TRY_US ? third_us : TRY_US;

    return ps_follow_has_others(cli->follow) && left_us > try_us ? try_us
           : left_us > 1                                         ? left_us
                                                                 : 1;
}

/* A call that is repeated, at one coordinator after the other, until the leader answers or end_us
 * is near. */
typedef struct asking {
    ps_cli *cli;
    ps_timer timer; /* runs between two calls */
    const char *method;
    ProtobufCMessage *request;
    int64_t begun_us, end_us; /* ps_clock_us of the first call, and at which no further may begin */
    ps_status refusal;        /* what a coordinator that does not lead said last; OK: nothing yet */
    ps_status silence;        /* error of the last coordinator that gave no answer; OK: none yet */
    bool has_told;            /* the user knows why it takes so long */
    ps_reply_fn *on_reply;
    void *arg;
} asking;

static void ask(asking *a);

static void on_again(ps_event *event, bool ok)
{
    asking *a = PS_CONTAINER_OF(event, asking, timer.event);

    if (ok) {
        ask(a);
    } else {
        protobuf_c_message_free_unpacked(a->request, NULL);
        free(a);
    }
}

/* Tells the user, once, why there is no answer yet. */
static void tell(asking *a, const char *why)
{
    int64_t left_us = a->end_us - ps_clock_us();

    if (!a->has_told && ps_clock_us() - a->begun_us >= QUIET_US) {
        a->has_told = true;
        fflush(stdout);
        fprintf(stderr, "psgd: %s; trying for %.0f s\n", why, (double)left_us / 1e6);
    }
}

/* Returns why a call that may be repeated has not succeeded so far: what a coordinator has said of
 * the leader, and which one cannot be reached. A try that ran out of time hides neither: the last
 * try has only as much time as is left. */
static ps_status why_of(asking *a, const ps_error *error)
{
    bool is_late = error->status.code == PS_DEADLINE_EXCEEDED;

    if (strcmp(error->reason, "NOT_LEADER") == 0) {
        a->refusal = error->status;
    } else if (!is_late || ps_is_ok(&a->silence)) {
        a->silence = error->status;
    }
    if (ps_is_ok(&a->refusal)) {
        return a->silence;
    }
    return ps_is_ok(&a->silence)
               ? a->refusal
               : ps_fail(a->refusal.code, "%s; %s", a->refusal.text, a->silence.text);
}

static void on_answer(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    asking *a = arg;
    ps_next next =
        ps_is_ok(&error->status) ? PS_NEXT_NONE : ps_follow_failed(a->cli->follow, error);
    int64_t pause_us = next == PS_NEXT_NOW ? 0 : PS_CLI_AGAIN_US;
    ps_error whole = *error;

    if (next != PS_NEXT_NONE) {
        whole.status = why_of(a, error);
        if (ps_clock_us() + pause_us < a->end_us) {
            tell(a, whole.status.text);
            ps_loop_after(a->cli->loop, &a->timer, pause_us);
            return;
        }
    }
    protobuf_c_message_free_unpacked(a->request, NULL);
    a->on_reply(a->arg, &whole, reply);
    free(a);
}

static void ask(asking *a)
{
    (void)ps_unary_start(ps_follow_channel(a->cli->follow),
                         &psgd__v1__coordinator_service__descriptor, a->method, a->request,
                         ps_cli_try_us(a->cli, a->end_us - ps_clock_us()), on_answer, a);
}

ProtobufCMessage *ps_cli_copy(const ProtobufCMessage *message)
{
    size_t n = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = ps_xmalloc(n + 1);
    ProtobufCMessage *copy;

    protobuf_c_message_pack(message, bytes);
    copy = protobuf_c_message_unpack(message->descriptor, NULL, n, bytes);
    assert(copy != NULL);
    free(bytes);
    return copy;
}

/* Gives a SubmitJobRequest a random request id if it has none, so that a submission that is sent
 * twice makes one job. Leaves other messages alone. */
static void name_submission(ProtobufCMessage *message)
{
    Psgd__V1__SubmitJobRequest *request = (Psgd__V1__SubmitJobRequest *)message;
    uint64_t bits[2];
    char id[40];

    if (message->descriptor != &psgd__v1__submit_job_request__descriptor ||
        request->request_id[0] != '\0' || getrandom(bits, sizeof bits, 0) != sizeof bits) {
        return;
    }
    snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
    request->request_id = ps_xstrdup(id);
}

void ps_cli_call(ps_cli *cli, const char *method, const ProtobufCMessage *request,
                 ps_reply_fn *on_reply, void *arg)
{
    asking *a = ps_xcalloc(1, sizeof *a);

    a->cli = cli;
    a->timer.event.fire = on_again;
    a->method = method;
    a->request = ps_cli_copy(request);
    if (ps_follow_has_others(cli->follow)) {
        name_submission(a->request);
    }
    a->begun_us = ps_clock_us();
    a->end_us = a->begun_us + cli->general.timeout_us;
    a->refusal = a->silence = ps_ok();
    a->on_reply = on_reply;
    a->arg = arg;
    ask(a);
}

void ps_cli_submit(ps_cli *cli, const Psgd__V1__SubmitJobRequest *request, ps_reply_fn *on_reply,
                   void *arg)
{
    cli->general.timeout_us += (int64_t)request->spec->n_code * PS_SCRIPT_TRIAL_US;
    ps_cli_call(cli, "SubmitJob", &request->base, on_reply, arg);
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
        ps_printable(text);
        fprintf(stderr, "psgd: %s\n", text);
    } else if (wrong > 1) {
        fprintf(stderr, "psgd: %zu fields are wrong\n", wrong);
    }
    for (size_t i = 0; i < error->violation_count; i++) {
        snprintf(text, sizeof text, "%s: %s", error->violations[i].field,
                 error->violations[i].text);
        ps_printable(text);
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

    if (cli->tls == NULL && strcmp(error->reason, "UNREACHABLE") == 0 &&
        !ps_follow_has_others(cli->follow)) {
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
    const char *token = cli->tls != NULL && cli->general.token_file ? cli->general.token_file : "";

    snprintf(text, cap, "%s%s%s%s%s%s%s", cli->program, tls_dir[0] != '\0' ? " --tls-dir " : "",
             tls_dir, token[0] != '\0' ? " --token-file " : "", token,
             cli->is_default_coordinator ? "" : " --coordinator ",
             cli->is_default_coordinator ? "" : cli->general.coordinator);
    return text;
}
