# SPDX-License-Identifier: Apache-2.0
add_library(ps_shard_world STATIC support/shard_world.c)
target_link_libraries(ps_shard_world PUBLIC ps_shard)
ps_test(unit test_shard ps_shard_world)
ps_test(unit test_shard_pull ps_shard_world)
ps_test(unit test_shard_policies ps_shard_world)
ps_test(unit test_shard_rows ps_shard_world)
ps_test(unit test_shard_merge ps_shard_world)
target_link_options(test_shard_merge PRIVATE # decompressions are counted
    -Wl,--wrap=LZ4_decompress_safe -Wl,--wrap=ZSTD_decompress)
ps_test(unit test_shard_model ps_shard_world)
ps_test(unit test_table ps_shard PkgConfig::libxxhash)
ps_test(unit test_tables ps_shard)
ps_test(unit test_tables_file ps_shard)
if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    add_executable(fuzz_tables fuzz/fuzz_tables.c)
    target_link_libraries(fuzz_tables PRIVATE ps_shard PkgConfig::libxxhash)
    target_compile_options(fuzz_tables PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_tables PRIVATE -fsanitize=fuzzer)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/corpus/fuzz_tables)
    add_test(NAME fuzz_tables COMMAND fuzz_tables -runs=50000 -seed=1
        ${PROJECT_BINARY_DIR}/corpus/fuzz_tables
        ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/corpus/fuzz_tables)
endif()

add_executable(bench_shard bench/bench_shard.c)
target_link_libraries(bench_shard PRIVATE ps_shard)
set_target_properties(bench_shard PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
ps_test(unit test_shard_broadcast ps_shard_world)
ps_test(unit test_shard_delay ps_shard_world)
