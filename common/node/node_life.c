/* SPDX-License-Identifier: Apache-2.0 */
/* node_life.c - a node's start and stop. */
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/plain_name.h"
#include "common/base/shorten.h"
#include "common/base/xalloc.h"
#include "common/node/node_impl.h"
#include "common/rpc/serve.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* time for calls in progress to end when the node stops */
static const int64_t server_grace_us = 1000000;
/* time for the coordinator to hear that a stopping node has failed its job, and to collect */
static const int64_t farewell_us = 1000000;

/* --- start ----------------------------------------------------------------- */

/* Sets the node's id: the given one, else the one that an earlier start stored, else a random one,
 * which is stored. */
static ps_status find_node_id(ps_node *node, const char *given)
{
    char path[640], *bytes = NULL;
    size_t n = 0;
    uint32_t draw = 0;
    ps_status st = ps_path_join(path, sizeof path, node->data_dir, "node-id");

    if (given != NULL && given[0] != '\0') {
        if (!ps_plain_name_is_valid(given, PS_PLAIN_NAME_NODE)) {
            return ps_fail(PS_INVALID_ARGUMENT,
                           "node id \"%s\"; 1 to 64 of A-Z a-z 0-9 . _ - are allowed",
                           PS_SHORT(given, 64));
        }
        snprintf(node->node_id, sizeof node->node_id, "%s", given);
        return ps_ok();
    }
    if (!ps_is_ok(&st)) {
        return st;
    }
    st = ps_file_read(path, 256, &bytes, &n);
    if (ps_is_ok(&st)) {
        bytes[strcspn(bytes, "\r\n")] = '\0';
        if (ps_plain_name_is_valid(bytes, PS_PLAIN_NAME_NODE)) {
            snprintf(node->node_id, sizeof node->node_id, "%s", bytes);
            free(bytes);
            return ps_ok();
        }
        free(bytes);
    }
    if (getrandom(&draw, sizeof draw, 0) != (ssize_t)sizeof draw) {
        return ps_fail(PS_INTERNAL, "no random number for the node's id");
    }
    snprintf(node->node_id, sizeof node->node_id, "%s-%08x",
             node->hooks->role == PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER ? "worker" : "pserver",
             draw);
    return ps_file_write(path, node->node_id, strlen(node->node_id));
}

/* Removes half-received data sets: folders with a dot in the name, but not in front (see
 * data_store.c). */
static void remove_half_sets(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *at;
    char path[800];

    while (dir != NULL && (at = readdir(dir)) != NULL) {
        ps_status st = ps_path_join(path, sizeof path, folder, at->d_name);

        if (at->d_name[0] != '.' && strchr(at->d_name, '.') != NULL && ps_is_ok(&st)) {
            st = ps_dir_remove(path);
        }
        (void)st; /* a failure does not matter: the folder only takes disk space */
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

static ps_status prepare_folder(const char *data_dir)
{
    char path[640];
    ps_status st = ps_dir_make(data_dir);

    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, data_dir, "sessions");
    }
    if (ps_is_ok(&st)) {
        st = ps_dir_remove(path); /* left by a process that was killed */
    }
    if (ps_is_ok(&st)) {
        st = ps_path_join(path, sizeof path, data_dir, "datasets");
    }
    if (ps_is_ok(&st)) {
        remove_half_sets(path);
    }
    return ps_wrap(st, "data directory");
}

/* Sets the address by which others reach the node. */
static ps_status find_address(ps_node *node, const ps_node_conf *conf)
{
    char bound[PS_ADDRESS_TEXT_BYTES], host[PS_ADDRESS_HOST_BYTES];
    ps_address listen, address;
    uint16_t port = (uint16_t)ps_server_port(node->server);
    ps_status st = ps_address_parse(conf->listen, "127.0.0.1", 0, &listen);

    if (!ps_is_ok(&st)) {
        return st;
    }
    listen.port = port;
    ps_address_format(&listen, bound);
    address = listen;
    if (conf->advertise != NULL && conf->advertise[0] != '\0') {
        st = ps_address_parse(conf->advertise, listen.host, port, &address);
    } else if (ps_address_is_any(&listen)) {
        if (gethostname(host, sizeof host) != 0) {
            return ps_fail(PS_FAILED_PRECONDITION, "this host has no name: set --advertise");
        }
        host[sizeof host - 1] = '\0';
        st = ps_address_parse(host, "", port, &address);
    }
    if (ps_is_ok(&st)) {
        char text[PS_ADDRESS_TEXT_BYTES];

        ps_address_format(&address, text);
        if (strlen(text) >= sizeof node->address) {
            return ps_fail(PS_INVALID_ARGUMENT, "address %s is too long", PS_SHORT(text, 60));
        }
        snprintf(node->address, sizeof node->address, "%.*s", (int)sizeof node->address - 1, text);
        printf("%s %s listening on %s\n", node->hooks->service, PS_VERSION, bound);
        fflush(stdout);
        node->links = ps_protection_of(node->loop, bound);
        if (node->links == PS_PROTECTION_INSECURE) {
            ps_log(PS_LOG_WARN, "node",
                   "listening on %s: the link is not protected, anybody who reaches it can use it",
                   bound);
        }
    }
    return st;
}

