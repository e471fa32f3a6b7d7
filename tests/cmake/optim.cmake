# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_optim ps_optim)
ps_test(unit test_optim_rows ps_optim)
