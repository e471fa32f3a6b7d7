# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_exact_sum test_metric test_tally)
    ps_test(unit ${name} ps_metric)
endforeach()
foreach(name IN ITEMS test_metric test_tally)
    target_sources(${name} PRIVATE support/metric_world.c)
endforeach()
ps_test(unit test_evaluation ps_train ps_rpc)
