# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_manifest test_report test_safetensors)
    ps_test(unit ${name} ps_artifact)
endforeach()

find_program(PYTHON3 python3)
add_executable(make_safetensors interop/make_safetensors.c)
target_link_libraries(make_safetensors PRIVATE ps_artifact)
set_target_properties(make_safetensors PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
if(PYTHON3)
    add_test(NAME interop_safetensors
        COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/interop/check_safetensors.py
                $<TARGET_FILE:make_safetensors>)
    set_tests_properties(interop_safetensors PROPERTIES TIMEOUT 60 LABELS interop)
endif()

if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    add_executable(fuzz_safetensors fuzz/fuzz_safetensors.c)
    target_link_libraries(fuzz_safetensors PRIVATE ps_artifact)
    target_compile_options(fuzz_safetensors PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_safetensors PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz_safetensors COMMAND fuzz_safetensors -runs=200000 -seed=1)
endif()
