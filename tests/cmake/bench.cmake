# SPDX-License-Identifier: Apache-2.0
# Benchmarks between real processes; see tests/bench/README.md. Not run by ctest.
add_executable(bench_wire bench/bench_wire.c bench/bare.c bench/bare_tls.c bench/services.c support/members.c)
target_link_libraries(bench_wire PRIVATE ps_worker PkgConfig::libssl PkgConfig::libcrypto m)
foreach(service IN ITEMS psgd-coordinator psgd-pserver)
    if(TARGET ${service})
        add_dependencies(bench_wire ${service})
    endif()
endforeach()
set_target_properties(bench_wire PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)

# What compare.py gives to PyTorch.
add_executable(dump_job bench/compare/dump_job.c)
target_link_libraries(dump_job PRIVATE ps_job PkgConfig::jansson)
set_target_properties(dump_job PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)

# What samples cost beside a step: PSGD_DATA=... bench_data.
add_executable(bench_data bench/bench_data.c bench/disk_images.c)
target_link_libraries(bench_data PRIVATE ps_train ps_job ps_rpc m)
set_target_properties(bench_data PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
