# SPDX-License-Identifier: Apache-2.0
ps_test(system test_pserver ps_pserver ps_node_world)
ps_test(system test_pserver_tables ps_pserver ps_node_world)
