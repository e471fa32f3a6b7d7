# SPDX-License-Identifier: Apache-2.0
# libpsgd.
ps_test(unit test_library psgd_library ps_codec_cases ps_wire)
ps_test(unit test_library_loop psgd_library ps_codec)
add_test(NAME library_symbols COMMAND ${PROJECT_SOURCE_DIR}/tests/check_symbols.sh $<TARGET_FILE:psgd_library>
    ${PROJECT_SOURCE_DIR}/clients/lib/psgd.h)
if(NOT SANITIZE)
    add_test(NAME library_abi COMMAND ${PROJECT_SOURCE_DIR}/tests/check_abi.sh $<TARGET_FILE:psgd_library> ${PROJECT_SOURCE_DIR}
        ${PROJECT_VERSION})
    set_tests_properties(library_abi PROPERTIES SKIP_RETURN_CODE 77 LABELS checks)
endif()
add_executable(odd_loop support/odd_loop.c)
target_link_libraries(odd_loop PRIVATE ps_options psgd_library)
set_target_properties(odd_loop PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
ps_cluster_test(odd_programs)
set_property(TEST cluster_odd_programs APPEND PROPERTY ENVIRONMENT "PSGD_ODD_LOOP=$<TARGET_FILE:odd_loop>")
if(NOT SANITIZE) # the example is built as users build it
    add_test(NAME interop_library COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/check_library.sh ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
    set_tests_properties(interop_library PROPERTIES TIMEOUT 120 LABELS interop)
    find_program(PSGD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
    execute_process(COMMAND ${PSGD_PYTHON} -c "import numpy, torch" ERROR_QUIET RESULT_VARIABLE without_torch)
    if(without_torch)
        message(STATUS "No python3-torch: interop_python_package is left out")
    else()
        foreach(name IN ITEMS own_loop own_state)
            ps_cluster_test(${name})
            set_property(TEST cluster_${name} APPEND PROPERTY ENVIRONMENT "PSGD_LIBRARY=$<TARGET_FILE:psgd_library>")
        endforeach()
        find_program(PSGD_MYPY mypy)
        if(PSGD_MYPY)
            # types of torch itself are left out: to read them takes 40 s
            add_test(NAME interop_python_types WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/clients/python
                COMMAND ${PSGD_MYPY} --check-untyped-defs --disallow-untyped-defs --ignore-missing-imports --follow-imports=skip
                    --cache-dir=/dev/null -p psgd)
            set_tests_properties(interop_python_types PROPERTIES TIMEOUT 300 LABELS interop)
        else()
            message(STATUS "No mypy: interop_python_types is left out")
        endif()
        add_test(NAME interop_python_package COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/test_python_package.py)
        set_tests_properties(interop_python_package PROPERTIES TIMEOUT 300 LABELS interop
            ENVIRONMENT "PSGD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PSGD_LIBRARY=$<TARGET_FILE:psgd_library>;PYTHONDONTWRITEBYTECODE=1")
    endif()
endif()
