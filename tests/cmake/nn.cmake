# SPDX-License-Identifier: Apache-2.0
add_executable(bench_engine bench/bench_engine.c)
target_link_libraries(bench_engine PRIVATE ps_nn ps_optim)
