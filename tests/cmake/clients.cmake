# SPDX-License-Identifier: Apache-2.0
# The command line, and clients in other languages, against a real cluster.
ps_test(unit test_curves ps_cli)
ps_test(unit test_launch_plan ps_cli)
ps_test(unit test_nodes_file ps_cli)
ps_test(unit test_explain ps_explain)
ps_test(unit test_explain_steps ps_explain)
ps_test(unit test_plot ps_cli)
ps_fuzzer(fuzz_plot 2000 ps_cli)
ps_test(unit test_show_progress ps_cli)
ps_test(unit test_spec ps_cli)

find_program(PSGD_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
execute_process(COMMAND ${PSGD_PYTHON} -c "import grpc, grpc_tools" ERROR_QUIET
    RESULT_VARIABLE without_grpc)
if(without_grpc)
    message(STATUS "No python3-grpcio: cluster_clients is left out")
else()
    set(slow 1)
    if(SANITIZE MATCHES thread)
        set(slow 4)
    elseif(SANITIZE)
        set(slow 3)
    endif()
    math(EXPR limit "3000 * ${slow}")
    add_test(NAME cluster_clients
        COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/cluster/test_clients.py)
    set_tests_properties(cluster_clients PROPERTIES TIMEOUT ${limit} LABELS cluster
        ENVIRONMENT "PSGD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PSGD_TEST_SLOW=${slow};TSAN_OPTIONS=ignore_noninstrumented_modules=1;PYTHONDONTWRITEBYTECODE=1")
endif()
