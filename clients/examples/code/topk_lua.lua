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
        out:sparse(x, x:largest(math.ceil(params.fraction * #x)))
    end,
    decode = function(bytes, n)
        return bytes:sparse(n)
    end,
}
