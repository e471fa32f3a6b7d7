# SPDX-License-Identifier: Apache-2.0
add_library(ps_codec_cases STATIC support/codec_cases.c)
target_include_directories(ps_codec_cases SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_codec_cases PUBLIC ps_codec)
ps_test(unit test_codec ps_codec_cases)
ps_test(unit test_codec_feedback ps_codec_cases)
ps_test(unit test_f16 ps_codec)
ps_test(unit test_int8 ps_codec)
ps_test(unit test_kernels ps_codec)
ps_test(unit test_pack ps_codec)
ps_test(unit test_codec_each ps_codec)
ps_test(unit test_huffman ps_codec)
ps_test(unit test_codec_stages ps_codec)
ps_test(unit test_codec_uses ps_wire ps_job ps_rpc)
ps_test(unit test_matrix ps_wire)
ps_test(unit test_codec_golden ps_codec)
target_compile_definitions(test_codec_golden PRIVATE
    PS_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")

add_executable(bench_codec bench/bench_codec.c)
target_link_libraries(bench_codec PRIVATE ps_codec)
set_target_properties(bench_codec PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)

ps_fuzzer(fuzz_codec 200000 ps_base ps_proto PkgConfig::liblz4 PkgConfig::libzstd m)
if(TARGET fuzz_codec) # the codecs are compiled into it once more: only instrumented code guides it
    get_target_property(codec_sources ps_codec SOURCES)
    list(TRANSFORM codec_sources PREPEND ${PROJECT_SOURCE_DIR}/common/codec/)
    target_sources(fuzz_codec PRIVATE ${codec_sources})
endif()
