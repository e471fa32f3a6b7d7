-- Asynchronous training in which stale contributions count less, and nobody is far ahead.
return {
    kind = "consistency",
    name = "damped",
    summary = "each contribution times 1 / (1 + rate * staleness); at most `bound` clocks ahead",
    params = {
        rate = { default = 0.2, min = 0, max = 10, help = "how much staleness damps" },
        bound = { default = 8, min = 0, max = 1000, integer = true, help = "clocks ahead of the slowest" },
    },
    admit = function(worker, ahead, done, params)
        return ahead <= params.bound
    end,
    scale = function(staleness, worker, live, params)
        return 1 / (1 + params.rate * staleness)
    end,
}
