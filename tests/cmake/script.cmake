# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_sandbox_vm ps_sandbox_vm)
ps_test(system test_script ps_script)
add_dependencies(test_script psgd-sandbox)
target_compile_definitions(test_script PRIVATE PS_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
set_property(TEST test_script APPEND PROPERTY ENVIRONMENT "PSGD_SANDBOX=${PROJECT_BINARY_DIR}/bin/psgd-sandbox")
ps_test(system test_script_values ps_script)
add_dependencies(test_script_values psgd-sandbox)
set_property(TEST test_script_values APPEND PROPERTY ENVIRONMENT "PSGD_SANDBOX=${PROJECT_BINARY_DIR}/bin/psgd-sandbox")
ps_test(system test_script_end ps_script)
add_dependencies(test_script_end psgd-sandbox)
set_property(TEST test_script_end APPEND PROPERTY ENVIRONMENT "PSGD_SANDBOX=${PROJECT_BINARY_DIR}/bin/psgd-sandbox")

# a sandbox that an attacker has taken over
set(taken_slow 3)
if(SANITIZE)
    set(taken_slow 10)
endif()
add_executable(taken_sandbox support/taken_sandbox.c)
target_link_libraries(taken_sandbox PRIVATE ps_options)
set_target_properties(taken_sandbox PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
ps_test(system test_script_taken ps_script)
add_dependencies(test_script_taken taken_sandbox)
target_compile_definitions(test_script_taken PRIVATE
    PS_TAKEN_SANDBOX="${PROJECT_BINARY_DIR}/tests/taken_sandbox" PS_SLOW=${taken_slow})

# drawn programs: a few here, millions by hand
add_executable(script_fuzz support/script_fuzz.c support/lua_program.c)
target_link_libraries(script_fuzz PRIVATE ps_script ps_sandbox_vm)
set_target_properties(script_fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_dependencies(script_fuzz psgd-sandbox)
foreach(where vm sandbox)
    add_test(NAME script_fuzz_${where} COMMAND script_fuzz ${where} 1 5000)
    set_tests_properties(script_fuzz_${where} PROPERTIES TIMEOUT ${ps_test_seconds} LABELS system
        ENVIRONMENT "PSGD_SANDBOX=${PROJECT_BINARY_DIR}/bin/psgd-sandbox")
endforeach()
ps_fuzzer(fuzz_script 20000 ps_script ps_sandbox_vm)
if(TARGET fuzz_script)
    target_sources(fuzz_script PRIVATE support/lua_program.c)
endif()

add_executable(sandbox_driver support/sandbox_driver.c)
target_link_libraries(sandbox_driver PRIVATE ps_script)
set_target_properties(sandbox_driver PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

add_executable(bench_script bench/bench_script.c)
target_link_libraries(bench_script PRIVATE ps_script)
set_target_properties(bench_script PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)

ps_test(system test_executor ps_script)
add_dependencies(test_executor psgd-sandbox)
set_property(TEST test_executor APPEND PROPERTY ENVIRONMENT "PSGD_SANDBOX=${PROJECT_BINARY_DIR}/bin/psgd-sandbox")
