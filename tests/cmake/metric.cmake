# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_exact_sum test_metric test_tally)
    ps_test(unit ${name} ps_metric)
endforeach()
foreach(name IN ITEMS test_metric test_tally)
    target_sources(${name} PRIVATE support/metric_world.c)
endforeach()
ps_test(unit test_evaluation ps_train ps_rpc)
ps_test(unit test_round_rows ps_train ps_rpc)
ps_test(unit test_program_metrics ps_train ps_rpc)

ps_fuzzer(fuzz_tally 200000 ps_base m)
if(TARGET fuzz_tally) # the metrics' own sources once more, so that their branches lead the fuzzer
    get_target_property(metric_sources ps_metric SOURCES)
    list(TRANSFORM metric_sources PREPEND ${PROJECT_SOURCE_DIR}/common/metric/)
    target_sources(fuzz_tally PRIVATE ${metric_sources})
endif()
