/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - psgd-worker: a node that computes gradients, for one job at a time. */
#include "common/node/node_main.h"
#include "services/worker/worker.h"

static ps_status create(ps_loop *loop, const ps_node_conf *conf, void **state)
{
    ps_loop_link *link = NULL;
    ps_status st = conf->loop != NULL ? ps_loop_link_create(conf->loop_fd, &link) : ps_ok();

    if (ps_is_ok(&st)) {
        *state = ps_worker_create(loop, link, conf->is_sockets_only);
    }
    return st;
}

static void set_node(void *state, ps_node *node)
{
    ps_worker_set_node(state, node);
}

static size_t services(void *state, ps_service out[PS_NODE_SERVICES_MAX])
{
    out[0] = ps_worker_service(state);
    return 1;
}

static void destroy(void *state)
{
    ps_worker_destroy(state);
}

int main(int argc, char **argv)
{
    static const ps_node_program program = {
        .name = "psgd-worker",
        .summary = "Computes gradients on its share of a job's data and exchanges them with the "
                   "parameter servers or with other workers. Runs one job after the other.",
        .listen = "127.0.0.1:15387",
        .has_loop = true,
        .hooks = &ps_worker_hooks,
        .create = create,
        .set_node = set_node,
        .services = services,
        .destroy = destroy,
    };

    return ps_node_main(argc, argv, &program);
}
