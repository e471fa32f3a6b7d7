/* SPDX-License-Identifier: Apache-2.0 */
/* bench_wire.c - goodput and latency of the data plane between real processes.
 *
 * A coordinator and a parameter server are started as they are installed; this
 * program is a worker node whose role is not to train but to measure: it pushes
 * and pulls through the worker's own exchange. Three jobs are run one after the
 * other:
 *
 *     asp, 16 MiB   a push until it is acknowledged (decoded and stepped), then
 *                   the pull of the weights that came of it, decoded
 *     bsp, 16 MiB   the same overlapped, as training does it: a slice of weights
 *                   comes back as soon as its step is done
 *     asp, small    latency of a push without slices
 *
 * Beside them, in the same rounds, a plain send/recv loop from one block of 16
 * MiB to another, and an echo of 16 bytes over bare TCP. All of this process is on one processor
 * and the server on another, as are the two ends of the bare connections. Printed are medians of
 * the rounds.
 *
 *     bench_wire [rounds [clocks a round [tls]]]
 *
 * With `tls` all links are mutual TLS; the bare connections stay as they are, and libssl alone
 * does the same beside them.
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/rpc/pbjson.h"
#include "common/rpc/process.h"
#include "common/rpc/tls.h"
#include "common/wire/wire_client.h"
#include "services/worker/rank.h"
#include "tests/bench/bare.h"
#include "tests/bench/services.h"
#include "tests/support/members.h"

#include "psgd/v1/parameter.pb-c.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROUNDS_MAX = 99,
    PINGS = 3000,
    WARM_CLOCKS = 5,
    BARE_BYTES = 1 << 20,  /* of a message of the plain loop, */
    BARE_BLOCK = 16 << 20, /* which come from and go to blocks of this size */
    STEP_MS = 10000,       /* for one clock */
    PATIENCE_S = 120       /* for all of it */
};

static const float gradient = 0x1p-8f, rate = 0x1p-10f; /* exact in float32 */

typedef enum bench_job { ASP, BSP, EMPTY, JOBS } bench_job;
enum { BARE, BARE_TLS, PUSH, PULL, CLOCK, RATES };

typedef struct world {
    ps_loop *loop;
    ps_node *node;
    bench_service coordinator, server;
    char folder[64];
    size_t rounds, clocks; /* clocks of a round */
    ps_channel *to_coordinator;
    ps_timer patience;
    ps_event node_down;

    bench_job job; /* in hand */
    const ps_session *session;
    bool releasing;

    /* the jobs with an exchange */
    ps_exchange *exchange;
    ps_buf *grad;
    pthread_t thread;
    uint64_t clock;
    bool failed; /* the thread's, until it has ended */
    ps_event measured, closed;

    /* the job with empty pushes */
    ps_channel *channel;
    ps_stream *stream;
    size_t round, pinged;
    unsigned waits_for; /* events until the next ping */
    int64_t begun_ns;
    double us[PINGS];

    char tls_dir[256]; /* "": links are plaintext */

    double rates[RATES][ROUNDS_MAX];                                  /* GB/s */
    double cpu_here[RATES][ROUNDS_MAX], cpu_there[RATES][ROUNDS_MAX]; /* us for each MiB */
    double bare_us[ROUNDS_MAX], empty_us[ROUNDS_MAX], bare_us99[ROUNDS_MAX], empty_us99[ROUNDS_MAX];
} world;

static void die(world *w, const char *what)
{
    fprintf(stderr, "bench_wire: %s; logs are in %s\n", what, w->folder);
    bench_service_kill(&w->server);
    bench_service_kill(&w->coordinator);
    exit(1);
}

