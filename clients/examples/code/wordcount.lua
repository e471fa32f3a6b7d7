-- Counts words: letters and apostrophes, in lower case.
return {
    kind = "compute",
    name = "wordcount",
    summary = "how often each word occurs in a text",
    params = {
        least = { default = 1, min = 1, max = 1e9, integer = true, help = "words that occur less often are left out" },
    },
    map = function(part, params, emit)
        for word in part.text:lower():gmatch("[a-z']+") do
            emit(word, 1)
        end
    end,
    reduce = function(word, a, b)
        return a + b
    end,
    finish = function(word, count, params)
        if count >= params.least then return count end
    end,
}
