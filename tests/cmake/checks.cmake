# SPDX-License-Identifier: Apache-2.0
# What holds for the tree as a whole.
add_test(NAME layers COMMAND ${PROJECT_SOURCE_DIR}/tests/check_layers.sh ${PROJECT_SOURCE_DIR})
add_test(NAME packages_table COMMAND bash -n ${PROJECT_SOURCE_DIR}/deploy/packages.sh)
set_tests_properties(layers packages_table PROPERTIES LABELS checks)
