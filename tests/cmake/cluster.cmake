# SPDX-License-Identifier: Apache-2.0
# Clusters of real processes, driven by Python: one test a file. Those below tests/adversary do to
# them what an enemy or an accident would.
find_program(PSGD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(slow 1)
if(SANITIZE MATCHES thread)
    set(slow 4)
elseif(SANITIZE)
    set(slow 3)
endif()

# Each wait within a test has its own deadline; the limit is for what hangs elsewhere, and long
# enough for a machine ten times as slow as a good one.
function(ps_script_test name script)
    add_test(NAME ${name} COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/${script})
    math(EXPR limit "3000 * ${slow}")
    set_tests_properties(${name} PROPERTIES TIMEOUT ${limit} LABELS cluster
        ENVIRONMENT "PSGD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PSGD_TEST_SLOW=${slow};TSAN_OPTIONS=ignore_noninstrumented_modules=1;PYTHONDONTWRITEBYTECODE=1")
endfunction()
function(ps_cluster_test name)
    ps_script_test(cluster_${name} cluster/test_${name}.py)
endfunction()

ps_cluster_test(basic)
ps_cluster_test(codecs)
ps_cluster_test(consistency)
ps_cluster_test(data)
ps_cluster_test(death)
ps_cluster_test(eval)
ps_cluster_test(fidelity)
ps_cluster_test(init)
ps_cluster_test(links)
ps_cluster_test(local)
ps_cluster_test(networks)
ps_cluster_test(numbers)
ps_cluster_test(peers)
ps_cluster_test(ranks)
if(NOT SANITIZE) # their libraries must be loaded first
    add_library(slow_disk MODULE support/slow_disk.c)
    set_target_properties(slow_disk PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(slow_disk PRIVATE ps_options ${CMAKE_DL_LIBS})
    ps_cluster_test(slow_disk)
endif()
ps_cluster_test(tables)
ps_cluster_test(threads)
ps_cluster_test(updates)

ps_script_test(adversary_registry adversary/test_registry.py)
ps_script_test(adversary_paths adversary/test_paths.py)
ps_script_test(adversary_descriptors adversary/test_descriptors.py)
ps_script_test(adversary_results adversary/test_results.py)
ps_script_test(adversary_values adversary/test_values.py)
ps_script_test(adversary_disks adversary/test_disks.py)
set_tests_properties(adversary_disks PROPERTIES SKIP_RETURN_CODE 77)
