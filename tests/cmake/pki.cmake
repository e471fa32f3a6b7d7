# SPDX-License-Identifier: Apache-2.0
ps_test(unit test_pki ps_pki PkgConfig::libcrypto)
ps_test(unit test_tokens ps_pki)
ps_test(unit test_join ps_pki)
ps_fuzzer(fuzz_client 5000 ps_pki)
ps_fuzzer(fuzz_pki 20000 ps_pki)
ps_fuzzer(fuzz_tokens 20000 ps_pki)
ps_fuzzer(fuzz_join 20000 ps_pki)
