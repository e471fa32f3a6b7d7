/* SPDX-License-Identifier: Apache-2.0 */
/* wire_server_push.c - see wire_server.h: receives contributions, sends acknowledgements. */
#include "common/wire/wire_server_impl.h"

#include "common/base/log.h"
#include "common/codec/codec.h"
#include "common/trace/trace.h"
#include "common/train/gate.h"
#include "common/wire/coder.h"
#include "common/wire/matrix.h"

_Static_assert((int)PS_MATRIX_BYTES_MAX <= (int)PS_PAYLOAD_MAX, "it is one encoding of a message");

/* A contribution and the worker that sends it. */
typedef struct contribution {
    wire_worker *w;
    uint32_t contributor;
    uint64_t clock;
    bool are_finite; /* the values of the slice in hand were checked and are finite */
} contribution;

/* Notes, after a part has got a slice, whether pulls may go on now (has_news) and whether the part
 * has the whole contribution (may_be_in). `steps` is the number of steps that the part had made
 * before. Under a deterministic policy pulls can go on only after a step; under other policies
 * after any contribution. */
static void note(const contribution *c, const ps_wire_part *part, uint64_t steps)
{
    wire_worker *w = c->w;

    w->has_news |= !w->server->plan->policy->is_deterministic ||
                   ps_store_counters_of(part->store)->steps != steps;
    w->may_be_in = ps_store_is_in(part->store, c->clock, c->contributor);
}

static ps_status take_slice(void *arg, const Psgd__V1__Encoding *head, const uint8_t *bytes,
                            size_t len)
{
    const contribution *c = arg;
    ps_wire_part *part = ps_wire_part_of(c->w->server->parts, head->slice);
    ps_store_outcome outcome = PS_STORE_APPLIED;
    uint64_t steps;
    ps_status st;

    (void)ps_wire_server_enter(c->w, part);
    steps = ps_store_counters_of(part->store)->steps;
    st = (c->are_finite ? ps_store_push_finite : ps_store_push)(
        part->store, c->w->rank, c->clock, c->contributor, head, bytes, len, &outcome);
    note(c, part, steps);
    ps_wire_server_leave(c->w, part);
    c->w->is_poisoned |= outcome == PS_STORE_NOT_FINITE;
    return st;
}

/* Returns the bytes of the slice at offset `at` of the payload; NULL: it has none. Sets
 * c->are_finite if all values were found to be finite while they were copied. */
static const uint8_t *view_slice(contribution *c, const Psgd__V1__Encoding *head,
                                 const ps_incoming *payload, size_t at)
{
    uint8_t *scratch = c->w->scratch->bytes;

    c->are_finite = false;
    if (head->payload_bytes == 0) {
        return NULL;
    }
    return ps_encoding_is_plain(head)
               ? ps_incoming_view_floats(payload, at, head->payload_bytes, scratch, &c->are_finite)
               : ps_incoming_view(payload, at, head->payload_bytes, scratch);
}

/* Lets a script's codec decode the slices of the message together, from number i on, as many as it
 * can. Returns how many these are. Does not report an invalid slice, because that is found when the
 * slice is pushed. */
static size_t decode_ahead(wire_worker *w, const Psgd__V1__PushGradientRequest *req, size_t i,
                           const ps_incoming *payload, size_t at)
{
    int64_t began_ns = ps_trace_begin();
    size_t count =
        ps_coder_decode_ahead(&w->server->plan->layout, req->slices + i, req->n_slices - i, payload,
                              at, w->scratch->bytes, sizeof w->scratch->bytes);

    if (count > 0) {
        ps_trace_end(PS_TRACE_DECODE, began_ns, req->slices[i]->slice, NULL);
    }
    return count;
}