static void must(world *w, ps_status st)
{
    if (!ps_is_ok(&st)) {
        die(w, st.text);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *v, size_t n, double q)
{
    qsort(v, n, sizeof *v, by_value);
    return v[(size_t)((double)(n - 1) * q + 0.5)];
}

/* --- goodput: a thread in the trainer's place --------------------------------- */

/* Microseconds gone by, and those of processors in this process and in the server. */
typedef struct cost {
    double wall, here, there;
} cost;

static double clock_of(clockid_t id)
{
    struct timespec t;

    return clock_gettime(id, &t) != 0 ? 0 : (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static cost now(const world *w)
{
    clockid_t there;
    cost c = {.wall = clock_of(CLOCK_MONOTONIC), .here = clock_of(CLOCK_PROCESS_CPUTIME_ID)};

    if (clock_getcpuclockid(w->server.pid, &there) == 0) {
        c.there = clock_of(there);
    }
    return c;
}

static void add(cost *sum, const cost *from, const cost *to)
{
    sum->wall += to->wall - from->wall;
    sum->here += to->here - from->here;
    sum->there += to->there - from->there;
}

/* One clock: until it is acknowledged, and from then until the weights are there. */
static bool run_clock(world *w, cost *push, cost *pull)
{
    uint32_t variables = w->session->plan->layout.variable_count;
    ps_gate *gate = ps_exchange_gate(w->exchange);
    cost begun = now(w), acked, done;

    if (!ps_exchange_begin(w->exchange, w->clock, 0, true)) {
        return false;
    }
    ps_exchange_ready(w->exchange, 0, variables);
    if (!ps_gate_wait_acks(gate)) {
        return false;
    }
    acked = now(w);
    if (!ps_gate_wait_weights(gate, 0, variables, ++w->clock)) {
        return false;
    }
    done = now(w);
    add(push, &begun, &acked);
    add(pull, &acked, &done);
    return true;
}

static void store(world *w, int row, size_t round, double bytes, const cost *sum)
{
    w->rates[row][round] = bytes * 1e-3 / sum->wall;
    w->cpu_here[row][round] = sum->here * (1 << 20) / bytes;
    w->cpu_there[row][round] = sum->there * (1 << 20) / bytes;
}

/* The plain loop, or that under TLS; its sender is this thread, "there" is its receiver. */
static void run_bare(world *w, int row, size_t round, size_t count)
{
    double sender = clock_of(CLOCK_THREAD_CPUTIME_ID);
    cost before = now(w), sum;

    sum.wall = (row == BARE ? ps_bare_stream(BARE_BLOCK, BARE_BYTES, count)
                            : ps_bare_tls_stream(w->tls_dir, BARE_BLOCK, BARE_BYTES, count)) *
               1e6;
    sum.here = clock_of(CLOCK_THREAD_CPUTIME_ID) - sender;
    sum.there = now(w).here - before.here - sum.here;
    store(w, row, round, (double)(count * BARE_BYTES), &sum);
}

static bool run_round(world *w, size_t round)
{
    double bytes = (double)(w->session->plan->layout.param_count * sizeof(float) * w->clocks);
    cost push = {0}, pull = {0}, zero = {0};

    if (w->job == ASP) {
        run_bare(w, BARE, round, (size_t)bytes / BARE_BYTES);
        if (w->tls_dir[0] != '\0') {
            run_bare(w, BARE_TLS, round, (size_t)bytes / BARE_BYTES);
        }
    }
    for (size_t i = 0; i < w->clocks; i++) {
        if (!run_clock(w, &push, &pull)) {
            return false;
        }
    }
    if (w->job == ASP) {
        store(w, PUSH, round, bytes, &push);
        store(w, PULL, round, bytes, &pull);
    } else {
        add(&pull, &zero, &push);
        store(w, CLOCK, round, 2 * bytes, &pull);
    }
    return true;
}

/* Every weight has made every step. */
static bool is_trained(const world *w, const float *first)
{
    size_t last = w->session->plan->layout.param_count - 1;
    float moved = (float)w->clock * gradient * rate;

    return fabsf(first[0] - moved - w->session->weights[0]) < 1e-5f &&
           fabsf(first[1] - moved - w->session->weights[last]) < 1e-5f;
}

static void *measure(void *arg)
{
    world *w = arg;
    size_t last = w->session->plan->layout.param_count - 1;
    float first[2] = {w->session->weights[0], w->session->weights[last]};
    cost ignored = {0};
    bool fine = true;

    for (size_t i = 0; fine && i < WARM_CLOCKS; i++) {
        fine = run_clock(w, &ignored, &ignored);
    }
    for (size_t r = 0; fine && r < w->rounds; r++) {
        fine = run_round(w, r);
    }
    if (fine && !is_trained(w, first)) {
        ps_status st = ps_fail(PS_INTERNAL, "weights are not what the pushes make of them");

        ps_gate_fail(ps_exchange_gate(w->exchange), &st);
        fine = false;
    }
    w->failed = !fine;
    ps_loop_post(w->loop, &w->measured);
    return NULL;
}

static void on_measured(ps_event *self, bool ok)
{
    world *w = PS_CONTAINER_OF(self, world, measured);

    (void)ok;
    pthread_join(w->thread, NULL);
    if (w->failed) {
        ps_status why = ps_gate_failure(ps_exchange_gate(w->exchange));

        die(w, why.text);
    }
    ps_wire_client_stop(w->exchange, &w->closed);
}

static void end_job(world *w);

static void on_closed(ps_event *self, bool ok)
{
    world *w = PS_CONTAINER_OF(self, world, closed);

    (void)ok;
    ps_wire_client_destroy(w->exchange);
    w->exchange = NULL;
    ps_buf_unref(w->grad);
    end_job(w);
}

static void start_exchange(world *w)
{
    size_t count = w->session->plan->layout.param_count;
    float *g;

    w->grad = ps_buf_create(count * sizeof(float));
    w->grad->len = count * sizeof(float);
    g = (float *)(void *)w->grad->data;
    for (size_t i = 0; i < count; i++) {
        g[i] = gradient;
    }
    w->clock = 0;
    w->exchange =
        ps_rank_connect(w->loop, w->session, ps_node_incarnation(w->node), w->grad, false);
    ps_wire_client_start(w->exchange);
    if (pthread_create(&w->thread, NULL, measure, w) != 0) {
        die(w, "no thread");
    }
}

/* --- latency: a push stream of our own ------------------------------------------ */

static void ping(void *arg)
{
    world *w = arg;
    Psgd__V1__PushGradientRequest req = PSGD__V1__PUSH_GRADIENT_REQUEST__INIT;
    Psgd__V1__WorkerIdentity identity = PSGD__V1__WORKER_IDENTITY__INIT;

    /* Twice a round trip: its message is out and its answer is in. */
    if (w->waits_for-- != 0) {
        return;
    }
    w->waits_for = 1;
    if (w->pinged == PINGS) {
        ps_stream_half_close(w->stream);
        return;
    }
    if (w->pinged == 0) {
        identity.job_id = (char *)w->session->job_id;
        identity.rank = w->session->rank;
        identity.incarnation = ps_node_incarnation(w->node);
        identity.layout_hash = w->session->plan->layout.hash;
        req.worker = &identity;
    }
    req.attempt = w->session->attempt;
    req.clock = w->clock++;
    w->begun_ns = ps_clock_ns();
    ps_stream_send(w->stream, &req.base, NULL, 0);
    ps_stream_read(w->stream);
}

static void ponged(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    world *w = arg;

    (void)payload;
    if (((const Psgd__V1__PushGradientResponse *)head)->clock + 1 != w->clock) {
        die(w, "an acknowledgement of another clock");
    }
    w->us[w->pinged++] = (double)(ps_clock_ns() - w->begun_ns) * 1e-3;
    ping(w);
}

static void start_pings(world *w);

static void pings_over(void *arg, const ps_error *error)
{
    world *w = arg;

    must(w, error->status);
    w->empty_us[w->round] = quantile(w->us, PINGS, 0.5);
    w->empty_us99[w->round] = quantile(w->us, PINGS, 0.99);
    if (++w->round < w->rounds) {
        start_pings(w);
    } else {
        ps_channel_destroy(w->channel);
        end_job(w);
    }
}

static const ps_stream_events ping_events = {ponged, ping, pings_over};

static void start_pings(world *w)
{
    ps_bare_echo(w->us, PINGS);
    w->bare_us[w->round] = quantile(w->us, PINGS, 0.5);
    w->bare_us99[w->round] = quantile(w->us, PINGS, 0.99);
    w->pinged = 0;
    w->waits_for = 0;
    w->stream = ps_stream_open(w->channel, &psgd__v1__parameter_service__descriptor, "PushGradient",
                               PS_NO_TIMEOUT, 0, &ping_events, w);
    ping(w);
}

/* --- the role ---------------------------------------------------------------------- */

static void submit(world *w);

static void end_job(world *w)
{
    ps_status fine = ps_ok();

    w->job++;
    ps_node_finished(w->node, &fine);
    if (w->job < JOBS) {
        submit(w);
        return;
    }
    ps_channel_destroy(w->to_coordinator);
    ps_loop_cancel(w->loop, &w->patience);
    ps_node_stop(w->node, 0, 0, &w->node_down);
}

static ps_status prepare(void *state, ps_session *session)
{
    ((world *)state)->session = session;
    return ps_ok();
}

static void run(void *state)
{
    world *w = state;

    if (w->job == EMPTY) {
        w->clock = 0;
        w->round = 0;
        w->channel = ps_channel_create(w->loop, w->session->placement.servers[0].address);
        ps_channel_expect(w->channel, PS_PRINCIPAL_NODE, "ps");
        start_pings(w);
    } else {
        start_exchange(w);
    }
}

static void release(void *state)
{
    world *w = state;

    if (w->exchange != NULL) {
        die(w, "the job was ended in the middle of a measurement");
    }
    w->session = NULL;
    ps_node_released(w->node);
}

static const ps_role_hooks hooks = {
    .role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER,
    .service = "bench_wire",
    .prepare = prepare,
    .run = run,
    .release = release,
};

/* --- jobs ------------------------------------------------------------------------------ */

static void submitted(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    (void)reply;
    must(arg, error->status);
}

/* 784 inputs, 10 classes: a hidden layer of h units makes 795 h + 10 parameters. */
static void submit(world *w)
{
    static const char *const titles[JOBS] = {"wire-asp", "wire-bsp", "wire-empty"};
    Psgd__V1__SubmitJobRequest req = PSGD__V1__SUBMIT_JOB_REQUEST__INIT;
    json_t *json = json_pack(
        "{s:s, s:{s:[i]}, s:{s:s, s:i, s:i}, s:i, s:{s:{s:s, s:{s:f}}}, s:{s:s}, s:{s:i, s:i}}",
        "title", titles[w->job], "model", "widths", w->job == EMPTY ? 8 : 5276, "data", "name",
        "glyphs", "train_limit", 1000, "test_limit", 100, "epochs", 100000, "optimizer", "rule",
        "name", "sgd", "params", "lr", (double)rate, "consistency", "name",
        w->job == BSP ? "bsp" : "asp", "timeouts", "step_ms", STEP_MS, "lease_ms",
        PATIENCE_S * 1000);
    ps_error error = {0};
    ProtobufCMessage *spec;

    must(w, ps_pb_from_json(&psgd__v1__job_spec__descriptor, json, "spec", &error, &spec));
    json_decref(json);
    req.spec = (Psgd__V1__JobSpec *)spec;
    ps_unary_start(w->to_coordinator, &psgd__v1__coordinator_service__descriptor, "SubmitJob",
                   &req.base, 10000000, submitted, w);
    protobuf_c_message_free_unpacked(spec, NULL);
}

static void out_of_patience(ps_event *self, bool ok)
{
    if (ok) {
        die(PS_CONTAINER_OF(self, world, patience.event), "it takes too long");
    }
}

static void on_node_down(ps_event *self, bool ok)
{
    (void)ok;
    ps_loop_stop(PS_CONTAINER_OF(self, world, node_down)->loop);
}

static void print_rate(world *w, const char *what, int row)
{
    double bare = quantile(w->rates[BARE], w->rounds, 0.5);
    double rate_of = quantile(w->rates[row], w->rounds, 0.5);

    printf("%-44s %7.2f GB/s  ratio %.2f  (processors: here %.0f, there %.0f us/MiB)\n", what,
           rate_of, rate_of / bare, quantile(w->cpu_here[row], w->rounds, 0.5),
           quantile(w->cpu_there[row], w->rounds, 0.5));
}

static void print_latency(world *w, const char *what, double *p50, double *p99)
{
    double bare = quantile(w->bare_us, w->rounds, 0.5), here = quantile(p50, w->rounds, 0.5);

    printf("%-44s %7.1f us    ratio %.2f  (p99 %.1f us)\n", what, here, here / bare,
           quantile(p99, w->rounds, 0.5));
}

static void print(world *w)
{
    print_rate(w, "plain send/recv, 16 MiB, 1 MiB a call", BARE);
    if (w->tls_dir[0] != '\0') {
        print_rate(w, "the same by libssl, without gRPC", BARE_TLS);
    }
    print_rate(w, "PushGradient, f32, 16 MiB, decoded, stepped", PUSH);
    print_rate(w, "PullWeights, f32, 16 MiB, encoded, decoded", PULL);
    print_rate(w, "both overlapped (bsp), both ways together", CLOCK);
    print_latency(w, "echo of 16 bytes, bare TCP", w->bare_us, w->bare_us99);
    print_latency(w, "push without slices, acknowledged", w->empty_us, w->empty_us99);
}

static void init(world *w, int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;

    w->rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    w->clocks = argc > 2 ? strtoul(argv[2], NULL, 10) : 20;
    w->measured.fire = on_measured;
    w->closed.fire = on_closed;
    w->node_down.fire = on_node_down;
    w->patience.event.fire = out_of_patience;
    snprintf(w->folder, sizeof w->folder, "/tmp/psgd-bench-XXXXXX");
    if (mkdtemp(w->folder) == NULL) {
        die(w, "no folder in /tmp");
    }
}

/* Starts coordinator and server. Under TLS this program is two members: a node, and the admin who
 * submits, whose channel is made first. */
static void start_services(world *w, bool is_tls)
{
    static const char *const principals[] = {"coordinator/bench", "node/ps", "admin/bench",
                                             "node/bench"};
    const char *flag = is_tls ? "--tls-dir" : NULL;
    char dirs[4][256];
    ps_tls *admin = NULL, *node = NULL;
    members m;

    if (is_tls) {
        members_create(&m, w->folder);
        for (size_t i = 0; i < 4; i++) {
            members_join(&m, principals[i], 3600, dirs[i]);
        }
    }
    ps_bare_place(1);
    bench_service_start(&w->coordinator, "psgd-coordinator", w->folder,
                        (const char *[]){flag, dirs[0], NULL});
    bench_service_start(
        &w->server, "psgd-pserver", w->folder,
        (const char *[]){"--coordinator", w->coordinator.address, flag, dirs[1], NULL});
    ps_bare_place(0);
    must(w, ps_loop_create(&w->loop));
    if (is_tls) {
        must(w, ps_tls_create(dirs[2], &admin));
        must(w, ps_tls_create(dirs[3], &node));
        ps_loop_use_tls(w->loop, admin);
    }
    w->to_coordinator = ps_channel_create(w->loop, w->coordinator.address);
    ps_channel_expect(w->to_coordinator, PS_PRINCIPAL_COORDINATOR, "");
    ps_loop_use_tls(w->loop, node);
    snprintf(w->tls_dir, sizeof w->tls_dir, "%s", is_tls ? dirs[3] : "");
}

int main(int argc, char **argv)
{
    static world w;
    char data[128];
    ps_node_conf conf = {.listen = "127.0.0.1:0", .data_dir = data, .node_id = "bench"};

    signal(SIGPIPE, SIG_IGN);
    ps_rpc_init_process();
    ps_log_init("bench_wire", PS_LOG_ERROR, PS_LOG_TEXT);
    init(&w, argc, argv);
    start_services(&w, argc > 3 && strcmp(argv[3], "tls") == 0);
    snprintf(data, sizeof data, "%s/bench", w.folder);
    conf.coordinator = w.coordinator.address;
    must(&w, ps_node_start(w.loop, &conf, &hooks, &w, NULL, 0, &w.node));
    ps_loop_after(w.loop, &w.patience, PATIENCE_S * INT64_C(1000000));
    submit(&w);
    ps_loop_run(w.loop);
    ps_loop_destroy(w.loop);
    bench_service_kill(&w.server); /* it would wait for a job that nobody ends */
    bench_service_kill(&w.coordinator);
    must(&w, ps_dir_remove(w.folder));
    print(&w);
    return 0;
}
