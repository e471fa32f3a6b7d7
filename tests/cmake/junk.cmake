# SPDX-License-Identifier: Apache-2.0
# Hostile bytes against running services: see tests/fuzz/junk.py.
find_program(PSGD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(slow 1)
if(SANITIZE MATCHES thread)
    set(slow 4)
elseif(SANITIZE)
    set(slow 3)
endif()
math(EXPR limit "3000 * ${slow}")
add_executable(layout_hash support/layout_hash.c)
target_link_libraries(layout_hash PRIVATE ps_job PkgConfig::jansson)
set_target_properties(layout_hash PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME junk COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/fuzz/junk.py)
set_tests_properties(junk PROPERTIES TIMEOUT ${limit} LABELS cluster
    ENVIRONMENT "PSGD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PSGD_TEST_SLOW=${slow};TSAN_OPTIONS=ignore_noninstrumented_modules=1;PYTHONDONTWRITEBYTECODE=1")