static void tick(ps_event *event, bool ok)
{
    ps_node *node = PS_CONTAINER_OF(event, ps_node, tick.event);

    if (ok) {
        ps_phase phase = node->agent.phase;
        char why[64];

        snprintf(why, sizeof why, "the time for %s is over", ps_phase_name(phase));
        ps_node_act(node, ps_agent_tick(&node->agent, ps_clock_us()), why);
        if (node->agent.phase == phase && phase != PS_PHASE_IDLE) {
            ps_node_changed(node); /* the timer fired too early: sets it again */
        }
    }
}

static void start_services(ps_node *node, const ps_service *extra, size_t extra_count)
{
    node->service_count = extra_count + 1;
    node->services = ps_xcalloc(node->service_count, sizeof *node->services);
    node->services[0] = (ps_service){
        .type = &psgd__v1__node_service__descriptor,
        .methods = ps_node_methods,
        .method_count = ps_node_method_count,
        .state = node,
    };
    for (size_t i = 0; i < extra_count; i++) {
        node->services[i + 1] = extra[i];
    }
}

static void destroy(ps_node *node)
{
    ps_ops_stop(node->ops);
    ps_datasets_destroy(node->datasets);
    ps_tasks_destroy(node->tasks);
    ps_tasks_destroy(node->log_tasks);
    ps_tasks_destroy(node->cut_tasks);
    free(node->services);
    free(node->data_dir);
    free(node->computes);
    free(node);
}

static void try_free(void *arg)
{
    ps_node *node = arg;
    ps_loop *loop = node->loop;
    ps_event *stopped = node->stopped;

    if (!node->is_closing || node->server != NULL || node->alive > 0 ||
        ps_datasets_is_busy(node->datasets)) {
        return;
    }
    destroy(node);
    if (stopped != NULL) {
        ps_loop_post(loop, stopped);
    }
}

static void server_is_down(ps_event *event, bool ok)
{
    ps_node *node = PS_CONTAINER_OF(event, ps_node, server_down);

    (void)ok;
    node->server = NULL;
    try_free(node);
}

static void grace_is_over(ps_event *event, bool ok);

ps_status ps_node_start(ps_loop *loop, const ps_node_conf *conf, const ps_role_hooks *hooks,
                        void *state, const ps_service *extra, size_t extra_count, ps_node **out)
{
    ps_node *node = ps_xcalloc(1, sizeof *node);
    ps_status st;

    node->loop = loop;
    node->hooks = hooks;
    node->state = state;
    node->faults = conf->faults;
    node->threads = conf->threads;
    node->computes = conf->loop != NULL ? ps_xstrdup(conf->loop) : ps_xstrdup("");
    node->data_dir = ps_xstrdup(conf->data_dir);
    node->incarnation = (uint64_t)ps_clock_wall_us();
    node->announced = PS_PHASE_IDLE;
    node->tick.event.fire = tick;
    node->grace.event.fire = grace_is_over;
    node->server_down.fire = server_is_down;
    ps_agent_init(&node->agent);
    start_services(node, extra, extra_count);

    st = prepare_folder(node->data_dir);
    if (ps_is_ok(&st)) {
        st = find_node_id(node, conf->node_id);
    }
    if (ps_is_ok(&st)) {
        ps_node_disk_init(node, conf->min_free_bytes);
        ps_node_load_init(node);
        st = ps_tasks_create(loop, 1, SIZE_MAX, &node->tasks);
    }
    if (ps_is_ok(&st)) {
        st = ps_tasks_create(loop, 1, SIZE_MAX, &node->log_tasks);
    }
    if (ps_is_ok(&st)) {
        st = ps_tasks_create(loop, 1, SIZE_MAX, &node->cut_tasks);
    }
    if (!ps_is_ok(&st)) {
        destroy(node);
        return st;
    }
    node->datasets =
        ps_datasets_create(node->tasks, node->data_dir, conf->data_path, conf->data_cache_bytes);
    ps_datasets_on_idle(node->datasets, try_free, node);
    st = ps_serve(loop, node->services, node->service_count, conf->listen, &node->server);
    if (!ps_is_ok(&st)) {
        destroy(node);
        return st;
    }
    st = find_address(node, conf);
    if (ps_is_ok(&st)) {
        st = ps_node_start_ops(node, conf->ops);
    }
    if (!ps_is_ok(&st)) {
        ps_node_shut(node);
        return st;
    }
    node->home = ps_link_open(node, conf->coordinator);
    if (conf->tls_dir != NULL) {
        node->renewal = ps_renewal_start(node, conf->tls_dir);
    }
    *out = node;
    return ps_ok();
}

