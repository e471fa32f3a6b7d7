/* SPDX-License-Identifier: Apache-2.0 */
/* layout_hash.c - reads a JobSpec as JSON from stdin and prints the hash of its model's layout.
 * Python tests need it to talk to a server like a worker, because no node says it. */
#include "common/job/plan.h"
#include "common/rpc/error.h"
#include "common/rpc/pbjson.h"

#include <stdio.h>

int main(void)
{
    json_t *tree = json_loadf(stdin, 0, NULL);
    ProtobufCMessage *spec = NULL;
    ps_plan *plan = NULL;
    ps_error error = {.status = ps_ok()};
    ps_status st = ps_pb_from_json(&psgd__v1__job_spec__descriptor, tree, "spec", &error, &spec);

    if (ps_is_ok(&st)) {
        st = ps_plan_create((const Psgd__V1__JobSpec *)spec, NULL, NULL, &plan);
    }
    if (ps_is_ok(&st)) {
        printf("%016llx\n", (unsigned long long)plan->layout.hash);
    } else {
        fprintf(stderr, "%s\n", st.text);
    }
    ps_plan_destroy(plan);
    if (spec != NULL) {
        protobuf_c_message_free_unpacked(spec, NULL);
    }
    json_decref(tree);
    return ps_is_ok(&st) ? 0 : 1;
}
