/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rpc.c - goodput and latency of common/rpc beside bare sockets.
 *
 * Client and server are one process and one loop each, over loopback: within one
 * process they would share gRPC's one epoll set and wake each other. Every round measures all rows,
 * so that a noisy machine is noisy for all of them; printed are medians of the rounds.
 *
 *     bench_rpc [rounds [part of a row's name]]
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/rpc/client.h"
#include "common/rpc/process.h"
#include "common/rpc/serve.h"
#include "tests/bench/bare.h"

#include "echo.pb-c.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROUNDS_MAX = 99,
    STREAM_BYTES = 512 << 20, /* a measurement of goodput moves so many */
    PINGS = 5000
};

typedef Psgd__Test__Block block;

/* --- server ------------------------------------------------------------------ */

typedef struct upload {
    uint64_t count, bytes;
} upload;

static void upload_gone(void *arg, ps_call *call)
{
    (void)call;
    free(arg);
}

static void upload_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                           ps_call *call)
{
    upload *u = arg;

    if (message == NULL) {
        Psgd__Test__Pong pong = PSGD__TEST__PONG__INIT;

        pong.number = u->count;
        pong.bytes = u->bytes;
        free(u);
        ps_call_reply(call, &pong.base);
        return;
    }
    u->count++;
    u->bytes += ps_payload_len(payload);
    ps_call_read(call, upload_message, u);
}

static void handle_upload(void *state, const ProtobufCMessage *message, ps_payload *payload,
                          ps_call *call)
{
    upload *u = calloc(1, sizeof *u);

    (void)state;
    ps_call_on_gone(call, upload_gone, u);
    upload_message(u, message, payload, call);
}

typedef struct download {
    ps_buf *buf;
    size_t size;
    uint64_t left;
} download;

static void download_gone(void *arg, ps_call *call)
{
    download *d = arg;

    (void)call;
    ps_buf_unref(d->buf);
    free(d);
}

static void download_next(void *arg, ps_call *call)
{
    download *d = arg;
    block b = PSGD__TEST__BLOCK__INIT;
    ps_piece piece = {d->buf->data, d->size, d->buf};

    if (d->left == 0) {
        ps_call_finish(call);
        download_gone(d, call);
        return;
    }
    b.number = d->left--;
    ps_call_send(call, &b.base, &piece, 1, download_next, d);
}

static void handle_download(void *state, const ProtobufCMessage *message, ps_payload *payload,
                            ps_call *call)
{
    const Psgd__Test__Ping *ping = (const Psgd__Test__Ping *)message;
    download *d = calloc(1, sizeof *d);

    (void)state;
    (void)payload;
    d->size = ping->size;
    d->left = ping->number;
    d->buf = ps_buf_create(d->size);
    memset(d->buf->data, 1, d->size);
    ps_call_on_gone(call, download_gone, d);
    download_next(d, call);
}

static void chat_gone(void *arg, ps_call *call)
{
    (void)arg;
    (void)call;
}

static void chat_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call);

static void chat_sent(void *arg, ps_call *call)
{
    ps_call_read(call, chat_message, arg);
}

static void chat_message(void *arg, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call)
{
    (void)payload;
    if (message == NULL) {
        ps_call_finish(call);
        return;
    }
    ps_call_send(call, message, NULL, 0, chat_sent, arg);
}

static void handle_chat(void *state, const ProtobufCMessage *message, ps_payload *payload,
                        ps_call *call)
{
    ps_call_on_gone(call, chat_gone, NULL);
    chat_message(state, message, payload, call);
}

static void handle_unary(void *state, const ProtobufCMessage *message, ps_payload *payload,
                         ps_call *call)
{
    Psgd__Test__Pong pong = PSGD__TEST__PONG__INIT;

    (void)state;
    (void)payload;
    pong.number = ((const Psgd__Test__Ping *)message)->number;
    ps_call_reply(call, &pong.base);
}

static const ps_method methods[] = {
    {.name = "Unary", .handle = handle_unary, .may = PS_MAY_ALL},
    {.name = "Upload", .handle = handle_upload, .may = PS_MAY_ALL, .streams_in = true},
    {.name = "Download", .handle = handle_download, .may = PS_MAY_ALL, .streams_out = true},
    {.name = "Chat",
     .handle = handle_chat,
     .may = PS_MAY_ALL,
     .streams_in = true,
     .streams_out = true},
};

/* The server is a child; it ends when its pipe does. */
typedef struct host {
    pid_t child;
    int port, keep; /* keep: our end of the pipe */
} host;

static void must(ps_status st)
{
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "bench_rpc: %s\n", st.text);
        exit(1);
    }
}

typedef struct guard {
    int pipe;
    ps_loop *loop;
    ps_server *server;
    ps_event stop, down;
} guard;

static void on_stop(ps_event *self, bool ok)
{
    guard *g = PS_CONTAINER_OF(self, guard, stop);

    (void)ok;
    ps_server_stop(g->server, 0, &g->down);
}

static void on_down(ps_event *self, bool ok)
{
    (void)ok;
    ps_loop_stop(PS_CONTAINER_OF(self, guard, down)->loop);
}

