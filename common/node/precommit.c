/* SPDX-License-Identifier: Apache-2.0 */
/* precommit.c - PreCommit at a node: packages in order. The settings, the data offer, each complete
 * data file and the seal are acknowledged.
 *
 * A message is read when the one before was handled and its acknowledgement, if any, was sent.
 * Tasks look up, store and load data sets. A set that was sent is loaded while weights arrive, and
 * the seal waits for the load. Tasks also load files of tables, each before the next message is
 * read. Any failure ends the stream and the attempt.
 */
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/node/packages.h"
#include "common/node/precommit_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_DEFAULT_MS = 60000, DEADLINE_MIN_MS = 100, DEADLINE_MAX_MS = 86400000 };
/* added to the deadline of PreCommit: the sum is the longest time from the seal to DoCommit */
static const int64_t commit_slack_us = 5000000;

static void next_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call);

/* --- the end --------------------------------------------------------------- */

static void destroy(ps_precommit *pc)
{
    assert(pc->node->precommit == pc);
    pc->node->precommit = NULL;
    ps_datasets_cancel(pc->request);
    ps_precommit_leave_data(pc);
    ps_data_files_free(&pc->files);
    ps_precommit_leave_tables(pc);
    ps_session_destroy(pc->session, pc->node->datasets);
    XXH3_freeState(pc->hash);
    free(pc);
}

void ps_precommit_give_up(ps_precommit *pc, const ps_error *error)
{
    ps_node *node = pc->node;
    ps_call *call = pc->call;

    ps_log(PS_LOG_WARN, "node", "PreCommit: %s: %s", error->reason, error->status.text);
    destroy(pc);
    ps_call_fail_error(call, error);
    ps_node_act(node, ps_agent_give_up(&node->agent), "PreCommit failed");
}

void ps_precommit_fail(ps_precommit *pc, ps_status st, const char *reason)
{
    ps_error error;

    ps_error_init(&error, st, ps_node_disk_is_full(pc->node, &st) ? PS_NODE_NO_ROOM : reason);
    ps_precommit_give_up(pc, &error);
}

void ps_precommit_copy(ps_precommit *pc, ps_payload *payload, size_t at, size_t n, void *to)
{
    const void *from = ps_payload_view(payload, at, n, to);

    if (from != to) {
        memcpy(to, from, n);
    }
    (void)XXH3_64bits_update(pc->hash, to, n);
}

static void gone(void *arg, ps_call *call)
{
    ps_precommit *pc = arg;
    ps_node *node = pc->node;

    (void)call;
    destroy(pc);
    ps_node_act(node, ps_agent_give_up(&node->agent), "the stream of PreCommit broke");
}

void ps_precommit_abort(ps_precommit *precommit, const char *why)
{
    ps_error error;
    ps_call *call = precommit->call;

    ps_error_init(&error, ps_fail(PS_ABORTED, "%s", why), "ATTEMPT_OVER");
    destroy(precommit);
    ps_call_fail_error(call, &error);
}

/* --- acknowledgements ------------------------------------------------------- */

static void acknowledged(void *arg, ps_call *call)
{
    ps_precommit *pc = arg;

    if (pc->expected == PS_PACKAGE_NONE) {
        destroy(pc);
        ps_call_finish(call);
    } else {
        ps_call_read(call, next_message, pc);
    }
}

void ps_precommit_acknowledge(ps_precommit *pc, Psgd__V1__PackageKind package, bool need_data,
                              uint32_t file)
{
    Psgd__V1__PreCommitResponse reply = PSGD__V1__PRE_COMMIT_RESPONSE__INIT;

    reply.package = package;
    reply.need_data = need_data;
    reply.file = file;
    ps_call_send(pc->call, &reply.base, NULL, 0, acknowledged, pc);
}

void ps_precommit_read(ps_precommit *pc)
{
    ps_call_read(pc->call, next_message, pc);
}

/* --- the seal -------------------------------------------------------------- */

void ps_precommit_seal(ps_precommit *pc)
{
    int64_t wait_us = (int64_t)pc->deadline_ms * 1000 + commit_slack_us;
    ps_status st = ps_node_take_session(pc->node, pc->session, wait_us);

    if (!ps_is_ok(&st)) {
        ps_precommit_fail(pc, ps_wrap(st, "prepare"), "CANNOT_PREPARE");
        return;
    }
    pc->session = NULL;
    pc->expected = PS_PACKAGE_NONE;
    ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_SEAL, false, 0);
}

static void take_seal(ps_precommit *pc, const Psgd__V1__SealPackage *package)
{
    uint64_t hash = XXH3_64bits_digest(pc->hash);
    ps_status st;

    if (pc->slices_in != ps_precommit_slice_count(pc)) {
        ps_precommit_fail(pc,
                          ps_fail(PS_FAILED_PRECONDITION,
                                  "sealed with %u of %u slices of the weights", pc->slices_in,
                                  ps_precommit_slice_count(pc)),
                          "INCOMPLETE");
        return;
    }
    if (hash != package->weights_hash) {
        ps_precommit_fail(pc,
                          ps_fail(PS_DATA_LOSS,
                                  "what was sent has hash %016" PRIx64 ", %016" PRIx64
                                  " was sealed",
                                  hash, package->weights_hash),
                          "WEIGHTS_MISMATCH");
        return;
    }
    /* If all variables are sparse tables, no slice came, and session->weights is still NULL. */
    if (!ps_precommit_make_room(pc)) {
        return;
    }
    st = ps_precommit_end_tables(pc);
    if (!ps_is_ok(&st)) {
        ps_precommit_fail(pc, st, "BAD_TABLES");
        return;
    }
    st = ps_precommit_end_states(pc);
    if (!ps_is_ok(&st)) {
        ps_precommit_fail(pc, st, "BAD_CHECKPOINT");
        return;
    }
    if (pc->request != NULL) {
        pc->is_sealed = true; /* data_arrived goes on with the seal when the data set is loaded */
        return;
    }
    ps_precommit_seal(pc);
}

