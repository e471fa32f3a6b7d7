/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - psgd-pserver: a node that holds a shard of the parameters, of one job at a time. */
#include "common/node/node_main.h"
#include "services/pserver/pserver.h"

static ps_status create(ps_loop *loop, const ps_node_conf *conf, void **state)
{
    ps_pserver *p = NULL;
    ps_status st =
        ps_pserver_create(loop, conf->threads, conf->faults.drop_ack, conf->is_sockets_only, &p);

    *state = p;
    return st;
}

static void set_node(void *state, ps_node *node)
{
    ps_pserver_set_node(state, node);
}

static size_t services(void *state, ps_service out[PS_NODE_SERVICES_MAX])
{
    return ps_pserver_services(state, out);
}

static void destroy(void *state)
{
    ps_pserver_destroy(state);
}

int main(int argc, char **argv)
{
    static const ps_node_program program = {
        .name = "psgd-pserver",
        .summary = "Holds a share of the parameters of a training job, merges the gradients that "
                   "workers push and serves the weights that they pull.",
        .listen = "127.0.0.1:15388",
        .has_threads = true,
        .hooks = &ps_pserver_hooks,
        .create = create,
        .set_node = set_node,
        .services = services,
        .destroy = destroy,
    };

    return ps_node_main(argc, argv, &program);
}
