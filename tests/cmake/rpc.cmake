# SPDX-License-Identifier: Apache-2.0
# The private wire of the rpc tests; generated code is not held to our warnings.
set(echo_gen ${PROJECT_BINARY_DIR}/gen/tests)
file(MAKE_DIRECTORY ${echo_gen})
add_custom_command(
    OUTPUT ${echo_gen}/echo.pb-c.c ${echo_gen}/echo.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${echo_gen} -I${CMAKE_CURRENT_SOURCE_DIR}/support echo.proto
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/support/echo.proto
    VERBATIM)
add_library(ps_echo_proto STATIC ${echo_gen}/echo.pb-c.c)
target_include_directories(ps_echo_proto SYSTEM PUBLIC ${echo_gen})
target_link_libraries(ps_echo_proto PUBLIC PkgConfig::libprotobuf_c)

add_library(ps_echo_world STATIC support/echo_world.c support/echo_talk.c)
target_link_libraries(ps_echo_world PUBLIC ps_rpc ps_echo_proto)

ps_test(unit test_wire ps_echo_world)
ps_test(unit test_candidates ps_rpc)
ps_test(unit test_flood ps_rpc)
ps_test(unit test_remotes ps_rpc)
ps_test(unit test_unread ps_rpc)
ps_test(unit test_shared_memory ps_rpc)
ps_test(system test_loop ps_rpc)
ps_test(system test_tasks ps_rpc)
ps_test(system test_accept_check ps_echo_world)
ps_test(system test_bar ps_rpc)
ps_test(system test_rpc ps_echo_world)
ps_test(system test_rpc_stream ps_echo_world)
ps_test(system test_rpc_flow ps_echo_world)
ps_test(system test_rpc_instance ps_echo_world)
ps_test(system test_rpc_tls ps_echo_world)
target_sources(test_rpc_tls PRIVATE support/members.c)

add_executable(bench_rpc bench/bench_rpc.c bench/bare.c)
target_link_libraries(bench_rpc PRIVATE ps_rpc ps_echo_proto m)
set_target_properties(bench_rpc PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)

ps_fuzzer(fuzz_wire 200000 ps_rpc)
ps_fuzzer(fuzz_flood 200000 ps_rpc)
