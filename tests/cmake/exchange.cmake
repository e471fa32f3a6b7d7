# SPDX-License-Identifier: Apache-2.0
add_library(ps_mesh_world STATIC support/mesh_world.c)
target_link_libraries(ps_mesh_world PUBLIC ps_exchange)
ps_test(unit test_mesh ps_mesh_world)
ps_test(unit test_mesh_parts ps_mesh_world)

add_executable(bench_exchange bench/bench_exchange.c)
target_link_libraries(bench_exchange PRIVATE ps_mesh_world m)
set_target_properties(bench_exchange PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
