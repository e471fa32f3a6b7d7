/* SPDX-License-Identifier: Apache-2.0 */
/* node_main.h - the main program that worker and parameter server share:
 * settings, data directory, log, signals, and the loop until the end. */
#ifndef PS_COMMON_NODE_NODE_MAIN_H
#define PS_COMMON_NODE_NODE_MAIN_H

#include "common/node/node.h"

enum { PS_NODE_SERVICES_MAX = 2 * PS_THREADS_MAX + 1 };

/* The differences between the two programs. `state` is what create returned. */
typedef struct ps_node_program {
    const char *name;    /* "psgd-worker" */
    const char *summary; /* text for --help */
    const char *listen;  /* default of --listen */
    bool has_threads;    /* the program has the option --threads, which sets conf->threads */
    bool has_loop; /* the program has the options --loop and --loop-fd, which set conf->loop and
                    * loop_fd, and not --threads */
    const ps_role_hooks *hooks;
    /* Creates the role's state, on the loop's thread before the loop runs. */
    PS_MUST_USE ps_status (*create)(ps_loop *loop, const ps_node_conf *conf, void **state);
    /* Gives the state its node. Called once, before the loop runs. */
    void (*set_node)(void *state, ps_node *node);
    /* (optional) Writes the services that the server offers besides the node's own. Returns how
     * many there are. */
    size_t (*services)(void *state, ps_service out[PS_NODE_SERVICES_MAX]);
    /* Frees the state after the loop has ended. */
    void (*destroy)(void *state);
} ps_node_program;

/* Runs the program. Returns the exit code: 0 stopped by a signal or only help was wanted, 1 could
 * not start, 4 wrong arguments. */
int ps_node_main(int argc, char **argv, const ps_node_program *program);

#endif
