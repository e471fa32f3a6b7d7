-- Each partition says hello.
return {
    kind = "compute",
    name = "hello",
    summary = "a greeting from each partition",
    map = function(part, params, emit)
        emit(part.number, "hello from partition " .. part.number .. " of " .. part.count)
    end,
}
