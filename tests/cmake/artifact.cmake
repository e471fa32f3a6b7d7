# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_events test_manifest test_report test_safetensors
        test_weights)
    ps_test(unit ${name} ps_artifact)
endforeach()

find_program(PYTHON3 python3)
foreach(format IN ITEMS safetensors events)
    add_executable(make_${format} interop/make_${format}.c)
    target_link_libraries(make_${format} PRIVATE ps_artifact)
    set_target_properties(make_${format} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    if(PYTHON3)
        add_test(NAME interop_${format}
            COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/interop/check_${format}.py
                    $<TARGET_FILE:make_${format}>)
        set_tests_properties(interop_${format} PROPERTIES TIMEOUT 60 LABELS interop
            ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
    endif()
endforeach()

if(CMAKE_C_COMPILER_ID MATCHES Clang) # libFuzzer is clang's
    add_executable(fuzz_safetensors fuzz/fuzz_safetensors.c)
    target_link_libraries(fuzz_safetensors PRIVATE ps_artifact)
    target_compile_options(fuzz_safetensors PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_safetensors PRIVATE -fsanitize=fuzzer)
    add_test(NAME fuzz_safetensors COMMAND fuzz_safetensors -runs=200000 -seed=1)
endif()
