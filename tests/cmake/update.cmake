# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_update ps_update)
ps_test(unit test_update_local ps_update ps_optim)
ps_test(unit test_plan_update ps_job ps_rpc)
