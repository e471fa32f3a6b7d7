# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_update ps_update)
