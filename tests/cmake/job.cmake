# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_layout test_look test_plan test_preset)
    ps_test(unit ${name} ps_job ps_rpc)
endforeach()
