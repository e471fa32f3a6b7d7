-- A byte a value and one scale a slice, rounded at random so that the mean is right.
return {
    kind = "codec",
    name = "int8_lua",
    summary = "q * max|x| / 127 with q in -127..127, stochastically rounded",
    bits = 8,
    unbiased = true,
    keeps_zeros = true,
    encode = function(x, params, key, out)
        local x, most = x:finite()
        out:f32(most / 127)
        out:codes(x:levels(most > 0 and 127 / most or 0, 127, key), 8)
    end,
    decode = function(bytes, n)
        local scale = bytes:f32()
        return bytes:codes(n, 8):levels(127, scale)
    end,
}
