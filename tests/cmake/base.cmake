# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_status test_draw test_arena test_strbuf test_snapshot test_log test_nonfinite test_address
        test_cpu test_sha256 test_files test_document test_config test_rowset test_memory_limit test_buf
        test_free_memory test_named_bytes)
    ps_test(unit ${name} ps_base)
endforeach()
ps_test(unit test_older ps_base)
target_compile_definitions(test_older PRIVATE PS_LAUNCH_DOCUMENT="${PROJECT_SOURCE_DIR}/docs/launch.md")
