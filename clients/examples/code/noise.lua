-- Adds normal noise to the samples of the training set.
return {
    kind = "transform",
    name = "noise",
    summary = "x + deviation * a normal draw, while training",
    params = { deviation = { default = 0.1, min = 0, max = 100, help = "standard deviation" } },
    sample = function(x, trains, key, params)
        if not trains then return x end
        return x + vec.normal(key, #x) * params.deviation
    end,
}
