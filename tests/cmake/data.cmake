# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_assign test_cifar10 test_data_conf test_describe_data test_glyphs test_idx
        test_order test_simlin test_text test_csv test_clicks test_feed test_ahead)
    ps_test(unit ${name} ps_data PkgConfig::zlib)
endforeach()

if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    foreach(name IN ITEMS cifar10 criteo csv idx libsvm ngram skipgram slots)
        add_executable(fuzz_${name} fuzz/fuzz_${name}.c)
        target_link_libraries(fuzz_${name} PRIVATE ps_data)
        target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
        add_test(NAME fuzz_${name} COMMAND fuzz_${name} -runs=20000 -seed=1)
    endforeach()
endif()
