-- Sends the requests of a file with wrk, and prints the result as JSON on the last line.
-- Arguments: the file (each request after a line with its size), and a text that is unique to this run.
local requests, next_request, prefix, mark = {}, 0, "", string.rep("@", 16)

function init(args)
   local file = assert(io.open(args[1], "rb"))
   for size in file:lines() do
      requests[#requests + 1] = file:read(tonumber(size))
   end
   prefix = args[2]
end

function request()
   next_request = next_request + 1
   local text = requests[next_request % #requests + 1]
   local start, stop = text:find(mark, 1, true)
   if start then
      return text:sub(1, start - 1) .. string.format("%s%010d", prefix, next_request) .. text:sub(stop + 1)
   end
   return text
end

function done(summary, latency)
   local errors = summary.errors
   print(string.format('\n{"requests": %d, "seconds": %f, "errors": %d, "p50": %f, "p99": %f}',
      summary.requests, summary.duration / 1e6,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout,
      latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
