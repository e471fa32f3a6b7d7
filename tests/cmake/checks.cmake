# SPDX-License-Identifier: Apache-2.0
# What holds for the tree as a whole.
add_test(NAME layers COMMAND ${PROJECT_SOURCE_DIR}/tests/check_layers.sh ${PROJECT_SOURCE_DIR})
add_test(NAME packages_table COMMAND bash -n ${PROJECT_SOURCE_DIR}/deploy/packages.sh)
find_program(PSGD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
add_test(NAME circles COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/check_circles.py ${PROJECT_SOURCE_DIR})
add_test(NAME documents COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/check_docs.py
    ${PROJECT_SOURCE_DIR} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
set_tests_properties(documents PROPERTIES TIMEOUT 300
    ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1;PYTHONDONTWRITEBYTECODE=1")
set_tests_properties(layers circles packages_table documents PROPERTIES LABELS checks)
