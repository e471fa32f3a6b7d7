# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_activation test_conv test_core test_fused test_gemm test_graph test_image test_layer test_loss test_model test_sparse test_team test_threads test_winograd)
    ps_test(unit ${name} ps_nn)
endforeach()
foreach(name IN ITEMS test_conv test_fused test_image test_layer)
    target_sources(${name} PRIVATE support/layer_rig.c)
endforeach()
# As in common/nn: the widths that it compares are to be vectors.
target_compile_options(test_activation PRIVATE -fno-math-errno -fno-trapping-math)
ps_test(unit test_golden ps_nn ps_optim)
ps_test(unit test_golden_networks ps_nn ps_optim)
# Five steps of each optimizer on each network: 11 s of processor, 140 under AddressSanitizer.
foreach(name IN ITEMS test_golden test_golden_networks)
    target_sources(${name} PRIVATE support/golden.c)
    target_compile_definitions(${name} PRIVATE PS_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
endforeach()
# All levels of processors on one (common/base/cpu.h); what it lacks is skipped.
foreach(level IN ITEMS avx2 baseline)
    foreach(name IN ITEMS test_activation test_conv test_fused test_graph test_image test_layer test_team test_threads test_golden_networks)
        if(NOT (SANITIZE AND name STREQUAL test_golden_networks))
            add_test(NAME ${name}_${level} COMMAND ${name})
            set_tests_properties(${name}_${level} PROPERTIES TIMEOUT ${ps_test_seconds} LABELS unit
                ENVIRONMENT "PSGD_CPU=${level};TSAN_OPTIONS=ignore_noninstrumented_modules=1"
                ENVIRONMENT_MODIFICATION OPENBLAS_CORETYPE=unset:
                SKIP_REGULAR_EXPRESSION "this processor runs")
        endif()
    endforeach()
endforeach()

add_executable(bench_engine bench/engine/bench_engine.c)
target_link_libraries(bench_engine PRIVATE ps_nn ps_optim PkgConfig::openblas)

# oneDNN (libdnnl-dev) is a peer of this one where it is installed.
add_executable(bench_kernels bench/engine/bench_kernels.c)
target_link_libraries(bench_kernels PRIVATE ps_nn PkgConfig::openblas)
set_target_properties(bench_kernels PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
find_library(GOMP_LIBRARY NAMES gomp libgomp.so.1)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY AND GOMP_LIBRARY)
    target_sources(bench_kernels PRIVATE bench/engine/onednn.c)
    target_include_directories(bench_kernels SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
    target_link_libraries(bench_kernels PRIVATE ${DNNL_LIBRARY} ${GOMP_LIBRARY})
else()
    target_sources(bench_kernels PRIVATE bench/engine/onednn_none.c)
endif()
