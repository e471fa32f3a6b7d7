# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_exact_sum test_metric test_tally)
    ps_test(unit ${name} ps_metric)
endforeach()
foreach(name IN ITEMS test_metric test_tally)
    target_sources(${name} PRIVATE support/metric_world.c)
endforeach()
ps_test(unit test_evaluation ps_train ps_rpc)

if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    # The metrics' own sources once more, so that their branches lead the fuzzer.
    get_target_property(metric_sources ps_metric SOURCES)
    list(TRANSFORM metric_sources PREPEND ${PROJECT_SOURCE_DIR}/common/metric/)
    add_executable(fuzz_tally fuzz/fuzz_tally.c ${metric_sources})
    target_link_libraries(fuzz_tally PRIVATE ps_base m)
    target_compile_options(fuzz_tally PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_tally PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz_tally COMMAND fuzz_tally -runs=200000 -seed=1)
endif()
