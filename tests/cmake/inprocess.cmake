# SPDX-License-Identifier: Apache-2.0
ps_test(system test_inprocess ps_dataplane_world ps_inprocess)
ps_test(system test_mesh_ranks ps_dataplane_world ps_inprocess)
ps_test(system test_preset_train ps_inprocess)