static void *wait_for_parent(void *arg)
{
    guard *g = arg;
    char c;

    while (read(g->pipe, &c, 1) > 0) {
    }
    ps_loop_post(g->loop, &g->stop);
    return NULL;
}

static void serve(int port_to, int keep)
{
    static const ps_service services[] = {{.type = &psgd__test__echo_service__descriptor,
                                           .methods = methods,
                                           .method_count = sizeof methods / sizeof methods[0]}};
    guard g = {.pipe = keep, .stop.fire = on_stop, .down.fire = on_down};
    pthread_t thread;
    int port;

    ps_rpc_init_process();
    must(ps_loop_create(&g.loop));
    must(ps_serve(g.loop, services, 1, "127.0.0.1:0", &g.server));
    port = ps_server_port(g.server);
    pthread_create(&thread, NULL, wait_for_parent, &g);
    if (write(port_to, &port, sizeof port) != sizeof port) {
        exit(1);
    }
    ps_loop_run(g.loop);
    pthread_join(thread, NULL);
    ps_loop_destroy(g.loop);
}

static void host_start(host *h)
{
    int up[2], down[2];

    if (pipe(up) != 0 || pipe(down) != 0 || (h->child = fork()) < 0) {
        perror("bench_rpc");
        exit(1);
    }
    if (h->child == 0) {
        close(down[1]);
        ps_bare_place(1);
        serve(up[1], down[0]);
        exit(0);
    }
    close(up[1]);
    close(down[0]);
    h->keep = down[1];
    if (read(up[0], &h->port, sizeof h->port) != sizeof h->port) {
        exit(1);
    }
    close(up[0]);
}

static void host_stop(host *h)
{
    close(h->keep);
    waitpid(h->child, NULL, 0);
}

/* --- client ------------------------------------------------------------------ */

typedef struct guest {
    ps_loop *loop;
    ps_channel *channel;
    ps_stream *stream;
    ps_buf *buf;
    size_t size;        /* of a message */
    size_t left;        /* messages still to send or to come */
    size_t pinged;      /* round trips measured */
    unsigned waits_for; /* events until the next ping */
    double *us;
    int64_t begun_us;
} guest;

static void on_end(void *arg, const ps_error *error)
{
    must(error->status);
    ps_loop_stop(((guest *)arg)->loop);
}

static void push_next(void *arg)
{
    guest *g = arg;
    block b = PSGD__TEST__BLOCK__INIT;
    ps_piece piece = {g->buf->data, g->size, g->buf};

    if (g->left == 0) {
        ps_stream_half_close(g->stream);
        return;
    }
    b.number = g->left--;
    ps_stream_send(g->stream, &b.base, &piece, 1);
}

static void pushed(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    (void)arg;
    (void)head;
    (void)payload;
}

static void pulled(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    guest *g = arg;

    (void)head;
    if (ps_payload_len(payload) != g->size) {
        abort();
    }
    ps_stream_read(g->stream);
}

static void ping(void *arg)
{
    guest *g = arg;
    block b = PSGD__TEST__BLOCK__INIT;

    /* Twice a round trip: its message is out and its answer is in. */
    if (g->waits_for-- != 0) {
        return;
    }
    g->waits_for = 1;
    if (g->pinged == PINGS) {
        ps_stream_half_close(g->stream);
        return;
    }
    b.number = g->pinged + 1;
    g->begun_us = ps_clock_us();
    ps_stream_send(g->stream, &b.base, NULL, 0);
    ps_stream_read(g->stream);
}

static void ponged(void *arg, const ProtobufCMessage *head, ps_payload *payload)
{
    guest *g = arg;

    (void)head;
    (void)payload;
    g->us[g->pinged++] = (double)(ps_clock_us() - g->begun_us);
    ping(g);
}

static const ps_stream_events push_events = {pushed, push_next, on_end};
static const ps_stream_events pull_events = {pulled, NULL, on_end};
static const ps_stream_events ping_events = {ponged, ping, on_end};

static void guest_start(guest *g, const host *h, size_t size)
{
    char target[32];

    memset(g, 0, sizeof *g);
    must(ps_loop_create(&g->loop));
    snprintf(target, sizeof target, "127.0.0.1:%d", h->port);
    g->channel = ps_channel_create(g->loop, target);
    g->buf = ps_buf_create(size);
    g->size = size;
    memset(g->buf->data, 1, size);
}

static void guest_run(guest *g)
{
    ps_channel_destroy(g->channel);
    ps_loop_run(g->loop);
    ps_buf_unref(g->buf);
    ps_loop_destroy(g->loop);
}

static ps_stream *open_stream(guest *g, const char *method, const ps_stream_events *events)
{
    return ps_stream_open(g->channel, &psgd__test__echo_service__descriptor, method, PS_NO_TIMEOUT,
                          0, events, g);
}

static double push_seconds(const host *h, size_t size, size_t count)
{
    int64_t begin;
    guest g;

    guest_start(&g, h, size);
    g.left = count;
    begin = ps_clock_us();
    g.stream = open_stream(&g, "Upload", &push_events);
    ps_stream_read(g.stream);
    push_next(&g);
    guest_run(&g);
    return (double)(ps_clock_us() - begin) * 1e-6;
}

