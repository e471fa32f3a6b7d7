# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_assign test_cifar10 test_data_conf test_find test_glyphs test_idx
        test_order test_simlin test_text test_csv test_clicks test_feed)
    ps_test(unit ${name} ps_data PkgConfig::zlib)
endforeach()

if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    add_executable(fuzz_idx fuzz/fuzz_idx.c)
    target_link_libraries(fuzz_idx PRIVATE ps_data)
    target_compile_options(fuzz_idx PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_idx PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz_idx COMMAND fuzz_idx -runs=200000 -seed=1)
endif()