/* --- packages in order ------------------------------------------------------- */

static void take_settings(ps_precommit *pc, const Psgd__V1__SettingsPackage *package)
{
    ps_error error;

    if (!ps_package_settings(package, pc->node->hooks->role, pc->session, &error)) {
        ps_precommit_give_up(pc, &error);
        return;
    }
    pc->expected = PS_PACKAGE_DATA;
    ps_precommit_acknowledge(pc, PSGD__V1__PACKAGE_KIND__PACKAGE_KIND_SETTINGS, false, 0);
}

static void take(ps_precommit *pc, const Psgd__V1__PreCommitRequest *request, ps_payload *payload)
{
    ps_package_step package = ps_package_of(request);

    if (strcmp(request->job_id, pc->job_id) != 0 || request->attempt != pc->attempt) {
        ps_precommit_fail(pc,
                          ps_fail(PS_INVALID_ARGUMENT, "a package of attempt %u of job %s",
                                  request->attempt, PS_SHORT(request->job_id, 60)),
                          "WRONG_ATTEMPT");
        return;
    }
    if (!ps_package_may_come(pc->expected, package, ps_precommit_is_worker(pc)) ||
        (package == PS_PACKAGE_TABLES && !ps_precommit_wants_tables(pc)) ||
        (package == PS_PACKAGE_STATE && !ps_precommit_wants_states(pc))) {
        ps_precommit_fail(pc,
                          ps_fail(PS_INVALID_ARGUMENT, "package %d out of order: %s expected",
                                  (int)request->package_case, ps_package_name(pc->expected)),
                          "OUT_OF_ORDER");
        return;
    }
    pc->expected = package;
    switch (package) {
    case PS_PACKAGE_SETTINGS:
        take_settings(pc, request->settings);
        break;
    case PS_PACKAGE_DATA:
        ps_precommit_take_offer(pc, request->data);
        break;
    case PS_PACKAGE_FILES:
        ps_precommit_take_data(pc, request->data_chunk, payload);
        break;
    case PS_PACKAGE_WEIGHTS:
        ps_precommit_take_weights(pc, request->weights, payload);
        break;
    case PS_PACKAGE_TABLES:
        ps_precommit_take_table(pc, request->table, payload);
        break;
    case PS_PACKAGE_STATE:
        ps_precommit_take_state(pc, request->state, payload);
        break;
    case PS_PACKAGE_SEAL:
        take_seal(pc, request->seal);
        break;
    case PS_PACKAGE_NONE:
        assert(false && "it may not come");
    }
}

static void next_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call)
{
    (void)call;
    if (message == NULL) {
        ps_precommit *pc = arg;

        ps_precommit_fail(pc,
                          ps_fail(PS_FAILED_PRECONDITION,
                                  "the stream ended before the seal: %s expected",
                                  ps_package_name(pc->expected)),
                          "INCOMPLETE");
        return;
    }
    take(arg, (const Psgd__V1__PreCommitRequest *)message, payload);
}

static uint32_t deadline_of(const Psgd__V1__SettingsPackage *settings)
{
    uint32_t ms = settings->deadline_ms;

    if (ms == 0) {
        return DEADLINE_DEFAULT_MS;
    }
    return ms < DEADLINE_MIN_MS ? DEADLINE_MIN_MS : ms > DEADLINE_MAX_MS ? DEADLINE_MAX_MS : ms;
}

void ps_precommit_handle(void *service, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call)
{
    const Psgd__V1__PreCommitRequest *request = (const Psgd__V1__PreCommitRequest *)message;
    ps_node *node = service;
    ps_precommit *pc;
    ps_error error;
    ps_status st;

    if (!ps_job_id_is_good(request->job_id) ||
        request->package_case != PSGD__V1__PRE_COMMIT_REQUEST__PACKAGE_SETTINGS) {
        ps_error_init(&error, ps_fail(PS_INVALID_ARGUMENT, "PreCommit begins with the settings"),
                      "OUT_OF_ORDER");
        ps_call_fail_error(call, &error);
        return;
    }
    st = node->beginning != NULL
             ? ps_fail(PS_FAILED_PRECONDITION, "CanCommit of this attempt is not answered yet")
             : ps_agent_prepare(&node->agent, request->job_id, request->attempt, ps_clock_us(),
                                (int64_t)deadline_of(request->settings) * 1000);
    if (!ps_is_ok(&st)) {
        ps_node_fence_error(node, request->job_id, request->attempt, st, &error);
        ps_call_fail_error(call, &error);
        return;
    }
    pc = ps_xcalloc(1, sizeof *pc);
    pc->node = node;
    pc->call = call;
    pc->attempt = request->attempt;
    pc->deadline_ms = deadline_of(request->settings);
    memcpy(pc->job_id, request->job_id, strlen(request->job_id) + 1);
    pc->session = ps_xcalloc(1, sizeof *pc->session);
    pc->session->attempt = request->attempt;
    memcpy(pc->session->job_id, pc->job_id, sizeof pc->job_id);
    pc->hash = XXH3_createState();
    assert(pc->hash != NULL);
    (void)XXH3_64bits_reset(pc->hash);
    node->precommit = pc;
    ps_call_on_gone(call, gone, pc);
    ps_node_changed(node);
    take(pc, request, payload);
}
