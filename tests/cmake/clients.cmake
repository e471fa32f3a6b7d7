# SPDX-License-Identifier: Apache-2.0
# The command line, and clients in other languages, against a real cluster.
ps_test(unit test_nodes_file ps_cli)
ps_test(unit test_spec ps_cli)