/* --- stop ------------------------------------------------------------------ */

void ps_node_gone(ps_node *node)
{
    assert(node->alive > 0);
    node->alive--;
    try_free(node);
}

void ps_node_shut(ps_node *node)
{
    if (node->is_closing) {
        return;
    }
    node->is_closing = true;
    ps_loop_cancel(node->loop, &node->tick);
    ps_loop_cancel(node->loop, &node->grace);
    ps_renewal_stop(node->renewal);
    node->renewal = NULL;
    ps_link_leave(node->home);
    node->home = NULL;
    ps_server_stop(node->server, server_grace_us, &node->server_down);
}

static void end_attempt(ps_node *node)
{
    if (!node->is_releasing) {
        ps_node_act(node, ps_agent_abort(&node->agent, node->agent.job_id, node->agent.attempt),
                    "the node is being stopped");
    }
}

/* Fails a running job with `st`, because the node stops. The coordinator then has farewell_us to
 * hear of it, so it need not wait for the lease and does not count the node as lost. In any other
 * phase ends the attempt at once. */
static void give_up(ps_node *node, ps_status st)
{
    node->wants_checkpoint = false;
    if (node->agent.phase != PS_PHASE_RUNNING) {
        end_attempt(node);
        return;
    }
    ps_node_finished(node, &st);
    ps_loop_after(node->loop, &node->grace, farewell_us);
}

static void grace_is_over(ps_event *event, bool ok)
{
    ps_node *node = PS_CONTAINER_OF(event, ps_node, grace.event);

    if (ok) {
        give_up(node, ps_fail(PS_CANCELLED,
                              node->wants_checkpoint
                                  ? "it was told to stop, and no checkpoint was stored within its "
                                    "--checkpoint-grace"
                                  : "it was told to stop, and the job did not end within its "
                                    "--grace"));
    }
}

void ps_node_last_checkpoint(ps_node *node, uint64_t step)
{
    int64_t left_us = node->grace_end_us - ps_clock_us();

    if (!node->wants_checkpoint) {
        return;
    }
    node->wants_checkpoint = false;
    if (step > 0) {
        give_up(node,
                ps_fail(PS_CANCELLED, "it was told to stop; the checkpoint of step %llu is stored",
                        (unsigned long long)step));
    } else {
        ps_loop_after(node->loop, &node->grace, left_us > 0 ? left_us : 0);
    }
}

void ps_node_stop(ps_node *node, int64_t grace_us, int64_t checkpoint_us, ps_event *done)
{
    assert(!node->is_stopping);
    node->is_stopping = true;
    node->stopped = done;
    ps_server_set_serving(node->server, "", false);
    for (size_t i = 0; i < node->service_count; i++) {
        ps_server_set_serving(node->server, node->services[i].type->name, false);
    }
    ps_log(PS_LOG_INFO, "node", "stopping");
    if (node->agent.phase == PS_PHASE_IDLE) {
        if (!node->is_releasing) {
            ps_node_shut(node);
        }
    } else if (checkpoint_us > 0 && ps_checkpoint_is_wanted(node)) {
        node->wants_checkpoint = true;
        node->grace_end_us = ps_clock_us() + grace_us;
        ps_loop_after(node->loop, &node->grace,
                      checkpoint_us > grace_us ? checkpoint_us : grace_us);
        ps_node_hurry(node);
    } else if (node->agent.phase >= PS_PHASE_RUNNING && grace_us > 0) {
        ps_loop_after(node->loop, &node->grace, grace_us);
    } else {
        give_up(node, ps_fail(PS_CANCELLED, "it was told to stop"));
    }
}
