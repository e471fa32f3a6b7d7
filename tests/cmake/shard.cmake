# SPDX-License-Identifier: Apache-2.0
add_library(ps_shard_world STATIC support/shard_world.c)
target_link_libraries(ps_shard_world PUBLIC ps_shard)
ps_test(unit test_shard ps_shard_world)
