-- Sends the requests of a file with wrk, and prints the result as JSON on the last line.
-- Arguments: the file (each request after a line with its size), and six digits that no other run has.
local requests, sent, run, mark = {}, 0, "", string.rep("@", 16)

function init(args)
   local file = assert(io.open(args[1], "rb"))
   for size in file:lines() do requests[#requests + 1] = file:read(tonumber(size)) end
   run = args[2]
end

function request()
   sent = sent + 1
   local text = requests[sent % #requests + 1]
   local first, last = text:find(mark, 1, true)
   return first and text:sub(1, first - 1) .. string.format("%s%010d", run, sent) .. text:sub(last + 1) or text
end

function done(summary, latency)
   local e = summary.errors
   print(string.format('\n{"requests": %d, "seconds": %f, "errors": %d, "p50": %f, "p99": %f}', summary.requests,
      summary.duration / 1e6, e.connect + e.read + e.write + e.status + e.timeout,
      latency:percentile(50) / 1e6, latency:percentile(99) / 1e6))
end