static ps_status take_slices(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                             const ps_incoming *payload, size_t *at)
{
    ps_wire_server *s = w->server;
    contribution c = {.w = w, .contributor = wire_server_contributor(w, req), .clock = req->clock};
    ps_status st = ps_ok();
    size_t ahead = 0;

    for (size_t i = 0; i < req->n_slices && ps_is_ok(&st); i++) {
        const Psgd__V1__Encoding *head = req->slices[i];

        if (head->payload_bytes > payload->len - *at ||
            head->payload_bytes > sizeof w->scratch->bytes) {
            st = ps_fail(PS_DATA_LOSS,
                         "slices[%zu].payload_bytes: %u, %zu bytes are left in the payload", i,
                         head->payload_bytes, payload->len - *at);
            break;
        }
        if (ahead == 0 && head->codec_case == PSGD__V1__ENCODING__CODEC_SCRIPT) {
            ahead = decode_ahead(w, req, i, payload, *at);
        }
        ahead -= ahead > 0;
        /* A slice number out of range is refused by the store. */
        st =
            ps_matrix_push(s->plan, s->placement, s->part, head, view_slice(&c, head, payload, *at),
                           head->payload_bytes, take_slice, &c);
        if (w->is_poisoned && head->slice < s->plan->layout.slice_count) {
            uint32_t v = s->plan->layout.slices[head->slice].variable;

            st = ps_wrap(st, "%s", s->plan->layout.variables[v].name);
        }
        *at += head->payload_bytes;
    }
    ps_codec_end_ahead();
    return st;
}

static ps_status take_zeros(wire_worker *w, const Psgd__V1__PushGradientRequest *req)
{
    const ps_wire_parts *parts = w->server->parts;
    ps_status st = ps_ok();

    for (uint32_t i = 0; i < parts->count && ps_is_ok(&st); i++) {
        (void)ps_wire_server_enter(w, &parts->part[i]);
        st = ps_store_push_zeros(parts->part[i].store, w->rank, req->clock,
                                 wire_server_contributor(w, req));
        ps_wire_server_leave(w, &parts->part[i]);
    }
    w->has_news = w->may_be_in = true;
    return st;
}

ps_refusal ps_wire_server_take_slices(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                                      const ps_incoming *payload, size_t *at)
{
    bool is_nothing = req->n_slices == 0 && req->rows == NULL && payload->len == 0;
    ps_status st = is_nothing ? take_zeros(w, req) : take_slices(w, req, payload, at);

    return ps_is_ok(&st) ? (ps_refusal){0} : ps_wire_server_refusal(st);
}

static ps_refusal take(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                       const ps_incoming *payload)
{
    const ps_plan *plan = w->server->plan;
    ps_refusal r = {0};
    size_t at = 0;

    if (plan->update->per_block && req->block >= plan->assignment->block_count) {
        return ps_wire_server_refusal(ps_fail(PS_PERMISSION_DENIED, "block: %u of %u", req->block,
                                              plan->assignment->block_count));
    }
    for (size_t i = 0; i < PS_PIECE_GROUPS && r.reason == NULL; i++) {
        r = ps_wire_server_groups[i].push(w, req, payload, &at);
    }
    if (r.reason == NULL && at != payload->len) {
        r = ps_wire_server_refusal(
            ps_fail(PS_DATA_LOSS, "payload: %zu bytes that belong to no slice", payload->len - at));
    }
    return r;
}

/* Returns whether to drop this acknowledgement, as a fault for tests: every drop_ack-th one is
 * dropped, but the acknowledgement of one contribution not twice. */
static bool is_dropped(wire_worker *w, uint64_t clock, uint32_t block)
{
    ps_wire_server *s = w->server;

    if (s->drop_ack == 0 || ++s->acks % s->drop_ack != 0 ||
        (w->has_dropped && w->dropped_clock == clock && w->dropped_block == block)) {
        return false;
    }
    w->has_dropped = true;
    w->dropped_clock = clock;
    w->dropped_block = block;
    return true;
}