static double pull_seconds(const host *h, size_t size, size_t count)
{
    Psgd__Test__Ping p = PSGD__TEST__PING__INIT;
    int64_t begin;
    guest g;

    guest_start(&g, h, size);
    p.number = count;
    p.size = (uint32_t)size;
    begin = ps_clock_us();
    g.stream = open_stream(&g, "Download", &pull_events);
    ps_stream_send(g.stream, &p.base, NULL, 0);
    ps_stream_half_close(g.stream);
    ps_stream_read(g.stream);
    guest_run(&g);
    return (double)(ps_clock_us() - begin) * 1e-6;
}

static void ping_latencies(const host *h, double *us)
{
    guest g;

    guest_start(&g, h, 1);
    g.us = us;
    g.stream = open_stream(&g, "Chat", &ping_events);
    ping(&g);
    guest_run(&g);
}

static void unary_next(guest *g);

static void on_reply(void *arg, const ps_error *error, const ProtobufCMessage *reply)
{
    guest *g = arg;

    (void)reply;
    must(error->status);
    g->us[g->pinged++] = (double)(ps_clock_us() - g->begun_us);
    if (g->pinged == PINGS) {
        ps_channel_destroy(g->channel);
        ps_loop_stop(g->loop);
    } else {
        unary_next(g);
    }
}

static void unary_next(guest *g)
{
    Psgd__Test__Ping p = PSGD__TEST__PING__INIT;

    p.number = g->pinged + 1;
    g->begun_us = ps_clock_us();
    ps_unary_start(g->channel, &psgd__test__echo_service__descriptor, "Unary", &p.base, 5000000,
                   on_reply, g);
}

static void unary_latencies(const host *h, double *us)
{
    guest g;

    guest_start(&g, h, 1);
    g.us = us;
    unary_next(&g);
    ps_loop_run(g.loop);
    ps_buf_unref(g.buf);
    ps_loop_destroy(g.loop);
}

/* --- the table ---------------------------------------------------------------- */

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

enum { BARE, PUSH_1M, PULL_1M, PUSH_512K, PULL_512K, PUSH_64K, RATES };
enum { BARE_ECHO, STREAM_ECHO, UNARY, ECHOES };

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        size_t size;
    } rows[RATES] = {
        {"bare send/recv, 1 MiB", 1 << 20}, {"push, 1 MiB", 1 << 20},
        {"pull, 1 MiB", 1 << 20},           {"push, 512 KiB", 512 << 10},
        {"pull, 512 KiB", 512 << 10},       {"push, 64 KiB", 64 << 10},
    };
    static const char *const echo_names[ECHOES] = {
        "bare echo of 16 bytes", "message and answer on one stream", "unary call"};
    static double rate[RATES][ROUNDS_MAX], p50[ECHOES][ROUNDS_MAX], p99[ECHOES][ROUNDS_MAX];
    static double us[PINGS];
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 5;
    double base;
    host h;
    const char *only = argc > 2 ? argv[2] : "";

    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    ps_bare_place(0);
    host_start(&h); /* before this process has threads */
    ps_rpc_init_process();
    for (size_t r = 0; r < rounds; r++) {
        for (size_t i = 0; i < RATES; i++) {
            size_t count = STREAM_BYTES / rows[i].size;
            double s;

            if (i != BARE && strstr(rows[i].name, only) == NULL) {
                continue;
            }
            s = i == BARE                        ? ps_bare_stream(rows[i].size, rows[i].size, count)
                : i == PULL_1M || i == PULL_512K ? pull_seconds(&h, rows[i].size, count)
                                                 : push_seconds(&h, rows[i].size, count);

            rate[i][r] = STREAM_BYTES / s * 1e-9;
        }
        for (size_t i = 0; i < ECHOES; i++) {
            if (i == BARE_ECHO) {
                ps_bare_echo(us, PINGS);
            } else if (strstr(echo_names[i], only) == NULL) {
                continue;
            } else if (i == STREAM_ECHO) {
                ping_latencies(&h, us);
            } else {
                unary_latencies(&h, us);
            }
            p50[i][r] = quantile(us, PINGS, 0.5);
            p99[i][r] = quantile(us, PINGS, 0.99);
        }
    }
    host_stop(&h);
    base = quantile(rate[BARE], rounds, 0.5);
    for (size_t i = 0; i < RATES; i++) {
        double m = quantile(rate[i], rounds, 0.5);

        if (m == 0) {
            continue;
        }
        printf("%-34s %7.2f GB/s   ratio %.2f\n", rows[i].name, m, m / base);
    }
    base = quantile(p50[BARE_ECHO], rounds, 0.5);
    for (size_t i = 0; i < ECHOES; i++) {
        double m = quantile(p50[i], rounds, 0.5);

        if (m == 0) {
            continue;
        }
        printf("%-34s %7.1f us p50 %7.1f us p99   ratio %.2f\n", echo_names[i], m,
               quantile(p99[i], rounds, 0.5), m / base);
    }
    return 0;
}
