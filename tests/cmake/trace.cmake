# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_trace ps_trace PkgConfig::jansson PkgConfig::zlib Threads::Threads)
ps_test(system test_trace_off ps_dataplane_world ps_pserver)
target_link_options(test_trace_off PRIVATE
    -Wl,--wrap=ps_trace_ring_create,--wrap=ps_trace_now_ns,--wrap=ps_trace_add)
