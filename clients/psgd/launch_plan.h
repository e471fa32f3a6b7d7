/* SPDX-License-Identifier: Apache-2.0 */
/* launch_plan.h - which services psgd launch starts, and on which hosts. */
#ifndef PS_CLIENTS_PSGD_LAUNCH_PLAN_H
#define PS_CLIENTS_PSGD_LAUNCH_PLAN_H

#include "common/base/option.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PS_LAUNCH_HOSTS_MAX = 64,     /* most different hosts, with this one */
    PS_LAUNCH_SERVICES_MAX = 512, /* most workers and servers */
    PS_LAUNCH_HOST_BYTES = 128,
    PS_LAUNCH_NAME_BYTES = 40
};

typedef enum ps_launch_role {
    PS_LAUNCH_COORDINATOR,
    PS_LAUNCH_PSERVER,
    PS_LAUNCH_WORKER
} ps_launch_role;

typedef struct ps_launch_place {
    ps_launch_role role;
    unsigned number; /* number of the service among those of its role, from 0 */
    size_t host;     /* index of the service's host in ps_launch_plan.hosts */
    uint16_t port;   /* port on which the service listens; 0: any free one */
} ps_launch_place;

/* Where everything runs. Host 0 is this one, and is not reached by ssh; place 0 is the coordinator,
 * which is here. */
typedef struct ps_launch_plan {
    char hosts[PS_LAUNCH_HOSTS_MAX][PS_LAUNCH_HOST_BYTES];
    size_t n_hosts;
    ps_launch_place places[PS_LAUNCH_SERVICES_MAX + 1];
    size_t n_places;
} ps_launch_plan;

typedef struct ps_launch_wish {
    uint64_t workers, pservers; /* number of processes */
    /* names with commas between them; NULL: those of hostfile, or without one this host alone */
    const char *hosts;
    const char *hostfile; /* path of a file that lists hosts; NULL: none */
    /* (optional) Returns whether a name or address is that of this host. */
    bool (*is_own)(const char *host);
    /* HOST[:PORT] separated by commas, one for each server or worker; NULL: hosts in turn */
    const char *server_places, *worker_places;
} ps_launch_wish;

/* Makes the plan: services are on the places that are named for them, and the others on the hosts
 * in turn, servers first. Returns INVALID_ARGUMENT, which names the flag or file, the value, and
 * what is allowed; or fails as reading the hostfile does. */
PS_MUST_USE ps_status ps_launch_plan_make(const ps_launch_wish *wish, ps_launch_plan *out);

/* Returns how many entries a list with commas has. */
uint64_t ps_launch_list_length(const char *list);

/* Writes "worker-0", the name of a service and of its node, and returns it. */
const char *ps_launch_name(const ps_launch_place *place, char out[PS_LAUNCH_NAME_BYTES]);

/* Writes "workerlog.0", "serverlog.0" or "coordinatorlog", and returns it. */
const char *ps_launch_log(const ps_launch_place *place, char out[PS_LAUNCH_NAME_BYTES]);

/* Returns the name of the program. */
const char *ps_launch_program(ps_launch_role role);

#endif
