# SPDX-License-Identifier: Apache-2.0
foreach(name IN ITEMS test_assign test_find test_glyphs test_idx test_order)
    ps_test(unit ${name} ps_data PkgConfig::zlib)
endforeach()
