# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_tracker ps_tracker ps_rpc)
