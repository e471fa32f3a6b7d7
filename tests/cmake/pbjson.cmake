# SPDX-License-Identifier: Apache-2.0
# JSON of protobuf messages, health, reflection, and the style of the .proto files.
add_custom_command(
    OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/kinds.pb-c.c ${CMAKE_CURRENT_BINARY_DIR}/kinds.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${CMAKE_CURRENT_BINARY_DIR}
        -I${CMAKE_CURRENT_SOURCE_DIR}/support -I${PROTOBUF_PROTO_DIR} kinds.proto
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/support/kinds.proto
    VERBATIM)
add_library(ps_test_kinds STATIC ${CMAKE_CURRENT_BINARY_DIR}/kinds.pb-c.c)
target_include_directories(ps_test_kinds SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(ps_test_kinds PUBLIC ps_proto)

add_library(ps_pb_filler STATIC support/pb_filler.c)
target_include_directories(ps_pb_filler SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_pb_filler PUBLIC ps_rpc)

ps_test(unit test_pbjson ps_pb_filler ps_test_kinds)
ps_test(unit test_pbset ps_pb_filler ps_test_kinds)

add_library(ps_kinds_world STATIC support/kinds_world.c)
target_include_directories(ps_kinds_world SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(ps_kinds_world PUBLIC ps_rpc ps_test_kinds)
ps_test(system test_health ps_kinds_world)
ps_test(system test_reflection ps_kinds_world)

# A client of another language, which knows no .proto file of ours.
add_executable(serve_kinds interop/serve_kinds.c)
target_link_libraries(serve_kinds PRIVATE ps_rpc ps_test_kinds)
set_target_properties(serve_kinds PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME interop_reflection
    COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/interop/reflect.py
        --test $<TARGET_FILE:serve_kinds>)
set_tests_properties(interop_reflection PROPERTIES TIMEOUT 120 LABELS interop
    ENVIRONMENT "TSAN_OPTIONS=ignore_noninstrumented_modules=1")

add_test(NAME check_proto
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/check_proto.sh ${PROJECT_SOURCE_DIR}
        ${PROJECT_BINARY_DIR}/tools ${PROJECT_VERSION})
set_tests_properties(check_proto PROPERTIES TIMEOUT 120 LABELS check SKIP_RETURN_CODE 77)
