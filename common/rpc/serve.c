/* SPDX-License-Identifier: Apache-2.0 */
/* serve.c - see serve.h. */
#include "common/rpc/serve.h"

#include "common/base/xalloc.h"
#include "common/rpc/health.h"
#include "common/rpc/reflection.h"

#include <stdlib.h>

typedef struct probes {
    ps_health *health;
    ps_reflection *reflection;
    ps_service services[3];
} probes;

static void set_serving(void *arg, const char *service, bool serving)
{
    probes *p = arg;

    ps_health_set(p->health, service, serving);
}

static void stop(void *arg)
{
    probes *p = arg;

    ps_health_stop(p->health);
}

static void destroy(void *arg)
{
    probes *p = arg;

    ps_reflection_destroy(p->reflection);
    ps_health_destroy(p->health);
    free(p);
}

ps_status ps_serve(ps_loop *loop, const ps_service *services, size_t count, const char *address,
                   ps_server **out)
{
    probes *p = ps_xcalloc(1, sizeof *p);
    ps_service *listed = ps_xcalloc(count + 1, sizeof *listed);
    size_t n = 0;

    for (size_t i = 0; i < count; i++) { /* health and reflection list no instances: they have the
                                          * name of their service */
        if (services[i].instance == NULL) {
            listed[n++] = services[i];
        }
    }
    p->health = ps_health_create(listed, n);
    p->services[0] = listed[n] = ps_health_service(p->health);
    p->reflection = ps_reflection_create(listed, n + 1);
    p->services[1] = ps_reflection_service_v1(p->reflection);
    p->services[2] = ps_reflection_service_v1alpha(p->reflection);
    free(listed);
    return ps_server_start(loop, services, count,
                           &(ps_server_own){.services = p->services,
                                            .count = sizeof p->services / sizeof p->services[0],
                                            .set_serving = set_serving,
                                            .stop = stop,
                                            .destroy = destroy,
                                            .arg = p},
                           address, out);
}
