# SPDX-License-Identifier: Apache-2.0
add_library(ps_mesh_world STATIC support/mesh_world.c)
target_link_libraries(ps_mesh_world PUBLIC ps_mesh)
ps_test(unit test_mesh ps_mesh_world)
ps_test(unit test_mesh_parts ps_mesh_world)
ps_test(unit test_mesh_loss ps_mesh_world)
ps_test(unit test_mesh_state ps_mesh_world)

add_executable(bench_mesh bench/bench_mesh.c)
target_link_libraries(bench_mesh PRIVATE ps_mesh_world m)
set_target_properties(bench_mesh PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
