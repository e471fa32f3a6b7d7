# SPDX-License-Identifier: Apache-2.0
# The data plane between workers and parameter servers, without a coordinator.
add_library(ps_dataplane_world STATIC support/dataplane.c support/side.c)
target_link_libraries(ps_dataplane_world PUBLIC ps_pserver ps_worker)

ps_test(unit test_gate ps_worker)
