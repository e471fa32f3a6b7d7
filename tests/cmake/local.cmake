# SPDX-License-Identifier: Apache-2.0
ps_test(system test_local ps_dataplane_world ps_local)
ps_test(system test_preset_train ps_local)
