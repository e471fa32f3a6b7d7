# SPDX-License-Identifier: Apache-2.0
# Which tests run beside each other (run.sh gives ctest seven places for two processors), and which begin first.
# ps_places(COUNT NAMES...): each of these tests takes COUNT places. A name that this build has not is left out.
function(ps_places count)
    foreach(name IN LISTS ARGN)
        if(TEST ${name})
            set_tests_properties(${name} PROPERTIES PROCESSORS ${count})
        endif()
    endforeach()
endfunction()

# A test takes two: three tests of clusters, and one that waits, keep two processors busy. With nine places tests that
# wait for etcd or a lease became red now and then for want of a processor.
get_property(all DIRECTORY PROPERTY TESTS)
ps_places(2 ${all})
# These wait most of the time: for a lease to end, for steps that a job is told to make slowly, for a peer that does not
# answer, for code that pauses. Each takes less than a third of a processor.
ps_places(1 adversary_blame adversary_campaign adversary_deaf adversary_descriptors adversary_disks adversary_registry
    adversary_start chaos cluster_async_checkpoints cluster_checkpoints cluster_checkpoints_etcd cluster_death
    cluster_elastic cluster_ha cluster_ha_join cluster_join cluster_partitions cluster_recovery cluster_recovery_etcd
    cluster_rotation deploy_slurm interop_go test_script)

# These measure how long others wait, or foretell rates, and keep a processor busy meanwhile: each runs alone.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR all_places "7 * ${processors} / 2")
ps_places(${all_places} adversary_handshakes adversary_queue adversary_tls_floods cluster_explain)

# These measure such things of processes that hardly compute: they run after all others, beside each other.
set(last cluster_explain_waits cluster_explain_links cluster_explain_way_up cluster_explain_way_down
    cluster_slow_disk cluster_slow_disk_nodes)
set(others ${all})
list(REMOVE_ITEM others ${last})
foreach(name IN LISTS last)
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES DEPENDS "${others}")
    endif()
endforeach()

# What takes a minute or more begins first, the longest at the head, so that none is left alone at the end.
set(longest cluster_recovery cluster_recovery_etcd cluster_checkpoints cluster_checkpoints_etcd cluster_own_loop
    deploy_containerfile cluster_async_checkpoints cluster_elastic cluster_ha cluster_death chaos adversary_registry
    cluster_code_mesh cluster_consistency cluster_join cluster_web_page adversary_floods adversary_deaf adversary_start
    deploy_slurm cluster_fidelity adversary_disks deploy_packages cluster_code cluster_tls adversary_blame cluster_numbers
    cluster_ha_join cluster_partitions deploy_image cluster_local cluster_clients test_golden_networks_baseline
    cluster_peers cluster_ops adversary_unread cluster_executors cluster_stops test_script)
set(cost 1000)
foreach(name IN LISTS longest)
    if(TEST ${name})
        set_tests_properties(${name} PROPERTIES COST ${cost})
    endif()
    math(EXPR cost "${cost} - 10")
endforeach()
