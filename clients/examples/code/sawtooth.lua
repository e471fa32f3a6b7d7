-- A learning rate that falls linearly and jumps back, a number of times.
return {
    kind = "schedule",
    name = "sawtooth",
    summary = "1 - (1 - least) * x, x from 0 to 1 `teeth` times over the job",
    params = {
        teeth = { default = 4, min = 1, max = 1000, integer = true, help = "how often it falls" },
        least = { default = 0.1, min = 0, max = 1, help = "factor at the end of each" },
    },
    factor = function(step, total, params)
        local x = step / total * params.teeth
        return 1 - (1 - params.least) * (x - math.floor(x))
    end,
}
