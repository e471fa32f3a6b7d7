# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_consistency ps_consistency)
ps_test(unit test_straggler ps_straggler m)
