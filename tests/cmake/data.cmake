# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_assign test_cifar10 test_data_conf test_identify test_glyphs test_idx
        test_order test_simlin test_text test_csv test_clicks test_feed test_learned test_ahead)
    ps_test(unit ${name} ps_data PkgConfig::zlib)
endforeach()

foreach(name IN ITEMS cifar10 criteo csv idx libsvm ngram skipgram slots)
    ps_fuzzer(fuzz_${name} 20000 ps_data)
endforeach()
