# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_layout test_look test_plan test_plan_exchange test_plan_tables
    test_preset)
    ps_test(unit ${name} ps_job ps_rpc)
endforeach()

if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    add_executable(fuzz_job fuzz/fuzz_job.c)
    target_link_libraries(fuzz_job PRIVATE ps_job ps_rpc)
    target_compile_options(fuzz_job PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_job PRIVATE -fsanitize=fuzzer)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/corpus/fuzz_job) # the first one gets what is found
    add_test(NAME fuzz_job COMMAND fuzz_job -runs=20000 -seed=1
        ${PROJECT_BINARY_DIR}/corpus/fuzz_job ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/fuzz_job)
endif()
