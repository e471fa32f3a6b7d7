# SPDX-License-Identifier: Apache-2.0
# libpsgd.
ps_test(unit test_library psgd_library ps_codec_cases ps_wire)
add_test(NAME library_symbols COMMAND ${PROJECT_SOURCE_DIR}/tests/check_symbols.sh $<TARGET_FILE:psgd_library>
    ${PROJECT_SOURCE_DIR}/clients/lib/psgd.h)
if(NOT SANITIZE) # the example is built as users build it
    add_test(NAME interop_library COMMAND ${PROJECT_SOURCE_DIR}/tests/interop/check_library.sh ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
    set_tests_properties(interop_library PROPERTIES TIMEOUT 120 LABELS interop)
endif()
