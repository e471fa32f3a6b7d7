-- The mean probability that a network gives to the right class: softmax of its outputs.
return {
    kind = "metric",
    name = "confidence",
    summary = "mean probability of the right class",
    add = function(outputs, targets, n)
        local width, sum = #outputs // n, 0
        for i = 0, n - 1 do
            local y = outputs:part(i * width, width)
            local _, most = y:argmax()
            local e = (y - most):exp()
            sum = sum + e[math.floor(targets[i + 1]) + 1] / e:sum()
        end
        return sum, 0
    end,
    value = function(sum, _, samples)
        return sum / samples
    end,
}
