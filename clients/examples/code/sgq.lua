-- The codec SGQ of Parallel-SGD: 0 and +-cot(k pi / 4K) times a scale that is fitted to the slice three
-- times; each value becomes one of its two neighbours at random. Huffman codes where they are shorter.
local first = { 1.2, 0.5, 0.5, 0.4, 0.3, 0.25 }
local function grid(top)
    local levels = {}
    for k = 1, top do levels[k] = vec.f32(math.floor(1e4 / math.tan((top - k + 1) * math.pi / 4 / top) + 0.5) / 1e4) end
    return levels
end
return {
    kind = "codec", name = "sgq", summary = "a fitted scale times 0 or +-cot(k pi / 4K), Huffman codes",
    params = { bits = { default = 4, min = 2, max = 7, integer = true, help = "bits a value" } },
    bits = 7, unbiased = true, keeps_zeros = true,
    encode = function(x, params, key, out)
        local top, x, most = (1 << params.bits - 1) - 1, x:finite()
        local levels, scale = grid(top), math.sqrt(x:sum_square() / #x) * first[params.bits - 1]
        for _ = 1, most > 0 and 3 or 0 do
            local xb, bb = x:grid_fit(1 / scale, levels)
            scale = bb > 0 and xb / bb or most / levels[top]
        end
        scale = vec.f32(most > 0 and math.max(scale, most / levels[top]) or 0)
        local codes = x:grid(most > 0 and 1 / scale or 0, levels, key)
        out:f32(scale); out:u8(params.bits)
        if not out:huffman(codes, 2 * top + 1, (#x * params.bits + 7) // 8) then out:codes(codes, params.bits) end
    end,
    decode = function(bytes, n)
        local scale, bits = bytes:f32(), bytes:u8()
        local packed, top = #bytes == (n * bits + 7) // 8, (1 << bits - 1) - 1
        return (packed and bytes:codes(n, bits) or bytes:huffman(n, 2 * top + 1)):grid(scale, grid(top))
    end,
}
