# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_counters test_layout test_look test_plan test_plan_exchange test_plan_tables
    test_preset)
    ps_test(unit ${name} ps_job ps_rpc)
endforeach()

ps_test(unit test_placement ps_placement)
ps_fuzzer(fuzz_job 20000 ps_job ps_rpc)
