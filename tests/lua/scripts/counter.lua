-- Counters of the server's statistics.
lighty.status["core.visits"] = lighty.status["core.visits"] + 1
lighty.content = { lighty.status["core.visits"] }
return 200
