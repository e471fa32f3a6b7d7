# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_commit ps_commit)
ps_test(unit test_nodes ps_commit)
ps_test(unit test_scheduler ps_commit)
ps_test(unit test_registry ps_registry ps_commit PkgConfig::sqlite3)