static void acknowledge(wire_worker *w, uint64_t clock, uint32_t block)
{
    static const ps_refusal dropped = {"", {PS_UNAVAILABLE, "fault: acknowledgement dropped"}};
    Psgd__V1__PushGradientResponse ack = PSGD__V1__PUSH_GRADIENT_RESPONSE__INIT;
    ps_wire_server *s = w->server;

    if (is_dropped(w, clock, block)) {
        ps_log(PS_LOG_WARN, "wire", "fault: acknowledgement %llu dropped",
               (unsigned long long)s->acks);
        ps_wire_server_refuse(&w->push, &dropped);
        return;
    }
    w->has_acked = true;
    w->acked_clock = clock;
    w->acked_block = block;
    ack.clock = clock;
    ack.block = block;
    ps_link_send_and_read(w->push, &ack.base, NULL, 0);
}

/* With acks_late, sends the acknowledgements of contributions to clocks that the part has
 * completed. So a worker that has all acknowledgements of a clock knows that the part has begun the
 * next one. Without acks_late it learns that from the weights that it pulls. */
static void pay_acks(ps_wire_server *s)
{
    uint64_t clock = ps_store_clock(s->parts->part[0].store);

    for (uint32_t i = 0; i < s->worker_count; i++) {
        wire_worker *w = &s->workers[i];

        if (w->owes_ack && w->owed_clock < clock) {
            w->owes_ack = false;
            if (w->push != NULL) {
                acknowledge(w, w->owed_clock, w->owed_block);
            }
        }
    }
}

/* Returns whether all parts of this server have the contribution. If w->may_be_in is false, the
 * message that is being handled did not complete it, and the parts are not asked. */
static bool is_in(wire_worker *w, uint64_t clock, uint32_t contributor)
{
    const ps_wire_server *s = w->server;
    bool is = w->may_be_in;

    for (uint32_t i = 0; i < s->parts->count && is; i++) {
        ps_wire_part *part = &s->parts->part[i];

        ps_wire_part_lock(s->parts, part);
        is = ps_store_is_in(part->store, clock, contributor);
        ps_wire_part_unlock(s->parts, part);
    }
    return is;
}

/* Returns whether all blocks that the worker holds have been contributed to the clock. Always true
 * if contributors are workers. */
static bool is_all_in(wire_worker *w, uint64_t clock)
{
    const ps_plan *plan = w->server->plan;
    const ps_assignment *a = plan->assignment;
    bool is = true;

    for (uint32_t i = 0; plan->update->per_block && i < a->held_count[w->rank] && is; i++) {
        is = is_in(w, clock, a->held[w->rank][i]);
    }
    return is;
}

/* Begins to trace the wait for the contributions that the next step lacks, and notes which ranks
 * owe them. Does nothing after the last step, or if the job is not traced. */
static void begin_wait(ps_wire_server *s)
{
    const ps_store *store = s->parts->part[0].store;
    uint32_t ranks[64], count = 0;

    s->wait.step = ps_store_clock(store) + 1;
    s->wait.whom = 0;
    if (s->wait.step == 0 || s->wait.step > s->plan->total_clocks) {
        return;
    }
    ps_trace_enter(s->trace, s->wait.step);
    s->wait.began_ns = ps_trace_begin();
    ps_trace_enter(NULL, 0);
    if (s->wait.began_ns != 0) {
        count = ps_store_waits_for(store, ranks, 64);
    }
    for (uint32_t i = 0; i < count; i++) {
        s->wait.whom |= ps_trace_whom(i < 64 ? ranks[i] : 63);
    }
}

static void end_wait(ps_wire_server *s)
{
    ps_trace_enter(s->trace, s->wait.step);
    ps_trace_end_of(PS_TRACE_AWAIT, s->wait.began_ns, 0, s->wait.whom);
    s->wait.began_ns = 0;
}

