-- Estimates pi: the share of random points of a square that lie in its circle. Each point is drawn by
-- its number, so partitions do not change the estimate.
local function draw(i)
    local x = (i + 1) * 0x9E3779B97F4A7C15 -- SplitMix64
    x = (x ~ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ~ (x >> 27)) * 0x94D049BB133111EB
    return ((x ~ (x >> 31)) >> 11) * 0x1p-53
end
return {
    kind = "compute",
    name = "pi",
    summary = "an estimate of pi from random points",
    map = function(part, params, emit)
        local inside = 0
        for i = part.from, part.to do
            local x, y = draw(2 * i), draw(2 * i + 1)
            if x * x + y * y < 1 then inside = inside + 1 end
        end
        emit("pi", { inside, part.to - part.from + 1 })
    end,
    reduce = function(key, a, b)
        return { a[1] + b[1], a[2] + b[2] }
    end,
    finish = function(key, sums)
        return { sums[1], sums[2], 4 * sums[1] / sums[2] }
    end,
}
