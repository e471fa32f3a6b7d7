/* SPDX-License-Identifier: Apache-2.0 */
/* serve_kinds.c - a server for foreign clients: health, reflection and a service
 * of the tests. Prints its port; ends when its standard input does. */
#include "common/base/container_of.h"
#include "common/rpc/process.h"
#include "common/rpc/serve.h"

#include "kinds.pb-c.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

typedef struct keeper {
    ps_loop *loop;
    ps_server *server;
    ps_event closed; /* standard input is */
    ps_event down;
} keeper;

static void handle_echo(void *state, const ProtobufCMessage *request, ps_payload *payload,
                        ps_call *call)
{
    (void)state;
    (void)payload;
    ps_call_reply(call, request);
}

static void on_down(ps_event *self, bool ok)
{
    keeper *k = PS_CONTAINER_OF(self, keeper, down);

    (void)ok;
    ps_loop_stop(k->loop);
}

static void on_closed(ps_event *self, bool ok)
{
    keeper *k = PS_CONTAINER_OF(self, keeper, closed);

    (void)ok;
    ps_server_stop(k->server, 1000000, &k->down);
}

static void *wait_for_end(void *arg)
{
    keeper *k = arg;
    char bytes[64];

    while (read(STDIN_FILENO, bytes, sizeof bytes) > 0) {
    }
    ps_loop_post(k->loop, &k->closed);
    return NULL;
}

int main(void)
{
    static const ps_method methods[] = {{.name = "Echo", .handle = handle_echo, .may = PS_MAY_ALL}};
    static const ps_service service = {
        .type = &psgd__test__kinds_service__descriptor, .methods = methods, .method_count = 1};
    keeper k = {.closed.fire = on_closed, .down.fire = on_down};
    pthread_t reader;
    ps_status st;

    ps_rpc_init_process();
    st = ps_loop_create(&k.loop);
    if (ps_is_ok(&st)) {
        st = ps_serve(k.loop, &service, 1, "127.0.0.1:0", &k.server);
    }
    if (!ps_is_ok(&st)) {
        fprintf(stderr, "serve_kinds: %s\n", st.text);
        return 1;
    }
    printf("%d\n", ps_server_port(k.server));
    fflush(stdout);
    pthread_create(&reader, NULL, wait_for_end, &k);
    ps_loop_run(k.loop);
    pthread_join(reader, NULL);
    ps_loop_destroy(k.loop);
    return 0;
}
