/* SPDX-License-Identifier: Apache-2.0 */
/* test_coordinator_stale.c - what the coordinator tells a node whose attempt is over. */
#include "common/rpc/process.h"
#include "tests/support/coordinator_world.h"

#define STATE(name) PSGD__V1__JOB_STATE__JOB_STATE_##name

static void stale_nodes_are_told_so(void **state)
{
    Psgd__V1__RegisterNodeRequest reg = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    Psgd__V1__HeartbeatRequest beat = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    Psgd__V1__ReadyRequest ready = PSGD__V1__READY_REQUEST__INIT;
    Psgd__V1__HeartbeatResponse *r;
    coordinator_world w;
    ProtobufCMessage *reply;
    ps_error error;

    (void)state;
    cw_begin(&w, 0, 0);
    reg.node_id = beat.node_id = ready.node_id = (char *)"x";
    reg.incarnation = beat.incarnation = ready.incarnation = 5;
    reg.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    reg.address = (char *)"127.0.0.1:9";
    assert_null(cw_call(&w, "Heartbeat", &beat.base, &error));
    assert_int_equal(error.status.code, PS_NOT_FOUND);
    assert_string_equal(error.reason, "NOT_REGISTERED");
    reply = cw_call(&w, "RegisterNode", &reg.base, &error);
    assert_int_equal(((Psgd__V1__RegisterNodeResponse *)reply)->heartbeat_ms, 30);
    protobuf_c_message_free_unpacked(reply, NULL);
    beat.phase = PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING;
    beat.job_id = ready.job_id = (char *)"gone-aaaaaaaa";
    beat.attempt = ready.attempt = 1;
    r = (Psgd__V1__HeartbeatResponse *)cw_call(&w, "Heartbeat", &beat.base, &error);
    assert_non_null(r);
    assert_int_equal(r->directive, PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_ABORT);
    psgd__v1__heartbeat_response__free_unpacked(r, NULL);
    assert_null(cw_call(&w, "Ready", &ready.base, &error));
    assert_int_equal(error.status.code, PS_ABORTED);
    assert_string_equal(error.reason, "STALE_ATTEMPT");
    cw_end(&w);
}

/* Sends a heartbeat about an attempt, which is answered ABORT. Returns what it says of the loss. */
static bool is_lost(coordinator_world *w, Psgd__V1__HeartbeatRequest *beat, uint32_t attempt)
{
    Psgd__V1__HeartbeatResponse *r;
    ps_error error;
    bool said;

    beat->attempt = attempt;
    r = (Psgd__V1__HeartbeatResponse *)cw_call(w, "Heartbeat", &beat->base, &error);
    assert_non_null(r);
    assert_int_equal(r->directive, PSGD__V1__NODE_DIRECTIVE__NODE_DIRECTIVE_ABORT);
    said = r->is_lost;
    psgd__v1__heartbeat_response__free_unpacked(r, NULL);
    return said;
}

static void a_stale_node_is_told_whether_its_attempt_is_lost(void **state)
{
    Psgd__V1__RegisterNodeRequest reg = PSGD__V1__REGISTER_NODE_REQUEST__INIT;
    Psgd__V1__HeartbeatRequest beat = PSGD__V1__HEARTBEAT_REQUEST__INIT;
    coordinator_world w;
    ProtobufCMessage *reply;
    ps_error error;
    char id[96];

    (void)state;
    cw_begin(&w, 2, 1);
    w.nodes[0].finishes = w.nodes[1].finishes = w.nodes[2].finishes = false;
    cw_submit(&w,
              "{\"title\":\"async\",\"workers\":2,\"pservers\":1,"
              "\"consistency\":{\"name\":\"asp\"},\"model\":{\"widths\":[8]},"
              "\"data\":{\"train_limit\":128,\"test_limit\":10},\"epochs\":1,"
              "\"timeouts\":{\"pre_commit_floor_ms\":60000}}",
              id);
    assert_int_equal(cw_await(&w, id, STATE(RUNNING)), STATE(RUNNING));
    cw_stop_node(&w, 1);
    reg.node_id = beat.node_id = (char *)"w1"; /* another process of it */
    reg.incarnation = beat.incarnation = 5;
    reg.role = PSGD__V1__NODE_ROLE__NODE_ROLE_WORKER;
    reg.address = (char *)"127.0.0.1:9";
    reply = cw_call(&w, "RegisterNode", &reg.base, &error);
    assert_non_null(reply);
    protobuf_c_message_free_unpacked(reply, NULL);
    beat.phase = PSGD__V1__NODE_PHASE__NODE_PHASE_RUNNING;
    beat.job_id = id;
    assert_true(is_lost(&w, &beat, 1)); /* the attempt goes on without it */
    assert_true(is_lost(&w, &beat, 2)); /* the job has another attempt */
    cw_finish(&w, 0, ps_ok());
    cw_finish(&w, 2, ps_ok());
    assert_int_equal(cw_await(&w, id, STATE(DONE)), STATE(DONE));
    assert_false(is_lost(&w, &beat, 1)); /* the job is over */
    cw_end(&w);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stale_nodes_are_told_so),
        cmocka_unit_test(a_stale_node_is_told_whether_its_attempt_is_lost),
    };

    ps_rpc_init_process();
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
