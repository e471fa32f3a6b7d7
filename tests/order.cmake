# SPDX-License-Identifier: Apache-2.0
# Which tests run beside each other (run.sh gives ctest nine places for two processors), and which begin first.
# ps_places(COUNT NAMES...): each of these tests takes COUNT places. A name that this build has not is left out.
function(ps_places count)
    foreach(name IN LISTS ARGN)
        if(TEST ${name})
            set_tests_properties(${name} PROPERTIES PROCESSORS ${count})
        endif()
    endforeach()
endfunction()

# A test takes two: four tests of clusters, and one that waits, keep two processors busy.
get_property(all DIRECTORY PROPERTY TESTS)
ps_places(2 ${all})
# These compute nearly all the time.
ps_places(4 cluster_numbers deploy_containerfile interop_go_build interop_onnx_check interop_onnxruntime)
# These wait nearly all the time: for a lease to end, for steps that a job is told to make slowly.
ps_places(1 cluster_async_checkpoints cluster_checkpoints cluster_checkpoints_etcd cluster_death cluster_elastic
    cluster_ha_join cluster_join cluster_own_loop cluster_partitions cluster_rotation)

# These measure how long others wait: they run alone.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR all_places "9 * ${processors} / 2")
ps_places(${all_places} adversary_handshakes adversary_queue adversary_tls_floods cluster_explain_links cluster_slow_disk)

# What takes a minute or more begins first, the longest at the head, so that none is left alone at the end.
set(longest cluster_own_loop cluster_checkpoints cluster_checkpoints_etcd cluster_recovery cluster_recovery_etcd
    cluster_elastic cluster_join cluster_death cluster_code_mesh cluster_code cluster_fidelity cluster_async_checkpoints
    deploy_containerfile deploy_packages cluster_consistency cluster_numbers cluster_local cluster_ha_join cluster_partitions
    cluster_ha cluster_tls cluster_executors cluster_stops)
set(cost 1000)
foreach(name IN LISTS longest)
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
    math(EXPR cost "${cost} - 10")
endforeach()
