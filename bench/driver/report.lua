-- Prints one line of JSON when wrk is done. There is no response() here on purpose: with one, wrk
-- would hand every header to Lua and the load generator would become the bottleneck.
function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format(
        'RESULT {"seconds":%.6f,"requests":%d,"p50":%.1f,"p90":%.1f,"p99":%.1f,' ..
        '"bad_status":%d,"socket_errors":%d,"timeouts":%d}\n',
        summary.duration / 1e6, summary.requests,
        latency:percentile(50), latency:percentile(90), latency:percentile(99),
        errors.status, errors.connect + errors.read + errors.write, errors.timeout))
end