static ps_refusal check_report(const wire_worker *w, const Psgd__V1__PushGradientRequest *req)
{
    const ps_wire_server *s = w->server;
    const ps_said said = {
        .bytes = req->report.data, .len = req->report.len, .is_partial = req->report_is_partial};
    ps_status st = ps_rank_reports_check(&s->reports, s->plan, w->rank, req->clock, &said);

    return ps_is_ok(&st) ? (ps_refusal){0} : (ps_refusal){.reason = "BAD_REPORT", .why = st};
}

/* Checks a message of a contribution, and pushes its slices and rows to the stores. When all parts
 * have the contribution, acknowledges it; with acks_late, the worker's last one to the clock only
 * when the clock is over. */
static void take_message(wire_worker *w, const Psgd__V1__PushGradientRequest *req,
                         const ps_incoming *payload)
{
    ps_wire_server *s = w->server;
    uint32_t contributor;
    bool may_complete;
    ps_refusal r;

    r = ps_identity_check_attempt(wire_server_held(s), req->attempt);
    if (!ps_wire_server_allows(&w->push, &r)) {
        return;
    }
    contributor = wire_server_contributor(w, req);
    may_complete = req->clock + 1 >= s->plan->total_clocks;
    w->may_be_in = w->is_poisoned = false;
    ps_wire_server_tick(s);
    if (req->clock >= s->cut_at) {
        ps_wire_server_cut(s);
    }
    r = check_report(w, req);
    if (r.reason == NULL) {
        r = take(w, req, payload);
    }
    if (r.reason == NULL && req->report.len > 0) {
        ps_rank_reports_take(&s->reports, w->rank, req->clock, req->report.data, req->report.len,
                             req->report_is_partial);
    }
    if (s->is_cut_due) {
        ps_wire_server_cut(s);
    }
    if (r.reason == NULL) {
        /* policies and schedules that the job brings along may have failed */
        r = ps_wire_server_check_code(s);
    }
    if (w->is_poisoned) {
        r.reason = PS_DIVERGED;
        r.why = ps_wrap(r.why, "rank %u, clock %llu", w->rank, (unsigned long long)req->clock);
        if (s->failed != NULL) {
            s->failed(s->failed_arg, &r.why);
        }
    }
    if (!ps_wire_server_allows(&w->push, &r)) {
        ps_wire_server_tell(w); /* slices of the message before the bad one were taken */
        return;
    }
    if (is_in(w, req->clock, contributor) &&
        !(w->has_acked && w->acked_clock == req->clock && w->acked_block == req->block)) {
        if (s->acks_late && is_all_in(w, req->clock)) {
            w->owes_ack = true;
            w->owed_clock = req->clock;
            w->owed_block = req->block;
            pay_acks(s);
        } else {
            acknowledge(w, req->clock, req->block);
        }
    } else {
        /* the contribution lacks something, or was acknowledged before */
        ps_link_read(w->push);
    }
    ps_wire_server_tell(w);
    if (may_complete || s->plan->policy->closes_at != NULL) {
        ps_wire_server_changed(s);
    }
}

static void on_message(void *arg, const ProtobufCMessage *message, const ps_incoming *payload)
{
    const Psgd__V1__PushGradientRequest *req = (const Psgd__V1__PushGradientRequest *)message;
    wire_worker *w = arg;
    ps_wire_server *s = w->server;

    if (req == NULL) { /* the worker has ended the stream */
        ps_wire_link *link = w->push;

        w->push = NULL;
        ps_link_finish(link);
    } else if (!ps_trace_is_on(s->trace)) {
        take_message(w, req, payload);
    } else {
        end_wait(s);
        ps_trace_enter(s->trace, req->clock + 1);
        take_message(w, req, payload);
        begin_wait(s);
    }
}

static void on_end(void *arg, const ps_error *error)
{
    (void)error;
    ((wire_worker *)arg)->push = NULL;
}

const ps_link_events ps_wire_server_push_events = {
    .on_message = on_message,
    .on_end = on_end,
};
