# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_events test_manifest test_onnx test_report test_rounds_record
        test_safetensors test_thin test_weights)
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
        set_tests_properties(interop_${format} PROPERTIES TIMEOUT 600 LABELS interop
            ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1")
    endif()
endforeach()

# Models as ONNX, before two foreign readers: the checker of python3-onnx, and
# onnxruntime, which npm gets once and which stays in the build's folder.
add_executable(make_onnx interop/make_onnx.c)
target_link_libraries(make_onnx PRIVATE ps_artifact ps_job ps_rpc)
set_target_properties(make_onnx PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
set(onnx_cases ${PROJECT_BINARY_DIR}/tests/onnx)
set(onnxruntime ${PROJECT_BINARY_DIR}/tests/onnxruntime)
add_test(NAME interop_onnx_check
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/interop/check_onnx.py
            $<TARGET_FILE:make_onnx> ${onnx_cases})
add_test(NAME interop_onnxruntime_get
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/interop/npm_get.sh ${onnxruntime} onnxruntime-web@1.20.1)
add_test(NAME interop_onnxruntime
    COMMAND node ${CMAKE_CURRENT_SOURCE_DIR}/interop/check_onnx.mjs ${onnx_cases})
set_tests_properties(interop_onnx_check PROPERTIES FIXTURES_SETUP onnx_cases)
set_tests_properties(interop_onnxruntime_get PROPERTIES FIXTURES_SETUP onnxruntime)
set_tests_properties(interop_onnxruntime PROPERTIES FIXTURES_REQUIRED "onnx_cases;onnxruntime"
    ENVIRONMENT "PSGD_ONNXRUNTIME=${onnxruntime}")
set_tests_properties(interop_onnx_check interop_onnxruntime_get interop_onnxruntime
    PROPERTIES TIMEOUT 900 LABELS interop) # one file has 250 MB

ps_fuzzer(fuzz_safetensors 200000 ps_artifact)
