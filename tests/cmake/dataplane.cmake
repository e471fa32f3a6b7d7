# SPDX-License-Identifier: Apache-2.0
# The data plane between workers and parameter servers, without a coordinator.
add_library(ps_dataplane_world STATIC
    support/dataplane.c
    support/exchange_world.c
    support/fake_worker.c
    support/raw_stream.c
    support/side.c
    support/wire_server_world.c
    support/train_world.c
    support/words.c)
target_include_directories(ps_dataplane_world SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_dataplane_world PUBLIC ps_pserver ps_worker)

ps_test(unit test_gate ps_train)
ps_test(unit test_kept_pushes ps_dataplane_world)
ps_test(unit test_row_groups ps_wire ps_train ps_job ps_rpc)
ps_test(unit test_said ps_wire ps_train ps_job ps_rpc)
ps_test(system test_wire_client ps_dataplane_world)
ps_test(system test_wire_client_life ps_dataplane_world)
ps_test(system test_connection_answers ps_dataplane_world)
ps_test(system test_wire_memory ps_dataplane_world)
ps_test(system test_peers ps_dataplane_world)
ps_test(system test_peers_refused ps_dataplane_world)
ps_test(system test_wire_server ps_dataplane_world)
ps_test(system test_wire_server_policy ps_dataplane_world)
ps_test(system test_wire_server_refused ps_dataplane_world)
ps_test(system test_rounds ps_dataplane_world)
ps_test(system test_replica ps_dataplane_world)
ps_test(system test_rows ps_dataplane_world ps_inprocess)
ps_test(system test_wire_server_rows ps_dataplane_world)
ps_test(system test_trainer ps_dataplane_world)
ps_test(system test_rank ps_dataplane_world ps_node_world)
ps_test(system test_rank_state ps_dataplane_world)
ps_test(system test_rank_parked ps_dataplane_world)
ps_fuzzer(fuzz_kept 4000 ps_dataplane_world ${CMOCKA_LIBRARIES} PkgConfig::libxxhash)
ps_fuzzer(fuzz_rank 2000 ps_dataplane_world ${CMOCKA_LIBRARIES} PkgConfig::libxxhash)
