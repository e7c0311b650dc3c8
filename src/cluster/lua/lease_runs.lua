-- Reserve runs for assignment under an epoch. Takes what is free, held by an older epoch, or already held by this one.
-- KEYS  jobrun:lease:{job_run_id} of each run      ARGV  1 epoch, 2 ttl_ms
-- Returns for each key, in order: 1 got it, 0 a newer epoch has it.
local got = {}
for place, key in ipairs(KEYS) do
  local holder = tonumber(redis.call("GET", key)) or 0
  got[place] = holder <= tonumber(ARGV[1]) and 1 or 0
  if got[place] == 1 then redis.call("SET", key, ARGV[1], "PX", ARGV[2]) end
end
return got
