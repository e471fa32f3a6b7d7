-- A grid of hyper-parameters: each integer of the range is a setting, for which a small model is
-- trained: y = w * x by gradient descent with weight decay, on points that are the same for all.
local rates, decays = { 0.01, 0.03, 0.1, 0.3 }, { 0, 0.001, 0.01 }
local points, features = 64, 8
local function train(rate, decay, steps, seed)
    local x, w, truth = {}, vec.fill(features), vec.normal(seed, features)
    for i = 1, points do x[i] = vec.normal(vec.key(seed, i), features) end
    for _ = 1, steps do
        local gradient = vec.fill(features)
        for i = 1, points do
            gradient = gradient + x[i] * (x[i]:dot(w) - x[i]:dot(truth))
        end
        w = w - (gradient * (1 / points) + w * decay) * rate
    end
    local loss = 0
    for i = 1, points do loss = loss + (x[i]:dot(w) - x[i]:dot(truth)) ^ 2 end
    return loss / points
end
return {
    kind = "compute",
    name = "grid",
    summary = "the loss of a small model for each learning rate and weight decay",
    params = {
        steps = { default = 100, min = 1, max = 10000, integer = true, help = "steps of each training" },
        seed = { default = 1, min = 0, max = 1e9, integer = true, help = "of the points" },
    },
    map = function(part, params, emit)
        for setting = part.from, part.to do
            local rate = rates[(setting - 1) % #rates + 1]
            local decay = decays[(setting - 1) // #rates % #decays + 1]
            emit(setting, { rate, decay, train(rate, decay, params.steps, params.seed) })
        end
    end,
}
