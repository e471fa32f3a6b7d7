# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_agent ps_agent)
ps_test(unit test_package_order ps_package_order)
ps_test(unit test_node_parts ps_node)
ps_test(system test_joblog ps_node)
target_sources(test_joblog PRIVATE support/side.c)

add_library(ps_node_world STATIC support/node_world.c support/node_calls.c)
target_include_directories(ps_node_world SYSTEM PUBLIC ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_node_world PUBLIC ps_node PkgConfig::libxxhash PkgConfig::zlib)
foreach(name IN ITEMS test_node test_node_packages test_node_tables)
    ps_test(system ${name} ps_node_world)
endforeach()
