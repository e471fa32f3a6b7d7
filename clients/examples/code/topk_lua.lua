-- The largest values of a slice unchanged, with their positions; the others are 0.
return {
    kind = "codec",
    name = "topk_lua",
    summary = "the largest values as float32 with their positions, others 0",
    params = {
        fraction = { default = 0.01, min = 0.0001, max = 0.5, help = "share of the values that is sent" },
    },
    bits = 23,
    sparse = true,
    keeps_zeros = true,
    encode = function(x, params, key, out)
        local at = x:largest(math.ceil(params.fraction * #x))
        out:u16(#at)
        out:positions(at, #x)
        out:floats(x:gather(at))
    end,
    decode = function(bytes, n)
        local k = bytes:u16()
        local at = bytes:positions(k, n)
        return bytes:floats(k):scatter(at, n)
    end,
}
