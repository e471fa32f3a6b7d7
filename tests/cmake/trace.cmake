# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_trace ps_trace PkgConfig::jansson PkgConfig::zlib Threads::Threads)
