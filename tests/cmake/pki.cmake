# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_pki ps_pki PkgConfig::libcrypto)
ps_fuzzer(fuzz_pki 20000 ps_pki)
