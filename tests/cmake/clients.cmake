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

# The example in Go, made as its README says.
find_program(PSGD_GO go)
find_program(PSGD_GOFMT gofmt)
find_program(PSGD_PROTOC_GEN_GO protoc-gen-go)
find_program(PSGD_PROTOC_GEN_GO_GRPC protoc-gen-go-grpc)
find_path(PSGD_GO_GRPC google.golang.org/grpc/clientconn.go PATHS /usr/share/gocode/src NO_DEFAULT_PATH)
if(SANITIZE OR without_grpc)
    # left out: its own code has no sanitizer, and its test speaks gRPC too
elseif(PSGD_GO AND PSGD_GOFMT AND PSGD_PROTOC_GEN_GO AND PSGD_PROTOC_GEN_GO_GRPC AND PSGD_GO_GRPC)
    set(go ${PROJECT_BINARY_DIR}/go)
    add_test(NAME interop_go_build COMMAND ${PROJECT_SOURCE_DIR}/clients/examples/go/compile.sh --check ${go})
    set_tests_properties(interop_go_build PROPERTIES TIMEOUT 600 LABELS interop FIXTURES_SETUP go)
    add_test(NAME interop_go COMMAND ${PSGD_PYTHON} ${PROJECT_SOURCE_DIR}/tests/interop/test_go_client.py)
    set_tests_properties(interop_go PROPERTIES TIMEOUT 3000 LABELS interop FIXTURES_REQUIRED go
        ENVIRONMENT "PSGD_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};PSGD_GO_CLIENT=${go}/psgd-client;PYTHONDONTWRITEBYTECODE=1")
else()
    message(STATUS "No Go with gRPC (golang-go, golang-google-grpc-dev, protoc-gen-go-1-5, protoc-gen-go-grpc): interop_go is left out")
endif()
