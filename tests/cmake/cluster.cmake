# SPDX-License-Identifier: Apache-2.0
# Clusters of real processes, driven by Python: one test a file.
find_program(PSGD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(slow 1)
if(SANITIZE MATCHES thread)
    set(slow 4)
elseif(SANITIZE)
    set(slow 3)
endif()

function(ps_cluster_test name seconds)
    add_test(NAME cluster_${name}
        COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/cluster/test_${name}.py)
    math(EXPR limit "${seconds} * ${slow}")
    set_tests_properties(cluster_${name} PROPERTIES TIMEOUT ${limit} LABELS cluster
        ENVIRONMENT "PSGD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PSGD_TEST_SLOW=${slow};TSAN_OPTIONS=ignore_noninstrumented_modules=1;PYTHONDONTWRITEBYTECODE=1")
endfunction()

ps_cluster_test(basic 120)
ps_cluster_test(codecs 240)
ps_cluster_test(consistency 600)
ps_cluster_test(data 240)
ps_cluster_test(death 600)
ps_cluster_test(eval 240)
ps_cluster_test(init 240)
ps_cluster_test(links 240)
ps_cluster_test(local 600)
ps_cluster_test(networks 240)
ps_cluster_test(numbers 600)
ps_cluster_test(peers 400)
ps_cluster_test(tables 300)
ps_cluster_test(updates 300)
