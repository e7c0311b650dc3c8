-- Reserve runs for assignment under an epoch. Takes what is free, held by an older epoch, or already held by this one.
-- KEYS  jobrun:lease:{job_run_id} of each run      ARGV  1 epoch, 2 ttl_ms
-- Returns the places, from 1, of the keys that a newer epoch has; all others were got.
local kept = {}
for place, key in ipairs(KEYS) do
  if not redis.call("SET", key, ARGV[1], "NX", "PX", ARGV[2]) then
    if (tonumber(redis.call("GET", key)) or 0) <= tonumber(ARGV[1]) then
      redis.call("SET", key, ARGV[1], "PX", ARGV[2])
    else
      kept[#kept + 1] = place
    end
  end
end
return kept
