# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_update ps_update)
add_library(ps_local_sim STATIC support/local_sim.c)
target_include_directories(ps_local_sim SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_local_sim PUBLIC ps_update ps_optim)
ps_test(unit test_update_local ps_local_sim)
ps_test(unit test_update_overlap ps_local_sim)
ps_test(unit test_plan_update ps_job ps_rpc)
ps_test(unit test_plan_stop ps_job ps_rpc)
