# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_descent test_optim test_optim_rows test_schedule)
    ps_test(unit ${name} ps_optim)
endforeach()
ps_test(unit test_golden_descent ps_nn ps_optim)
target_sources(test_golden_descent PRIVATE support/golden.c)
target_compile_definitions(test_golden_descent PRIVATE
    PS_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
