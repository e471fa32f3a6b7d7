# SPDX-License-Identifier: Apache-2.0
ps_test(system test_local ps_dataplane_world ps_local)
ps_test(system test_preset_train ps_local)
if(SANITIZE) # minutes, on a busy machine
    set_tests_properties(test_local test_preset_train PROPERTIES TIMEOUT 600)
endif()
