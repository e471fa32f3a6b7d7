# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_commit ps_commit)
ps_test(unit test_nodes ps_commit)
ps_test(unit test_scheduler ps_commit)
ps_test(unit test_registry ps_registry ps_commit PkgConfig::sqlite3)

add_library(ps_coordinator_world STATIC support/coordinator_world.c support/side.c)
target_include_directories(ps_coordinator_world SYSTEM PUBLIC ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_coordinator_world PUBLIC ps_coordinator ps_node)
ps_test(system test_coordinator ps_coordinator_world PkgConfig::zlib)
